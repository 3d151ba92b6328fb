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
 * A counter is about threads, whether they are Ms or not: the one that opened it, and those that it starts
 * from then on, directly or not. So one that is opened before cp_sched_run() counts what is done on all of
 * its Ms. It has nothing to do with what is sampled meanwhile, but that both take counters of the PMU's.
 *
 * Threads: every call but cp_counter_open() means the same on any thread and on any G; one thread at a time
 * for a counter.
 * Fork: children are not counted (on kernels before 5.13 they are, as threads are). In the child of a fork
 * the counters are the parent's still: it may close them and nothing else.
 */
#ifndef COUNTERPOINT_COUNTER_H
#define COUNTERPOINT_COUNTER_H

#include "runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An event that is counted. */
struct cp_counter;

/*
 * Opens a counter of an event, stopped and at 0. Which modes count is decided as cp_cpu_profile_config_init()
 * does it: user mode for PMU events; for the kernel's own events kernel mode too, where perf_event_paranoid
 * lets this process. Of the spec, precise_ip and the period do not matter. The calling thread may end before
 * the others do. -EINVAL for the timer, which counts nothing (taskClock counts CPU time); -ENOMEM; otherwise
 * the errors of cp_event_probe().
 */
int cp_counter_open(struct cp_counter **counter, const struct cp_event_spec *spec, struct cp_error *err);
void cp_counter_close(struct cp_counter *counter); /* NULL: nothing */

/*
 * Starts n counters, which go on from where they were, or stops them, on all of their threads: one after the
 * other, in that order, so that n counters which are started and stopped together all count the same besides
 * the work, some 70 instructions of user mode and 25 to 45 more for each counter but the first. 0, or what
 * ioctl(2) said.
 */
int cp_counters_start(struct cp_counter *const *counters, size_t n);
int cp_counters_stop(struct cp_counter *const *counters, size_t n);

struct cp_counter_value {
    size_t size;         /* sizeof(struct cp_counter_value) as the caller compiled it */
    uint64_t count;      /* of events; ns for clocks. Where is_scaled, what raw is estimated to stand for */
    uint64_t raw;        /* what was counted */
    uint64_t enabled_ns; /* for how long its threads ran while it was started, summed over them */
    uint64_t running_ns; /* of that, for how long it was counted: a PMU has few counters, which take turns */
    bool is_scaled;      /* running_ns < enabled_ns: count is raw * enabled_ns / running_ns */
};
/*
 * Fills *value, whose size is set, with what was counted since the counter was opened or reset; also while it
 * is started. -EBUSY where its threads
 * have run and it never had one of the PMU's counters, so that there is nothing to estimate from; otherwise
 * what read(2) said.
 */
int cp_counter_read(struct cp_counter *counter, struct cp_counter_value *value, struct cp_error *err);
/* It counts from 0 again, started or stopped as it is. 0, or what read(2) said. */
int cp_counter_reset(struct cp_counter *counter);

#ifdef __cplusplus
}
#endif
#endif
