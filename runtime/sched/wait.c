/*
 * Waiting for a time or for a descriptor.
 *
 * A G that waits has a struct waiter on its stack: in the queue of deadlines, in the list of the descriptor's
 * waiters, or in both. The thread that takes the waiter out of both, under the lock, decides the result and
 * wakes the G, exactly once. A descriptor is in the epoll set from the first wait on, and is armed
 * (EPOLLONESHOT) for what its waiters want. Closing the descriptor removes it from the set.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "internal.h"
#include "runtime/base/clock.h"
#include "runtime/base/fail.h"

#define EVENTS_AT_ONCE 64
/* Flags that say how to wait. This file sets them; a caller's are ignored. */
#define EPOLL_FLAGS (EPOLLET | EPOLLONESHOT | EPOLLWAKEUP | EPOLLEXCLUSIVE)
#define NS_PER_S 1000000000u
#define NS_PER_MS 1000000u

struct waiter {
    struct cp__timer timer; /* first, so that a timer's address is its waiter's */
    struct cp__task *task;
    struct waiter *next; /* in the descriptor's list, or in the list of those to be woken */
    int fd;              /* -1: the G only sleeps */
    uint32_t events;
    int result;
};

static struct {
    struct cp__lock lock;

    /* Guarded by the lock. */
    struct cp__timers timers;
    struct waiter **by_fd; /* the first waiter of each descriptor */
    int fd_limit;          /* the length of by_fd */

    /* Written under the lock, read without. */
    uint64_t deadline; /* the earliest deadline; UINT64_MAX: none */
    uint32_t fd_waiters;

    /* Immutable while the scheduler runs. */
    int epoll;
    int interrupt; /* an eventfd */
} waits = {.lock = CP__LOCK_INIT(CP__RANK_SCHED), .epoll = -1, .interrupt = -1};

static uint64_t wait_now_ns(void)
{
    return (uint64_t)cp__clock_ns(CLOCK_MONOTONIC);
}

/* ---- Start and stop -------------------------------------------------------------------------- */

int cp__wait_start(struct cp_error *err)
{
    struct epoll_event event = {.events = EPOLLIN};
    int result = 0;

    waits.deadline = UINT64_MAX;
    waits.epoll = epoll_create1(EPOLL_CLOEXEC);
    waits.interrupt = waits.epoll < 0 ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    event.data.fd = waits.interrupt;
    if (waits.interrupt < 0 || epoll_ctl(waits.epoll, EPOLL_CTL_ADD, waits.interrupt, &event) < 0) {
        result = -errno;
        cp__error(err, result,
                  "The scheduler could not open the two descriptors that it needs, for epoll and for "
                  "interrupts: %s. Raise the limit of open files (ulimit -n), or close some files.",
                  strerror(-result));
        cp__wait_stop();
    }
    return result;
}

/* Forgets the number before it closes the descriptor: another file may get the same number next, and a child
 * of a fork must not close that file. */
static void close_descriptor(int *fd)
{
    int old = *fd;

    cp_store_release(fd, -1); /* pairs with the acquire in cp__wait_forget() */
    if (old >= 0)
        close(old);
}

void cp__wait_stop(void)
{
    close_descriptor(&waits.epoll);
    close_descriptor(&waits.interrupt);
    free(waits.by_fd);
    waits.by_fd = NULL;
    waits.fd_limit = 0;
}

/* Closes the child's descriptors. The epoll set is shared with the parent, so the child could take the
 * parent's events. */
void cp__wait_forget(void)
{
    /* acquire, both loads: pairs with the release in close_descriptor() */
    int epoll = cp_load_acquire(&waits.epoll);
    int interrupt = cp_load_acquire(&waits.interrupt);

    memset(&waits, 0, sizeof waits);
    waits.lock = (struct cp__lock)CP__LOCK_INIT(CP__RANK_SCHED);
    waits.epoll = epoll;
    waits.interrupt = interrupt;
    close_descriptor(&waits.epoll);
    close_descriptor(&waits.interrupt);
}

/* Makes the poller return. Only the M that waits reads the counter back, so another M that polls in passing
 * does not consume the interrupt. */
void cp__wait_interrupt(void)
{
    uint64_t one = 1;
    ssize_t n = write(waits.interrupt, &one, sizeof one);

    (void)n; /* write() cannot fail before 2^64 - 1 calls */
}

static void interrupt_seen(void)
{
    uint64_t count;
    ssize_t n = read(waits.interrupt, &count, sizeof count);

    (void)n; /* EAGAIN: no interrupt, or none yet */
}

uint64_t cp__wait_deadline(void)
{
    return cp_load_relaxed(
        &waits.deadline); /* relaxed: the scheduler's lock orders the load with cp__idle_need_poller() */
}

bool cp__wait_is_needed(void)
{
    /* relaxed: as above */
    return cp_load_relaxed(&waits.deadline) != UINT64_MAX || cp_load_relaxed(&waits.fd_waiters) > 0;
}

/* ---- Deadlines; under the lock --------------------------------------------------------------- */

static void publish_deadline(void)
{
    const struct cp__timer *first = waits.timers.first;

    cp_store_relaxed(&waits.deadline, first == NULL ? UINT64_MAX : first->when); /* relaxed: as above */
}

/* Adds w to the queue of deadlines, ns from now. */
static void add_timer(struct waiter *w, uint64_t ns)
{
    uint64_t now = wait_now_ns();

    w->timer.when = ns < UINT64_MAX - 1 - now ? now + ns : UINT64_MAX - 1;
    cp__timers_add(&waits.timers, &w->timer);
    publish_deadline();
}

static void remove_timer(struct waiter *w)
{
    if (w->timer.place == NULL)
        return;
    cp__timers_remove(&waits.timers, &w->timer);
    publish_deadline();
}

/* ---- Descriptors; under the lock ------------------------------------------------------------- */

/* Makes by_fd long enough for fd. */
static int make_room_for(int fd)
{
    int limit = waits.fd_limit > 0 ? waits.fd_limit : 64;
    struct waiter **by_fd;

    if (fd < waits.fd_limit)
        return 0;
    while (limit <= fd)
        limit *= 2;
    by_fd = realloc(waits.by_fd, (size_t)limit * sizeof *by_fd);
    if (by_fd == NULL)
        return -ENOMEM;
    memset(by_fd + waits.fd_limit, 0, (size_t)(limit - waits.fd_limit) * sizeof *by_fd);
    waits.by_fd = by_fd;
    waits.fd_limit = limit;
    return 0;
}

/* Arms fd for the events that its waiters want. */
static int arm_poll(int fd)
{
    struct epoll_event event = {.events = EPOLLONESHOT, .data.fd = fd};

    for (const struct waiter *w = waits.by_fd[fd]; w != NULL; w = w->next)
        event.events |= w->events;
    if (epoll_ctl(waits.epoll, EPOLL_CTL_MOD, fd, &event) == 0)
        return 0;
    /* The descriptor is not in the set yet. Any other error would come from both calls. */
    return epoll_ctl(waits.epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static void unlink_fd(struct waiter *w)
{
    struct waiter **link = &waits.by_fd[w->fd];

    while (*link != w)
        link = &(*link)->next;
    *link = w->next;
    cp_store_relaxed(&waits.fd_waiters, waits.fd_waiters - 1); /* relaxed: a hint */
}

/* Appends w to the waiters of its descriptor, so that the first waiter is woken first. */
static int link_fd(struct waiter *w)
{
    int result = make_room_for(w->fd);
    struct waiter **link;

    if (result < 0)
        return result;
    for (link = &waits.by_fd[w->fd]; *link != NULL;)
        link = &(*link)->next;
    *link = w;
    cp_store_relaxed(&waits.fd_waiters, waits.fd_waiters + 1); /* relaxed: as in cp__wait_is_needed() */
    result = arm_poll(w->fd);
    if (result < 0)
        unlink_fd(w);
    return result;
}

/* ---- Waking ---------------------------------------------------------------------------------- */

/* Takes w out of the queue and the list in which it waits, and appends w to the ready ones; under the
 * lock. */
static void finish_wait(struct waiter *w, int result, struct waiter ***ready)
{
    remove_timer(w);
    if (w->fd >= 0)
        unlink_fd(w);
    w->result = result;
    w->next = NULL;
    **ready = w;
    *ready = &w->next;
}

/* Handles an event of a descriptor: makes the waiters ready that want it. */
static void fd_event(int fd, uint32_t events, struct waiter ***ready)
{
    struct waiter *w = fd < waits.fd_limit ? waits.by_fd[fd] : NULL, *next;

    for (; w != NULL; w = next) {
        uint32_t got = events & (w->events | EPOLLERR | EPOLLHUP);

        next = w->next;
        if (got != 0)
            finish_wait(w, (int)got, ready);
    }
    if (fd < waits.fd_limit && waits.by_fd[fd] != NULL)
        arm_poll(fd); /* cannot fail: it has worked before, and the descriptor is open */
}

/* Makes the waiters ready whose deadline has come. */
static void expire(struct waiter ***ready)
{
    uint64_t now = waits.timers.first == NULL ? 0 : wait_now_ns();

    while (waits.timers.first != NULL && waits.timers.first->when <= now) {
        struct waiter *w = (struct waiter *)waits.timers.first;
        int fd = w->fd;

        finish_wait(w, fd >= 0 ? -ETIMEDOUT : 0, ready);
    }
}

/* Wakes the Gs of a list into m's queue; returns how many can run. */
static unsigned wake_ready(struct cp__worker *m, struct waiter *ready)
{
    unsigned n = 0;

    while (ready != NULL) {
        struct cp__task *task = ready->task;

        ready = ready->next; /* the waiter is invalid as soon as its G runs */
        if (cp__task_wake(task, CP__WAKE_EVENT)) {
            cp__queue_push(m, task);
            n++;
        }
    }
    return n;
}

/* ---- The poller ------------------------------------------------------------------------------ */

/* Waits for events until a time. The time is exact to the nanosecond if the kernel has epoll_pwait2 (Linux
 * 5.11). */
static int wait_for_events(struct epoll_event *events, uint64_t until)
{
    static bool is_refused; /* atomic */
    uint64_t now = until == 0 || until == UINT64_MAX ? 0 : wait_now_ns();
    uint64_t ns = until > now ? until - now : 0;
    struct timespec ts = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
    int n, ms;

    /* relaxed: a thread that does not see the store makes one more system call */
    if (!cp_load_relaxed(&is_refused)) {
        n = epoll_pwait2(waits.epoll, events, EVENTS_AT_ONCE, until == UINT64_MAX ? NULL : &ts, NULL);
        if (n >= 0 || (errno != ENOSYS && errno != EPERM))
            return n;
        cp_store_relaxed(&is_refused, true);
    }
    ms = ns / NS_PER_MS < INT32_MAX ? (int)((ns + NS_PER_MS - 1) / NS_PER_MS) : INT32_MAX;
    return epoll_wait(waits.epoll, events, EVENTS_AT_ONCE, until == UINT64_MAX ? -1 : ms);
}

/* Returns whether a deadline has passed. */
static bool is_due(void)
{
    uint64_t deadline = cp_load_relaxed(&waits.deadline); /* relaxed: a hint */

    return deadline != UINT64_MAX && deadline <= wait_now_ns();
}

unsigned cp__wait_poll(struct cp__worker *m, uint64_t until)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    struct waiter *ready = NULL, **last = &ready;
    int n = 0;

    /* relaxed: a thread that adds a waiter makes sure that an M looks again */
    if (until != 0 || cp_load_relaxed(&waits.fd_waiters) > 0)
        n = wait_for_events(events, until);
    if (n <= 0 && !is_due()) /* n < 0: a signal */
        return 0;
    cp__lock(&waits.lock);
    for (int i = 0; i < n; i++) {
        if (events[i].data.fd != waits.interrupt)
            fd_event(events[i].data.fd, events[i].events, &last);
        else if (until != 0)
            interrupt_seen();
    }
    expire(&last);
    cp__unlock(&waits.lock);
    return wake_ready(m, ready);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

int cp_sleep(uint64_t ns)
{
    struct waiter w = {.task = cp__task_self(), .fd = -1};

    if (w.task == NULL)
        return -ESRCH;
    cp__lock(&waits.lock);
    add_timer(&w, ns);
    cp__unlock(&waits.lock);
    cp__idle_need_poller(w.timer.when);
    cp__task_await(CP_WAIT_SLEEP, NULL);
    return 0;
}

/* A separate function, because it uses errno and the caller may change its thread: see sched.h. */
static __attribute__((noinline)) int start_waiting(struct waiter *w, int64_t timeout_ns)
{
    int result;

    cp__lock(&waits.lock);
    result = link_fd(w);
    if (result == 0 && timeout_ns >= 0)
        add_timer(w, (uint64_t)timeout_ns);
    cp__unlock(&waits.lock);
    return result;
}

int cp_wait_fd(int fd, uint32_t events, int64_t timeout_ns)
{
    struct waiter w = {.task = cp__task_self(), .fd = fd, .events = events & ~EPOLL_FLAGS};
    int result;

    if (w.task == NULL)
        return -ESRCH;
    if (fd < 0)
        return -EBADF;
    result = start_waiting(&w, timeout_ns);
    if (result == -EPERM) /* the file does not support epoll; poll(2) calls such a file ready */
        return (int)(events & (EPOLLIN | EPOLLOUT));
    if (result < 0)
        return result;
    cp__idle_need_poller(timeout_ns >= 0 ? w.timer.when : UINT64_MAX);
    cp__task_await(CP_WAIT_DESCRIPTOR, (const void *)(intptr_t)fd);
    return w.result;
}
