/* Watchpoints of this processor and tracepoints of this kernel, from the start to the output of go tool
 * pprof. */
#include "tests/support/named_tools.h"

/* The watchpoint is on this word; only write_watched() writes it. */
static volatile long watched;
static volatile long other;

__attribute__((noinline)) static void write_watched(long value)
{
    watched = value;
    /* a watchpoint reports the instruction after the write, which must still be in here; no tail call */
    other = other + 1;
}

__attribute__((noinline)) static void write_other(void)
{
    other = other + 1;
}

__attribute__((noinline)) static void read_watched(void)
{
    other = other + watched;
}

/* Gives up the CPU. The C library has no frame pointers, so the stack misses the caller of its function,
 * rest(), and shows sleep_here(). */
__attribute__((noinline)) static void rest(void)
{
    usleep(1000);
    other = other + 1; /* keeps the call from being a tail call */
}

__attribute__((noinline)) static void sleep_here(int times)
{
    for (int i = 0; i < times; i++)
        rest();
}

static void start_or_skip(const char *path, const char *event)
{
    struct cp_error err;
    int result = cp_start_cpu_profile_with_config(&err, cp_option_event(cp_writer_path(path), event, 1));

    if (result == -ENOENT || result == -ENODEV || result == -EOPNOTSUPP || result == -ENODATA ||
        result == -EACCES || result == -EPERM || result == -ENOSPC)
        SKIP("%s", err.message);
    CHECKF(result == 0, "%d: %s", result, err.message);
}

static void need_prompt_signals(void)
{
    if (TEST_TSAN)
        SKIP("ThreadSanitizer delivers signals late, to wherever the thread is then");
}

/* ---- Watchpoints ----------------------------------------------------------------------------- */

enum { WRITES = 500 };

/* With the processor's own debug registers. */
CP_TEST(a_watchpoint_names_who_writes)
{
    const char *path = file_in_dir("watch.pb.gz");
    char event[64];
    double found, total;

    need_prompt_signals();
    attach();
    snprintf(event, sizeof event, "mem:%p/8:w", (void *)(uintptr_t)&watched);
    start_or_skip(path, event);
    for (long i = 1; i <= WRITES; i++) {
        write_watched(i);
        write_other();
        read_watched();
    }
    stop();
    CHECK_EQ(watched, WRITES);
    count(path, "write_watched", &found, &total);
    CHECKF(found == WRITES && total == WRITES, "%g of %g, %d writes", found, total, WRITES);
    count(path, "write_other|read_watched", &found, &total);
    CHECKF(found == 0, "%g", found);
    check_type(path, event + strlen("mem:"));
}

/* ---- Tracepoints ----------------------------------------------------------------------------- */

CP_TEST(a_tracepoint_names_who_slept)
{
    enum { SLEEPS = 100 };
    const char *path = file_in_dir("switch.pb.gz");
    double found, total;

    need_prompt_signals();
    need_tracefs();
    attach();
    start_or_skip(path, "tracepoint:sched:sched_switch");
    sleep_here(SLEEPS);
    burn_here(20000000);
    stop();
    count(path, "sleep_here", &found, &total);
    CHECKF(found >= SLEEPS, "%g of %g", found,
           total); /* each sleep gives up the CPU; the thread may lose the CPU otherwise, too */
    check_type(path, "tracepoint:sched:sched_switch");
}
