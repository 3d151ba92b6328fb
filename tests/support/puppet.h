/*
 * A thread that is an M and does nothing but what the test says, for tests on the simulated kernel: so the
 * test knows how much CPU time the thread has had, and whether the thread sleeps, at each line of its own.
 */
#ifndef COUNTERPOINT_TESTS_PUPPET_H
#define COUNTERPOINT_TESTS_PUPPET_H

#include <signal.h>
#include <sys/eventfd.h>

#include "burn.h"

struct puppet {
    struct worker worker;
    int fd;                    /* an eventfd, in which the thread waits for what it shall do */
    void (*does)(uint64_t ns); /* NULL: the thread ends */
    uint64_t ns;
    int begun, done; /* how often it has begun and ended what it shall do */
};

BURN_API void body_obeys(struct worker *worker)
{
    struct puppet *puppet = worker->arg;
    uint64_t token;

    for (;;) {
        CHECK_EQ(read(puppet->fd, &token, sizeof token), sizeof token);
        if (puppet->does == NULL)
            return;
        cp_store_release(&puppet->begun, puppet->begun + 1); /* pairs with the acquire in await() */
        puppet->does(puppet->ns);
        cp_store_release(&puppet->done, puppet->done + 1); /* pairs with the acquire in await() */
    }
}

BURN_API void tell_puppet(struct puppet *puppet, void (*does)(uint64_t ns), uint64_t ns)
{
    const uint64_t token = 1;

    puppet->does = does;
    puppet->ns = ns;
    CHECK_EQ(write(puppet->fd, &token, sizeof token), sizeof token);
}

/* Starts the thread, and returns when it is an M and sleeps. */
BURN_API void start_puppet(struct puppet *puppet)
{
    *puppet = (struct puppet){.fd = eventfd(0, EFD_CLOEXEC)};
    start_worker(&puppet->worker, body_obeys, puppet);
    await_sleep(puppet->worker.tid);
}

BURN_API void end_puppet(struct puppet *puppet)
{
    tell_puppet(puppet, NULL, 0);
    join_worker(&puppet->worker);
    close(puppet->fd);
}

/* Lets the thread do something, and returns when the thread has done it and sleeps. */
BURN_API void run_puppet(struct puppet *puppet, void (*does)(uint64_t ns), uint64_t ns)
{
    int done = puppet->done;

    tell_puppet(puppet, does, ns);
    await(&puppet->done, done + 1);
    await_sleep(puppet->worker.tid);
}

/* Lets the thread begin something, and returns when the thread is awake. It stands still in its next
 * SIM_RUN(), with all its CPU time to come, until finish_puppet(); signals reach it. */
BURN_API void hold_puppet(struct puppet *puppet, void (*does)(uint64_t ns), uint64_t ns)
{
    int begun = puppet->begun;

    sim_stop(puppet->worker.tid);
    tell_puppet(puppet, does, ns);
    await(&puppet->begun, begun + 1);
}

/* Lets the thread go on, and returns when the thread has done everything and sleeps. */
BURN_API void finish_puppet(struct puppet *puppet)
{
    sim_continue(puppet->worker.tid);
    await(&puppet->done, puppet->begun);
    await_sleep(puppet->worker.tid);
}

/* ---- What a puppet may do -------------------------------------------------------------------- */

/* Blocks or unblocks the signals that bring samples. */
BURN_API void mask_samples(int how)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    sigaddset(&set, SIGTRAP);
    pthread_sigmask(how, &set, NULL);
}

/* The thread blocks them for good, and runs. */
BURN_API void block_samples(uint64_t ns)
{
    mask_samples(SIG_BLOCK);
    burn_a(ns);
}

/* What was pending comes. */
BURN_API void unblock_samples(uint64_t ns)
{
    mask_samples(SIG_UNBLOCK);
    burn_a(ns);
}

#endif
