/* Watchpoints and tracepoints by their names, from the start to the output of go tool pprof. */
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/refuse.h"
#include "tests/support/session_tools.h"
#include "tests/support/stub_pmu.h"

/* The watchpoint is on this word; only write_watched() writes it. */
static volatile long *watched;
static volatile long other;

__attribute__((noinline)) static void write_watched(long value)
{
    *watched = value;
    /* a watchpoint reports the instruction after the write, which must still be in here; no tail call */
    other = other + 1;
}

__attribute__((noinline)) static void write_other(void)
{
    other = other + 1;
}

__attribute__((noinline)) static void read_watched(void)
{
    other = other + *watched;
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

static void stop(void)
{
    struct cp_error err;

    CHECKF(cp_stop_cpu_profile(&err) == 0, "%s", err.message);
}

/* Takes the samples with a function in their stacks, and the total, from pprof's line "N of M total". */
static void count(const char *path, const char *function, double *found, double *total)
{
    char arguments[128];
    char *top;
    const char *shown;

    snprintf(arguments, sizeof arguments, "-top -nodefraction=0 -focus='^%s$'", function);
    top = pprof(arguments, path);
    shown = strstr(top, "Showing nodes accounting for ");
    *found = *total = 0;
    if (shown != NULL) {
        *found = strtod(shown + strlen("Showing nodes accounting for "), NULL);
        shown = strstr(shown, " of ");
        CHECKF(shown != NULL, "%s", top);
        *total = strtod(shown + strlen(" of "), NULL);
    }
    free(top);
}

static void need_prompt_signals(void)
{
    if (TEST_TSAN)
        SKIP("ThreadSanitizer delivers signals late, to wherever the thread is then");
}

/* ---- Watchpoints ----------------------------------------------------------------------------- */

enum { WRITES = 500 };

/* Maps a page for the watched word, so that a test can make the kernel take part in each write. */
static void map_watched(void)
{
    watched =
        mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(watched != MAP_FAILED);
}

static void start_watching(const char *path, char *event, size_t size)
{
    need_prompt_signals();
    attach();
    map_watched();
    snprintf(event, size, "mem:%p/8:w", (void *)(uintptr_t)watched);
    start_or_skip(path, event);
}

/* With the processor's own debug registers. */
CP_TEST(a_watchpoint_names_who_writes)
{
    const char *path = file_in_dir("watch.pb.gz");
    char event[64];
    double found, total;
    char *top;

    start_watching(path, event, sizeof event);
    for (long i = 1; i <= WRITES; i++) {
        write_watched(i);
        write_other();
        read_watched();
    }
    stop();
    CHECK_EQ(*watched, WRITES);
    count(path, "write_watched", &found, &total);
    CHECKF(found == WRITES && total == WRITES, "%g of %g, %d writes", found, total, WRITES);
    count(path, "write_other|read_watched", &found, &total);
    CHECKF(found == 0, "%g", found);
    top = pprof("-top", path);
    CHECK_CONTAINS(top, event + strlen("mem:")); /* the profile's type has the event's name */
    free(top);
}

/* Opens another event for a watchpoint: for the probe's watchpoint CPU time, which counts at once, for an M's
 * page faults in user mode. */
static long open_fault_counter(const struct perf_event_attr *asked, const long a[6])
{
    struct perf_event_attr attr = *asked;

    CHECK(asked->bp_type == HW_BREAKPOINT_W && asked->bp_len == 8);
    CHECK((asked->bp_addr == (uintptr_t)watched) == (asked->sample_period == 1));
    attr.type = PERF_TYPE_SOFTWARE;
    attr.config = asked->sample_period == 0 ? PERF_COUNT_SW_TASK_CLOCK : PERF_COUNT_SW_PAGE_FAULTS;
    attr.bp_type = 0;
    attr.bp_addr = attr.bp_len = 0;
    return hand_on(SYS_perf_event_open, (const long[6]){(long)&attr, a[1], a[2], a[3], a[4]});
}

/* On any machine: the test removes the watched page before each write, so each write is a page fault, and the
 * stub's watchpoint is a counter of page faults. The program has a few other faults. */
CP_TEST(a_watchpoint_of_a_stub_names_who_writes)
{
    const char *path = file_in_dir("watch.pb.gz");
    char event[64];
    double found, total;
    char *top;

    stub_pmu.open_watchpoint = open_fault_counter;
    start_watching(path, event, sizeof event);
    for (long i = 1; i <= WRITES; i++) {
        CHECK_EQ(madvise((void *)(uintptr_t)watched, (size_t)sysconf(_SC_PAGESIZE), MADV_DONTNEED), 0);
        write_watched(i);
        write_other();
        read_watched();
    }
    stop();
    count(path, "write_watched", &found, &total);
    CHECKF(found >= WRITES && found <= 1.1 * WRITES, "%g of %g, %d writes", found, total, WRITES);
    top = pprof("-top", path);
    CHECK_CONTAINS(top, event + strlen("mem:"));
    free(top);
}

/* ---- Tracepoints ----------------------------------------------------------------------------- */

/* Mounts tracefs if it is not mounted, in a mount namespace of this process. */
static void need_tracefs(void)
{
    if (access("/sys/kernel/tracing/events", X_OK) == 0)
        return;
    if (geteuid() != 0)
        SKIP("tracefs cannot be read here, and needs root to be mounted");
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        SKIP("no mount namespace of its own: %s", strerror(errno));
    if (mount("nodev", "/sys/kernel/tracing", "tracefs", 0, NULL) < 0)
        SKIP("tracefs cannot be mounted here: %s", strerror(errno));
}

CP_TEST(a_tracepoint_names_who_slept)
{
    enum { SLEEPS = 100 };
    const char *path = file_in_dir("switch.pb.gz");
    double found, total;
    char *top;

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
    top = pprof("-top", path);
    CHECK_CONTAINS(top, "tracepoint:sched:sched_switch");
    free(top);
}

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
