/* Gs that wait for each other, so that a test knows how often. */
#ifndef COUNTERPOINT_TESTS_WAITING_H
#define COUNTERPOINT_TESTS_WAITING_H

#include "sched.h"
#include "test.h"

/* On one M, each of the waiter's parks is a wait, because the other G has yielded to it before. */
enum { PARKS = 30 };
static struct cp_g *waiter;

__attribute__((noinline)) static void wait_here(void)
{
    CHECK_EQ(cp_park(), 0);
    __asm__ volatile("");
}

__attribute__((noinline)) static void release_here(void)
{
    cp_ready(waiter);
    __asm__ volatile("");
}

/* The counters are volatile, so that no loop is unrolled: then it would have several stacks. */
static void wait_often(void *arg)
{
    (void)arg;
    CHECK_EQ(cp_label_set("role", "waiter"), 0);
    waiter = cp_sched_self();
    for (volatile int i = 0; i < PARKS; i++)
        wait_here();
}

static void release_often(void *arg)
{
    (void)arg;
    CHECK_EQ(cp_label_set("role", "releaser"), 0);
    for (volatile int i = 0; i < PARKS; i++) {
        cp_yield();
        release_here();
    }
}

static void play(void *arg)
{
    CHECK_EQ(cp_go(wait_often, NULL), 0);
    CHECK_EQ(cp_go(release_often, NULL), 0);
    (void)arg;
}

static void play_on_one_m(void)
{
    const struct cp_sched_options options = {.size = sizeof options, .threads = 1};
    struct cp_error err = {0};

    CHECKF(cp_sched_run(&options, play, NULL, &err) == 0, "%s", err.message);
}

#endif
