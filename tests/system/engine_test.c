/* The engine that brings samples by traps: that it counts what the engine of SIGPROF counts, and that the
 * program's own SIGTRAPs stay the program's. tests/live/calls_test.c asks whether it disturbs calls of the
 * program's. */
#include <sys/wait.h>

#include "tests/support/burn.h"

#define PERIOD 100000
#define TRAP_PERF_CODE 6

static struct cp_slot_request trap_request(const char *name, uint64_t period)
{
    struct cp_slot_request made = request(name, period);

    made.config.engine = CP_ENGINE_TRAP;
    return made;
}

static void check_engine(const struct profile *profile, size_t i, enum cp_engine engine)
{
    CHECK_EQ(profile->stats[i].engine, engine);
    CHECK((profile->stats[i].engine_reason == NULL) == (engine == CP_ENGINE_TRAP));
}

/* ---- What is counted ------------------------------------------------------------------------- */

static void body_a_and_b(struct worker *worker)
{
    (void)worker;
    for (int i = 0; i < 20; i++) {
        burn_a(8 * MS);
        burn_b(4 * MS);
    }
}

/* Checks that a slot has so many samples, each by a trap or signal of its own. */
static void check_signals(const struct profile *profile, size_t i, uint64_t samples)
{
    CHECK_EQ(profile->stats[i].samples, samples);
    CHECK_EQ(profile->stats[i].signals, samples);
    CHECK_EQ(profile->seen[i].weight, samples);
    CHECK_EQ(profile->stats[i].lost + profile->stats[i].dropped + profile->stats[i].overruns, 0);
}

/* Both engines sample one thread at once, so whatever happens to the thread happens to both. */
SIM_TEST(both_engines_see_the_same)
{
    struct cp_slot_request requests[] = {trap_request("taskClock", 2 * PERIOD),
                                         request("taskClock", 2 * PERIOD + 13)};
    struct profile profile = {.n = 0};
    struct worker worker;

    requests[1].config.engine = CP_ENGINE_SIGNAL;
    start_profile(&profile, requests, 2);
    run_attached(&worker, body_a_and_b, NULL);
    stop_profile(&profile);
    for (size_t i = 0; i < 2; i++) {
        check_told(&profile, i, requests[i].config.period);
        check_engine(&profile, i, i == 0 ? CP_ENGINE_TRAP : CP_ENGINE_SIGNAL);
        check_signals(&profile, i, 1200 - i); /* the last period of the longer one does not end */
        CHECK_EQ(profile.seen[i].leaf[IN_A], 800 - i);
        CHECK_EQ(profile.seen[i].leaf[IN_B], 400);
        CHECK_EQ(profile.stats[i].late, 0);
    }
}

CODE(b) void switch_b(unsigned n)
{
    SIM_SWITCH(n);
}

CODE(c) void fault_c(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        SIM_FAULT(i + 1);
}

static void body_events(struct worker *worker)
{
    (void)worker;
    burn_a(100 * MS);
    switch_b(990);
    fault_c(980);
}

/* A trap finds the thread where the event happened, so no sample is late. */
SIM_TEST(traps_come_where_the_event_happened)
{
    struct cp_slot_request requests[] = {trap_request("taskClock", PERIOD),
                                         trap_request("contextSwitches", 1), trap_request("pageFaults", 1)};
    struct profile profile = {.n = 0};
    struct worker worker;

    start_profile(&profile, requests, 3);
    run_attached(&worker, body_events, NULL);
    stop_profile(&profile);
    for (size_t i = 0; i < 3; i++) {
        check_signals(&profile, i, 1000 - 10 * i);
        check_engine(&profile, i, CP_ENGINE_TRAP);
        CHECK_EQ(profile.seen[i].leaf[i == 0 ? IN_A : i == 1 ? IN_B : IN_C], 1000 - 10 * i);
        CHECK_EQ(profile.stats[i].late, 0);
    }
}

/* ---- A thread that blocks its signals -------------------------------------------------------- */

static void *block_all_and_run(void *arg)
{
    sigset_t all, then;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    run_worker(arg);
    pthread_sigmask(SIG_SETMASK, NULL, &then);
    CHECK(sigismember(&then, SIGTRAP) && sigismember(&then, SIGPROF)); /* as it was */
    return NULL;
}

/* The thread makes no system call and reaches no scheduling point: another thread arms its events, and
 * traps bring the samples. */
SIM_TEST(a_thread_that_blocks_all_signals_is_sampled)
{
    struct cp_slot_request requests[] = {trap_request("taskClock", PERIOD)};
    struct profile profile = {.looks = true};
    struct worker worker = {.body = body_c};

    CHECK_EQ(setenv("CP_ENGINE", "trap", 1), 0); /* an attach unblocks SIGTRAP if traps are the default */
    CHECK_EQ(pthread_create(&worker.thread, NULL, block_all_and_run, &worker), 0);
    await(&worker.running, 1);
    start_profile(&profile, requests, 1);
    for (int naps = 0; sampled(profile.slots[0]) < 100; naps++) {
        CHECKF(naps < ENOUGH_NAPS / 4, "%llu samples", (unsigned long long)sampled(profile.slots[0]));
        usleep(NAP_US);
    }
    stop_worker(&worker);
    stop_profile(&profile);
    /* the thread runs while its event is being armed, and its handler may keep off */
    check_signals(&profile, 0, profile.stats[0].count / PERIOD - profile.stats[0].unsampled);
    CHECK_EQ(profile.seen[0].leaf[IN_C], profile.stats[0].samples);
    CHECK_EQ(profile.stats[0].late, 0);
}

static void block_traps(int how)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTRAP);
    pthread_sigmask(how, &set, NULL);
}

static void body_blocks_for_a_while(struct worker *worker)
{
    burn_a(10 * MS);
    block_traps(SIG_BLOCK);
    burn_b(*(const uint64_t *)worker->arg);
    block_traps(SIG_UNBLOCK);
    burn_a(10 * MS);
}

/* Checks a thread that runs for 10 ms, for ns with traps blocked, and then for `after`. Whatever the
 * records say that the ring had room for is known. They come together: by the trap that is pending, or
 * when the M ends. */
static void check_blocked(void (*body)(struct worker *), uint64_t ns, uint64_t after)
{
    struct cp_slot_request requests[] = {trap_request("taskClock", PERIOD)};
    struct profile profile = {.n = 0};
    const struct cp_slot_stats *stats = &profile.stats[0];
    struct worker worker;

    start_profile(&profile, requests, 1);
    run_attached(&worker, body, &ns);
    stop_profile(&profile);
    check_told(&profile, 0, PERIOD);
    CHECK_EQ(stats->samples + stats->lost, (10 * MS + ns + after) / PERIOD);
    CHECK_EQ(stats->lost, ns < 5 * MS ? 0 : ns / PERIOD - stats->late);
    CHECK_EQ(stats->signals, stats->samples - stats->late + 1);
    CHECK_EQ(profile.seen[0].leaf[IN_A], (10 * MS + after) / PERIOD);
    CHECK_EQ(profile.seen[0].leaf[IN_B], stats->late);
    CHECK_EQ(stats->overruns, 0);
}

/* A ring of one page has room for 51 records. */
SIM_TEST(traps_blocked_shortly_lose_nothing)
{
    check_blocked(body_blocks_for_a_while, 4 * MS, 10 * MS);
}

SIM_TEST(traps_blocked_for_long_are_lost_and_told)
{
    check_blocked(body_blocks_for_a_while, 100 * MS, 10 * MS);
}

static void body_blocks_to_the_end(struct worker *worker)
{
    burn_a(10 * MS);
    block_traps(SIG_BLOCK);
    burn_b(*(const uint64_t *)worker->arg);
}

SIM_TEST(traps_blocked_to_the_end_are_told)
{
    check_blocked(body_blocks_to_the_end, 4 * MS, 0);
    check_blocked(body_blocks_to_the_end, 100 * MS, 0);
}

/* ---- The program's own SIGTRAPs -------------------------------------------------------------- */

static int host_calls; /* atomic */
static int last_code;

static void host_action(int signal, siginfo_t *info, void *ucontext)
{
    (void)ucontext;
    if (signal == SIGTRAP)
        cp_fetch_add_relaxed(&host_calls, 1); /* relaxed: looked at when all is over */
    last_code = info->si_code;
}

static void install_action(void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};

    sigaction(SIGTRAP, &action, NULL);
}

static void trap_here(void)
{
#if defined(__x86_64__)
    __asm__ volatile("int3");
#else
    raise(SIGTRAP); /* elsewhere, the handler would have to step over the instruction */
#endif
}

static void raise_trap(void)
{
    raise(SIGTRAP);
}

static void kill_by_trap(void)
{
    kill(getpid(), SIGTRAP);
}

static void send_trap_of_another_event(void)
{
    siginfo_t info = {.si_signo = SIGTRAP, .si_code = TRAP_PERF_CODE};

    syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), SIGTRAP, &info);
}

static void (*const causes[])(void) = {trap_here, raise_trap, kill_by_trap, send_trap_of_another_event};

#define TIMES 10

SIM_TEST(the_programs_own_traps_reach_its_handler)
{
    struct cp_slot_request requests[] = {trap_request("taskClock", PERIOD)};
    struct worker worker = {.body = NULL};
    struct profile profile = {.n = 0};

    install_action(host_action);
    attach(&worker);
    start_unread(&profile, requests, 1);
    for (size_t i = 0; i < ARRAY_SIZE(causes); i++) {
        for (int n = 0; n < TIMES; n++) {
            int before = cp_load_relaxed(&host_calls);

            causes[i]();
            burn_a(MS);
            CHECKF(host_calls == before + 1, "cause %zu, code %d", i, last_code);
        }
    }
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].foreign, TIMES * (int)ARRAY_SIZE(causes));
    check_told(&profile, 0, PERIOD);
    check_signals(&profile, 0, TIMES * ARRAY_SIZE(causes) * MS / PERIOD);
    CHECK_EQ(profile.stats[0].late, 0);
}

/* Returns how a child ends whose handler of SIGTRAP is `handler`, and which is sampled by traps while it does
 * something. 0: it ends well. */
static int signal_of_child(void (*handler)(int), void (*cause)(void))
{
    int status = 0;
    pid_t child;

    fflush(stdout);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct cp_slot_request made = trap_request("taskClock", PERIOD);
        struct profile profile = {.n = 0};
        struct worker worker = {.body = NULL};

        signal(SIGTRAP, handler);
        attach(&worker);
        start_unread(&profile, &made, 1);
        burn_a(MS);
        cause();
        burn_a(MS);
        _exit(sampled(profile.slots[0]) == 2 * MS / PERIOD ? 0 : 1);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* The default action is that of the program without the library. */
SIM_TEST(a_trap_without_a_handler_does_what_it_does_without_the_library)
{
    for (size_t i = 0; i < ARRAY_SIZE(causes); i++)
        CHECK_EQ(signal_of_child(SIG_DFL, causes[i]), SIGTRAP);
    CHECK_EQ(signal_of_child(SIG_IGN, raise_trap), 0);
    CHECK_EQ(signal_of_child(SIG_IGN, kill_by_trap), 0);
    CHECK_EQ(signal_of_child(SIG_IGN, send_trap_of_another_event), 0);
#if defined(__x86_64__)
    CHECK_EQ(signal_of_child(SIG_IGN, trap_here), SIGTRAP); /* an instruction cannot be ignored */
#endif
}

/* ---- Forks ----------------------------------------------------------------------------------- */

static struct sigaction before_start; /* the handler of SIGTRAP */

static void take_samples_in_child(void)
{
    struct cp_slot_request made = trap_request("taskClock", PERIOD);
    struct profile profile = {.n = 0};
    struct worker worker = {.body = NULL};
    struct sigaction current;

    CHECK_EQ(sigaction(SIGTRAP, NULL, &current), 0);
    CHECK(current.sa_handler == before_start.sa_handler); /* given back: no trap of the parent's comes here */
    attach(&worker);
    start_unread(&profile, &made, 1);
    burn_a(2 * MS);
    stop_profile(&profile);
    CHECK(profile.stats[0].engine == CP_ENGINE_TRAP);
    check_signals(&profile, 0, 2 * MS / PERIOD);
}

SIM_TEST(a_forked_child_has_its_own_traps)
{
    struct cp_slot_request made = trap_request("taskClock", PERIOD);
    struct profile profile = {.n = 0};
    struct worker worker = {.body = NULL};

    sigaction(SIGTRAP, NULL, &before_start);
    attach(&worker);
    start_unread(&profile, &made, 1);
    for (int i = 0; i < 5; i++) {
        int status = 0;
        pid_t child;

        burn_a(MS);
        fflush(stdout);
        child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            take_samples_in_child();
            _exit(0);
        }
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECKF(status == 0, "%#x", (unsigned)status);
    }
    burn_a(MS);
    stop_profile(&profile);
    check_told(&profile, 0, PERIOD);
    check_signals(&profile, 0, 6 * MS / PERIOD);
    CHECK_EQ(profile.stats[0].foreign, 0);
}

/* ---- Names ----------------------------------------------------------------------------------- */

SIM_TEST(the_environment_names_the_engine)
{
    static const struct {
        const char *name;
        enum cp_engine engine;
    } names[] = {{"signal", CP_ENGINE_SIGNAL},
                 {"trap", CP_ENGINE_TRAP},
                 {"auto", CP_ENGINE_TRAP},
                 {"", CP_ENGINE_TRAP}};
    struct cp_error err = {0};
    struct cp_slot_request made = request("taskClock", 1000 * MS);
    int slot;

    need_traps(made);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        struct cp_slot_stats stats = {.size = sizeof stats};

        setenv("CP_ENGINE", names[i].name, 1);
        CHECK_EQ(cp_slots_start(&made, 1, &slot, &err), 0);
        CHECK_EQ(cp_slots_stats(slot, &stats), 0);
        CHECK_EQ(stats.engine, names[i].engine);
        CHECK_STR(stats.engine_reason, names[i].engine == CP_ENGINE_TRAP ? NULL : "it was asked for");
        cp_slots_stop(&slot, 1);
        cp_slots_release(&slot, 1);
    }
    setenv("CP_ENGINE", "steam", 1);
    CHECK_EQ(cp_slots_start(&made, 1, &slot, &err), -EINVAL);
    CHECK_CONTAINS(err.message, "CP_ENGINE");
    CHECK_CONTAINS(err.message, "\"steam\"");
    made.config.engine = CP_ENGINE_SIGNAL; /* the config is asked first */
    CHECK_EQ(cp_slots_start(&made, 1, &slot, &err), 0);
    cp_slots_stop(&slot, 1);
    cp_slots_release(&slot, 1);
    made.config.engine = (enum cp_engine)3;
    CHECK_EQ(cp_slots_start(&made, 1, &slot, &err), -EINVAL);
    CHECK_CONTAINS(err.message, "enum cp_engine");
}

CP_TEST(engines_have_names)
{
    enum cp_engine engine;
    struct cp_error err = {0};

    CHECK_STR(cp_engine_name(CP_ENGINE_TRAP), "trap");
    CHECK_STR(cp_engine_name(CP_ENGINE_SIGNAL), "signal");
    CHECK(cp_engine_name(CP_ENGINE_AUTO) == NULL);
    CHECK(cp_engine_name((enum cp_engine)3) == NULL);
    CHECK(cp_engine_parse("trap", &engine, &err) == 0 && engine == CP_ENGINE_TRAP);
    CHECK(cp_engine_parse("signal", &engine, &err) == 0 && engine == CP_ENGINE_SIGNAL);
    CHECK(cp_engine_parse("auto", &engine, &err) == 0 && engine == CP_ENGINE_AUTO);
    CHECK_EQ(cp_engine_parse("traps", &engine, &err), -EINVAL);
    CHECK_CONTAINS(err.message, "traps");
}
