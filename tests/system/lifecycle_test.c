/* Attaching, detaching, starting and stopping, over and over: what is restored, what is left behind, and what
 * must never happen. */
#include "tests/support/burn.h"
#include "tests/support/puppet.h"
#include "tests/support/resources.h"

#include <sys/mman.h>
#include <sys/wait.h>

/* Checks that an event has so many samples, all of them in burn_a(). */
static void check_samples(const struct profile *profile, size_t i, uint64_t n)
{
    CHECK_EQ(profile->stats[i].samples, n);
    CHECK_EQ(profile->seen[i].weight, n);
    CHECK_EQ(profile->seen[i].leaf[IN_A], n);
    CHECK_EQ(profile->stats[i].dropped + profile->stats[i].lost, 0);
}

static void execute(uint64_t unused)
{
    (void)unused;
    cp_execute(cp_m_self(), NULL);
}

/* ---- Attach and detach ----------------------------------------------------------------------- */

CP_TEST(a_thread_is_one_m)
{
    struct cp_m *first, *second;

    CHECK(cp_m_self() == NULL && cp_g_self() == NULL);
    CHECK_EQ(cp_label_set("a", "b"), -ESRCH);
    CHECK_EQ(cp_m_attach(&first, NULL), 0);
    CHECK_EQ(cp_m_attach(&second, NULL), 0);
    CHECK(first == second && cp_m_self() == first && cp_g_self() != NULL);
    cp_m_detach(first);
    CHECK(cp_m_self() == NULL && cp_g_self() == NULL);
    CHECK_EQ(cp_m_attach(&first, NULL), 0);
    CHECK(cp_m_self() == first);
    CHECK_EQ(cp_label_set("a", "b"), 0);
    cp_m_detach(first);
}

static void *attach_and_exit(void *ns)
{
    struct cp_m *m;

    CHECK_EQ(cp_m_attach(&m, NULL), 0);
    CHECK_EQ(cp_label_set("thread", "exits"), 0);
    burn_a(*(const uint64_t *)ns);
    return NULL;
}

/* The threads end as Ms before their samples are read. */
SIM_TEST(samples_outlive_their_thread)
{
    struct cp_slot_request requests[] = {request("taskClock", 100000), request("timer", 10 * MS)};
    struct resources before = {0}, after;
    uint64_t ns = 30 * MS;

    for (int i = 0; i < 10; i++) {
        struct profile profile = {.n = 0};
        pthread_t thread;

        start_unread(&profile, requests, 2);
        pthread_create(&thread, NULL, attach_and_exit, &ns);
        pthread_join(thread, NULL);
        stop_profile(&profile);
        CHECK(profile.stats[0].ms == 1 && profile.stats[1].ms == 1);
        check_samples(&profile, 0, 300);
        check_samples(&profile, 1, 3);
        if (i == 1)
            before = resources_now();
    }
    after = resources_now();
    check_resources(&after, &before, 2);
}

static void body_300_us(struct worker *worker)
{
    (void)worker;
    burn_a(300000);
}

SIM_TEST(a_thousand_short_lived_threads_are_sampled)
{
    enum { THREADS = 1000 };
    struct cp_slot_request requests[] = {request("taskClock", 100000), request("timer", 10 * MS)};
    struct profile profile = {.looks = true};
    struct resources before = {0}, after;

    start_profile(&profile, requests, 2);
    for (int i = 0; i < THREADS; i++) {
        struct worker worker;

        run_attached(&worker, body_300_us, NULL);
        if (i == THREADS / 10)
            before = resources_now();
    }
    after = resources_now();
    stop_profile(&profile);
    check_resources(&after, &before, 60); /* a few threads' samples may be unread */
    CHECK(TEST_ASAN || after.rss_kib < before.rss_kib + 4096);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(profile.stats[i].ms, THREADS);
        CHECK_EQ(profile.stats[i].count, 300000 * THREADS);
    }
    check_samples(&profile, 0, 3 * THREADS);
    check_samples(&profile, 1, profile.stats[1].samples); /* the first tick is at a random time */
    CHECK(profile.stats[1].samples > 5 && profile.stats[1].samples < 100);
}

/* ---- SIGPROF's disposition ------------------------------------------------------------------- */

static int stray; /* SIGPROFs that came while nothing was profiled */

static void on_stray(int signal)
{
    (void)signal;
    cp_fetch_add_relaxed(&stray, 1); /* relaxed: read after all threads have ended */
}

static void cycle(unsigned ms)
{
    struct cp_slot_request requests[] = {request("taskClock", 100000), request("timer", MS)};
    struct profile profile = {.n = 0};

    start_profile(&profile, requests, 2);
    CHECK(!sigprof_is(SIG_DFL) && !sigprof_is(SIG_IGN) && !sigprof_is(on_stray));
    sleep_ms(ms);
    stop_profile(&profile);
}

/* Simulated time passes no faster than the machine's, as in burn_c(). */
static void body_execute(struct worker *worker)
{
    while (cp_load_acquire(&worker->stop) == 0) { /* pairs with the release in stop_worker() */
        SPIN_HERE();
        SIM_RUN(SPIN_NS);
        cp_execute(worker->m, NULL);
    }
}

SIM_TEST(sigprof_is_put_back)
{
    void (*const handlers[])(int) = {SIG_DFL, SIG_IGN, on_stray};
    struct worker spins, executes;

    start_worker(&spins, body_c, NULL);
    start_worker(&executes, body_execute, NULL);
    for (size_t i = 0; i < ARRAY_SIZE(handlers); i++) {
        struct sigaction action = {.sa_handler = handlers[i], .sa_flags = SA_RESTART}, now;

        sigaddset(&action.sa_mask, SIGUSR2);
        sigaction(SIGPROF, &action, NULL);
        cycle(5);
        /* If an M is looking at the slots while the stop looks at the M, the M restores the handler itself a
         * moment later. */
        for (int naps = 0; !sigprof_is(handlers[i]); naps++) {
            CHECK(naps < ENOUGH_NAPS);
            usleep(NAP_US);
        }
        sigaction(SIGPROF, NULL, &now);
        CHECK((now.sa_flags & (SA_RESTART | SA_SIGINFO | SA_ONSTACK)) == SA_RESTART);
        if (!TEST_TSAN) /* ThreadSanitizer's sigaction() keeps no mask */
            CHECK(sigismember(&now.sa_mask, SIGUSR2) == 1 && sigismember(&now.sa_mask, SIGUSR1) == 0);
    }
    CHECK_EQ(stray, 0);
    stop_worker(&spins);
    stop_worker(&executes);
}

SIM_TEST(sigprof_is_put_back_by_the_calls_of_the_proposal)
{
    const struct cp_cpu_profile_config config = {.size = sizeof config, .period = 100000};
    struct worker worker;

    start_worker(&worker, body_c, NULL);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(cp_set_cpu_profile_config(CP_CPUPROF_SW_TASK_CLOCK, &config, NULL), 0);
        CHECK_EQ(cp_set_cpu_profile_rate(1000, NULL), 0);
        CHECK(!sigprof_is(SIG_DFL));
        sleep_ms(1);
        CHECK_EQ(cp_set_cpu_profile_config(CP_CPUPROF_SW_TASK_CLOCK, NULL, NULL), 0);
        CHECK_EQ(cp_set_cpu_profile_rate(0, NULL), 0);
        CHECK(sigprof_is(SIG_DFL));
    }
    stop_worker(&worker);
}

/* The thread never opened an event, so no signal can come. */
SIM_TEST(sigprof_is_put_back_although_a_thread_slept_all_the_time)
{
    struct puppet puppet;

    start_puppet(&puppet);
    run_puppet(&puppet, burn_a, 20 * MS);
    cycle(5);
    CHECK(sigprof_is(SIG_DFL));
    end_puppet(&puppet);
}

/* ---- Alternate signal stacks ----------------------------------------------------------------- */

static void set_altstack(void *memory, size_t size)
{
    const stack_t stack = {.ss_sp = memory, .ss_size = size, .ss_flags = memory == NULL ? SS_DISABLE : 0};

    CHECK_EQ(sigaltstack(&stack, NULL), 0);
}

static void check_altstack(const void *memory, size_t size)
{
    stack_t now;

    CHECK_EQ(sigaltstack(NULL, &now), 0);
    if (memory == NULL)
        CHECK((now.ss_flags & SS_DISABLE) != 0);
    else
        CHECK((now.ss_flags & SS_DISABLE) == 0 && now.ss_sp == memory && now.ss_size == size);
}

CP_TEST(alternate_stacks_are_kept_or_put_back)
{
    size_t large = 64 << 10, small = 8 << 10;
    char *memory = malloc(large);
    struct cp_m *m;
    stack_t now;

    set_altstack(memory, large);
    CHECK_EQ(cp_m_attach(&m, NULL), 0);
    check_altstack(memory, large); /* the program's stack is large enough for the library */
    cp_m_detach(m);
    check_altstack(memory, large);

    set_altstack(memory, small);
    CHECK_EQ(cp_m_attach(&m, NULL), 0);
    sigaltstack(NULL, &now);
    CHECK(now.ss_sp != memory && now.ss_size >= 32 << 10);
    cp_m_detach(m);
    check_altstack(memory, small);

    set_altstack(NULL, 0);
    CHECK_EQ(cp_m_attach(&m, NULL), 0);
    sigaltstack(NULL, &now);
    CHECK((now.ss_flags & SS_DISABLE) == 0 && now.ss_size >= 32 << 10);
    cp_m_detach(m);
    check_altstack(NULL, 0);

    CHECK_EQ(cp_m_attach(&m, NULL), 0); /* the stack that the program sets while it is an M stays */
    set_altstack(memory, large);
    cp_m_detach(m);
    check_altstack(memory, large);
    set_altstack(NULL, 0);
    free(memory);
}

static void detach_in_handler(int signal)
{
    (void)signal;
    cp_m_detach(cp_m_self());
}

/* The kernel does not let go of a stack that the thread runs on. */
CP_TEST(an_alternate_stack_in_use_stays)
{
    const struct sigaction action = {.sa_handler = detach_in_handler, .sa_flags = SA_ONSTACK};
    struct cp_m *m;

    if (TEST_TSAN)
        SKIP("ThreadSanitizer lets no handler free memory");
    set_altstack(NULL, 0);
    CHECK_EQ(cp_m_attach(&m, NULL), 0);
    CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    CHECK_EQ(raise(SIGUSR1), 0);
    CHECK(cp_m_self() == NULL);
    CHECK_EQ(cp_m_attach(&m, NULL), 0);
    CHECK_EQ(raise(SIGUSR1), 0); /* on the stack that has stayed */
    CHECK(cp_m_self() == NULL);
}

/* ---- Many cycles ----------------------------------------------------------------------------- */

static void body_sleeps(struct worker *worker)
{
    while (cp_load_acquire(&worker->stop) == 0) { /* pairs with the release in stop_worker() */
        burn_b(100000);
        usleep(3000);
    }
}

/* Starts two threads that spin, one of them with scheduling points, and threads that mostly sleep. */
static void start_load(struct worker workers[5])
{
    start_worker(&workers[0], body_c, NULL);
    start_worker(&workers[1], body_c, NULL);
    start_worker(&workers[2], body_execute, NULL);
    start_worker(&workers[3], body_sleeps, NULL);
    start_worker(&workers[4], body_sleeps, NULL);
}

static void stop_load(struct worker workers[5])
{
    for (int i = 0; i < 5; i++)
        stop_worker(&workers[i]);
}

/* Waits until the sleepers have woken and closed their events. */
static void await_closed(void)
{
    for (int naps = 0; resources_now().perf_fds + resources_now().timers != 0; naps++) {
        CHECK(naps < ENOUGH_NAPS);
        usleep(NAP_US);
    }
}

/* The pages of a buffer become resident when they are used, 256 KiB for each M and event. Nothing else may
 * grow. */
SIM_TEST(many_cycles_leave_nothing_behind)
{
    enum { CYCLES = 100 };
    struct resources tenth = {0}, last;
    struct worker workers[5];

    start_load(workers);
    for (int i = 1; i <= CYCLES; i++) {
        cycle(1);
        if (i != 10 && i != CYCLES)
            continue;
        await_closed();
        last = resources_now();
        if (i == 10)
            tenth = last;
    }
    check_resources(&last, &tenth, 4);
    CHECK(TEST_ASAN || TEST_TSAN || last.rss_kib <= tenth.rss_kib + 5 * 2 * 256 + 1024);
    stop_load(workers);
    CHECK_EQ(resources_now().perf_fds, 0);
    CHECK(sigprof_is(SIG_DFL)); /* restored when the last M detached, at the latest */
}

static void *many_cycles(void *event)
{
    struct cp_slot_request requests[] = {request(event, strcmp(event, "timer") == 0 ? MS : 400000)};

    for (int i = 0; i < 30; i++) {
        struct profile profile = {.n = 0};

        start_profile(&profile, requests, 1);
        sleep_ms((unsigned)i % 4);
        stop_profile(&profile);
        CHECK_EQ(profile.seen[0].weight, profile.stats[0].samples);
    }
    return NULL;
}

SIM_TEST(several_threads_start_and_stop_at_once)
{
    static char clock[] = "taskClock", other[] = "cpuClock", timer[] = "timer";
    char *const events[] = {clock, other, timer, clock};
    pthread_t threads[ARRAY_SIZE(events)];
    struct worker workers[5];

    start_load(workers);
    for (size_t i = 0; i < ARRAY_SIZE(events); i++)
        pthread_create(&threads[i], NULL, many_cycles, events[i]);
    for (size_t i = 0; i < ARRAY_SIZE(events); i++)
        pthread_join(threads[i], NULL);
    stop_load(workers);
    CHECK_EQ(resources_now().perf_fds + resources_now().timers, 0);
    CHECK(sigprof_is(SIG_DFL));
}

/* Attaches and detaches while profiles start and stop. */
static void *attach_forever(void *stop)
{
    while (cp_load_acquire((int *)stop) == 0) { /* pairs with the release in the test below */
        struct cp_m *m;

        CHECK_EQ(cp_m_attach(&m, NULL), 0);
        burn_a(200000);
        cp_m_detach(m);
    }
    return NULL;
}

SIM_TEST(ms_come_and_go_while_profiles_do)
{
    pthread_t threads[3];
    int stop = 0;

    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, attach_forever, &stop);
    for (int i = 0; i < 60; i++)
        cycle((unsigned)i % 3);
    cp_store_release(&stop, 1); /* pairs with the acquire in attach_forever() */
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(resources_now().perf_fds + resources_now().timers, 0);
    CHECK(sigprof_is(SIG_DFL));
}

/* ---- Identity -------------------------------------------------------------------------------- */

/* Waits until a slot has so many samples. */
static void await_samples(int slot, uint64_t wanted)
{
    struct patience patience = {.looks = 0};

    while (sampled(slot) < wanted) {
        CHECK(has_patience(&patience));
        usleep(NAP_US);
    }
}

/*
 * The slot has one event after another. One thread sleeps at each stop and start, and so still has the config
 * before until its next scheduling point; the changes interrupt another one anywhere. If an M went on with an
 * earlier config, there would be more or fewer samples than periods of the new one. If samples were left
 * unread, they would show in the next profile.
 */
SIM_TEST(a_slot_never_mixes_its_configs)
{
    struct cp_slot_request requests[] = {request("taskClock", 100000),  request("cpuMigrations", 1),
                                         request("taskClock", 210000),  request("cpuClock", 1000000),
                                         request("taskClock", 1000000), request("cpuMigrations", 1)};
    struct puppet puppet;
    struct worker worker;

    start_puppet(&puppet);
    start_worker(&worker, body_c, NULL);
    for (size_t i = 0; i < 120; i++) {
        const struct cp_slot_request *now = &requests[i % ARRAY_SIZE(requests)];
        const uint64_t period = now->config.period, ns = 4 * MS + 1000 * i;
        const bool stays_unread = i % 5 == 0;
        struct profile profile = {.n = 0};

        sim_stop(worker.tid); /* while its event is armed, its handler keeps off, and it has no samples */
        if (i % 3 == 0 || stays_unread)
            start_unread(&profile, now, 1);
        else
            start_profile(&profile, now, 1);
        sim_continue(worker.tid);
        CHECK_EQ(profile.slots[0], 0);
        run_puppet(&puppet, execute, 0);
        run_puppet(&puppet, burn_a, ns);
        /* If the other thread's first signal came while its event is closed, its periods would be unheard. */
        if (period > 1)
            await_samples(profile.slots[0], ns / period + 1);
        if (stays_unread) {
            cp_slots_stop(profile.slots, 1);
            cp_slots_release(profile.slots, 1);
            continue;
        }
        stop_profile(&profile);
        check_told(&profile, 0, period);
        CHECK_EQ(profile.seen[0].in[IN_A], period == 1 ? 0 : ns / period);
        CHECK_EQ(profile.seen[0].in[IN_A] + profile.seen[0].in[IN_C], profile.seen[0].weight);
    }
    stop_worker(&worker);
    end_puppet(&puppet);
}

/* The M sleeps during the end of one profile and the start of the next in the same slot. */
SIM_TEST(a_sleeper_wakes_into_the_profile_that_runs_then)
{
    struct cp_slot_request requests[] = {request("taskClock", 100000), request("taskClock", 800000)};
    struct profile first = {.n = 0}, second = {.n = 0};
    struct puppet puppet;

    start_profile(&first, &requests[0], 1);
    start_puppet(&puppet);
    run_puppet(&puppet, burn_a, 20 * 100000);
    stop_profile(&first);
    start_profile(&second, &requests[1], 1);
    CHECK_EQ(first.slots[0], second.slots[0]);
    run_puppet(&puppet, burn_a, 100 * 800000);
    end_puppet(&puppet);
    stop_profile(&second);
    check_samples(&first, 0, 20);
    check_samples(&second, 0, 100);
    CHECK_EQ(second.stats[0].ms, 1);
    CHECK_EQ(second.stats[0].count, 100 * 800000);
}

/* ---- The end of the process ------------------------------------------------------------------ */

static void start_everything(struct worker workers[5])
{
    static struct profile profile;
    struct cp_slot_request requests[] = {request("taskClock", 100000), request("timer", MS)};

    start_load(workers);
    start_profile(&profile, requests, 2);
    sleep_ms(10);
}

SIM_TEST(other_programs_run_meanwhile)
{
    struct cp_slot_request requests[] = {request("taskClock", 100000), request("timer", MS)};
    struct profile profile = {.n = 0};
    struct worker worker = {.body = NULL};

    attach(&worker);
    start_profile(&profile, requests, 2);
    for (int i = 0; i < 10; i++) {
        burn_a(MS);
        char *output =
            test_command(NULL, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; ls -l /proc/self/fd");

        CHECKF(strstr(output, "perf_event") == NULL, "%s", output);
        free(output);
    }
    stop_profile(&profile);
    cp_m_detach(worker.m);
    check_samples(&profile, 0, 100);
    check_samples(&profile, 1, 10);
}

SIM_TEST(a_thread_may_detach_and_become_another_program)
{
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        int status;

        if (child == 0) {
            struct worker workers[5];
            struct cp_m *m;

            cp_m_attach(&m, NULL);
            start_everything(workers);
            burn_a(2 * MS);
            cp_m_detach(m);
            execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
        }
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECKF(WIFEXITED(status) && WEXITSTATUS(status) == 7, "status %#x", (unsigned)status);
    }
}

SIM_TEST(a_process_may_end_while_it_is_profiled)
{
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        int status;

        if (child == 0) {
            struct worker workers[5];

            start_everything(workers);
            exit(7);
        }
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECKF(WIFEXITED(status) && WEXITSTATUS(status) == 7, "status %#x", (unsigned)status);
    }
}
