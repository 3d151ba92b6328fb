/* Watchpoints and tracepoints by their names, from the start to the output of go tool pprof. */
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>

#include "tests/support/named_tools.h"
#include "tests/support/sim/sim.h"

/* ---- Watchpoints ----------------------------------------------------------------------------- */

enum { WRITES = 500 };

/* The watchpoint is on this word; only write_watched() writes it. */
static volatile uint64_t watched;
static volatile uint64_t other;

/* A watched access is a page fault of the simulated kernel: see open_watchpoint(). */
__attribute__((noinline)) static void write_watched(uint64_t value)
{
    watched = value;
    SIM_FAULT(&watched);
    other = other + 1; /* what a watchpoint reports must still be in here; no tail call */
}

__attribute__((noinline)) static void write_other(void)
{
    other = other + watched;
}

/* Opens another event for a watchpoint: for the probe's watchpoint CPU time, which counts at once, for an M's
 * page faults. */
static long open_watchpoint(const long a[6])
{
    const struct perf_event_attr *asked = (const struct perf_event_attr *)a[0];
    struct perf_event_attr attr = *asked;

    CHECK(asked->bp_type == HW_BREAKPOINT_W && asked->bp_len == 8);
    CHECK((asked->bp_addr == (uintptr_t)&watched) == (asked->sample_period == 1));
    attr.type = PERF_TYPE_SOFTWARE;
    attr.config = asked->sample_period == 0 ? PERF_COUNT_SW_TASK_CLOCK : PERF_COUNT_SW_PAGE_FAULTS;
    attr.bp_type = 0;
    attr.bp_addr = attr.bp_len = 0;
    return sim_hand_on(SYS_perf_event_open, (const long[6]){(long)&attr, a[1], a[2], a[3], a[4]});
}

static long play_registers(long number, const long a[6])
{
    if (number == SYS_perf_event_open && ((const struct perf_event_attr *)a[0])->type == PERF_TYPE_BREAKPOINT)
        return open_watchpoint(a);
    return sim_hand_on(number, a);
}

SIM_TEST(a_watchpoint_names_who_writes)
{
    const char *path = file_in_dir("watch.pb.gz");
    struct cp_error err;
    char event[64];
    double found, total;

    sim_hook(play_registers);
    sim->clock_ns = 1000; /* for the start's trial */
    attach();
    snprintf(event, sizeof event, "mem:%p/8:w", (void *)(uintptr_t)&watched);
    CHECKF(cp_start_cpu_profile_with_config(&err, cp_option_event(cp_writer_path(path), event, 1)) == 0, "%s",
           err.message);
    for (uint64_t i = 1; i <= WRITES; i++) {
        write_watched(i);
        write_other();
    }
    stop();
    count(path, "write_watched", &found, &total);
    CHECKF(found == WRITES && total == WRITES, "%g of %g, %d writes", found, total, WRITES);
    count(path, "write_other", &found, &total);
    CHECKF(found == 0, "%g", found);
    check_type(path, event + strlen("mem:"));
}

/* ---- Tracepoints ----------------------------------------------------------------------------- */

/* perf's spelling stands for the same tracepoint. What the file system does not have is refused. */
CP_TEST(tracepoints_have_names)
{
    struct cp_event_spec spec = {.size = sizeof spec}, again = {.size = sizeof again};
    struct cp_error err = {0};

    need_tracefs();
    CHECKF(cp_event_parse("sched:sched_switch", &spec, &err) == 0, "%s", err.message);
    CHECK_STR(spec.name, "tracepoint:sched:sched_switch");
    CHECKF(cp_event_parse("tracepoint:sched:sched_switch:k", &again, &err) == 0, "%s", err.message);
    CHECK_STR(again.name, "tracepoint:sched:sched_switch:k");
    CHECK_EQ(again.modes, CP_EVENT_KERNEL);
    CHECK(memcmp(&spec.encoding, &again.encoding, sizeof spec.encoding) == 0);
    /* "timer" is also the name of an event */
    CHECK_EQ(cp_event_parse("timer:hrtimer_start", &again, &err), 0);
    CHECK_STR(again.name, "tracepoint:timer:hrtimer_start");
    CHECK_EQ(cp_event_parse("tracepoint:sched:no_such", &spec, &err), -ENOENT);
    CHECK_CONTAINS(err.message, "no tracepoint sched:no_such");
    CHECK_EQ(cp_event_parse("sched:no_such", &spec, &err), -EINVAL);
    CHECK_CONTAINS(err.message, "tracefs");
    CHECK_EQ(cp_event_parse("sched:sched_switch:z", &spec, &err), -EINVAL);
    CHECK_CONTAINS(err.message, "cannot have a suffix with \"z\"");
    CHECK_EQ(cp_event_parse("sched:sched_switch:u", &spec, &err), -EINVAL);
    CHECK_CONTAINS(err.message, "happens in the kernel only");
}
