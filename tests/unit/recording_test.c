/* Recordings of waits: which waits they take, of whom, and what these add up to. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "runtime/wait/sums.h"
#include "sched.h"
#include "tests/support/gs.h"
#include "tests/support/recordings.h"

static uintptr_t called_from; /* where the last call of a function that notes it returned to */
#define NOTE_CALL() (called_from = (uintptr_t)__builtin_return_address(0))

/* ---- Waits of Gs ----------------------------------------------------------------------------- */

static struct cp_g *parked;

__attribute__((noinline)) static void park_once(void)
{
    NOTE_CALL();
    cp_park();
    __asm__ volatile("");
}

static void parks(void *times)
{
    parked = cp_sched_self();
    for (volatile int i = 0; i < *(const int *)times; i++)
        park_once();
    parked = NULL;
}

static void park_and_ready(void *times)
{
    go(parks, times);
    for (cp_yield(); parked != NULL; cp_yield())
        cp_ready(parked); /* the only M has run the other G until it parks */
}

CP_TEST(each_wait_is_recorded_with_its_stack_and_reason)
{
    struct cp__recording *recording = start_recording(CP__WAIT_EVENT_WAIT, 1);
    struct sought all;
    int n = 5;

    run(1, park_and_ready, &n);
    cp__recording_stop(recording);
    all = seek_all(recording);
    CHECK_EQ(all.records, 1);
    CHECK_EQ(all.sampled, n);
    CHECK(all.waits == n);
    CHECK_EQ(all.flags, 0);
    CHECK_EQ(seek(recording, CP_WAIT_PARK, called_from, NULL).records, 1);
    cp__recording_free(recording);
}

CP_TEST(waits_before_the_start_and_after_the_stop_are_in_no_recording)
{
    struct cp__recording *recording;
    int n = 5;

    run(1, park_and_ready, &n);
    recording = start_recording(CP__WAIT_EVENT_WAIT, 1);
    cp__recording_stop(recording);
    run(1, park_and_ready, &n);
    CHECK_EQ(seek_all(recording).records, 0);
    cp__recording_free(recording);
}

CP_TEST(recordings_have_periods_of_their_own)
{
    struct cp__recording *all = start_recording(CP__WAIT_EVENT_WAIT, 1);
    struct cp__recording *few = start_recording(CP__WAIT_EVENT_WAIT, UINT64_MAX);
    int n = 50;

    run(1, park_and_ready, &n);
    cp__recording_free(few);
    n = 1;
    run(1, park_and_ready, &n);
    CHECK_EQ(seek_all(all).sampled, 51);
    few = start_recording(CP__WAIT_EVENT_WAIT, (uint64_t)1 << 46);
    run(1, park_and_ready, &n);
    CHECK_EQ(seek_all(few).sampled, 0);
    CHECK_EQ(seek_all(all).sampled, 52);
    cp__recording_free(few);
    cp__recording_free(all);
}

/* ---- Reasons and objects --------------------------------------------------------------------- */

static struct cp_chan *chan;

__attribute__((noinline)) static void receive(int n)
{
    int value;

    NOTE_CALL();
    for (volatile int i = 0; i < n; i++)
        CHECK_EQ(cp_chan_recv(chan, &value), 0);
}

static struct cp_account account_of(void)
{
    struct cp_account account = {.size = sizeof account};

    CHECK_EQ(cp_g_stats(cp_sched_self(), &account), 0);
    return account;
}

static struct cp_account of_receiver, of_sleeper;

static void receives(void *arg)
{
    receive(*(const int *)arg);
    of_receiver = account_of();
}

static void send_and_sleep(void *arg)
{
    go(receives, arg);
    for (int i = 0; i < *(const int *)arg; i++) {
        cp_sleep(MS); /* the other G waits meanwhile */
        CHECK_EQ(cp_chan_send(chan, &i), 0);
    }
    of_sleeper = account_of();
}

/* Each wait is rounded to 1 ns, and the account's sum once. */
static void check_delay(uint64_t delay, uint64_t exact, int n)
{
    CHECKF(delay + (uint64_t)n >= exact && delay <= exact + (uint64_t)n + 1, "%llu and %llu",
           (unsigned long long)delay, (unsigned long long)exact);
}

CP_TEST(waits_are_told_apart_by_reason_and_object)
{
    struct cp__recording *recording = start_recording(CP__WAIT_EVENT_WAIT, 1);
    struct sought sleeps, receipts;
    int n = 7;

    chan = cp_chan_new(sizeof(int), 0);
    run(1, send_and_sleep, &n);
    cp__recording_stop(recording);
    sleeps = seek(recording, CP_WAIT_SLEEP, 0, NULL);
    receipts = seek(recording, CP_WAIT_CHANNEL_RECEIVE, called_from, NULL);
    CHECK_EQ(sleeps.sampled, n);
    CHECK(sleeps.object == NULL);
    check_delay(sleeps.delay, of_sleeper.waited_ns[CP_WAIT_SLEEP], n);
    CHECK_EQ(receipts.sampled, n);
    CHECK(receipts.object == chan);
    check_delay(receipts.delay, of_receiver.waited_ns[CP_WAIT_CHANNEL_RECEIVE], n);
    CHECK_EQ(seek_all(recording).sampled, 2 * n);
    cp__recording_free(recording);
    cp_chan_free(chan);
}

/* What a G of the test's own waits for; it is on the thread's stack. */
static void wait_for_object(struct cp_g *g, const void *object)
{
    struct cp_m *m = cp_m_self();

    cp_g_park(g, CP_WAIT_LOCK, object);
    cp_execute(m, NULL);
    cp_g_ready(g);
    cp_execute(m, g);
}

CP_TEST(a_table_tells_some_objects_apart_and_adds_up_all)
{
    struct cp__recording *recording;
    const int n = CP__WAIT_OBJECTS_MAX + 500;
    struct cp_error err = {0};
    struct sought all;
    struct cp_m *m;
    struct cp_g g;

    CHECKF(cp_m_attach(&m, &err) == 0, "%s", err.message);
    recording = start_recording(CP__WAIT_EVENT_WAIT, 1);
    cp_g_init(&g, (void *)cp_g_self()->stack_lo, (void *)cp_g_self()->stack_hi, NULL);
    cp_execute(m, &g);
    for (volatile int i = 1; i <= n; i++)
        wait_for_object(&g, (const void *)(uintptr_t)i);
    cp_execute(m, NULL);
    all = seek_all(recording);
    CHECK_EQ(all.sampled, n);
    CHECK_EQ(all.records, CP__WAIT_OBJECTS_MAX + 1);
    cp_g_fini(&g);
    cp__recording_free(recording);
    cp_m_detach(m);
}

/* ---- Runnable -------------------------------------------------------------------------------- */

static void keep_m_for(uint64_t ns)
{
    const uint64_t start = wall_ns();

    while (wall_ns() - start < ns) {
    }
}

static void does_nothing(void *arg)
{
    (void)arg;
}

static void keep_m_from_others(void *arg)
{
    int once = 1;

    (void)arg;
    go(parks, &once);
    cp_yield();
    cp_ready(parked);
    go(does_nothing, NULL);
    keep_m_for(20 * MS); /* two Gs could run */
    while (parked != NULL)
        cp_yield();
}

CP_TEST(runnable_counts_the_time_until_an_m_comes)
{
    struct cp__recording *recording = start_recording(CP__WAIT_EVENT_RUNNABLE, 1);
    struct sought of_parked, all;

    run(1, keep_m_from_others, NULL);
    cp__recording_stop(recording);
    of_parked = seek(recording, CP_WAIT_PARK, called_from, NULL);
    all = seek_all(recording);
    CHECK_EQ(of_parked.sampled, 1);
    CHECK(of_parked.delay >= 20 * MS);
    CHECK(of_parked.object == NULL);
    CHECK(all.delay >= 40 * MS);
    cp__recording_free(recording);
}

/* Nobody knows where a G is that leaves its M without a word: where it waited last may be overwritten. */
CP_TEST(a_g_that_leaves_without_a_word_has_no_stack)
{
    struct cp__recording *recording = start_recording(CP__WAIT_EVENT_RUNNABLE, 1);
    struct cp_error err = {0};
    struct sought all;
    struct cp_m *m;
    struct cp_g g;

    CHECKF(cp_m_attach(&m, &err) == 0, "%s", err.message);
    cp_g_init(&g, (void *)cp_g_self()->stack_lo, (void *)cp_g_self()->stack_hi, NULL);
    cp_execute(m, &g);
    wait_for_object(&g, &g);
    cp_execute(m, NULL);
    usleep(1); /* a time in which it could have run */
    cp_execute(m, &g);
    cp_execute(m, NULL);
    all = seek(recording, CP_WAIT_OTHER, 0, NULL);
    CHECK(all.sampled >= 1);
    CHECK_EQ(all.depth, 0);
    CHECK_EQ(all.flags, CP_SAMPLE_INCOMPLETE);
    cp_g_fini(&g);
    cp__recording_free(recording);
    cp_m_detach(m);
}

/* ---- Locks ----------------------------------------------------------------------------------- */

__attribute__((noinline)) static void release(void)
{
    CP_LABEL_SCOPE("who", "releaser");

    NOTE_CALL();
    cp_ready(parked);
    __asm__ volatile("");
}

static void park_and_release(void *times)
{
    go(parks, times);
    for (cp_yield(); parked != NULL; cp_yield())
        release();
    cp_sleep(MS);
}

CP_TEST(waits_are_credited_to_who_has_ended_them)
{
    struct cp__recording *recording = start_recording(CP__WAIT_EVENT_LOCK, 1);
    struct sought released;
    int n = 5;

    run(1, park_and_release, &n);
    cp__recording_stop(recording);
    released = seek(recording, CP_WAIT_PARK, called_from, "releaser");
    CHECK_EQ(released.records, 1);
    CHECK_EQ(released.sampled, n);
    CHECK_EQ(released.flags, 0);
    CHECKF(released.place > 0 && released.place < 5, "%u", released.place);
    CHECK_EQ(seek_all(recording).sampled, n); /* the sleep was ended by a clock */
    cp__recording_free(recording);
}

/* ---- Labels ---------------------------------------------------------------------------------- */

static void parks_with_labels(void *times)
{
    parked = cp_sched_self();
    for (volatile int i = 0; i < *(const int *)times; i++) {
        char value[8];

        snprintf(value, sizeof value, "%d", i % 2); /* a set of its own each time */
        CP_LABEL_SCOPE("k", value);
        park_once();
    }
    parked = NULL;
}

static void ready_labelled(void *times)
{
    go(parks_with_labels, times);
    for (cp_yield(); parked != NULL; cp_yield())
        cp_ready(parked);
}

CP_TEST(sets_of_labels_with_the_same_values_are_one)
{
    struct cp__recording *recording = start_recording(CP__WAIT_EVENT_WAIT, 1);
    int n = 200;

    run(1, ready_labelled, &n);
    CHECK_EQ(seek_all(recording).records, 2);
    CHECK_EQ(seek(recording, CP_WAIT_PARK, called_from, "0").sampled, n / 2);
    CHECK_EQ(seek(recording, CP_WAIT_PARK, called_from, "1").sampled, n / 2);
    cp__recording_free(recording);
}

/* ---- Starting -------------------------------------------------------------------------------- */

CP_TEST(there_are_so_many_recordings_at_once)
{
    struct cp__recording *recordings[CP__RECORDINGS], *more = NULL;
    struct cp_error err = {0};

    for (unsigned i = 0; i < CP__RECORDINGS; i++)
        recordings[i] = start_recording((enum cp__wait_event)(i % 3), 1 + i);
    CHECK_EQ(cp__recording_start(CP__WAIT_EVENT_WAIT, 1, &more, &err), -EBUSY);
    CHECK_CONTAINS(err.message, "8 recordings");
    CHECK(more == NULL);
    cp__recording_stop(recordings[3]); /* what was recorded needs no place */
    more = start_recording(CP__WAIT_EVENT_WAIT, 1);
    for (unsigned i = 0; i < CP__RECORDINGS; i++)
        cp__recording_free(recordings[i]);
    cp__recording_free(more);
    cp__recording_free(NULL);
}

CP_TEST(a_start_says_why_waits_cannot_be_recorded)
{
    struct cp__recording *recording = NULL;
    struct cp_error err = {0};

    CHECK_EQ(cp__recording_start(CP__WAIT_EVENT_WAIT, 0, &recording, &err), -EINVAL);
    CHECK_CONTAINS(err.message, "at least 1 ns");
    cp_accounts_set(false);
    CHECK_EQ(cp__recording_start(CP__WAIT_EVENT_WAIT, 1, &recording, &err), -EINVAL);
    CHECK_CONTAINS(err.message, "cp_accounts_set(true)");
    cp_accounts_set(true);
    CHECK(recording == NULL);
    CHECK_EQ(cp_accounting, 1);
    cp__recording_free(start_recording(CP__WAIT_EVENT_WAIT, 1));
    CHECK_EQ(cp_accounting, 1);
}
