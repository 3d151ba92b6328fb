// A program of Go's with a function in C. It knows nothing of the library.
package main

// static unsigned long sink;
// static __attribute__((noinline)) void work(void) { for (long i = 0; i < 30000000; i++) sink += i ^ sink; }
import "C"

func main() {
	done := make(chan int)
	go func() { C.work(); done <- 1 }()
	println(<-done)
}
