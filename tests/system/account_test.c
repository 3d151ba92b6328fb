/* Accounts of single Gs: what they ran, were runnable and waited, and that this is all of their lives. */
#include "tests/support/g_accounts.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void check_parts(const struct cp_account *account)
{
    uint64_t waited = 0;

    for (unsigned i = 0; i < CP_WAIT_REASONS_MAX; i++)
        waited += account->waited_ns[i];
    CHECK_EQ(account->waiting_ns, waited);
    CHECK_EQ(account->lifetime_ns, account->running_ns + account->runnable_ns + account->waiting_ns);
    CHECK_EQ(account->gs, 1);
}

/* ---- Reasons --------------------------------------------------------------------------------- */

CP_TEST(reasons_have_names)
{
    CHECK_STR(cp_wait_reason_name(CP_WAIT_CHANNEL_RECEIVE), "channel receive");
    CHECK_STR(cp_wait_reason_name(CP_WAIT_OTHER), "wait");
    for (int i = 0; i < CP_WAIT_REASONS; i++)
        CHECK(cp_wait_reason_name((enum cp_wait_reason)i)[0] != '\0');
    CHECK_STR(cp_wait_reason_name(CP_WAIT_REASONS), "wait");
    CHECK_STR(cp_wait_reason_name((enum cp_wait_reason) - 1), "wait");
}

CP_TEST(an_account_without_a_size_is_refused)
{
    struct cp_account account = {.size = 0};
    struct cp_g g;

    cp_g_init(&g, &g, &g + 1, NULL);
    CHECK_EQ(cp_g_stats(&g, &account), -EINVAL);
    cp_g_fini(&g);
}

/* ---- An embedder ----------------------------------------------------------------------------- */

CP_TEST(a_park_without_a_wait_is_none)
{
    static char stack[4096];
    struct cp_account account;
    struct cp_g g;
    struct cp_error err;
    struct cp_m *m;

    CHECKF(cp_m_attach(&m, &err) == 0, "%s", err.message);
    cp_g_init(&g, stack, stack + sizeof stack, NULL);
    cp_execute(m, &g);
    cp_g_park(&g, CP_WAIT_LOCK, stack);
    cp_g_yield(&g);
    cp_execute(m, NULL);
    cp_execute(m, &g);
    account = account_of(&g);
    CHECK_EQ(account.waits[CP_WAIT_LOCK], 0);
    CHECK_EQ(account.waiting_ns, 0);
    CHECK_EQ(account.switches, 2);
    cp_execute(m, NULL);
    cp_g_fini(&g);
    cp_m_detach(m);
}

/* ---- Whole lives ----------------------------------------------------------------------------- */

enum { LIVES = 16, ROUNDS = 20 };

static struct cp_chan *pings;

/* A G's life as the test's own clock has it: the account's begin is between the first two, and the account
 * was read between the last two. */
struct life {
    uint64_t before, begun, reading, read;
    struct cp_account account;
    unsigned kind;
};

static void live_one_round(unsigned kind)
{
    char byte = 0;

    if (kind % 4 == 0)
        compute(100000);
    else if (kind % 4 == 1)
        cp_yield();
    else if (kind % 4 == 2)
        cp_sleep(200000);
    else if (kind % 8 == 3)
        cp_chan_send(pings, &byte);
    else
        cp_chan_recv(pings, &byte);
}

/* The account began when the starter called cp_go(). */
static void live(void *arg)
{
    struct life *life = arg;

    for (int i = 0; i < ROUNDS; i++)
        live_one_round(life->kind);
    life->reading = wall_ns();
    life->account = account_of(cp_g_self());
    life->read = wall_ns();
}

static void live_all(void *arg)
{
    struct life *lives = arg;

    for (unsigned i = 0; i < LIVES; i++) {
        lives[i].kind = i;
        lives[i].before = wall_ns();
        go(live, &lives[i]);
        lives[i].begun = wall_ns();
    }
}

/* All of the life to within a thousandth, and what the test's own steps took. */
static void check_life(const struct life *life)
{
    const struct cp_account *account = &life->account;
    const uint64_t least = life->reading > life->begun ? life->reading - life->begun : 0;

    check_parts(account);
    CHECKF(account->lifetime_ns + 10 >= least - least / 1000 &&
               LONG(account->lifetime_ns) <= life->read - life->before,
           "G %u: %llu, and not from %llu to %llu", life->kind, (unsigned long long)account->lifetime_ns,
           (unsigned long long)least, (unsigned long long)(life->read - life->before));
    if (life->kind % 4 == 0)
        CHECK(account->running_ns >= LONG((uint64_t)ROUNDS * 100000));
    if (life->kind % 4 == 1)
        CHECK(account->switches >= ROUNDS && account->waiting_ns == 0);
    if (life->kind % 4 == 2)
        CHECK(account->waits[CP_WAIT_SLEEP] == ROUNDS &&
              account->waited_ns[CP_WAIT_SLEEP] >= LONG((uint64_t)ROUNDS * 200000));
}

CP_TEST(the_parts_of_an_account_are_the_life_of_its_g)
{
    for (unsigned threads = 1; threads <= 4; threads += 3) {
        struct life lives[LIVES];

        memset(lives, 0, sizeof lives);
        pings = cp_chan_new(1, 1);
        run(threads, live_all, lives);
        cp_chan_free(pings);
        for (unsigned i = 0; i < LIVES; i++)
            check_life(&lives[i]);
    }
}

/* ---- Waits of known length ------------------------------------------------------------------- */

static void sleep_once(void *arg)
{
    CHECK_EQ(cp_sleep(50 * MS), 0);
    *(struct cp_account *)arg = account_of(cp_g_self());
}

CP_TEST(a_sleep_is_a_wait_of_its_length)
{
    struct cp_account account;

    run(1, sleep_once, &account);
    CHECK(account.waited_ns[CP_WAIT_SLEEP] >= LONG(50 * MS));
    CHECK_EQ(account.waits[CP_WAIT_SLEEP], 1);
    CHECK_EQ(account.waiting_ns, account.waited_ns[CP_WAIT_SLEEP]);
    CHECK_EQ(account.switches, 2);
}

static void note_account(void *arg)
{
    *(struct cp_account *)arg = account_of(cp_g_self());
}

/* The second G of the only M waits until the first one leaves it. */
static void compute_before_another(void *arg)
{
    go(note_account, arg);
    compute(20 * MS);
}

CP_TEST(a_g_behind_another_is_runnable)
{
    struct cp_account account;

    run(1, compute_before_another, &account);
    CHECK(account.runnable_ns >= LONG(20 * MS));
    CHECK_EQ(account.waiting_ns, 0);
    CHECK_EQ(account.switches, 1);
}

static struct cp_g *sleeper;

static void park_once(void *arg)
{
    sleeper = cp_sched_self();
    CHECK_EQ(cp_park(), 0);
    *(struct cp_account *)arg = account_of(cp_g_self());
}

/* The wait ends when the G is made ready, not when it runs. */
static void ready_and_compute(void *arg)
{
    uint64_t ready_at;

    go(park_once, arg);
    while (sleeper == NULL)
        cp_yield();
    cp_sleep(5 * MS);
    ready_at = wall_ns();
    cp_ready(sleeper);
    compute(20 * MS);
    ((struct cp_account *)arg)[1].lifetime_ns = wall_ns() - ready_at;
}

CP_TEST(a_wait_ends_when_its_g_is_ready)
{
    struct cp_account account[2];

    run(1, ready_and_compute, account);
    CHECK_EQ(account[0].waits[CP_WAIT_PARK], 1);
    CHECK(account[0].waited_ns[CP_WAIT_PARK] >= LONG(5 * MS));
    CHECK(account[0].runnable_ns >= LONG(20 * MS));
    CHECK(account[1].lifetime_ns >= 20 * MS);
}

/* ---- A runtime of the test's own ------------------------------------------------------------- */

static char stack[64];

CP_TEST(an_embedders_gs_have_accounts)
{
    struct cp_m *m = attached();
    struct cp_account account;
    struct cp_g a, b;

    cp_g_init(&a, stack, stack + sizeof stack, NULL);
    cp_g_init(&b, stack, stack + sizeof stack, NULL);
    compute(2 * MS);
    cp_execute(m, &a);
    compute(2 * MS);
    cp_g_park(&a, CP_WAIT_LOCK, &b);
    cp_execute(m, &b); /* from one to the other, without NULL between */
    compute(2 * MS);
    account = account_of(&a);
    CHECK(account.runnable_ns >= LONG(2 * MS) && account.running_ns >= LONG(2 * MS));
    CHECK(account.waited_ns[CP_WAIT_LOCK] >= LONG(2 * MS) && account.waits[CP_WAIT_LOCK] == 0);
    check_parts(&account);
    cp_g_ready(&a);
    compute(MS);
    account = account_of(&a);
    CHECK(account.runnable_ns >= LONG(3 * MS) && account.waits[CP_WAIT_LOCK] == 1);
    cp_execute(m, &b); /* it goes on, and no switch happens */
    account = account_of(&b);
    CHECK(account.running_ns >= LONG(3 * MS) && account.switches == 1);
    check_parts(&account);
    cp_execute(m, NULL);
    cp_execute(m, &a); /* nobody has told that b waits: it yields */
    CHECK_EQ(account_of(&b).waiting_ns, 0);
    cp_execute(m, NULL);
    cp_g_fini(&a);
    cp_g_fini(&b);
    cp_m_detach(m);
}

/* A G that is run, and of which nobody has told that it is ready. */
CP_TEST(a_wait_ends_at_the_latest_when_its_g_runs)
{
    struct cp_m *m = attached();
    struct cp_account account;
    struct cp_g g;

    cp_g_init(&g, stack, stack + sizeof stack, NULL);
    cp_execute(m, &g);
    cp_g_park(&g, (enum cp_wait_reason)77, NULL);
    cp_execute(m, NULL);
    compute(MS);
    cp_execute(m, &g);
    account = account_of(&g);
    CHECK_EQ(account.waits[CP_WAIT_OTHER], 1);
    CHECK(account.waited_ns[CP_WAIT_OTHER] >= LONG(MS));
    cp_g_ready(&g); /* it does not wait */
    CHECK_EQ(account_of(&g).waits[CP_WAIT_OTHER], 1);
    cp_execute(m, NULL);
    cp_g_fini(&g);
    cp_m_detach(m);
}

CP_TEST(threads_that_wait_have_accounts)
{
    struct cp_account before, after;
    struct cp_m *m = attached();

    CHECK_EQ(total().gs, 0);
    cp_wait_begin(CP_WAIT_IO, NULL);
    cp_wait_begin(CP_WAIT_LOCK, NULL); /* inside, and so no wait of its own */
    compute(MS);
    cp_wait_end();
    compute(MS);
    cp_wait_end();
    before = total();
    CHECK_EQ(before.gs, 1);
    CHECK(before.waited_ns[CP_WAIT_IO] >= LONG(2 * MS) && before.waits[CP_WAIT_IO] == 1);
    CHECK_EQ(before.waited_ns[CP_WAIT_LOCK], 0);
    compute(MS);
    cp_wait_end(); /* nothing has begun */
    cp_m_detach(m);
    after = total();
    CHECK(after.running_ns >= before.running_ns + LONG(MS));
    CHECK_EQ(after.gs, 1);
}

/* ---- Readers --------------------------------------------------------------------------------- */

static uint32_t has_ended; /* atomic */

static void check_grown(const struct cp_account *before, const struct cp_account *now)
{
    CHECK(now->running_ns >= before->running_ns && now->runnable_ns >= before->runnable_ns);
    CHECK(now->waiting_ns >= before->waiting_ns && now->switches >= before->switches);
    for (unsigned i = 0; i < CP_WAIT_REASONS; i++)
        CHECK(now->waited_ns[i] >= before->waited_ns[i] && now->waits[i] >= before->waits[i]);
}

/* Reads while Gs switch, change their labels, begin and end. No sum falls, and none is more than so many Ms
 * can have done in the time. */
static void *read_all(void *arg)
{
    const uint64_t begun = *(const uint64_t *)arg;
    struct cp_account before = total(), now;
    unsigned reads = 0;

    while (cp_load_acquire(&has_ended) == 0) { /* pairs with the release in the test */
        now = total();
        check_grown(&before, &now);
        CHECK(now.running_ns <= 4 * (wall_ns() - begun) + now.running_ns / 1000 + 100); /* on four Ms */
        before = now;
        reads++;
    }
    printf("%u times all accounts were read.\n", reads);
    return NULL;
}

static void live_with_labels(void *arg)
{
    char value[] = "a";

    value[0] += (char)((uintptr_t)arg % 5);
    for (int i = 0; i < 200; i++) {
        CP_LABEL_SCOPE("route", value);
        cp_yield();
        if (i % 50 == 0)
            cp_sleep(100000);
    }
}

static void live_for_readers(void *arg)
{
    (void)arg;
    for (uintptr_t i = 0; i < 400; i++) {
        go(live_with_labels, (void *)i);
        if (i % 20 == 0)
            cp_sleep(MS);
    }
}

CP_TEST(a_reader_never_sees_a_sum_fall)
{
    const uint64_t begun = wall_ns();
    struct cp_account sum;
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, read_all, (void *)(uintptr_t)&begun), 0);
    run(4, live_for_readers, NULL);
    cp_store_release(&has_ended, 1u); /* pairs with the acquire in read_all() */
    pthread_join(thread, NULL);
    sum = total();
    CHECK_EQ(sum.gs, 401);
    CHECK_EQ(sum.waits[CP_WAIT_SLEEP], 400 * 4 + 20);
    CHECK(sum.switches >= 400 * 200);
}

/* ---- Forks ----------------------------------------------------------------------------------- */

static uint64_t forked_at;

static void check_in_child(struct cp_m *m, struct cp_g *g)
{
    struct cp_account sum;

    CHECK(LONG(account_of(g).running_ns + 20) <= wall_ns() - forked_at);
    sum = total();
    CHECK(sum.gs <= 1 && sum.waiting_ns == 0 && sum.switches == 0);
    CHECK_EQ(cp_m_attach(&m, NULL), 0);
    cp_wait_begin(CP_WAIT_IO, NULL);
    cp_wait_end();
    sum = total();
    CHECK_EQ(sum.waits[CP_WAIT_IO], 1);
    CHECK_EQ(sum.waits[CP_WAIT_LOCK], 0);
    cp_m_detach(m);
    _exit(0);
}

/* The Gs that a thread runs have their time; the thread has what is between them. */
CP_TEST(a_thread_that_waits_has_not_the_time_of_its_gs)
{
    struct cp_m *m = attached();
    const uint64_t begin = wall_ns();
    struct cp_account sum;
    struct cp_g g;

    cp_g_init(&g, stack, stack + sizeof stack, NULL);
    for (int i = 0; i < 3; i++) {
        cp_execute(m, &g);
        compute(4 * MS);
        cp_execute(m, NULL);
        cp_wait_begin(CP_WAIT_DESCRIPTOR, NULL);
        compute(MS);
        cp_wait_end();
        compute(MS);
    }
    sum = total();
    CHECKF(sum.running_ns >= LONG(14 * MS) && sum.running_ns + 3 * MS <= wall_ns() - begin, "%llu ns of %llu",
           (unsigned long long)sum.running_ns, (unsigned long long)(wall_ns() - begin));
    CHECK_EQ(sum.gs, 2);
    cp_g_fini(&g);
    cp_m_detach(m);
    CHECK_EQ(total().gs, 2);
}

static void check_threads_own_in_child(void)
{
    struct cp_account sum;

    compute(2 * MS);
    sum = total();
    CHECK(sum.running_ns >= LONG(2 * MS) && sum.gs == 1);
    cp_wait_begin(CP_WAIT_IO, NULL);
    cp_wait_end();
    sum = total();
    CHECK(sum.running_ns >= LONG(2 * MS) && LONG(sum.lifetime_ns) <= wall_ns() - forked_at);
    _exit(0);
}

CP_TEST(a_thread_goes_on_in_a_child)
{
    struct cp_m *m = attached();
    int status;
    pid_t pid;

    cp_wait_begin(CP_WAIT_IO, NULL);
    cp_wait_end();
    compute(10 * MS);
    forked_at = wall_ns();
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        check_threads_own_in_child();
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    cp_m_detach(m);
}

CP_TEST(a_child_begins_anew)
{
    struct cp_m *m = attached();
    struct cp_g g, waits, ended;
    struct cp_account before;
    int status;
    pid_t pid;

    cp_g_init(&ended, stack, stack + sizeof stack, NULL);
    cp_g_init(&waits, stack, stack + sizeof stack, NULL);
    cp_g_init(&g, stack, stack + sizeof stack, NULL);
    cp_execute(m, &ended);
    cp_execute(m, &waits);
    cp_g_fini(&ended);
    cp_g_park(&waits, CP_WAIT_LOCK, NULL);
    cp_execute(m, &g);
    CHECK_EQ(cp_label_set("route", "a"), 0);
    compute(2 * MS);
    before = total();
    forked_at = wall_ns();
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        check_in_child(m, &g);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    CHECK(total().running_ns >= before.running_ns && total().gs == 3);
    cp_execute(m, NULL);
    cp_g_fini(&g);
    cp_g_fini(&waits);
    cp_m_detach(m);
}
