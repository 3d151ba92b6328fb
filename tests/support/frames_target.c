/* Functions whose frames have the size SIZE; the code's size is the same with 192 and with 512. */
static volatile long sink;

__attribute__((noinline)) static long leaf(long n)
{
    return sink + n;
}

__attribute__((noinline)) static long middle(long n)
{
    volatile char room[SIZE];

    room[n] = 1;
    return leaf(n) + room[n];
}

long unwind_target(int n);
long unwind_target(int n)
{
    return middle(n) + 1;
}
