/*
 * What a sample costs. A fixed piece of work runs in turn without a profile, with the same event and a
 * handler that does nothing (the floor: the cost of the kernel alone), and with a profile. The rounds are
 * paired: if the machine slows down, all three measurements slow down. An iteration is one round, and
 * -benchtime says how many there are: 21x. The figures are medians of the rounds, and quartiles:
 *
 *     %-floor, %-profiled    by how much longer the work takes
 *     x-floor                the work with a profile to the work with the empty handler
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pprof.h"

enum { DEPTH = 20, STEPS = 60000000 };

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

/* Does the work; returns its time in ns. */
static double work(void)
{
    double start = bench_now_ns();

    result += spin(DEPTH);
    return bench_now_ns() - start;
}

/* ---- The floor: the event, and a handler that returns ---------------------------------------- */

static volatile uint64_t signals;

static void do_nothing(int signal)
{
    (void)signal;
    signals++;
}

static double floor_work(struct cp_t *b, uint64_t period)
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
    double ns;
    int fd;

    fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0) {
        attr.exclude_kernel = 1;
        fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    }
    if (fd < 0)
        cp_t_skip(b, "perf_event_open: %s", strerror(errno));
    signals = 0;
    sigaction(SIGPROF, &action, &old);
    fcntl(fd, F_SETOWN_EX, &owner);
    fcntl(fd, F_SETSIG, SIGPROF);
    fcntl(fd, F_SETFL, O_ASYNC);
    ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
    ns = work();
    ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
    close(fd);
    sigaction(SIGPROF, &old, NULL);
    return ns;
}

/* ---- A profile ------------------------------------------------------------------------------- */

static double profiled_work(struct cp_t *b, uint64_t period, uint64_t *samples)
{
    const struct cp_event_spec spec = {
        .size = sizeof spec, .event = CP_CPUPROF_SW_TASK_CLOCK, .name = "taskClock"};
    struct cp_memory memory = {0};
    struct cp_profiling_option option = cp_option_event(cp_writer_memory(&memory), spec.name, period);
    struct cp_session *session;
    struct cp_slot_stats stats = {.size = sizeof stats};
    struct cp_error err;
    double ns;

    if (cp_session_start(&session, &option, 1, &err) < 0)
        cp_t_fatal(b, "%s", err.message);
    ns = work();
    cp_session_stop(session, NULL);
    cp_session_stats(session, 0, &stats);
    cp_session_close(session);
    free(memory.data);
    *samples = stats.signals;
    return ns;
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

static void rounds(struct cp_t *b, void *arg)
{
    const uint64_t period = *(const uint64_t *)arg;
    struct bench_rounds floor_cost = {0}, profile_cost = {0}, ratio = {0};
    uint64_t samples = 0;

    for (; cp_bench_next(b);) {
        double plain = work();
        double with_floor = floor_work(b, period);
        double with_profile = profiled_work(b, period, &samples);

        bench_add(&floor_cost, 100 * (with_floor / plain - 1));
        bench_add(&profile_cost, 100 * (with_profile / plain - 1));
        bench_add(&ratio, with_profile / with_floor);
    }
    bench_spread(b, &floor_cost, "%-floor");
    bench_spread(b, &profile_cost, "%-profiled");
    bench_spread(b, &ratio, "x-floor");
    cp_bench_metric(b, (double)samples, "samples/round");
}

/* taskClock. The stack has 22 frames and those of the benchmark. */
CP_BENCHMARK(Overhead)
{
    static uint64_t slow = 10000000, usual = 1000000, fast = 100000;
    struct cp_error err;
    struct cp_m *m;

    if (cp_m_attach(&m, &err) < 0)
        cp_t_fatal(b, "%s", err.message);
    cp_t_run(b, "100 Hz", rounds, &slow);
    cp_t_run(b, "1000 Hz", rounds, &usual);
    cp_t_run(b, "10000 Hz", rounds, &fast);
    cp_m_detach(m);
    if (result == 0) /* so that the compiler does not remove the work */
        cp_t_error(b, "The work came to nothing.");
}

BENCH_MAIN()
