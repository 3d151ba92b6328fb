/* Threads that the libraries start themselves. cp__thread_start() is inline, so each library has its own
 * copy. */
#ifndef COUNTERPOINT_RUNTIME_BASE_THREAD_H
#define COUNTERPOINT_RUNTIME_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Starts a thread that runs fn(arg) with every signal blocked and a stack of this size, whatever G or thread
 * calls. The caller joins the thread. Returns 0 or a negative errno value. */
static inline int cp__thread_start(pthread_t *thread, size_t stack_size, void *(*fn)(void *), void *arg)
{
    pthread_attr_t attributes;
    sigset_t all, old;
    int result;

    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack_size);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    result = pthread_create(thread, &attributes, fn, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
    return -result;
}

#define CP__DEEP_STACK ((size_t)2 << 20) /* enough for symbolising: libdw's parsers recurse */

/* Runs fn(arg) on such a thread with a deep stack, and waits for its end. Returns 0 or a negative errno
 * value. */
int cp__thread_run(void *(*fn)(void *), void *arg);

/* ---- The CPU time of these threads ----------------------------------------------------------- */

/* Runs fn(arg) on the calling thread, which cp__thread_start() has started: the CPU time that it takes is the
 * profiler's and not the program's. */
void *cp__thread_own(void *(*fn)(void *), void *arg);
/* Returns the CPU time that all such threads have taken so far, in ns. */
uint64_t cp__own_threads_ns(void);
/* Returns whether the thread is one of them. */
bool cp__own_threads_have(pid_t tid);
/* In the child of a fork, which has none of them. */
void cp__own_threads_forget(void);

#endif
