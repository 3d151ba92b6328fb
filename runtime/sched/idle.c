/*
 * Ms that have nothing to run.
 *
 * Such an M first searches the queues of the other Ms, and then sleeps. The first M to be idle becomes the
 * poller: it sleeps in epoll_wait(), and so also waits for deadlines and descriptors. The other Ms sleep on a
 * futex each. Two things must not happen.
 *
 * First, a task must not stay in a queue while an M sleeps that could run the task. So the thread that has
 * put a task into a queue wakes a sleeper, unless an M is searching: that M will find the task. The hint
 * wake_wanted says "an M sleeps and none searches":
 *
 *     puts the task into a queue            stops searching: sets wake_wanted
 *     fence                                 fence
 *     looks at wake_wanted                  looks at the queues again
 *
 * At least one of the two looks sees what the other side has written. An M goes through the second column
 * before it sleeps, and when its search ends with a task. (More tasks may be left; then the M wakes another
 * one, and so on until all Ms are busy.)
 *
 * Second, no deadline or descriptor must be waited for while Ms sleep and none of them is the poller. So the
 * thread that adds one wakes a sleeper, and so does the poller when it leaves to run a G. The sleeper becomes
 * the poller if it finds nothing else to do. While no M is idle, every M polls now and then (sched.c).
 */
#include "internal.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "spin.h"

#define SEARCH_ROUNDS 4 /* rounds over all Ms; some µs in total */

/* ---- Futexes --------------------------------------------------------------------------------- */

static void futex_sleep(struct cp__worker *w)
{
    /* acquire: pairs with the release in futex_wake(). After a signal (EINTR) or a spurious wake-up the loop
     * waits again. */
    while (cp_load_acquire(&w->notified) == 0)
        syscall(SYS_futex, &w->notified, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    /* relaxed: the next thread that sets the word has found w idle, under the lock */
    cp_store_relaxed(&w->notified, 0u);
}

/* Wakes w, which may be NULL. w may have woken before the system call, and its memory may be gone by then;
 * the kernel only uses the address. */
static void futex_wake(struct cp__worker *w)
{
    if (w == NULL)
        return;
    cp_store_release(&w->notified, 1u); /* pairs with the acquire in futex_sleep() */
    syscall(SYS_futex, &w->notified, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* ---- Who is idle; all under the lock --------------------------------------------------------- */

/* Updates the hints. */
static void publish_idle(void)
{
    const struct cp__sched *s = &cp__sched;
    bool wanted = s->searching == 0 && (s->idle != NULL || (s->poller != NULL && !s->poller_is_called));

    /* relaxed: the fences order the store */
    cp_store_relaxed(&cp__sched.wake_wanted, (uint32_t)wanted);
    cp_store_relaxed(&cp__sched.polling, (uint32_t)(s->poller != NULL)); /* relaxed: a hint */
}

/* Sets w's flag, and counts the searching Ms. */
static void set_searching(struct cp__worker *w, bool searching)
{
    if (searching && !w->searching)
        cp__sched.searching++;
    if (!searching && w->searching)
        cp__sched.searching--;
    w->searching = searching;
}

/* Chooses a sleeping M and makes it search, unless another M searches already. Returns the M whose futex the
 * caller must wake after it has released the lock. The poller is chosen last, because another M would have to
 * take its place. */
static struct cp__worker *choose_idle(void)
{
    struct cp__worker *w = cp__sched.idle, *poller = cp__sched.poller;

    if (cp__sched.searching > 0)
        return NULL;
    if (w != NULL) {
        cp__sched.idle = w->next_idle;
        set_searching(w, true);
    } else if (poller != NULL && !cp__sched.poller_is_called) {
        cp__sched.poller_is_called = true;
        set_searching(poller, true);
        cp__wait_interrupt();
    }
    publish_idle();
    return w;
}

static bool poller_is_missing(void)
{
    return cp__sched.poller == NULL && cp__sched.idle != NULL && cp__wait_is_needed();
}

/* ---- Waking ---------------------------------------------------------------------------------- */

static void wake_one(void)
{
    struct cp__worker *w;

    cp__lock(&cp__sched.lock);
    w = choose_idle();
    cp__unlock(&cp__sched.lock);
    futex_wake(w);
}

void cp__idle_wake(void)
{
    /* pairs with the fence in work_is_left(); see the top of the file */
    cp_fence_seq_cst();
    if (cp_load_relaxed(&cp__sched.wake_wanted) != 0) /* relaxed: the fence orders the load */
        wake_one();
}

void cp__idle_need_poller(uint64_t when)
{
    struct cp__worker *w = NULL;

    cp__lock(&cp__sched.lock);
    if (cp__sched.poller == NULL) {
        w = choose_idle();
    } else if (when < cp__sched.poller_until && !cp__sched.poller_is_called) {
        cp__sched.poller_until = when;
        cp__wait_interrupt();
    }
    cp__unlock(&cp__sched.lock);
    futex_wake(w);
}

void cp__idle_stop(void)
{
    struct cp__worker *w, *next;

    cp__lock(&cp__sched.lock);
    cp__sched.stopping = true;
    w = cp__sched.idle;
    cp__sched.idle = NULL;
    if (cp__sched.poller != NULL)
        cp__wait_interrupt();
    publish_idle();
    cp__unlock(&cp__sched.lock);
    for (; w != NULL; w = next) {
        next = w->next_idle;
        futex_wake(w);
    }
}

/* ---- Searching ------------------------------------------------------------------------------- */

/* Returns whether any queue has a task. The caller has published before that it no longer searches. */
static bool work_is_left(void)
{
    cp_fence_seq_cst(); /* pairs with the fence in cp__idle_wake(); see the top of the file */
    if (cp_load_relaxed(&cp__sched.global_count) != 0) /* relaxed: the fence orders the load */
        return true;
    for (unsigned i = 0; i < cp__sched.worker_count; i++) {
        if (!cp__queue_is_empty(&cp__sched.workers[i]))
            return true;
    }
    return false;
}

/* Looks into the global queue, then into the queues of all other Ms, from a random one on. */
static struct cp__task *search_once(struct cp__worker *w)
{
    unsigned n = cp__sched.worker_count;
    unsigned start = cp__worker_random(w, n);
    struct cp__task *task = cp__global_grab(w);

    for (unsigned i = 0; i < n && task == NULL; i++) {
        struct cp__worker *victim = &cp__sched.workers[(start + i) % n];

        if (victim != w)
            task = cp__queue_steal(w, victim);
    }
    return task;
}

struct cp__task *cp__idle_search(struct cp__worker *w)
{
    struct cp__task *task = NULL;

    if (cp__sched.worker_count == 1)
        return NULL;
    cp__lock(&cp__sched.lock);
    set_searching(w, true);
    publish_idle();
    cp__unlock(&cp__sched.lock);
    for (int round = 0; round < SEARCH_ROUNDS && task == NULL; round++) {
        task = search_once(w);
        cp__relax();
    }
    return task;
}

void cp__idle_found(struct cp__worker *w)
{
    bool missing;

    cp__lock(&cp__sched.lock);
    set_searching(w, false);
    missing = poller_is_missing();
    publish_idle();
    cp__unlock(&cp__sched.lock);
    if (missing || work_is_left())
        cp__idle_wake();
}

/* ---- Sleeping -------------------------------------------------------------------------------- */

enum joined { JOINED_STOP, JOINED_WORK, JOINED_IDLE, JOINED_POLLER };

/* Makes w idle, unless there is work or the scheduler stops. *until is how long w may sleep as the poller. */
static enum joined join(struct cp__worker *w, uint64_t *until)
{
    enum joined joined = JOINED_IDLE;

    cp__lock(&cp__sched.lock);
    set_searching(w, false);
    if (cp__sched.stopping) {
        joined = JOINED_STOP;
    } else if (cp__sched.global_first != NULL) {
        joined = JOINED_WORK;
    } else if (cp__sched.poller == NULL) {
        joined = JOINED_POLLER;
        cp__sched.poller = w;
        cp__sched.poller_until = *until = cp__wait_deadline();
    } else {
        w->next_idle = cp__sched.idle;
        cp__sched.idle = w;
    }
    publish_idle();
    cp__unlock(&cp__sched.lock);
    return joined;
}

/* Takes w off the list of idle Ms. Returns false if another M has done so, and will wake w or has woken
 * it. */
static bool leave_idle(struct cp__worker *w)
{
    struct cp__worker **link = &cp__sched.idle;
    bool found;

    cp__lock(&cp__sched.lock);
    while (*link != NULL && *link != w)
        link = &(*link)->next_idle;
    found = *link != NULL;
    if (found)
        *link = w->next_idle;
    publish_idle();
    cp__unlock(&cp__sched.lock);
    return found;
}

/* Passes the poller's place on, if a poller is needed. */
static void leave_poller(void)
{
    struct cp__worker *other = NULL;

    cp__lock(&cp__sched.lock);
    cp__sched.poller = NULL;
    cp__sched.poller_is_called = false;
    if (poller_is_missing())
        other = choose_idle();
    publish_idle();
    cp__unlock(&cp__sched.lock);
    futex_wake(other);
}

static void sleep_as_poller(struct cp__worker *w, uint64_t until)
{
    unsigned polled = cp__wait_poll(w, work_is_left() ? 0 : until);

    leave_poller();
    if (polled > 1)
        cp__idle_wake();
}

bool cp__idle_sleep(struct cp__worker *w)
{
    uint64_t until = 0;

    switch (join(w, &until)) {
    case JOINED_STOP:
        return false;
    case JOINED_WORK:
        break;
    case JOINED_POLLER:
        sleep_as_poller(w, until);
        break;
    case JOINED_IDLE:
        if (!work_is_left() || !leave_idle(w))
            futex_sleep(w);
        break;
    }
    return true;
}
