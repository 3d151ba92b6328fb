/*
 * Code that a test interrupts at every instruction: functions of every shape, to which compilers give a frame
 * or none, and calls into libraries that keep no frame pointers. unwind_test.c builds this file by itself,
 * with each compiler and at each level of optimisation, into a shared object.
 */
#include <alloca.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif

long unwind_target(int rounds);
long unwind_target_calls(void (*fn)(void));
long unwind_target_libraries(int rounds);

static volatile long sink;

NOINLINE static long leaf(long a)
{
    return a * 3 + 1;
}

NOINLINE static long early(long a) /* returns before it needs a frame */
{
    if (a < 0)
        return 0;
    sink += leaf(a);
    return sink;
}

NOINLINE static long tail(long a) /* ends in a jump */
{
    sink = a;
    return early(a - 1);
}

NOINLINE static long small_frame(long a)
{
    volatile long local[4] = {a, a + 1, a + 2, a + 3};

    return leaf(local[a & 3]) + local[0];
}

NOINLINE static long large_frame(long a)
{
    volatile char local[3 * 4096];

    local[a & 4095] = (char)a;
    return leaf(local[a & 4095]) + small_frame(a);
}

NOINLINE static long dynamic_frame(long a)
{
    volatile char *local = alloca((size_t)(a & 255) + 16);

    local[0] = (char)a;
    return leaf(a) + local[0];
}

NOINLINE static long aligned_frame(long a)
{
    volatile long local[8] __attribute__((aligned(64))) = {a};

    return leaf(local[0]) + (long)((unsigned long)local % 64);
}

/* Keeps every callee-saved register busy across the calls. */
NOINLINE static long many_registers(long a, long b, long c, long d, long e, long f)
{
    long g = leaf(a), h = leaf(b), i = leaf(c), j = leaf(d), k = leaf(e), l = leaf(f);

    sink = leaf(g + h);
    return g + h * a + i * b + j * c + k * d + l * e + f;
}

NOINLINE static long stack_arguments(long a, long b, long c, long d, long e, long f, long g, long h, char i)
{
    return leaf(a + b + c + d + e + f + g + h + i);
}

NOINLINE static long variadic(int n, ...)
{
    va_list arguments;
    long sum = 0;

    va_start(arguments, n);
    while (n-- > 0)
        sum += leaf(va_arg(arguments, long));
    va_end(arguments);
    return sum;
}

NOINLINE static double floating(double a, double b)
{
    return (double)leaf((long)a) * b + a / (b + 1.0);
}

struct large {
    long words[12];
};

NOINLINE static struct large by_value(struct large in, long a)
{
    in.words[a % 12] += leaf(a);
    return in;
}

NOINLINE static long many_ways(long a) /* a jump table and several ends */
{
    switch (a % 7) {
    case 0:
        return leaf(a);
    case 1:
        return early(-a);
    case 2:
        return tail(a);
    case 3:
        return a;
    case 4:
        sink = a;
        return small_frame(a) + 1;
    case 5:
        return dynamic_frame(a);
    default:
        return leaf(a) - leaf(a + 1);
    }
}

NOINLINE static long recursive(long depth)
{
    if (depth == 0)
        return leaf(depth);
    return recursive(depth - 1) + depth;
}

NOINLINE static long loops(long n)
{
    long sum = 0;

    for (long i = 0; i < n; i++) {
        if ((i & 3) == 0)
            continue;
        sum += i * (sum ^ i);
    }
    return sum;
}

NOINLINE static void nothing(void)
{
}

static long (*const pointers[])(long) = {leaf,          early,         tail,      small_frame, large_frame,
                                         dynamic_frame, aligned_frame, many_ways, recursive,   loops};

/* Both functions return a result, so that the compiler does not remove their work. */
long unwind_target(int rounds)
{
    long sum = 0;

    for (long round = 0; round < rounds; round++) {
        for (size_t i = 0; i < sizeof pointers / sizeof pointers[0]; i++)
            sum += pointers[i](round);
        sum += early(-round) + many_registers(round, 2, 3, 4, 5, 6) +
               stack_arguments(round, 2, 3, 4, 5, 6, 7, 8, 9);
        sum += variadic(3, round, 2L, 3L) + (long)floating((double)round, 2.0);
        sum += by_value((struct large){{round}}, round).words[0];
        nothing();
    }
    return sum;
}

long unwind_target_calls(void (*fn)(void))
{
    fn();
    return sink;
}

/* ---- Libraries ------------------------------------------------------------------------------- */

static char text[4096], copy[4096];

NOINLINE static int compare(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;

    return (x > y) - (x < y);
}

NOINLINE static long sorting(int seed)
{
    int numbers[40];
    int key;

    for (int i = 0; i < 40; i++)
        numbers[i] = (i * 7919 + seed) % 101;
    key = numbers[7];
    qsort(numbers, 40, sizeof numbers[0], compare);
    return bsearch(&key, numbers, 40, sizeof numbers[0], compare) != NULL;
}

NOINLINE static long printing(int a)
{
    snprintf(text, sizeof text, "%d %s %g %lx", a, "hello", a * 1.5, (long)a);
    return strtol(text, NULL, 10) + (long)strtod("3.14159e3", NULL) + (long)strlen(text);
}

NOINLINE static long memory(int a)
{
    size_t size = 100 + (size_t)a % 64 * 50;
    char *p = malloc(size);
    char *q;

    memset(p, a, size);
    memcpy(copy, p, size);
    q = realloc(p, 4000);
    a = q[5];
    free(q);
    return a + (strchr(copy, 0) != NULL);
}

NOINLINE static long mathematics(int a)
{
    return (long)(sin(a) + pow(a, 1.5) + exp(a % 10) + fmod(a, 3));
}

NOINLINE static long clocks(int a)
{
    struct timespec now;
    time_t seconds;
    struct tm tm;

    clock_gettime(CLOCK_MONOTONIC, &now);
    seconds = now.tv_sec + a;
    gmtime_r(&seconds, &tm);
    return tm.tm_hour;
}

long unwind_target_libraries(int rounds)
{
    long sum = 0;

    for (int round = 1; round <= rounds; round++)
        sum += sorting(round) + printing(round) + memory(round) + mathematics(round) + clocks(round);
    return sum;
}
