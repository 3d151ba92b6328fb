/*
 * Events that leave their thread no time. On an ordinary machine such a test can take a CPU for good, so
 * these run in the emulated machine only (tests/vm/guest), which can be killed as a whole.
 *
 * The events start as clocks of a second. Then the test gives them the kernel's shortest period, 10 us,
 * as if the check of the cost had let them through. The worker has CPU 1, everything else has CPU 0.
 *
 * In that machine an overflow takes 40 us in the kernel, and a sample takes 340 us. The kernel sets a CPU's
 * timer later if its interrupts take too long, so several clocks leave their thread a few percent of its
 * time. The library believes that a sample costs 100 us, as if the cost could not be measured. So one clock
 * starves its thread for 20 ms, and eight do so for 0.2 s. If a reader is to find a period that the thread
 * can bear, the library knows the cost.
 */
#include "runtime/engine/perf_m_linux.h"
#include "tests/support/burn.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "runtime/base/os.h"
#include "runtime/cost.h"
#include "runtime/m.h"

/* What the process under test and the test share. */
struct shared {
    uint64_t passes; /* atomic: how often the worker's loop ran */
    uint64_t usual;  /* how often it runs in 100 ms if nothing starves it */
    pid_t worker;
    int is_starving; /* 1: the events have their short period */
    int starts;      /* 1: the process starts more clocks, 2: these have their short period, too */
    int stops;       /* 1: the process stops its slots, 2: it has stopped them */
    int executes;    /* 1: the worker executes another program */
    int forks;       /* 1: the worker forks, 2: it has forked */
    int forks_aside; /* 1: the first thread forks, 2: its child has ended */
    int ends;        /* 1: the process ends */
};
static struct shared *shared;

/* What a sample costs in the emulated machine. */
#define COST_NS 340000

/* How one process is made to starve. */
struct way {
    size_t clocks;
    enum cp_engine engine;
    bool is_blocked;  /* the worker blocks all signals */
    bool is_read;     /* a reader looks at the slots */
    uint64_t cost_ns; /* what the library believes that a sample costs; 0: what it assumes */
};

static void need_emulated_machine(void)
{
    if (!test_is_emulated())
        SKIP("what starves runs in the emulated machine only: make test-vm");
    CHECK(sysconf(_SC_NPROCESSORS_ONLN) == 2);
}

static void move_to(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    CHECK_EQ(sched_setaffinity(0, sizeof set, &set), 0);
}

/* ---- The process under test ------------------------------------------------------------------ */

static void execute(void)
{
    static char sh[] = "sh", c[] = "-c", command[] = "exit 7";

    cp_execve("/bin/sh", (char *[]){sh, c, command, NULL}, environ);
}

/* The child of a thread whose events leave it no time has none of them. */
static void fork_worker(void)
{
    pid_t child = fork();
    int status = 1;

    if (child == 0)
        _exit(0);
    if (child > 0 && waitpid(child, &status, 0) == child && status == 0)
        cp_store_release(&shared->forks, 2); /* pairs with the acquire in await() */
}

static void body_passes(struct worker *worker)
{
    const struct way *way = worker->arg;

    move_to(1);
    shared->worker = worker->tid;
    if (way->is_blocked)
        cp__os_hold_samples();
    cp_store_release(&worker->running, 2);        /* pairs with the acquire in await() */
    while (cp_load_acquire(&worker->stop) == 0) { /* pairs with the release in stop_worker() */
        cp_add_single_writer(&shared->passes, 1);
        if (cp_load_relaxed(&shared->executes) == 1) /* relaxed, both: hints */
            execute();
        if (cp_load_relaxed(&shared->forks) == 1)
            fork_worker();
    }
}

static void shorten_periods(struct cp__m *m)
{
    const uint64_t shortest = 10000;

    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        if (m->handles[slot].seq == 0)
            continue;
        cp__perf_of(m)->handles[slot].period = shortest;
        CHECK_EQ(ioctl(cp__perf_of(m)->handles[slot].events[0].fd, PERF_EVENT_IOC_PERIOD, &shortest), 0);
    }
}

static void make_requests(struct cp_slot_request *requests, size_t n, enum cp_engine engine)
{
    for (size_t i = 0; i < n; i++) {
        requests[i] = request(i % 2 == 0 ? "taskClock" : "cpuClock", 1000 * MS);
        requests[i].config.engine = engine;
    }
}

/* Returns whether the M's events are armed, and nobody is arming more of them. */
static bool is_armed(const struct cp__m *m, int events)
{
    /* relaxed, and acquire: pairs with the release of the M that gives the claim back */
    return cp_load_acquire(&m->claim) == CP__CLAIM_NONE &&
           __builtin_popcount(cp_load_relaxed(&m->armed)) == events;
}

/* Starts half as many clocks as a thread may have on top of those that leave it no time, and waits until the
 * thread has them. Whenever the start looks, the thread may be in its handler: a reader's pass arms it
 * then. */
static void start_more(struct cp__m *m)
{
    struct cp_slot_request requests[CP_EV_MAX / 2];
    struct profile profile = {.n = 0};

    make_requests(requests, CP_EV_MAX / 2, CP_ENGINE_SIGNAL);
    start_unread(&profile, requests, CP_EV_MAX / 2);
    for (int naps = 0; !is_armed(m, CP_EV_MAX); naps++) {
        CHECK(naps < ENOUGH_NAPS);
        read_profile(&profile);
        usleep(NAP_US);
    }
    shorten_periods(m);
    cp_store_release(&shared->starts, 2);       /* pairs with the acquire in await() */
    while (cp_load_relaxed(&shared->ends) == 0) /* relaxed: a hint */
        usleep(10000);
    stop_profile(&profile);
}

/* Forks on the process's first thread. The child runs for a while. */
static void fork_aside(void)
{
    pid_t child = fork();
    int status = 1;

    if (child == 0) {
        burn_a(20 * MS);
        _exit(0);
    }
    if (child > 0 && waitpid(child, &status, 0) == child && status == 0)
        cp_store_release(&shared->forks_aside, 2); /* pairs with the acquire in await() */
}

/* Does what the test asks for, until the test asks for the end. */
static void obey(struct profile *profile, struct worker *worker)
{
    while (cp_load_relaxed(&shared->ends) == 0) { /* relaxed, all: hints */
        usleep(10000);
        if (cp_load_relaxed(&shared->stops) == 1 && cp_slots_stop(profile->slots, profile->n) == 0)
            cp_store_release(&shared->stops, 2); /* pairs with the acquire in await() */
        if (cp_load_relaxed(&shared->starts) == 1)
            start_more((struct cp__m *)worker->m);
        if (cp_load_relaxed(&shared->forks_aside) == 1)
            fork_aside();
    }
}

static uint64_t passes_of(unsigned ms)
{
    uint64_t before = cp_load_relaxed(&shared->passes); /* relaxed, both: a number of its own */

    sleep_ms(ms);
    return cp_load_relaxed(&shared->passes) - before;
}

static void starve(const struct way *way)
{
    struct cp_slot_request requests[CP_EV_MAX];
    struct profile profile = {.may_be_throttled = true};
    struct worker worker;

    move_to(0);
    cp__cost_set(way->cost_ns != 0 ? way->cost_ns : CP_SAMPLE_COST_ASSUMED_NS);
    make_requests(requests, way->clocks, way->engine);
    if (way->is_read)
        start_profile(&profile, requests, way->clocks);
    else
        start_unread(&profile, requests, way->clocks);
    start_worker(&worker, body_passes, (void *)(uintptr_t)way);
    await(&worker.running, 2);
    shared->usual = passes_of(100);
    shorten_periods((struct cp__m *)worker.m);
    cp_store_release(&shared->is_starving, 1); /* pairs with the acquire in await() */
    obey(&profile, &worker);
    stop_worker(&worker);
    stop_profile(&profile);
    _exit(profile.stats[0].ms_overloaded > 0 ? 3 : 4);
}

/* ---- The test -------------------------------------------------------------------------------- */

/* Starts such a process, and returns when its events leave their thread no time. */
static pid_t start_starving(const struct way *way)
{
    pid_t child;

    need_emulated_machine();
    move_to(0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    child = fork();
    if (child == 0)
        starve(way);
    await(&shared->is_starving, 1);
    CHECK(passes_of(5) < shared->usual / 40); /* half of what is usual */
    return child;
}

/* Returns whether the worker's loop runs at that percentage of its usual speed within 3 s, and keeps on. */
static bool runs_at(uint64_t percent)
{
    for (int tenths = 0; tenths < 30; tenths++) {
        if (100 * passes_of(100) > percent * shared->usual && 100 * passes_of(100) > percent * shared->usual)
            return true;
    }
    return false;
}

/* Clocks that leave their thread a third of its time may go on. Without limits, eight clocks leave 19 % to a
 * thread that blocks all signals, and less to any other. */
static bool gets_on(void)
{
    return runs_at(25);
}

/* A reader restarts clocks with a period that leaves the thread a part of its time. Two clocks of 10 us leave
 * it none. */
static bool gets_on_with_clocks(void)
{
    return runs_at(12);
}

/* Returns the process's exit status, or 128 + its signal; -1: it is still there after so many seconds. */
static int end_of(pid_t child, int seconds)
{
    int status;

    for (int tenths = 0; tenths < 10 * seconds; tenths++) {
        if (waitpid(child, &status, WNOHANG) == child)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        sleep_ms(100);
    }
    return -1;
}

/* Returns how much of a second CPU 1 was idle, in percent. */
static long idle_percent(void)
{
    long idle[2] = {0, 0};

    for (int i = 0; i < 2; i++) {
        FILE *file = fopen("/proc/stat", "re");
        char line[256];

        CHECK(file != NULL);
        while (fgets(line, sizeof line, file) != NULL)
            sscanf(line, "cpu1 %*d %*d %*d %ld", &idle[i]);
        fclose(file);
        if (i == 0)
            sleep_ms(1000);
    }
    return (idle[1] - idle[0]) * 100 / sysconf(_SC_CLK_TCK);
}

static void check_end(const struct way *way)
{
    pid_t child = start_starving(way);

    CHECK(gets_on());
    cp_store_relaxed(&shared->ends, 1); /* relaxed: a hint */
    CHECK(end_of(child, 20) >= 0);
}

CP_TEST(eight_clocks_of_10_us_end)
{
    check_end(&(struct way){.clocks = CP_EV_MAX, .engine = CP_ENGINE_SIGNAL});
}

CP_TEST(eight_clocks_of_10_us_that_trap_end)
{
    check_end(&(struct way){.clocks = CP_EV_MAX, .engine = CP_ENGINE_TRAP});
}

CP_TEST(one_clock_of_10_us_ends)
{
    check_end(&(struct way){.clocks = 1, .engine = CP_ENGINE_SIGNAL});
}

CP_TEST(clocks_of_10_us_end_on_a_thread_that_blocks_all_signals)
{
    check_end(&(struct way){.clocks = CP_EV_MAX, .engine = CP_ENGINE_SIGNAL, .is_blocked = true});
}

/* The reader restarts the events that have ended, with ever longer periods, and tells of it. */
CP_TEST(a_thread_gets_on_although_a_reader_restarts_its_clocks)
{
    pid_t child = start_starving(
        &(struct way){.clocks = 2, .engine = CP_ENGINE_TRAP, .is_read = true, .cost_ns = COST_NS});

    CHECK(gets_on_with_clocks());
    cp_store_relaxed(&shared->ends, 1); /* relaxed: a hint */
    CHECK_EQ(end_of(child, 20), 3);
}

/* Kills the process while its thread starves, and in a second try a second later. */
static void check_killed(const struct way *way)
{
    for (unsigned wait_ms = 0; wait_ms <= 1000; wait_ms += 1000) {
        pid_t child = start_starving(way);

        sleep_ms(wait_ms);
        kill(child, SIGKILL);
        CHECK_EQ(end_of(child, 2), 128 + SIGKILL);
        CHECK(idle_percent() > 50);
    }
}

CP_TEST(a_process_whose_thread_starves_can_be_killed)
{
    check_killed(&(struct way){.clocks = CP_EV_MAX, .engine = CP_ENGINE_SIGNAL});
}

CP_TEST(a_process_whose_thread_starves_by_one_clock_can_be_killed)
{
    check_killed(&(struct way){.clocks = 1, .engine = CP_ENGINE_SIGNAL});
}

CP_TEST(a_process_whose_thread_starves_by_traps_can_be_killed)
{
    check_killed(&(struct way){.clocks = CP_EV_MAX, .engine = CP_ENGINE_TRAP});
}

CP_TEST(a_process_whose_thread_blocks_all_signals_can_be_killed)
{
    check_killed(&(struct way){.clocks = CP_EV_MAX, .engine = CP_ENGINE_SIGNAL, .is_blocked = true});
}

CP_TEST(a_stopped_process_whose_thread_starves_goes_on)
{
    pid_t child = start_starving(&(struct way){.clocks = CP_EV_MAX, .engine = CP_ENGINE_SIGNAL});

    kill(child, SIGSTOP);
    sleep_ms(500);
    kill(child, SIGCONT);
    CHECK(gets_on());
    kill(child, SIGKILL);
    CHECK_EQ(end_of(child, 2), 128 + SIGKILL);
}

/* Waits until a debugger has stopped the thread. */
static bool stops(pid_t thread, int seconds)
{
    int status;

    for (int tenths = 0; tenths < 10 * seconds; tenths++) {
        if (waitpid(thread, &status, WNOHANG | __WALL) == thread)
            return WIFSTOPPED(status);
        sleep_ms(100);
    }
    return false;
}

CP_TEST(a_thread_that_starves_can_be_debugged)
{
    pid_t child = start_starving(&(struct way){.clocks = CP_EV_MAX, .engine = CP_ENGINE_SIGNAL});

    CHECK_EQ(ptrace(PTRACE_SEIZE, shared->worker, NULL, NULL), 0);
    CHECK_EQ(ptrace(PTRACE_INTERRUPT, shared->worker, NULL, NULL), 0);
    CHECK(stops(shared->worker, 2));
    CHECK_EQ(passes_of(200), 0);
    CHECK_EQ(ptrace(PTRACE_DETACH, shared->worker, NULL, NULL), 0);
    CHECK(gets_on());
    kill(child, SIGKILL);
    CHECK_EQ(end_of(child, 2), 128 + SIGKILL);
}

/* A session starts while the clocks of another one leave the thread no time; then its clocks do so, too. */
CP_TEST(a_session_on_top_of_one_that_starves_its_thread_starts)
{
    pid_t child = start_starving(&(struct way){.clocks = CP_EV_MAX / 2, .engine = CP_ENGINE_SIGNAL});

    cp_store_relaxed(&shared->starts, 1); /* relaxed: a hint */
    await(&shared->starts, 2);
    CHECK(gets_on());
    cp_store_relaxed(&shared->ends, 1); /* relaxed: a hint */
    CHECK(end_of(child, 20) >= 0);
}

/* Another thread has a child meanwhile, and so has the thread that starves, when it gets on. */
CP_TEST(a_process_whose_thread_starves_forks)
{
    pid_t child = start_starving(&(struct way){.clocks = CP_EV_MAX, .engine = CP_ENGINE_SIGNAL});

    cp_store_relaxed(&shared->forks_aside, 1); /* relaxed, both: hints */
    await(&shared->forks_aside, 2);

    cp_store_relaxed(&shared->forks, 1);
    await(&shared->forks, 2);
    CHECK(gets_on());
    cp_store_relaxed(&shared->ends, 1); /* relaxed: a hint */
    CHECK(end_of(child, 20) >= 0);
}

CP_TEST(a_stop_ends_what_leaves_its_thread_no_time)
{
    pid_t child = start_starving(&(struct way){.clocks = CP_EV_MAX, .engine = CP_ENGINE_SIGNAL});

    cp_store_relaxed(&shared->stops, 1); /* relaxed: a hint */
    await(&shared->stops, 2);
    CHECK(gets_on());
    kill(child, SIGKILL);
    CHECK_EQ(end_of(child, 2), 128 + SIGKILL);
}

CP_TEST(a_thread_that_starves_executes_another_program)
{
    pid_t child = start_starving(&(struct way){.clocks = 1, .engine = CP_ENGINE_TRAP});

    cp_store_relaxed(&shared->executes, 1); /* relaxed: a hint */
    CHECK_EQ(end_of(child, 5), 7);
}
