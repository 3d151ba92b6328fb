#include "server_waits.h"

#include "sched.h"

#include <stdio.h>
#include <time.h>

#define NS_PER_S 1000000000
#define NS_PER_MS 1000000
#define FETCHES_AT_ONCE 2

static struct cp_mutex *stock;
static struct cp_chan *fetching; /* has an element for each fetch that runs */

bool waits_start(void)
{
    stock = cp_mutex_new();
    fetching = cp_chan_new(0, FETCHES_AT_ONCE);
    return stock && fetching;
}

void waits_end(void)
{
    cp_mutex_free(stock);
    cp_chan_free(fetching);
}

static void say(struct work *w, const char *what)
{
    w->size = (size_t)snprintf(w->text, sizeof(w->text), "%s\n", what);
}

/* ---- /reserve -------------------------------------------------------------------------------- */

/* The lock is held for as long as the database takes, so requests wait for each other: the commonest cause of
 * waits. */
void wait_reserve(struct work *w, unsigned ms)
{
    cp_mutex_lock(stock);
    cp_sleep((uint64_t)ms * NS_PER_MS); /* the database */
    cp_mutex_unlock(stock);
    say(w, "reserved");
}

/* ---- /fetch ---------------------------------------------------------------------------------- */

/* The channel is too small. */
void wait_fetch(struct work *w, unsigned ms)
{
    cp_chan_send(fetching, NULL);
    cp_sleep((uint64_t)ms * NS_PER_MS); /* another service */
    cp_chan_recv(fetching, NULL);
    say(w, "fetched");
}

/* ---- /sleep and /poll ------------------------------------------------------------------------ */

void wait_sleep(struct work *w, unsigned ms)
{
    cp_sleep((uint64_t)ms * NS_PER_MS);
    say(w, "slept");
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

void wait_poll(struct work *w, unsigned ms)
{
    const uint64_t end = now_ns() + (uint64_t)ms * NS_PER_MS;
    while (now_ns() < end)
        cp_sleep(NS_PER_MS / 2);
    say(w, "done");
}
