/*
 * What a sample costs: a fixed piece of work, run in turn without a profile, with the same event and a
 * handler that does nothing (the floor: what the kernel itself costs), and with a profile. Paired rounds, so
 * that a machine that slows down meanwhile slows all three.
 */
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "pprof/pprof.h"

enum { ROUNDS = 21, DEPTH = 20, STEPS = 60000000 };
static const uint64_t periods[] = {10000000, 1000000, 100000};

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* ---- The work: a loop below some frames ------------------------------------------------------ */

static uint64_t result;

__attribute__((noinline)) static uint64_t spin(unsigned depth)
{
    uint64_t x = depth;

    if (depth > 0)
        return spin(depth - 1) + 1;
    for (int i = 0; i < STEPS; i++)
        x = x * 6364136223846793005u + 1;
    return x;
}

static double work(void)
{
    double start = now();

    result += spin(DEPTH);
    return now() - start;
}

/* ---- The floor: the event, and a handler that returns ---------------------------------------- */

static volatile uint64_t signals;

static void do_nothing(int signal)
{
    (void)signal;
    signals++;
}

static double floor_work(uint64_t period)
{
    struct perf_event_attr attr = {.size = sizeof attr,
                                   .type = PERF_TYPE_SOFTWARE,
                                   .config = PERF_COUNT_SW_TASK_CLOCK,
                                   .sample_period = period,
                                   .disabled = 1,
                                   .exclude_hv = 1,
                                   .exclude_idle = 1};
    struct sigaction action = {.sa_handler = do_nothing, .sa_flags = SA_RESTART};
    struct sigaction old;
    struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = (pid_t)syscall(SYS_gettid)};
    double seconds;
    int fd;

    fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0) {
        attr.exclude_kernel = 1;
        fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    }
    if (fd < 0) {
        perror("perf_event_open");
        exit(1);
    }
    signals = 0;
    sigaction(SIGPROF, &action, &old);
    fcntl(fd, F_SETOWN_EX, &owner);
    fcntl(fd, F_SETSIG, SIGPROF);
    fcntl(fd, F_SETFL, O_ASYNC);
    ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
    seconds = work();
    ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
    close(fd);
    sigaction(SIGPROF, &old, NULL);
    return seconds;
}

/* ---- A profile ------------------------------------------------------------------------------- */

static double profiled_work(uint64_t period, uint64_t *samples)
{
    const struct cp_event_spec spec = {.event = CP_CPUPROF_SW_TASK_CLOCK, .name = "taskClock"};
    struct cp_memory memory = {0};
    struct cp_profiling_option option = cp_event(cp_writer_memory(&memory), spec.name, period);
    struct cp_session *session;
    struct cp_slot_stats stats;
    struct cp_error err;
    double seconds;

    if (cp_session_start(&session, &option, 1, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    seconds = work();
    cp_session_stop(session, NULL);
    cp_session_stats(session, 0, &stats);
    cp_session_close(session);
    free(memory.data);
    *samples = stats.signals;
    return seconds;
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

struct spread {
    double low, median, high;
};

/* The middle, and the quarters below and above it. */
static struct spread spread_of(double *values)
{
    qsort(values, ROUNDS, sizeof *values, ascending);
    return (struct spread){values[ROUNDS / 4], values[ROUNDS / 2], values[ROUNDS - 1 - ROUNDS / 4]};
}

static void compare(uint64_t period)
{
    double floor_cost[ROUNDS], profile_cost[ROUNDS], ratio[ROUNDS];
    uint64_t samples = 0;

    for (int i = 0; i < ROUNDS; i++) {
        double plain = work();
        double with_floor = floor_work(period);
        double with_profile = profiled_work(period, &samples);

        floor_cost[i] = 100 * (with_floor / plain - 1);
        profile_cost[i] = 100 * (with_profile / plain - 1);
        ratio[i] = with_profile / with_floor;
    }
    struct spread f = spread_of(floor_cost), p = spread_of(profile_cost), r = spread_of(ratio);
    printf("%9.0f  %9llu  %6.2f %% (%6.2f to %6.2f)  %6.2f %% (%6.2f to %6.2f)  %6.4f (%6.4f to %6.4f)\n",
           1e9 / (double)period, (unsigned long long)samples, f.median, f.low, f.high, p.median, p.low,
           p.high, r.median, r.low, r.high);
}

int main(void)
{
    struct cp_error err;
    struct cp_m *m;

    if (cp_m_attach(&m, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    printf("Overhead of taskClock, %d frames deep; medians of %d paired rounds (and their quartiles).\n",
           DEPTH + 2, ROUNDS);
    printf(
        "samples/s    signals  floor: an empty handler      this profiler                profiled/floor\n");
    for (size_t i = 0; i < sizeof periods / sizeof periods[0]; i++)
        compare(periods[i]);
    return result == 0; /* so that the work is not left away */
}
