/* The simulated kernel does what Linux does: see tests/live/kernel_test.c, which asks Linux. And it does
 * what it is told to do. */
#include "tests/support/sim/sim.h"

#define KERNEL_TEST(name) SIM_TEST(name)
#define CHECK_NUMBER(number, exact, lo, hi) CHECK_EQ((number), (exact))

#include "tests/support/sim/conformance.h"

/* ---- What only a simulated kernel can be told ------------------------------------------------ */

SIM_TEST(time_passes_where_the_test_says_so)
{
    uint64_t before = cpu_ns(), wall = wall_ns();

    SPIN_HERE();
    CHECK_EQ(cpu_ns(), before);
    SIM_RUN(1234567);
    CHECK_EQ(cpu_ns(), before + 1234567);
    CHECK_EQ(clock_ns(CLOCK_PROCESS_CPUTIME_ID), before + 1234567);
    CHECK(wall_ns() >= wall + 1234567);
    sim->clock_ns = 1000;
    CHECK_EQ(cpu_ns() + 1000, cpu_ns());
}

/* Of 20 000 samples a second, 5000 may be: in a tick of 4 ms, 20 of 80. One more is what throttles. */
SIM_TEST(a_throttled_event_goes_on_at_the_next_tick)
{
    int fd = open_clock(50000);
    const struct perf_event_mmap_page *page = map_ring(fd, 4);
    uint64_t at = 0;
    int throttled = 0, unthrottled = 0, samples = 0;

    sim->max_rate = 5000;
    run_a(fd, 20 * MS);
    for (; at < page->data_head; at += header_at(page, at).size) {
        samples += header_at(page, at).type == PERF_RECORD_SAMPLE;
        throttled += header_at(page, at).type == PERF_RECORD_THROTTLE;
        unthrottled += header_at(page, at).type == PERF_RECORD_UNTHROTTLE;
    }
    CHECK_EQ(samples, 5 * 21);
    CHECK_EQ(throttled, 5);
    CHECK_EQ(unthrottled, 5);
    CHECK_EQ(count_of(fd), 5 * 21 * 50000);
}

SIM_TEST(enabling_an_event_ends_its_throttling)
{
    int fd = open_clock(50000);
    const struct perf_event_mmap_page *page = map_ring(fd, 1);
    const uint64_t at = 21 * RECORD_SIZE; /* before the last sample comes the THROTTLE record */

    sim->max_rate = 5000;
    run_a(fd, 2 * MS);
    CHECK_EQ(count_of(fd), 21 * 50000);
    CHECK_EQ(header_at(page, at - RECORD_SIZE).type, PERF_RECORD_THROTTLE);
    run_a(fd, MS);
    CHECK_EQ(count_of(fd), 21 * 50000 + MS);
    CHECK_EQ(header_at(page, at + 32).type, PERF_RECORD_UNTHROTTLE);
}

SIM_TEST(an_overflow_may_take_longer_than_the_period)
{
    int fd = open_clock(20000);
    uint64_t before = cpu_ns();

    handle(SIGPROF);
    send_signals(fd, SIGPROF);
    sim->cost_ns = 30000;
    control(fd, PERF_EVENT_IOC_REFRESH, 1000);
    burn_a(MS); /* does not come forward until the limit ends the event */
    CHECK_EQ(signals, 1000);
    CHECK_EQ(cpu_ns(), before + MS + 1000 * 30000);
}

SIM_TEST(a_cpu_that_stands_still_takes_one_interrupt)
{
    int fd = open_clock(PERIOD);

    handle(SIGPROF);
    send_signals(fd, SIGPROF);
    control(fd, PERF_EVENT_IOC_ENABLE, 0);
    SIM_STALL_FOR(10 * PERIOD + PERIOD / 2);
    CHECK_EQ(signals, 1);
    CHECK_EQ(count_of(fd), 10 * PERIOD + PERIOD / 2);
    SIM_RUN(PERIOD / 2);
    CHECK_EQ(signals, 2);
}

SIM_TEST(timers_may_look_at_the_time_at_ticks_only)
{
    int timer;

    sim->timers_tick = true;
    handle(SIGPROF);
    timer = start_timer(MS);
    burn_a(10 * MS);
    CHECK_EQ(signals, 2); /* at 4 and 8 ms */
    CHECK_EQ(noted[0].overrun, 3);
    CHECK_EQ(noted[1].overrun, 3);
    CHECK_EQ(syscall(SYS_timer_delete, timer), 0);
}

/* The event's signal is pending when the timer expires. */
SIM_TEST(a_timers_signal_comes_as_soon_as_no_other_is_pending)
{
    int fd = open_clock(PERIOD);
    int timer;

    handle(SIGPROF);
    send_signals(fd, SIGPROF);
    timer = start_timer(3 * PERIOD);
    control(fd, PERF_EVENT_IOC_ENABLE, 0);
    set_blocked(SIGPROF, true);
    burn_a(7 * PERIOD);
    set_blocked(SIGPROF, false);
    CHECK_EQ(signals, 1);
    SIM_RUN(PERIOD);
    CHECK_EQ(signals, 3);
    CHECK(noted[0].code == POLL_IN && noted[1].code == SI_TIMER && noted[2].code == POLL_IN);
    CHECK_EQ(noted[1].overrun, 1); /* it expired two times */
    CHECK_EQ(syscall(SYS_timer_delete, timer), 0);
}

SIM_TEST(the_nth_call_fails)
{
    struct perf_event_attr attr = clock_attr(PERIOD);

    sim_fail(SYS_perf_event_open, 2, EMFILE, false);
    for (int i = 1; i <= 4; i++)
        CHECK_EQ(syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0) < 0, i == 2);
    CHECK_EQ(sim_failed(), 1);
    sim_fail(SYS_perf_event_open, 3, EMFILE, true);
    for (int i = 1; i <= 4; i++)
        CHECK_EQ(syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0) < 0, i >= 3);
    CHECK_EQ(sim_failed(), 2);
    sim_fail(SYS_mmap, 1, EPERM, false);
    CHECK(mmap(NULL, 2 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
    sim_fail(SIM_NONE, 0, 0, false);
    CHECK_EQ(sim_opened(NULL), 5);
}

static void *body_closes(void *arg)
{
    pthread_cancel(pthread_self());
    close(*(const int *)arg);
    return NULL;
}

SIM_TEST(closing_an_event_is_a_cancellation_point)
{
    int fd = open_clock(PERIOD);
    pthread_t thread;
    void *result;

    CHECK_EQ(pthread_create(&thread, NULL, body_closes, &fd), 0);
    CHECK_EQ(pthread_join(thread, &result), 0);
    CHECK(result == PTHREAD_CANCELED);
    CHECK_EQ(count_of(fd), 0); /* it is open still */
}

SIM_TEST(rings_may_have_a_limit)
{
    const size_t size = 2 * (size_t)sysconf(_SC_PAGESIZE);
    int fd = open_clock(PERIOD), other = open_clock(PERIOD);
    void *page;

    sim->ring_memory = size;
    page = map_ring(fd, 1);
    CHECK(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0) == MAP_FAILED && errno == EPERM);
    munmap(page, size);
    map_ring(other, 1);
}

SIM_TEST(older_kernels_refuse)
{
    struct perf_event_attr trap = trap_attr(), lost = clock_attr(PERIOD), kernel = clock_attr(PERIOD);

    lost.read_format |= PERF_FORMAT_LOST;
    kernel.exclude_kernel = 0;
    sim->no_sigtrap = sim->no_lost_count = true;
    CHECK(syscall(SYS_perf_event_open, &trap, 0, -1, -1, 0) < 0 && errno == EINVAL);
    CHECK(syscall(SYS_perf_event_open, &lost, 0, -1, -1, 0) < 0 && errno == EINVAL);
    sim->paranoid = 2;
    CHECK(syscall(SYS_perf_event_open, &kernel, 0, -1, -1, 0) < 0 && errno == EACCES);
}

static int open_cycles(bool of_the_kernel, uint64_t period)
{
    struct perf_event_attr attr = clock_attr(period);

    sim->pmu.is_there = true;
    attr.type = PERF_TYPE_HARDWARE;
    attr.config = PERF_COUNT_HW_CPU_CYCLES;
    attr.exclude_kernel = !of_the_kernel;
    attr.exclude_user = of_the_kernel;
    return open_event(&attr);
}

/* A PMU tells the modes apart. A clock of the kernel's counts both, and takes samples in the mode that it
 * is for. */
SIM_TEST(time_has_modes)
{
    int user = open_cycles(false, 0), kernel = open_cycles(true, 0), clock = open_clock(PERIOD);
    const struct perf_event_mmap_page *page = map_ring(clock, 1);

    for (int i = 0; i < 3; i++)
        control((int[]){user, kernel, clock}[i], PERF_EVENT_IOC_ENABLE, 0);
    SIM_RUN(10 * PERIOD);
    SIM_RUN_KERNEL(3 * PERIOD);
    CHECK_EQ(count_of(user), 10 * PERIOD);
    CHECK_EQ(count_of(kernel), 3 * PERIOD);
    CHECK_EQ(count_of(clock), 13 * PERIOD);
    CHECK_EQ(page->data_head / RECORD_SIZE, 10);
}

SIM_TEST(calls_take_time_in_both_modes)
{
    int user = open_cycles(false, 0), kernel = open_cycles(true, 0);

    sim->clock_ns = 1000;
    control(user, PERF_EVENT_IOC_ENABLE, 0);
    control(kernel, PERF_EVENT_IOC_ENABLE, 0);
    cpu_ns();
    CHECK_EQ(count_of(user), 2000);
    CHECK_EQ(count_of(kernel), 3000);
}

/* The real kernel never runs what the simulation does not know. */
SIM_TEST(events_that_are_not_simulated_are_not_there)
{
    struct perf_event_attr attr = clock_attr(PERIOD);
    const unsigned types[] = {PERF_TYPE_HARDWARE, PERF_TYPE_TRACEPOINT, PERF_TYPE_BREAKPOINT, 42};

    for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
        attr.type = types[i];
        CHECK(syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0) < 0 && errno == ENOENT);
    }
    sim->pmu.is_there = true;
    attr.type = PERF_TYPE_HARDWARE;
    attr.config = 0;
    CHECK(syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0) >= 0);
    attr.config = (uint64_t)4 << PERF_PMU_TYPE_SHIFT; /* a kind of the machine's cores */
    CHECK(syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0) < 0 && errno == ENOENT);
}

static void check_count(int fd, uint64_t count, uint64_t enabled, uint64_t running)
{
    uint64_t words[3];

    CHECK_EQ(syscall(SYS_read, fd, words, sizeof words), sizeof words);
    CHECK_EQ(words[0], count);
    CHECK_EQ(words[1], enabled);
    CHECK_EQ(words[2], running);
}

/* Of three events, two count in each tick of 4 ms: the first and the second, the second and the third, the
 * third and the first, and so on. */
SIM_TEST(events_take_turns_at_few_counters)
{
    struct perf_event_attr attr = clock_attr(PERIOD);
    const struct perf_event_mmap_page *page;
    int fds[3];

    sim->pmu.is_there = true;
    sim->pmu.counters = 2;
    attr.type = PERF_TYPE_HARDWARE;
    for (int i = 0; i < 3; i++)
        fds[i] = open_event(&attr);
    page = map_ring(fds[0], 1);
    for (int i = 0; i < 3; i++)
        control(fds[i], PERF_EVENT_IOC_ENABLE, 0);
    burn_a(5 * MS);
    check_count(fds[0], 4 * MS, 5 * MS, 4 * MS);
    check_count(fds[1], 5 * MS, 5 * MS, 5 * MS);
    check_count(fds[2], MS, 5 * MS, MS);
    burn_a(19 * MS);
    for (int i = 0; i < 3; i++)
        check_count(fds[i], 16 * MS, 24 * MS, 16 * MS);
    CHECK_EQ(page->data_head / RECORD_SIZE, 16);
    sim->pmu.is_taken = true;
    burn_a(5 * MS);
    check_count(fds[0], 16 * MS, 29 * MS, 16 * MS);
}

SIM_TEST(a_thread_may_be_stopped)
{
    struct worker worker;

    sem_init(&go_on, 0, 0);
    start_worker(&worker, body_waits_then_burns, NULL);
    sim_stop(worker.tid);
    sem_post(&go_on);
    sleep_ms(20);
    CHECK_EQ(sim_thread_ns(worker.tid), 0);
    sim_continue(worker.tid);
    join_worker(&worker);
    CHECK_EQ(worker.cpu, 5 * PERIOD);
}
