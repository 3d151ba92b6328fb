/* Turns and places; see share.h. */
#include "share.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "runtime/base/fork_child.h"

/* A thread that waits for the turn. The struct is on the stack of that thread. */
struct waiter {
    struct waiter *next;
    bool has_turn;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_cond_t changed; /* a waiter has got the turn */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Protected by the lock. */
static struct {
    bool is_taken;
    unsigned n_waiters;
    struct waiter *first; /* the waiter that has waited longest */
    unsigned places[CP__HTTP_PLACES];
} shared;

unsigned cp__http_turn_wait_ms = 10000;

/* ---- Fork ------------------------------------------------------------------------------------ */

/* Makes a condition whose time limits are by CLOCK_MONOTONIC. */
static void make_condition(void)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/* Forgets all turns and places, because the child lacks the threads that had them or waited for them. */
static void forget_turns_in_child(void)
{
    cp__fork_child_resets();
    pthread_mutex_init(&lock, NULL);
    make_condition();
    shared = (__typeof__(shared)){.is_taken = false};
    cp__fork_child_has_reset();
}

static void set_up_turns(void)
{
    make_condition();
    pthread_atfork(NULL, NULL, forget_turns_in_child);
}

/* Takes the lock, after the first call has registered the handler for fork(). */
static void lock_shared(void)
{
    pthread_once(&once, set_up_turns);
    pthread_mutex_lock(&lock);
}

/* ---- Turns ----------------------------------------------------------------------------------- */

/* Adds the waiter at the end of the queue. Called with the lock held. */
static void join_queue(struct waiter *waiter)
{
    struct waiter **end = &shared.first;

    while (*end != NULL)
        end = &(*end)->next;
    *end = waiter;
    shared.n_waiters++;
}

/* Removes the waiter from the queue. Called with the lock held. */
static void leave_queue(const struct waiter *waiter)
{
    struct waiter **link = &shared.first;

    while (*link != waiter)
        link = &(*link)->next;
    *link = waiter->next;
    shared.n_waiters--;
}

/* Waits for the condition, at most so many milliseconds. Called with the lock held. */
static void wait_ms(unsigned ms)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&changed, &lock, &until);
}

/* Returns whether the client has gone. Releases the lock meanwhile, because the server may take locks of its
 * own. */
static bool is_waiter_gone(const struct cp__exchange *exchange)
{
    bool result;

    if (exchange == NULL)
        return false;
    pthread_mutex_unlock(&lock);
    result = cp__http_is_gone(exchange);
    pthread_mutex_lock(&lock);
    return result;
}

/* Waits until the waiter, which is in the queue, has the turn. Returns what cp__http_turn_take() returns.
 * Called with the lock held. */
static int wait_for_turn(const struct cp__exchange *exchange, const struct waiter *waiter)
{
    const uint64_t end = cp__http_now_ms() + cp__http_turn_wait_ms;

    for (;;) {
        const uint64_t now = cp__http_now_ms();
        const bool has_gone = is_waiter_gone(exchange);

        if (waiter->has_turn)
            return 0;
        if (has_gone || now >= end)
            return has_gone ? -ECANCELED : -ETIMEDOUT;
        wait_ms(end - now < CP__HTTP_LOOK_MS ? (unsigned)(end - now) : CP__HTTP_LOOK_MS);
    }
}

int cp__http_turn_take(const struct cp__exchange *exchange, enum cp__http_turn_for what)
{
    struct waiter waiter = {.next = NULL};
    int result = 0;

    lock_shared();
    if (!shared.is_taken) {
        shared.is_taken = true;
    } else if (what == CP__TURN_LOOKUP && shared.n_waiters >= CP__HTTP_TURN_WAITERS) {
        result = -EBUSY;
    } else {
        join_queue(&waiter);
        result = wait_for_turn(exchange, &waiter);
        if (result < 0)
            leave_queue(&waiter);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/* Hands the turn to the waiter that has waited longest, without freeing it, so that no newcomer can take the
 * turn first. */
void cp__http_turn_give(void)
{
    pthread_mutex_lock(&lock);
    if (shared.first != NULL) {
        struct waiter *next = shared.first;

        leave_queue(next);
        next->has_turn = true;
        pthread_cond_broadcast(&changed);
    } else {
        shared.is_taken = false;
    }
    pthread_mutex_unlock(&lock);
}

bool cp__http_turn_or_refuse(struct cp__exchange *exchange, int *result)
{
    static const struct cp_http_header later = {"Retry-After", "1"};

    *result = cp__http_turn_take(exchange, CP__TURN_LOOKUP);
    if (*result == 0)
        return true;
    if (*result != -ECANCELED)
        *result = cp__http_refuse_with(
            exchange, 503, &later,
            "The endpoint answers one request of this kind at a time, and others wait already. "
            "Ask again in a second.");
    return false;
}

unsigned cp__http_turn_waiters(void)
{
    unsigned n;

    lock_shared();
    n = shared.n_waiters;
    pthread_mutex_unlock(&lock);
    return n;
}

/* ---- Places ---------------------------------------------------------------------------------- */

bool cp__http_place_take(enum cp__http_place place, unsigned max)
{
    bool is_taken;

    lock_shared();
    is_taken = shared.places[place] < max;
    shared.places[place] += is_taken;
    pthread_mutex_unlock(&lock);
    return is_taken;
}

/* A child of fork() may give back a place that the parent took. after_fork_in_child() has freed all places,
 * so the count stays at 0. */
void cp__http_place_give(enum cp__http_place place)
{
    pthread_mutex_lock(&lock);
    shared.places[place] -= shared.places[place] > 0;
    pthread_mutex_unlock(&lock);
}
