/*
 * In place of the C library's syscall(), by which the library makes the calls that have no function of their
 * own there: a test program that includes this defines stub_syscall(), which may hand them on.
 */
#ifndef COUNTERPOINT_TESTS_STUB_SYSCALL_H
#define COUNTERPOINT_TESTS_STUB_SYSCALL_H

#include <dlfcn.h>
#include <stdarg.h>
#include <sys/syscall.h>

static long stub_syscall(long number, const long arguments[6]);

static long (*real_syscall)(long number, ...);

/* Before main(): in a handler it would be too late. */
__attribute__((constructor)) static void find_syscall(void)
{
    *(void **)&real_syscall = dlsym(RTLD_NEXT, "syscall");
}

static inline long hand_on(long number, const long a[6])
{
    return real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* Few calls have six arguments: what is read for the others lies beside the caller's. */
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
