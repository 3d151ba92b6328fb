/* Recordings of what Gs do, whatever it is: the states, the stacks and the labels, while Gs come and go. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/g_account.h"
#include "runtime/wait/wall_draw.h"
#include "sched.h"
#include "tests/support/gs.h"
#include "tests/support/recordings.h"
#include "tests/support/stopwatch.h" /* attach_m() */

#define PERIOD MS

/* What a recording has of a state. */
struct by_state {
    uint64_t sampled[CP__WALL_WAITING + 1], ns[CP__WALL_WAITING + 1];
    double samples;
};

static int add_state(void *context, const struct cp__waits *waits)
{
    struct by_state *by = context;

    CHECK(waits->state >= CP__WALL_RUNNING && waits->state <= CP__WALL_WAITING);
    CHECK(waits->state == CP__WALL_WAITING || (waits->reason == CP_WAIT_OTHER && waits->object == NULL));
    by->sampled[waits->state] += waits->sampled;
    by->ns[waits->state] += waits->delay;
    by->samples += waits->waits;
    return 0;
}

static struct by_state states_of(struct cp__recording *recording)
{
    struct cp__recording_stats stats;
    struct by_state by = {.samples = 0};

    CHECK_EQ(cp__recording_each(recording, &stats, add_state, &by), 0);
    CHECK(!stats.has_no_stacks);
    return by;
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- Some Gs in each state ------------------------------------------------------------------- */

enum { WAITERS = 6, READY = 2 };

static struct cp_chan *chan;

static void wait_for_message(void *arg)
{
    int value;

    (void)arg;
    CP_LABEL_SCOPE("role", "waiter");
    CHECK_EQ(cp_chan_recv(chan, &value), -EPIPE);
}

static void be_ready(void *arg)
{
    (void)arg;
    CP_LABEL_SCOPE("role", "ready");
    cp_yield();
}

/* All Gs are drawn in each look, and none changes its state between the start and the stop. */
static void one_runs(void *arg)
{
    struct cp__recording *recording;
    struct by_state by;
    uint64_t begin, passed;

    (void)arg;
    for (int i = 0; i < WAITERS; i++)
        go(wait_for_message, NULL);
    for (int i = 0; i < READY; i++)
        go(be_ready, NULL);
    cp_yield();
    CP_LABEL_SCOPE("role", "runner");
    begin = now_ns();
    recording = start_recording(CP__WAIT_EVENT_WALL, PERIOD);
    while (states_of(recording).ns[CP__WALL_WAITING] < (uint64_t)WAITERS * 5 * PERIOD)
        ;
    cp__recording_stop(recording);
    passed = now_ns() - begin;
    by = states_of(recording);
    CHECK_EQ(by.ns[CP__WALL_WAITING], WAITERS * by.ns[CP__WALL_RUNNING]);
    CHECK_EQ(by.ns[CP__WALL_RUNNABLE], READY * by.ns[CP__WALL_RUNNING]);
    CHECK(by.ns[CP__WALL_RUNNING] >= 5 * PERIOD && by.ns[CP__WALL_RUNNING] <= passed);
    CHECK(by.samples > 9 * 4.9 &&
          by.samples < (double)by.ns[CP__WALL_RUNNING] * (1 + WAITERS + READY) / PERIOD + 1);
    CHECK_EQ(seek(recording, CP_WAIT_CHANNEL_RECEIVE, 0, "waiter").delay, by.ns[CP__WALL_WAITING]);
    CHECK(seek(recording, CP_WAIT_CHANNEL_RECEIVE, 0, "waiter").object != NULL);
    CHECK_EQ(seek(recording, CP_WAIT_OTHER, 0, "ready").delay, by.ns[CP__WALL_RUNNABLE]);
    CHECK_EQ(seek(recording, CP_WAIT_OTHER, 0, "runner").delay, by.ns[CP__WALL_RUNNING]);
    cp__recording_free(recording);
    cp_chan_close(chan);
}

CP_TEST(each_state_has_the_time_of_its_gs)
{
    chan = cp_chan_new(sizeof(int), 0);
    run(1, one_runs, NULL);
    cp_chan_free(chan);
    CHECK_EQ(cp_accounting, CP__ACCOUNTING_ON);
}

/* ---- Gs that run ----------------------------------------------------------------------------- */

static uintptr_t returns_to; /* of a function that computes, in its caller */

__attribute__((noinline)) static void compute_until_seen(struct cp__recording *recording)
{
    returns_to = (uintptr_t)__builtin_return_address(0);
    while (seek(recording, CP_WAIT_OTHER, returns_to, "computer").sampled == 0)
        ;
    __asm__ volatile("");
}

static void compute(void *arg)
{
    (void)arg;
    CP_LABEL_SCOPE("role", "computer");
    struct cp__recording *recording = start_recording(CP__WAIT_EVENT_WALL, PERIOD);
    struct cp__recording *other = start_recording(CP__WAIT_EVENT_WALL, 3 * PERIOD);

    compute_until_seen(recording);
    compute_until_seen(other); /* two threads ask the same M */
    CHECK(states_of(recording).sampled[CP__WALL_RUNNING] > 0);
    cp__recording_free(other);
    cp__recording_free(recording);
}

CP_TEST(a_g_that_computes_tells_its_stack)
{
    if (TEST_TSAN)
        SKIP("ThreadSanitizer hands signals on when the program calls something");
    run(1, compute, NULL);
}

/* ---- Accounts that were off for a while ------------------------------------------------------ */

/* The M is not taken for one that runs its last G. */
CP_TEST(a_thread_that_has_left_its_g_without_accounts_is_sampled)
{
    struct cp_m *m = attach_m();
    struct cp__recording *recording;
    struct cp_g g;

    cp_g_init(&g, NULL, NULL, NULL);
    CHECK_EQ(cp_label_set("role", "thread"), 0);
    cp_execute(m, &g);
    cp_accounts_set(false);
    cp_execute(m, NULL);
    cp_accounts_set(true);
    cp_wait_begin(CP_WAIT_IO, NULL); /* threads that wait have accounts of their own */
    cp_wait_end();
    recording = start_recording(CP__WAIT_EVENT_WALL, PERIOD);
    while (seek(recording, CP_WAIT_OTHER, 0, "thread").sampled == 0)
        ;
    cp__recording_free(recording);
    cp_g_fini(&g);
    cp_m_detach(m);
}

enum { LOOKS = 10 };

static void await_looks(struct cp__recording *recording)
{
    const uint64_t enough = states_of(recording).sampled[CP__WALL_WAITING] + LOOKS;

    while (states_of(recording).sampled[CP__WALL_WAITING] < enough)
        ;
}

/* The thread has the tick's signal blocked, so that no stack comes, and all samples are still to be settled
 * when the G changes its labels. A look draws both Gs, but not at one moment. */
static void change_labels(void *arg)
{
    struct cp__recording *recording;
    uint64_t first, second;
    sigset_t tick, before;

    (void)arg;
    go(wait_for_message, NULL);
    cp_yield();
    sigemptyset(&tick);
    sigaddset(&tick, SIGPROF);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &tick, &before), 0);
    CHECK_EQ(cp_label_set("role", "first"), 0);
    recording = start_recording(CP__WAIT_EVENT_WALL, PERIOD);
    await_looks(recording);
    CHECK_EQ(cp_label_set("role", "second"), 0);
    await_looks(recording);
    cp__recording_stop(recording);
    first = seek(recording, CP_WAIT_OTHER, 0, "first").delay;
    second = seek(recording, CP_WAIT_OTHER, 0, "second").delay;
    CHECK(first >= (LOOKS - 1) * PERIOD && second >= (LOOKS - 1) * PERIOD);
    CHECK_EQ(first + second, states_of(recording).ns[CP__WALL_WAITING]);
    cp__recording_free(recording);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    cp_chan_close(chan);
}

CP_TEST(a_sample_has_the_labels_of_its_moment)
{
    chan = cp_chan_new(sizeof(int), 0);
    run(1, change_labels, NULL);
    cp_chan_free(chan);
}

/* ---- Gs that run for moments ----------------------------------------------------------------- */

static uint32_t is_over; /* atomic */
static uintptr_t returns_to_of[2];

__attribute__((noinline)) static void yield_often(unsigned k)
{
    cp_store_relaxed(&returns_to_of[k],
                     (uintptr_t)__builtin_return_address(0)); /* relaxed: always the same */
    while (cp_load_relaxed(&is_over) == 0)                    /* relaxed: nothing else is read */
        cp_yield();
    __asm__ volatile("");
}

static void yield_as_first(void *arg)
{
    (void)arg;
    CP_LABEL_SCOPE("who", "first");
    yield_often(0);
}

static void yield_as_second(void *arg)
{
    (void)arg;
    CP_LABEL_SCOPE("who", "second");
    yield_often(1);
}

/* A stack has the labels of its own G. */
static int check_whose(void *context, const struct cp__waits *waits)
{
    const char *who = cp_labels_value(waits->labels, 0);
    unsigned *seen = context;

    for (unsigned k = 0; k < 2; k++) {
        if (place_of_frame(waits, cp_load_relaxed(&returns_to_of[k])) == waits->depth) /* relaxed: as there */
            continue;
        CHECKF(who != NULL && strcmp(who, k == 0 ? "first" : "second") == 0, "%s has the stack of %u",
               who == NULL ? "nobody" : who, k);
        seen[k]++;
    }
    return 0;
}

static void *end_when_seen(void *arg)
{
    struct cp__recording *recording = arg;
    struct cp__recording_stats stats;
    unsigned seen[2] = {0, 0};

    while (seen[0] < 1 || seen[1] < 1 || states_of(recording).sampled[CP__WALL_RUNNING] < 2) {
        seen[0] = seen[1] = 0;
        CHECK_EQ(cp__recording_each(recording, &stats, check_whose, seen), 0);
        nanosleep(&(const struct timespec){.tv_nsec = 5 * MS}, NULL);
    }
    cp_store_relaxed(&is_over, 1u); /* relaxed: as above */
    return NULL;
}

static void yield_both(void *arg)
{
    go(yield_as_first, arg);
    go(yield_as_second, arg);
}

CP_TEST(a_stack_is_never_anothers)
{
    struct cp__recording *recording = start_recording(CP__WAIT_EVENT_WALL, PERIOD);
    struct cp__recording_stats stats;
    unsigned seen[2] = {0, 0};
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, end_when_seen, recording), 0);
    run(1, yield_both, NULL);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    cp__recording_stop(recording);
    CHECK_EQ(cp__recording_each(recording, &stats, check_whose, seen), 0);
    printf("%llu samples, %llu dropped\n", (unsigned long long)stats.sampled,
           (unsigned long long)stats.dropped);
    cp__recording_free(recording);
}

/* ---- Gs that end ----------------------------------------------------------------------------- */

static void live_briefly(void *arg)
{
    volatile char bytes[2000];

    bytes[0] = bytes[1999] = 1;
    if ((uintptr_t)arg % 2 == 0)
        cp_yield();
    else
        cp_sleep(1000);
    bytes[0] = 2;
}

static void begin_many(void *arg)
{
    struct cp__recording *recording = arg;

    for (uintptr_t k = 0; states_of(recording).samples < 50; k++) {
        for (uintptr_t i = 0; i < 200; i++)
            go(live_briefly, (void *)(k + i));
        cp_sleep(MS);
    }
}

CP_TEST(gs_end_while_they_are_sampled)
{
    struct cp__recording *recording = start_recording(CP__WAIT_EVENT_WALL, PERIOD);

    run(2, begin_many, recording);
    cp__recording_stop(recording);
    CHECK(states_of(recording).samples >= 50);
    cp__recording_free(recording);
}

/* ---- Many Gs --------------------------------------------------------------------------------- */

enum { MANY = 20000 };

/* A look draws 16 of them, and its sum is off by the accounts that are free. */
static void many_wait(void *arg)
{
    struct cp__recording *recording;
    struct by_state by;
    uint64_t begin, passed;

    (void)arg;
    for (int i = 0; i < MANY; i++)
        go(wait_for_message, NULL);
    cp_yield();
    begin = now_ns();
    recording = start_recording(CP__WAIT_EVENT_WALL, PERIOD);
    while (states_of(recording).sampled[CP__WALL_WAITING] < (uint64_t)4 * CP__WALL_DRAWN_MAX)
        cp_sleep(MS);
    cp__recording_stop(recording);
    passed = now_ns() - begin;
    by = states_of(recording);
    CHECK(by.ns[CP__WALL_WAITING] > MANY * 2 * PERIOD);
    CHECK((double)by.ns[CP__WALL_WAITING] < (double)passed * MANY * 1.2);
    cp__recording_free(recording);
    cp_chan_close(chan);
}

CP_TEST(many_gs_are_drawn_from)
{
    if (TEST_TSAN)
        SKIP("ThreadSanitizer knows 8128 stacks at most");
    chan = cp_chan_new(sizeof(int), 0);
    run(1, many_wait, NULL);
    cp_chan_free(chan);
}

/* ---- Forks ----------------------------------------------------------------------------------- */

static void in_child(struct cp__recording *recording)
{
    struct cp__recording_stats stats;
    struct cp__recording *own;

    if (cp__recording_each(recording, &stats, add_state, NULL) != 0 || stats.sampled != 0)
        _exit(2);
    cp__recording_stop(recording);
    cp__recording_free(recording);
    own = start_recording(CP__WAIT_EVENT_WALL, PERIOD);
    cp_wait_begin(CP_WAIT_IO, NULL);
    while (states_of(own).sampled[CP__WALL_WAITING] < 5)
        sched_yield();
    cp_wait_end();
    cp__recording_free(own);
    _exit(0);
}

CP_TEST(a_child_of_a_fork_has_no_thread_that_looks)
{
    struct cp_m *m = attach_m();
    struct cp__recording *recording = start_recording(CP__WAIT_EVENT_WALL, PERIOD);
    int status;
    pid_t child;

    if (TEST_TSAN)
        SKIP("ThreadSanitizer lets the child of a fork start no thread");
    cp_wait_begin(CP_WAIT_IO, NULL);
    while (states_of(recording).sampled[CP__WALL_WAITING] < 5)
        sched_yield();
    cp_wait_end();
    child = fork();
    if (child == 0)
        in_child(recording);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECKF(status == 0, "%#x", (unsigned)status);
    CHECK(states_of(recording).sampled[CP__WALL_WAITING] >= 5);
    cp__recording_free(recording);
    cp_m_detach(m);
}
