/*
 * Replaces the C library's syscall(), through which this library makes system calls that have no function of
 * their own. A test program that includes this file defines stub_syscall(), which may pass calls on to the
 * kernel.
 */
#ifndef COUNTERPOINT_TESTS_STUB_SYSCALL_H
#define COUNTERPOINT_TESTS_STUB_SYSCALL_H

#include <dlfcn.h>
#include <stdarg.h>
#include <sys/syscall.h>

static long stub_syscall(long number, const long arguments[6]);

static long (*real_syscall)(long number, ...);

/* Runs before main(), because dlsym() must not run in a handler. */
__attribute__((constructor)) static void find_syscall(void)
{
    *(void **)&real_syscall = dlsym(RTLD_NEXT, "syscall");
}

static inline long hand_on(long number, const long a[6])
{
    return real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* Few calls have six arguments. For the others, the rest is read from beside the caller's arguments. */
__attribute__((no_sanitize("address"))) long syscall(long number, ...)
{
    long arguments[6];
    va_list list;

    va_start(list, number);
    for (int i = 0; i < 6; i++)
        arguments[i] = va_arg(list, long);
    va_end(list);
    return stub_syscall(number, arguments);
}

#endif
