/* The scheduler: channels and wait groups. */
#include "tests/support/gs.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

static unsigned done;

static struct cp_chan *chan;
static unsigned ordered;

static void sends_three(void *arg)
{
    (void)arg;
    for (int i = 1; i <= 3; i++) {
        CHECK_EQ(cp_chan_send(chan, &i), 0);
        ordered++;
    }
}

static void receives_after_a_while(void *arg)
{
    int got;

    (void)arg;
    go(sends_three, NULL);
    for (int i = 0; i < 10; i++)
        cp_yield();
    CHECK_EQ(ordered, *(unsigned *)arg); /* how many elements the channel takes before one is received */
    for (int i = 1; i <= 3; i++) {
        CHECK_EQ(cp_chan_recv(chan, &got), 0);
        CHECK_EQ(got, i);
    }
}

CP_TEST(a_channel_holds_its_capacity)
{
    for (unsigned capacity = 0; capacity <= 3; capacity++) {
        chan = cp_chan_new(sizeof(int), capacity);
        ordered = 0;
        run(1, receives_after_a_while, &capacity);
        CHECK_EQ(ordered, 3);
        cp_chan_free(chan);
    }
}

#define WAITERS 5

static unsigned received[WAITERS]; /* by the order in which the receivers came */

static void receives_one(void *arg)
{
    unsigned *place = arg;

    CHECK_EQ(cp_chan_recv(chan, place), 0);
}

static void sends_one(void *arg)
{
    CHECK_EQ(cp_chan_send(chan, arg), 0);
}

/* The only M runs the Gs in the order in which they were started, so they wait in that order. */
static void serves_receivers(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < WAITERS; i++)
        go(receives_one, &received[i]);
    cp_yield();
    for (unsigned i = 0; i < WAITERS; i++)
        CHECK_EQ(cp_chan_send(chan, &i), 0);
}

static void serves_senders(void *arg)
{
    static unsigned numbers[WAITERS];

    (void)arg;
    for (unsigned i = 0; i < WAITERS; i++) {
        numbers[i] = i;
        go(sends_one, &numbers[i]);
    }
    cp_yield();
    for (unsigned i = 0; i < WAITERS; i++)
        CHECK_EQ(cp_chan_recv(chan, &received[i]), 0);
}

CP_TEST(who_waits_first_is_served_first)
{
    void (*const serves[])(void *) = {serves_receivers, serves_senders};

    chan = cp_chan_new(sizeof(unsigned), 0);
    for (unsigned i = 0; i < 2; i++) {
        memset(received, 0xff, sizeof received);
        run(1, serves[i], NULL);
        for (unsigned n = 0; n < WAITERS; n++)
            CHECK_EQ(received[n], n);
    }
    cp_chan_free(chan);
}

static void receives_until_closed(void *arg)
{
    int got;

    (void)arg;
    while (cp_chan_recv(chan, &got) == 0)
        add_one(&done);
    CHECK_EQ(cp_chan_recv(chan, &got), -EPIPE);
    add_one(&done);
}

static void sends_until_closed(void *arg)
{
    int elem = 0;

    (void)arg;
    while (cp_chan_send(chan, &elem) == 0)
        elem++;
    CHECK_EQ(cp_chan_send(chan, &elem), -EPIPE);
    add_one(&done);
}

static void closes(void *arg)
{
    (void)arg;
    for (int i = 0; i < 10; i++)
        cp_yield();
    cp_chan_close(chan);
    cp_chan_close(chan);
}

static void start_and_close(void *arg)
{
    for (int i = 0; i < 5; i++)
        go((void (*)(void *))arg, NULL);
    go(closes, NULL);
}

CP_TEST(closing_wakes_all_who_wait)
{
    chan = cp_chan_new(sizeof(int), 0);
    run(2, start_and_close, receives_until_closed);
    CHECK_EQ(done, 5);
    cp_chan_free(chan);

    done = 0;
    chan = cp_chan_new(sizeof(int), 4);
    run(2, start_and_close, sends_until_closed);
    CHECK_EQ(done, 5);
    for (int i = 0, got; i < 4; i++) /* what was sent before the close is still there */
        CHECK_EQ(cp_chan_recv(chan, &got), 0);
    CHECK_EQ(cp_chan_recv(chan, &done), -EPIPE);
    cp_chan_free(chan);
}

#define PRODUCERS 8
#define CONSUMERS 5
#define PER_PRODUCER (TEST_TSAN ? 1000u : 5000u)

static struct cp_wait_group *producers;
static uint64_t sum;

static void produces(void *arg)
{
    uint64_t first = (uintptr_t)arg * PER_PRODUCER;

    for (uint64_t i = first; i < first + PER_PRODUCER; i++) {
        CHECK_EQ(cp_chan_send(chan, &i), 0);
        if (i % 64 == 0)
            cp_yield();
    }
    cp_wait_group_done(producers);
}

/* Elements of one producer come in the order in which they were sent. */
static void consumes(void *arg)
{
    uint64_t last[PRODUCERS] = {0}, i, own = 0;

    (void)arg;
    while (cp_chan_recv(chan, &i) == 0) {
        CHECK(last[i / PER_PRODUCER] <= i);
        last[i / PER_PRODUCER] = i;
        own += i + 1;
        add_one(&done);
    }
    cp_fetch_add_acq_rel(&sum, own);
}

static void closes_after_the_last(void *arg)
{
    (void)arg;
    cp_wait_group_add(producers, PRODUCERS);
    for (uintptr_t i = 0; i < PRODUCERS; i++)
        go(produces, (void *)i);
    for (int i = 0; i < CONSUMERS; i++)
        go(consumes, NULL);
    CHECK_EQ(cp_wait_group_wait(producers), 0);
    cp_chan_close(chan);
}

static void check_conservation(unsigned threads, size_t capacity)
{
    uint64_t n = PRODUCERS * PER_PRODUCER;

    done = 0;
    sum = 0;
    producers = cp_wait_group_new();
    chan = cp_chan_new(sizeof(uint64_t), capacity);
    run(threads, closes_after_the_last, NULL);
    CHECK_EQ(done, n);
    CHECK_EQ(sum, n * (n + 1) / 2);
    cp_chan_free(chan);
    cp_wait_group_free(producers);
}

CP_TEST(every_element_arrives_once)
{
    for (unsigned threads = 1; threads <= 4; threads++) {
        check_conservation(threads, 0);
        check_conservation(threads, 1);
        check_conservation(threads, 100);
    }
}

CP_TEST(threads_use_channels_without_waiting)
{
    char element = 'x', got = 0;

    chan = cp_chan_new(1, 2);
    CHECK_EQ(cp_chan_recv(chan, &got), -EAGAIN);
    CHECK_EQ(cp_chan_send(chan, &element), 0);
    CHECK_EQ(cp_chan_send(chan, &element), 0);
    CHECK_EQ(cp_chan_send(chan, &element), -EAGAIN);
    CHECK_EQ(cp_chan_recv(chan, &got), 0);
    CHECK_EQ(got, 'x');
    cp_chan_free(chan);
    chan = cp_chan_new(0, 1);
    CHECK_EQ(cp_chan_send(chan, NULL), 0);
    CHECK_EQ(cp_chan_recv(chan, NULL), 0);
    cp_chan_free(chan);
    CHECK(cp_chan_new(SIZE_MAX / 2, 3) == NULL);
    cp_chan_free(NULL);
}

/* ---- Wait groups ----------------------------------------------------------------------------- */

static void finishes(void *arg)
{
    cp_sleep(MS);
    add_one(&done);
    cp_wait_group_done(arg);
}

static void waits_and_frees(void *arg)
{
    for (int round = 0; round < 100; round++) {
        struct cp_wait_group *group = cp_wait_group_new();

        CHECK_EQ(cp_wait_group_wait(group), 0); /* returns at once */
        done = 0;
        cp_wait_group_add(group, 10);
        for (int i = 0; i < 10; i++)
            go(finishes, group);
        CHECK_EQ(cp_wait_group_wait(group), 0);
        CHECK_EQ(cp_load_acquire(&done), 10);
        cp_wait_group_free(group);
    }
    *(bool *)arg = true;
}

CP_TEST(a_group_waits_for_all)
{
    bool ended = false;

    run(3, waits_and_frees, &ended);
    CHECK(ended);
}

/* ---- Signals --------------------------------------------------------------------------------- */

CP_TEST(signals_interrupt_no_channel)
{
    begin_storm();
    for (unsigned threads = 1; threads <= 4; threads++)
        check_conservation(threads, 1);
    end_storm();
}
