/*
 * A kernel that a test plays itself: perf events, CPU clocks and timers of threads inside the test's
 * process. A test that begins with SIM_TEST() gets no sample from the machine. The CPU time of a thread
 * passes only while the thread says so, by SIM_RUN(ns), and each event that overflows meanwhile interrupts
 * the thread in the function that says so, with the kernel's own signal. So a test asserts how many
 * samples there are, and needs no permission, no PMU and no quiet machine. design/0031-simulated-kernel.md
 * says what is simulated and what is not.
 *
 * Everything here may be called on any thread. SIM_RUN() and its kin may be used in a signal handler.
 */
#ifndef COUNTERPOINT_TESTS_SIM_H
#define COUNTERPOINT_TESTS_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/support/test.h"

struct perf_event_attr;

/* A test on the simulated kernel, otherwise like CP_TEST(). */
#define SIM_TEST(...) SIM_TEST_(__VA_ARGS__, .next = 0)
#define SIM_TEST_(name_, ...)                                                                                \
    static void sim_test_##name_(struct cp_t *t);                                                            \
    CP_TEST(name_, __VA_ARGS__)                                                                              \
    {                                                                                                        \
        sim_begin();                                                                                         \
        sim_test_##name_(t);                                                                                 \
    }                                                                                                        \
    static void sim_test_##name_(struct cp_t *t __attribute__((unused)))

/* Puts the simulated kernel into the place of the machine's, for this process and its children. SIM_TEST()
 * calls this. */
void sim_begin(void);
bool sim_is_on(void);

/* ---- What happens ---------------------------------------------------------------------------- */

/* What events count. SIM_KERNEL_TIME is CPU time in the kernel, and SIM_CALL is that of a call, which is
 * in both modes. */
enum sim_what { SIM_TIME, SIM_KERNEL_TIME, SIM_CALL, SIM_STALL, SIM_SWITCHES, SIM_FAULTS, SIM_NEVER };

/* So many of what happen on the calling thread. */
struct sim_run {
    enum sim_what what;
    uint64_t left;
    uintptr_t address; /* of a fault */
};

#include "run.h"

/* The calling thread runs for so much CPU time. */
#define SIM_RUN(ns) SIM_HAPPEN(((struct sim_run){SIM_TIME, (ns), 0}))
/* The calling thread runs for so much CPU time in the kernel. A clock that excludes the kernel counts the
 * time and takes no sample; the signal of another clock comes when the kernel returns. */
#define SIM_RUN_KERNEL(ns) SIM_HAPPEN(((struct sim_run){SIM_KERNEL_TIME, (ns), 0}))
/* Where the kernel is then. */
#define SIM_KERNEL_PC 0xffffffff81234560
/* The same as SIM_RUN(), but the CPU takes no interrupt before the end, like a virtual machine's that
 * stands still: each clock overflows once, whatever has passed. */
#define SIM_STALL_FOR(ns) SIM_HAPPEN(((struct sim_run){SIM_STALL, (ns), 0}))
/* The calling thread is switched off its CPU and on again, so many times. */
#define SIM_SWITCH(n) SIM_HAPPEN(((struct sim_run){SIM_SWITCHES, (n), 0}))
/* The calling thread takes a page fault at an address. */
#define SIM_FAULT(address_) SIM_HAPPEN(((struct sim_run){SIM_FAULTS, 1, (uintptr_t)(address_)}))

/* Like SIM_HAPPEN(), for C code that need not be the place of the samples. */
void sim_happen(struct sim_run run);

/* Returns the CPU time of a thread. */
uint64_t sim_thread_ns(pid_t tid);
/* Returns how often a thread was switched. */
uint64_t sim_thread_switches(pid_t tid);

/* From now on until sim_continue(), the thread waits in the next SIM_RUN(), like one that is stopped. */
void sim_stop(pid_t tid);
void sim_continue(pid_t tid);

/* ---- Switches -------------------------------------------------------------------------------- */

/* What the kernel is like, for this process and its children. Tests set these before the first event. The
 * library is told that a sample costs 1 ns; a test with a cost_ns calls cp__cost_set(), too, unless the
 * library's figure is meant to be wrong, or to be measured. */
struct sim_switches {
    uint64_t clock_ns;    /* the CPU time that a reading of an own clock or count takes: 0 */
    uint64_t reading_ns;  /* the CPU time that a reading of CLOCK_MONOTONIC takes, but in a handler: 0 */
    uint64_t cost_ns;     /* the CPU time that an overflow takes: 0 */
    uint64_t max_rate;    /* kernel.perf_event_max_sample_rate: 100 000 */
    uint64_t tick_ns;     /* the length of the ticks, at which throttled events go on: 4 ms */
    bool timers_tick;     /* timers look at the time at ticks only, as POSIX CPU timers do */
    uint64_t ring_memory; /* the bytes of rings that may be mapped: no limit */
    int paranoid;         /* kernel.perf_event_paranoid of a user without privileges: -1 */
    bool draws;           /* the library draws first periods; otherwise each is a whole one */
    bool no_sigtrap;      /* a kernel before Linux 5.13: no traps, no inherit_thread */
    bool no_lost_count;   /* a kernel before Linux 6.0 */
    const char *release;  /* what uname(2) tells: "6.18.0" */
    /* A PMU, whose events count nanoseconds of CPU time. */
    struct sim_pmu {
        bool is_there;
        unsigned most_precise; /* higher levels of precise_ip are refused */
        /* from this level on, events count but deliver no sample; 0: all levels deliver samples */
        unsigned silent_from;
        unsigned kinds;          /* of cores */
        unsigned runs_on;        /* the kind of core that all threads run on: 1 */
        unsigned refuses_kind;   /* the kind of which no event opens */
        bool is_silent;          /* events open but count nothing */
        bool only_cycles_happen; /* of all events, only cycles count */
        bool knows_idle;         /* exclude_idle is accepted */
        bool is_failed;          /* events are in an error state, like pinned ones without a counter */
        bool is_taken;           /* somebody else's pinned events have all counters */
        unsigned counters;       /* so many events of a thread count at a time; 0: all */
    } pmu;
};
extern struct sim_switches *sim;

/* The PMUs of the kinds of cores have the numbers SIM_PMU_TYPE + 1 and so on. */
#define SIM_PMU_TYPE 1000

/* ---- Calls that fail, and what was called ---------------------------------------------------- */

/* The n-th call (1: the next one) of a system call's number fails with an error, and those after it if the
 * error stays. SYS_mmap stands for the mapping of a ring, and SIM_MEMORY for that of memory without a
 * file. SIM_NONE: none fails. An event's id can always be asked for. */
#define SIM_MEMORY (-1)
#define SIM_NONE (-2)
void sim_fail(long number, int n, int error, bool stays);
/* Returns how many calls have failed by sim_fail() since it was called. */
int sim_failed(void);
/* Returns how often the simulated kernel has opened an event; *last receives what was asked for at last. */
int sim_opened(struct perf_event_attr *last);
/* The same for the PMU's events. */
int sim_opened_pmu(struct perf_event_attr *last);

/* Hands the calls that go through syscall(2) to a function of the test, with the simulated kernel or
 * without. The function may pass them on to sim_hand_on(). */
void sim_hook(long (*hook)(long number, const long arguments[6]));
long sim_hand_on(long number, const long arguments[6]);

/* Plays ThreadSanitizer, which calls the handlers of signals that it has kept back in functions of the C
 * library that it replaces, whatever the thread blocks: each of those that the simulated kernel answers calls
 * fn at its end, and so does cp__let_deferred_come_from_handler(). NULL: no longer. */
void sim_defer(void (*fn)(void));

#endif
