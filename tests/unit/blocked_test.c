/* Threads that block the library's signals: what was counted meanwhile comes late, or is told as missing. The
 * simulated kernel knows all of it. */
#include "runtime/base/os.h"
#include "tests/support/account.h"
#include "tests/support/puppet.h"

static void body_short(struct worker *worker)
{
    (void)worker;
    burn_a(PERIOD / 2);
}

static void block_all(uint64_t unused)
{
    sigset_t all;

    (void)unused;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
}

/* Lets the thread work for so long, with passes between that take its records before the ring is full. */
static void run_with_passes(struct puppet *puppet, unsigned ms)
{
    for (; ms > 0; ms -= 20) {
        run_puppet(puppet, burn_b, 20 * MS);
        pass();
    }
}

/* All of the time has samples, and so much of it samples that came late. */
static void end_late_account(struct account *account, uint64_t late_ns)
{
    close_account(account);
    CHECK_PERCENT(account, whole(account) * PERIOD, account->cpu_ns);
    CHECK_PERCENT(account, said(account, "late") * PERIOD, late_ns);
    CHECK_EQ(weight_of(account, "[not sampled") + weight_of(account, "[lost"), 0);
    CHECK(is_limit(account, "late"));
    free_account(account);
}

/* The thread blocks its signals before the start arms it, and no pass comes that would give it a ring. A
 * timer's ticks are pending at the stop. */
static void check_not_heard(const struct way *way)
{
    struct worker worker = {.body = NULL};
    struct puppet puppet;
    struct account account;

    attach(&worker);
    start_puppet(&puppet);
    run_puppet(&puppet, block_all, 0);
    open_way(&account, way);
    burn_a(700 * MS);
    run_puppet(&puppet, burn_b, 300 * MS);
    if (strcmp(way->event, "timer") == 0)
        end_late_account(&account, 300 * MS);
    else
        end_account(&account, &blocked, 300 * MS);
    end_puppet(&puppet);
    cp_m_detach(worker.m);
}

SIM_TEST(a_thread_that_blocks_its_signals_and_is_not_heard_is_told)
{
    for (size_t way = 0; way < ARRAY_SIZE(ways); way++)
        check_not_heard(&ways[way]);
}

/* A clock that excludes the kernel counts the kernel's time all the same. What the clock counted while the
 * signal was blocked must not be taken for that time. */
SIM_TEST(a_thread_that_blocks_its_signals_and_is_not_heard_is_told_if_the_kernel_is_excluded)
{
    sim->paranoid = 2;
    for (size_t way = 0; way < ARRAY_SIZE(ways); way++)
        check_not_heard(&ways[way]);
}

/* The thread is armed, and blocks the signals then. It waits when the profile stops. */
SIM_TEST(a_thread_that_blocks_signals_when_it_is_armed_is_heard)
{
    for (size_t way = 0; way < ARRAY_SIZE(ways); way++) {
        struct worker worker = {.body = NULL};
        struct puppet puppet;
        struct account account;

        attach(&worker);
        open_way(&account, &ways[way]);
        burn_a(500 * MS);
        start_puppet(&puppet);
        run_puppet(&puppet, burn_b, 100 * MS);
        run_puppet(&puppet, block_all, 0);
        run_with_passes(&puppet, 400);
        end_late_account(&account, 400 * MS);
        end_puppet(&puppet);
        cp_m_detach(worker.m);
    }
}

static void *block_all_and_obey(void *puppet)
{
    block_all(0);
    return run_worker(puppet);
}

/* The worker of a pool has its signals blocked when it attaches, works, and waits for more work when the
 * profile stops. Its attach arms it, and traps reach it: see engine_test.c. */
SIM_TEST(a_masked_worker_that_waits_at_the_stop_is_heard)
{
    for (size_t way = 0; way < ARRAY_SIZE(ways); way++) {
        struct worker worker = {.body = NULL};
        struct puppet puppet = {.fd = eventfd(0, EFD_CLOEXEC), .worker = {.body = body_obeys}};
        struct account account;

        puppet.worker.arg = &puppet;
        attach(&worker);
        open_way(&account, &ways[way]);
        CHECK_EQ(pthread_create(&puppet.worker.thread, NULL, block_all_and_obey, &puppet.worker), 0);
        await(&puppet.worker.running, 1);
        await_sleep(puppet.worker.tid);
        burn_a(500 * MS);
        run_with_passes(&puppet, 500);
        if (ways[way].engine == CP_ENGINE_TRAP)
            end_account(&account, &nothing, 0);
        else
            end_late_account(&account, 500 * MS);
        end_puppet(&puppet);
        cp_m_detach(worker.m);
    }
}

/* What a thread had after its last tick has no sample of a timer's. */
SIM_TEST(threads_that_block_signals_for_short_have_late_ticks)
{
    struct worker worker = {.body = NULL};
    struct puppet puppets[10];
    struct account account;

    attach(&worker);
    open_account(&account, "timer", PERIOD, CP_ENGINE_AUTO);
    burn_a(300 * MS);
    for (size_t i = 0; i < ARRAY_SIZE(puppets); i++) {
        start_puppet(&puppets[i]);
        run_puppet(&puppets[i], block_all, 0);
        run_puppet(&puppets[i], burn_b, 20 * MS);
    }
    end_late_account(&account, 200 * MS);
    for (size_t i = 0; i < ARRAY_SIZE(puppets); i++)
        end_puppet(&puppets[i]);
}

/* Samples a thread that runs for own_ns, and then n threads, one after the other, which do what body does, by
 * a timer. Returns for how many periods the kernel's ticks came too late. */
static uint64_t periods_after_ticks(struct account *account, uint64_t own_ns, int n,
                                    void (*body)(struct worker *worker))
{
    struct worker worker = {.body = NULL};

    sim->timers_tick = true;
    attach(&worker);
    open_account(account, "timer", PERIOD, CP_ENGINE_AUTO);
    burn_b(own_ns);
    for (int i = 0; i < n; i++)
        run_attached(&(struct worker){.body = NULL}, body, NULL);
    close_account(account);
    CHECK(is_limit(account, "coverage,ticks_ns"));
    return weight_of(account, "[not sampled: after the kernel's last tick]");
}

/* Threads of half a tick never see one. Half of them had a sample due. */
SIM_TEST(threads_that_are_shorter_than_a_tick_are_told_by_a_timer)
{
    struct account account;
    uint64_t told = periods_after_ticks(&account, 500 * MS, 1000, body_short);

    CHECKF(told >= 420 && told <= 580, "%llu", (unsigned long long)told);
    CHECK_EQ(weight_of(&account, "burn_a"), 0);
    CHECK(said(&account, "coverage") <= 60);
    free_account(&account);
}

static void body_between_ticks(struct worker *worker)
{
    (void)worker;
    burn_a(5 * cp__os_tick_ns());
}

/* A tick seldom meets a thread that is switched often: here, in twenty times the time that is between two. */
SIM_TEST(threads_that_ticks_seldom_meet_are_told_by_a_timer)
{
    const uint64_t tick = sim->tick_ns = 20 * cp__os_tick_ns();
    struct account account;
    uint64_t told = PERIOD * periods_after_ticks(&account, 5 * tick, 10, body_between_ticks);

    CHECKF(told > tick / 4 * 9 && told < 3 * tick, "%llu", (unsigned long long)told);
    free_account(&account);
}

SIM_TEST(a_thread_that_blocks_signals_is_heard_if_the_kernel_is_excluded)
{
    sim->paranoid = 2;
    for (size_t i = 0; i < ARRAY_SIZE(engines); i++) {
        struct worker worker = {.body = NULL};
        struct puppet puppet;
        struct account account;

        attach(&worker);
        open_account(&account, "taskClock", PERIOD, engines[i]);
        burn_a(500 * MS);
        start_puppet(&puppet);
        run_puppet(&puppet, burn_b, 100 * MS);
        run_puppet(&puppet, block_all, 0);
        run_with_passes(&puppet, 400);
        end_late_account(&account, 400 * MS);
        end_puppet(&puppet);
        cp_m_detach(worker.m);
    }
}

static void run_in_kernel(uint64_t ns)
{
    SIM_RUN_KERNEL(ns);
}

/* The C library blocks all signals while a child of posix_spawn() begins, for instance. */
SIM_TEST(a_thread_that_blocks_signals_at_the_stop_was_in_the_kernel_all_the_same)
{
    sim->paranoid = 2;
    for (size_t i = 0; i < ARRAY_SIZE(engines); i++) {
        struct worker worker = {.body = NULL};
        struct puppet puppet;
        struct account account;

        attach(&worker);
        open_account(&account, "taskClock", PERIOD, engines[i]);
        burn_a(500 * MS);
        start_puppet(&puppet);
        run_puppet(&puppet, burn_b, 100 * MS);
        run_puppet(&puppet, run_in_kernel, 400 * MS);
        run_puppet(&puppet, block_all, 0);
        close_account(&account);
        CHECK(is_limit(&account, "none"));
        CHECK_PERCENT(&account, said(&account, "excluded_ns"), 400 * MS);
        free_account(&account);
        end_puppet(&puppet);
        cp_m_detach(worker.m);
    }
}

/* The first period of a thread is drawn. It may end while the library itself blocks the signals to start a
 * thread of its own, which is one late sample of many. */
SIM_TEST(few_late_samples_are_no_limit)
{
    const uint64_t late[] = {10, 11};
    struct worker worker = {.body = NULL};
    struct account account;
    sigset_t all, before;

    attach(&worker);
    for (size_t i = 0; i < ARRAY_SIZE(late); i++) {
        open_account(&account, "taskClock", PERIOD, CP_ENGINE_SIGNAL);
        burn_a((1000 - late[i]) * PERIOD);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        burn_b(late[i] * PERIOD);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        close_account(&account);
        CHECK_EQ(said(&account, "late"), late[i]);
        CHECK_EQ(is_limit(&account, "late"), i == 1);
        CHECK_EQ(is_limit(&account, "none"), i == 0);
        free_account(&account);
    }
}

/* The ring has room for some of the records. These are late samples, and the others are lost. */
SIM_TEST(what_the_ring_had_no_room_for_is_missing_once)
{
    struct worker worker = {.body = NULL};
    struct account account;
    sigset_t all, before;

    attach(&worker);
    for (size_t i = 0; i < ARRAY_SIZE(engines); i++) {
        open_account(&account, "taskClock", PERIOD, engines[i]);
        burn_a(500 * MS);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        burn_b(500 * MS);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        close_account(&account);
        CHECK_PERCENT(&account, whole(&account) * PERIOD, account.cpu_ns);
        CHECK_PERCENT(&account, weight_of(&account, "burn_") * PERIOD,
                      500 * MS + said(&account, "late") * PERIOD);
        CHECK_PERCENT(&account, weight_of(&account, "[lost: perf ring full]") * PERIOD,
                      500 * MS - said(&account, "late") * PERIOD);
        CHECK_EQ(weight_of(&account, "[not sampled"), 0);
        CHECK(is_limit(&account, "lost") && is_limit(&account, "coverage"));
        free_account(&account);
    }
}
