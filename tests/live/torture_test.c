/*
 * Everything at once, for half a second each: threads, processes and objects that come and go, and control
 * that leaves functions in every way, while profiles start and stop. For a minute each:
 *
 *     TORTURE_SECONDS=60 build/tests/torture_test -v
 *
 * One profile runs from before the first thread to after the last: all CPU time of the threads is its own.
 */
#include "tests/support/burn.h"
#include "tests/support/resources.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <spawn.h>
#include <sys/wait.h>
#include <ucontext.h>

/* What the kernel takes to switch between threads; a thread's clock has it, and an event has not. */
#define SWITCH_NS 4000
#define LIMIT_S 900

extern char **environ;

static uint64_t end_ns;       /* when the test is over */
static uint64_t other_starts; /* profiles that came and went beside */
static uint64_t unsettled;    /* threads that had not let these go at their stops */

static bool is_over(void)
{
    return wall_ns() >= end_ns;
}

/* Returns a number below n, from a state of the calling thread's own. */
static unsigned below(unsigned *state, unsigned n)
{
    return (unsigned)rand_r(state) % n;
}

/* ---- The profiles ---------------------------------------------------------------------------- */

static void take_none(void *context, const struct cp_sample *sample)
{
    (void)context;
    (void)sample;
}

static void start_and_stop_once(const struct cp_slot_request *request, unsigned us)
{
    struct cp_slot_stats stats = {.size = sizeof stats};
    struct cp_error err = {0};
    int slot, result = cp_slots_start(request, 1, &slot, &err);

    CHECKF(result == 0, "%s", err.message);
    usleep(us);
    cp_slots_read(slot, take_none, NULL);
    CHECK_EQ(cp_slots_stop(&slot, 1), 0);
    cp_slots_read(slot, take_none, NULL);
    CHECK_EQ(cp_slots_stats(slot, &stats), 0);
    unsettled += stats.ms_unsettled;
    CHECK_EQ(cp_slots_release(&slot, 1), 0);
}

/* Profiles that come and go, until the test is over: they are armed on all threads, whatever these do. arg
 * points to the engine of the profile that runs all the time: some have the other one. */
static void *start_and_stop(void *arg)
{
    struct cp_slot_request requests[] = {request("cpuClock", test_period(2 * MS, 3)),
                                         signal_request("cpuClock", test_period(2 * MS, 3)),
                                         request("timer", 10 * MS), request("pageFaults", 1)};
    const enum cp_engine *engine = arg;
    unsigned random = 1;

    requests[0].config.engine = *engine;
    requests[3].config.engine = *engine;
    for (; !is_over(); other_starts++)
        start_and_stop_once(&requests[below(&random, ARRAY_SIZE(requests))], below(&random, 20000));
    return NULL;
}

/* Returns for how long a test goes on. */
static uint64_t torture_ns(void)
{
    const char *seconds = getenv("TORTURE_SECONDS");
    struct rlimit limit;

    if (seconds == NULL)
        return 500 * MS;
    CHECK_EQ(getrlimit(RLIMIT_CPU, &limit), 0);
    limit.rlim_cur = limit.rlim_max; /* the CPU time that is enough for other tests is not enough */
    setrlimit(RLIMIT_CPU, &limit);
    return strtoull(seconds, NULL, 10) * 1000 * MS;
}

/* Each thread may have the descriptors of three events. */
static unsigned most_threads(void)
{
    struct rlimit limit;
    rlim_t most = TEST_ASAN ? 100 : 1000;

    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    return (unsigned)(limit.rlim_cur / 8 < most ? limit.rlim_cur / 8 : most);
}

/* Returns whether samples stand for what the event has counted, to a tenth of a percent. The first period of
 * a thread is drawn, so that the samples of threads shorter than a period are right on average. The variance
 * of what a thread has too much or too little is a quarter of a period's square at most, and five standard
 * deviations are allowed for all. */
static bool is_all_told(const struct cp_slot_stats *stats, uint64_t period)
{
    double told = (double)(stats->samples + stats->dropped + stats->lost) * (double)period;
    double left_out = (double)(stats->throttled_ns + stats->excluded_ns + stats->ticks_ns);
    double counted = (double)stats->count - left_out; /* of few threads, it may be less than 0 */
    double excess = (told > counted ? told - counted : counted - told) - counted / 1000;
    double deviation = (double)period / 2;

    return excess <= 0 || excess * excess <= 25 * deviation * deviation * stats->ms;
}

/* Prints what a profile that ran all the time has, and has not. */
static void print_slot(const struct cp_slot_stats *stats, uint64_t period)
{
    printf("%u threads had %.3f s, %.3f s counted, %.3f s (%.2f %%) sampled, %.3f late; %llu lost, "
           "%llu dropped, %llu unsampled, %llu switches; ms: %.1f unarmed, %.1f blocked, %.1f disabled, "
           "%.1f closed, %.1f uncounted, %.1f overcounted, %.1f excluded, %.1f owed by ticks\n",
           stats->ms, (double)stats->ms_ns / 1e9, (double)stats->count / 1e9,
           (double)(stats->samples * period) / 1e9,
           100 * (double)(stats->samples * period) / (double)(stats->count + !stats->count),
           (double)(stats->late * period) / 1e9, (unsigned long long)stats->lost,
           (unsigned long long)stats->dropped, (unsigned long long)stats->unsampled,
           (unsigned long long)stats->switches, (double)stats->unarmed_ns / 1e6,
           (double)stats->blocked_ns / 1e6, (double)stats->disabled_ns / 1e6, (double)stats->closed_ns / 1e6,
           (double)stats->uncounted_ns / 1e6, (double)stats->overcounted_ns / 1e6,
           (double)stats->excluded_ns / 1e6, (double)stats->ticks_ns / 1e6);
}

/* Checks what a profile that ran all the time has: 99 % of the CPU time of all threads but what the kernel
 * takes to switch between them, and a sample of each period that its event has counted, except may_owe ns. */
static void check_whole(const struct cp_slot_stats *stats, uint64_t period, uint64_t may_owe)
{
    const uint64_t switching = stats->switches * SWITCH_NS;

    print_slot(stats, period);
    CHECK_EQ(stats->ms_unsettled, 0);
    CHECK_EQ(stats->ms_overloaded, 0);
    CHECK_EQ(stats->ms_refused, 0);
    if (stats->throttled != 0)
        return; /* the kernel did not sample */
    CHECK(stats->count + (switching < stats->uncounted_ns ? switching : stats->uncounted_ns) >=
          stats->ms_ns - stats->ms_ns / 100);
    if (TEST_ASAN && period > MS)
        return; /* it makes few threads of many that end beside a tick, and the timer's account a rough one */
    CHECK(stats->unsampled * period <= stats->count / 1000 + may_owe);
    CHECK(is_all_told(stats, period));
}

/* Runs act, which returns when the test is over and its threads have ended, between the profiles. */
static void torture(void (*act)(void), enum cp_engine engine)
{
    const uint64_t period = test_period(MS, 3), tick = 10 * MS;
    struct cp_slot_request whole[] = {request("taskClock", period), request("timer", tick)};
    struct profile profile = {.may_be_throttled = true};
    struct resources then = resources_now(), now;
    pthread_t other;

    if (TEST_TSAN)
        SKIP("ThreadSanitizer delivers signals late, and stands in the way of children and of jumps");
    whole[0].config.engine = engine;
    start_profile(&profile, whole, 2);
    end_ns = wall_ns() + torture_ns();
    CHECK_EQ(pthread_create(&other, NULL, start_and_stop, &engine), 0);
    act();
    join_soon(other);
    stop_profile(&profile);
    printf("%llu other starts, %llu unsettled threads\n", (unsigned long long)other_starts,
           (unsigned long long)unsettled);
    CHECK_EQ(unsettled, 0);
    check_whole(&profile.stats[0], period, 4 * period); /* a few threads end while the machine stands still */
    /* the kernel looks at timers at its ticks, and a thread that sleeps often may meet none for a while */
    check_whole(&profile.stats[1], tick, profile.stats[1].ticks_ns + 8 * tick);
    now = resources_now();
    check_resources(&now, &then, 1 << 16);
}

/* A test for each engine. */
#define TORTURE(name, act)                                                                                   \
    CP_TEST(name##_by_traps, .timeout_s = LIMIT_S)                                                           \
    {                                                                                                        \
        need_traps(request("taskClock", MS));                                                                \
        torture(act, CP_ENGINE_TRAP);                                                                        \
    }                                                                                                        \
    CP_TEST(name##_by_signals, .timeout_s = LIMIT_S)                                                         \
    {                                                                                                        \
        torture(act, CP_ENGINE_SIGNAL);                                                                      \
    }

static void *run_attached_body(void *arg)
{
    void (*body)(struct cp_m * m) = (void (*)(struct cp_m *))arg;
    struct cp_error err = {0};
    struct cp_m *m;

    CHECKF(cp_m_attach(&m, &err) == 0, "%s", err.message);
    body(m);
    cp_m_detach(m);
    return NULL;
}

/* ---- Threads --------------------------------------------------------------------------------- */

/* Works and sleeps a few times, for less than a period or for several, and does not stop when the test is
 * over: a thread whose end depended on how long its samples took would have too many of them. */
static void come_and_go(struct cp_m *m)
{
    unsigned random = (unsigned)(uintptr_t)m ^ (unsigned)wall_ns();

    for (unsigned n = 1 + below(&random, 8); n > 0; n--) {
        burn_a(below(&random, 400000));
        cp_execute(m, NULL);
        usleep(below(&random, 30000));
    }
}

static void run_crowd(void)
{
    const unsigned most = most_threads();
    pthread_t *threads = calloc(most, sizeof *threads);
    unsigned begun = 0, joined = 0;

    CHECK(threads != NULL);
    while (!is_over()) {
        if (begun - joined == most)
            pthread_join(threads[joined++ % most], NULL);
        if (pthread_create(&threads[begun % most], NULL, run_attached_body, (void *)come_and_go) == 0)
            begun++;
        else
            usleep(1000); /* this user may have no more threads at once */
    }
    while (joined < begun)
        pthread_join(threads[joined++ % most], NULL);
    free(threads);
}

TORTURE(threads_come_and_go, run_crowd)

/* ---- Processes ------------------------------------------------------------------------------- */

/* A child profiles itself. */
static int profile_child(void)
{
    struct cp_slot_request clock = request("taskClock", test_period(MS, 2));
    struct cp_error err = {0};
    int slot;

    if (cp_slots_start(&clock, 1, &slot, &err) < 0)
        return 1;
    burn_b(2 * MS);
    if (cp_slots_stop(&slot, 1) < 0)
        return 2;
    cp_slots_read(slot, take_none, NULL);
    return cp_slots_release(&slot, 1) < 0 ? 3 : 0;
}

static pid_t fork_into(int (*child)(void))
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(child());
    return pid;
}

static int leave(void)
{
    return 0;
}

static int burn_and_leave(void)
{
    burn_b(MS);
    return 0;
}

static int execute_true(void)
{
    execl("/bin/true", "true", (char *)NULL);
    return 4;
}

static pid_t spawn_true(void)
{
    char *const arguments[] = {(char *)(uintptr_t) "true", NULL};
    pid_t pid;

    return posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environ) == 0 ? pid : -1;
}

static pid_t vfork_into_true(void)
{
    pid_t pid = vfork();

    if (pid == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(4);
    }
    return pid;
}

static pid_t new_process(unsigned *random)
{
    switch (below(random, 6)) {
    case 0:
        return fork_into(leave);
    case 1:
        return fork_into(burn_and_leave);
    case 2:
        return fork_into(profile_child);
    case 3:
        return fork_into(execute_true);
    case 4:
        return spawn_true();
    default:
        return vfork_into_true();
    }
}

static void make_processes(struct cp_m *m)
{
    unsigned random = (unsigned)(uintptr_t)m;
    int status;

    while (!is_over()) {
        pid_t pid = new_process(&random);

        CHECK(pid > 0);
        CHECK_EQ(waitpid(pid, &status, 0), pid);
        CHECKF(status == 0, "a child has ended with the wait status %#x", (unsigned)status);
        burn_a(below(&random, 500000));
    }
}

static void run_each(void (*const *bodies)(struct cp_m *), size_t n)
{
    pthread_t threads[8];

    for (size_t i = 0; i < n; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, run_attached_body, (void *)bodies[i]), 0);
    for (size_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

static void burn_on(struct cp_m *m)
{
    while (!is_over()) {
        burn_a(300000);
        cp_execute(m, NULL);
    }
}

static void run_processes(void)
{
    static void (*const bodies[])(struct cp_m *) = {make_processes, make_processes, burn_on, burn_on};

    run_each(bodies, ARRAY_SIZE(bodies));
}

TORTURE(processes_come_and_go, run_processes)

/* ---- Control ---------------------------------------------------------------------------------- */

static __thread sigjmp_buf way_out;
static __thread volatile sig_atomic_t may_jump;

static void on_pester(int signal)
{
    (void)signal;
    if (may_jump) {
        may_jump = 0;
        siglongjmp(way_out, 1);
    }
}

/* Is thrown out of its work, and out of calls of the library, by a signal's handler. */
static void be_thrown_out(struct cp_m *m)
{
    volatile unsigned jumps = 0;

    while (!is_over()) {
        if (sigsetjmp(way_out, 1) != 0) {
            jumps++;
            continue;
        }
        may_jump = 1;
        for (int i = 0; i < 100 && !is_over(); i++) {
            cp_execute(m, NULL);
            burn_b(20000);
        }
        may_jump = 0;
    }
    printf("%u jumps out of a handler\n", jumps);
}

static pthread_t thrown_out;
static int is_thrown_out; /* 1: thrown_out is known */

static void be_noted_and_thrown_out(struct cp_m *m)
{
    thrown_out = pthread_self();
    cp_store_release(&is_thrown_out, 1); /* pairs with the acquire in await() */
    be_thrown_out(m);
}

static void pester(struct cp_m *m)
{
    unsigned random = (unsigned)(uintptr_t)m;

    await(&is_thrown_out, 1);
    while (!is_over()) {
        pthread_kill(thrown_out, SIGUSR1);
        usleep(below(&random, 2000));
    }
}

/* Two contexts of the program's own, whose stacks nobody knows, hand the thread to each other. */
static __thread ucontext_t contexts[2];

static void work_on_own_stack(void)
{
    for (;;) {
        burn_b(50000);
        swapcontext(&contexts[1], &contexts[0]);
    }
}

static void swap_contexts(struct cp_m *m)
{
    static char stack[256 * 1024];

    (void)m;
    CHECK_EQ(getcontext(&contexts[1]), 0);
    contexts[1].uc_stack = (stack_t){.ss_sp = stack, .ss_size = sizeof stack};
    contexts[1].uc_link = NULL;
    makecontext(&contexts[1], work_on_own_stack, 0);
    while (!is_over()) {
        burn_a(50000);
        swapcontext(&contexts[0], &contexts[1]);
    }
}

static const char throws[] = "#include <stdexcept>\n"
                             "static volatile int sink;\n"
                             "struct guard { ~guard() { sink = sink + 1; } };\n"
                             "__attribute__((noinline)) static int deep(int n)\n"
                             "{\n"
                             "    guard held;\n"
                             "    if (n == 0)\n"
                             "        throw std::runtime_error(\"x\");\n"
                             "    return deep(n - 1) + sink;\n"
                             "}\n"
                             "extern \"C\" int throw_and_catch(int n)\n"
                             "{\n"
                             "    try {\n"
                             "        return deep(n);\n"
                             "    } catch (const std::exception &) {\n"
                             "        return -1;\n"
                             "    }\n"
                             "}\n";

/* Loads an object that throws exceptions and catches them, and unloads it. */
static void load_and_throw(struct cp_m *m)
{
    char path[500];

    snprintf(path, sizeof path, "%s/throws.so", test_dir());
    while (!is_over()) {
        void *object = dlopen(path, RTLD_NOW);
        int (*throw_and_catch)(int);

        CHECKF(object != NULL, "%s", dlerror());
        throw_and_catch = (int (*)(int))dlsym(object, "throw_and_catch");
        CHECK(throw_and_catch != NULL);
        for (int i = 0; i < 50; i++)
            CHECK_EQ(throw_and_catch(10), -1);
        dlclose(object);
        cp_execute(m, NULL);
    }
}

static void run_control(void)
{
    /* pester() ends before its victim is joined */
    static void (*const bodies[])(struct cp_m *) = {pester, be_noted_and_thrown_out, swap_contexts,
                                                    load_and_throw};

    if (TEST_ASAN)
        SKIP("AddressSanitizer stands in the way of jumps, contexts and exceptions of a library that is "
             "loaded "
             "later");
    test_write_file("throws.cc", throws);
    free(test_command(NULL, "g++ -shared -fPIC -O2 -o %s/throws.so %s/throws.cc", test_dir(), test_dir()));
    signal(SIGUSR1, on_pester);
    run_each(bodies, ARRAY_SIZE(bodies));
}

TORTURE(control_leaves_in_every_way, run_control)
