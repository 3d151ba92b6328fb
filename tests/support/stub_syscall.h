/*
 * Lets a test program see the system calls that this library makes through syscall(2). A test program that
 * includes this file defines stub_syscall(), which may pass calls on by hand_on(), to the simulated kernel
 * if it is there.
 */
#ifndef COUNTERPOINT_TESTS_STUB_SYSCALL_H
#define COUNTERPOINT_TESTS_STUB_SYSCALL_H

#include <sys/syscall.h>

#include "tests/support/sim/sim.h"

static long stub_syscall(long number, const long arguments[6]);

__attribute__((constructor)) static void hook_syscall(void)
{
    sim_hook(stub_syscall);
}

static inline long hand_on(long number, const long a[6])
{
    return sim_hand_on(number, a);
}

#endif
