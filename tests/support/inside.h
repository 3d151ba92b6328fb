/*
 * What tests set, read and make inside the core if no public call does so. The tests of tests/system/ include
 * no private header: if the library is rebuilt, this file changes and the tests do not.
 */
#ifndef COUNTERPOINT_TESTS_INSIDE_H
#define COUNTERPOINT_TESTS_INSIDE_H

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/cost.h"
#include "runtime/m.h"
#include "runtime/perf/core_pmu_linux.h"
#include "runtime/perf/perf_linux.h"
#include "runtime/slot.h"
#include "runtime/switch_cost.h"

/* Sets what a sample costs, in place of the measured cost: more than it really does, except on the simulated
 * kernel. 0: the cost is measured when it is needed. */
static inline void set_sample_cost(uint64_t ns)
{
    cp__cost_set(ns);
}

/* Sets what a switch costs with any event except the timer, in place of what is measured. */
static inline void set_switch_cost(uint64_t ns)
{
    cp__switch_costs_set(&(struct cp__switch_costs){0, ns, ns, ns});
}

/* Sets what a switch costs with a clock that expires before the next tick, or after several ticks. */
static inline void set_clock_switch_costs(uint64_t soon, uint64_t later)
{
    cp__switch_costs_set(&(struct cp__switch_costs){.soon = soon, .later = later});
}

/* Makes the core believe that the processor has two kinds of cores, whose PMUs have these types. */
static inline void play_two_kinds_of_cores(uint32_t first, uint32_t second)
{
    cp__perf_prepare();
    cp__core_pmus = (struct cp__core_pmus){.n = 2, .types = {first, second}};
}

/* Appends a sample of another config to the calling M's buffer of a slot, like a sample that a late M leaves
 * behind. Returns false if there is no room. SIGPROF must be blocked. */
static inline bool append_foreign_sample(int slot)
{
    const struct cp_sample foreign = {.weight = 1, .frames = &(uintptr_t){0}};
    bool half;

    return cp__samplebuf_append_from_handler(&cp__m_current->buffers[slot], 1, &foreign, &half);
}

/* Sends a tick of the timer in a slot to a thread, as the kernel would. */
static inline void send_tick(int slot, pid_t tid)
{
    siginfo_t info;

    memset(&info, 0, sizeof info);
    info.si_code = SI_TIMER;
    info.si_value.sival_ptr = (void *)(uintptr_t)cp__slot_seq_from_handler(slot);
    syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, SIGPROF, &info);
}

#endif
