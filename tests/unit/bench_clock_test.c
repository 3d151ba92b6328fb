/* The order in which a benchmark's clock and counters start and stop: none of them may measure another's
 * start or stop. */
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "testing/counts.h"
#include "testing/test.h"
#include "tests/support/stub_syscall.h"
#include "tests/support/test.h"

/* What happened, one letter each: C starts the clock that is among the counters, c stops it; E and e do the
 * same for another event; t reads the time. */
static char happened[200];
static bool is_recorded, is_clock[1024];

static void record(char letter)
{
    size_t n = strlen(happened);
    if (is_recorded && n < sizeof(happened) - 1 && (letter != 't' || n == 0 || happened[n - 1] != 't'))
        happened[n] = letter;
}

/* ---- In place of the C library's ------------------------------------------------------------- */

static long stub_syscall(long number, const long arguments[6])
{
    long result = hand_on(number, arguments);
    if (number == SYS_perf_event_open && result >= 0 && result < 1024)
        is_clock[result] = ((const struct perf_event_attr *)arguments[0])->config <= PERF_COUNT_SW_TASK_CLOCK;
    if (number == SYS_ioctl && arguments[1] == PERF_EVENT_IOC_ENABLE)
        record(is_clock[arguments[0]] ? 'C' : 'E');
    if (number == SYS_ioctl && arguments[1] == PERF_EVENT_IOC_DISABLE)
        record(is_clock[arguments[0]] ? 'c' : 'e');
    return result;
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
    record('t');
    return (int)hand_on(SYS_clock_gettime, (const long[6]){clock, (long)t});
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void check_order(const char *events, const char *expected)
{
    struct cp_error err;
    char *list = strdup(events);
    CHECKF(!*list || cp__counts_choose(list, &err) == 0, "%s", err.message);
    free(list);
    cp__counts_open();
    struct cp__options options = {.bench_iterations = 2};
    struct cp__test benchmark = {.name = strdup("Benchmark_x"), .options = &options};
    cp__bench_begin(&benchmark);
    is_recorded = true;
    while (cp_bench_next(&benchmark.t))
        if (cp_bench_iterations(&benchmark.t) == 1) {
            cp_bench_pause(&benchmark.t);
            record('-');
            cp_bench_resume(&benchmark.t);
        }
    is_recorded = false;
    cp__bench_free(benchmark.bench);
    free(benchmark.name);
    CHECK_STR(happened, expected);
}

CP_TEST(without_counters_there_is_the_clock)
{
    check_order("", "t-t");
}

CP_TEST(the_clock_is_within_the_counters)
{
    check_order("pageFaults", "Ete-Ete");
}

CP_TEST(clocks_among_the_counters_are_within_the_others)
{
    check_order("taskClock,pageFaults,cpuClock,minorFaults,majorFaults", "EEECCtcceee-EEECCtcceee");
}
