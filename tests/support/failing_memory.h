/* An allocator in place of the C library's. The calls that a test chooses fail on the test's thread. */
#ifndef COUNTERPOINT_TESTS_FAILING_MEMORY_H
#define COUNTERPOINT_TESTS_FAILING_MEMORY_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
static __thread unsigned n_calls, first_failure, last_failure;

static bool fails(void)
{
    if (++n_calls < first_failure || n_calls > last_failure)
        return false;
    errno = ENOMEM;
    return true;
}

/* From now on, the calls from first to last fail; calls count from 1. */
static void fail_calls(unsigned first, unsigned last)
{
    n_calls = 0;
    first_failure = first;
    last_failure = last;
}

/* Ends the failures; returns whether any call has failed. */
static bool have_failed(void)
{
    last_failure = 0;
    return n_calls >= first_failure;
}

void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
    return fails() ? NULL : __libc_realloc(p, size);
}

#endif
