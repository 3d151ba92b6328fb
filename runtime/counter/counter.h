/*
 * counterpoint/counter.h: counting events over a piece of work, without samples.
 *
 *     struct cp_counter *counters[2];
 *     struct cp_event_spec spec = {.size = sizeof spec};
 *     if (cp_event_parse("cycles", &spec, &err) < 0 || cp_counter_open(&counters[0], &spec, &err) < 0)
 *         fprintf(stderr, "%s\n", err.message);
 *     ...                                    // the same for "instructions"; then threads may be started
 *     cp_counters_start(counters, 2);
 *     work();
 *     cp_counters_stop(counters, 2);
 *     cp_counter_read(counters[0], &cycles, &err);
 *
 * A counter counts on threads, whether they are Ms or not: on the thread that opened the counter, and on the
 * threads that this thread starts from then on, directly or indirectly. So a counter that is opened before
 * cp_sched_run() counts the work on all of the scheduler's Ms. Counters do not depend on what is sampled
 * meanwhile, except that both need counters of the PMU.
 *
 * Threads: every call except cp_counter_open() does the same on any thread and on any G. One thread at a time
 * may use a counter.
 *
 * Signals: no call of this header may be made in a signal handler.
 *
 * Forks: children are not counted (on kernels before 5.13, children are counted as threads are). In the child
 * of a fork, the counters still belong to the parent: the child may only close them.
 */
#ifndef COUNTERPOINT_COUNTER_H
#define COUNTERPOINT_COUNTER_H

#include "runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An event that is counted. Lives from cp_counter_open() to cp_counter_close(). */
struct cp_counter;

/*
 * Opens a counter of an event. The counter is stopped, and its value is 0. The modes that count are those of
 * cp_cpu_profile_config_init(): user mode for PMU events; for the kernel's own events also kernel mode, if
 * perf_event_paranoid lets this process. The spec's precise_ip and period are ignored. The calling thread may
 * end before the other threads do. Returns 0; -EINVAL for the timer, which counts nothing (taskClock counts
 * CPU time); -ENOMEM; otherwise the errors of cp_event_probe().
 */
int cp_counter_open(struct cp_counter **counter, const struct cp_event_spec *spec, struct cp_error *err);
void cp_counter_close(struct cp_counter *counter); /* NULL: does nothing */

/*
 * Starts n counters, which continue from their values, or stops them, on all of their threads. The calls
 * start and stop one counter after the other, in the order of the array, so n counters that are started and
 * stopped together all count the same in addition to the work: some 70 instructions of user mode, and 25 to
 * 45 more for each counter except the first. Returns 0, or the error of ioctl(2).
 */
int cp_counters_start(struct cp_counter *const *counters, size_t n);
int cp_counters_stop(struct cp_counter *const *counters, size_t n);

/* What a counter has counted, and for how long it had one of the PMU's counters. */
struct cp_counter_value {
    size_t size;    /* sizeof(struct cp_counter_value) as the caller compiled it */
    uint64_t count; /* events, or ns for clocks; if is_scaled, an estimate from raw */
    uint64_t raw;   /* the number that was counted */
    /* how long the counter's threads ran while the counter was started, in ns, summed over the threads */
    uint64_t enabled_ns;
    uint64_t running_ns; /* how much of enabled_ns was counted: a PMU has few counters, which take turns */
    bool is_scaled;      /* running_ns < enabled_ns: count is raw * enabled_ns / running_ns */
};
/*
 * Fills *value, whose size the caller has set, with what was counted since the counter was opened or reset.
 * The counter may be started. Returns 0; -EBUSY if the threads have run but the event never had one of the
 * PMU's counters, so that there is nothing to estimate from; otherwise the error of read(2).
 */
int cp_counter_read(struct cp_counter *counter, struct cp_counter_value *value, struct cp_error *err);
/* Sets the counter's value to 0. A started counter stays started. Returns 0, or the error of read(2). */
int cp_counter_reset(struct cp_counter *counter);

#ifdef __cplusplus
}
#endif
#endif
