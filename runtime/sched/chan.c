/*
 * Channels. A G that waits has a struct waiter on its stack, in one of the channel's two lists. Another G or
 * thread takes the waiter out of the list, under the lock. Before it does so, it has moved the element, or it
 * closes the channel; after it has released the lock, it wakes the G.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct waiter {
    struct waiter *next;
    struct cp__task *task;
    const void *from; /* where a sender's element is */
    void *to;         /* where a receiver's element goes */
    int result;
};

/* A queue of waiters. `last` points at the link that is NULL. */
struct list {
    struct waiter *first;
    struct waiter **last;
};

struct cp_chan {
    /* Immutable. */
    size_t elem_size;
    size_t capacity;

    struct cp__lock lock;
    /* The lock guards these. If receivers wait, the queue is empty and no sender waits; if senders wait, the
     * queue is full. */
    struct list senders;
    struct list receivers;
    size_t count; /* elements in the queue */
    size_t first; /* index of the oldest element */
    bool closed;
    unsigned char elems[];
};

/* ---- Lists ----------------------------------------------------------------------------------- */

static void append_waiter(struct list *list, struct waiter *w)
{
    w->next = NULL;
    *list->last = w;
    list->last = &w->next;
}

static struct waiter *take_first(struct list *list)
{
    struct waiter *w = list->first;

    if (w == NULL)
        return NULL;
    list->first = w->next;
    if (w->next == NULL)
        list->last = &list->first;
    return w;
}

CP__IN_ITS_CALLER void wake_waiter(struct cp__task *task)
{
    if (cp__task_wake(task, CP__WAKE_EVENT))
        cp__task_enqueue(task);
}

/* Appends self to list, releases the lock, and waits until another G or thread has taken w out of the
 * list. */
CP__IN_ITS_CALLER int wait_in(struct cp_chan *chan, struct list *list, struct waiter *w,
                              enum cp_wait_reason reason)
{
    w->task = cp__task_self();
    if (w->task == NULL) {
        cp__unlock(&chan->lock);
        return -EAGAIN;
    }
    append_waiter(list, w);
    cp__unlock(&chan->lock);
    cp__task_await(reason, chan);
    return w->result;
}

/* Releases the lock, and wakes w, which has received what it waited for. */
CP__IN_ITS_CALLER int served(struct cp_chan *chan, struct waiter *w)
{
    struct cp__task *task = w->task;

    w->result = 0;
    cp__unlock(&chan->lock);
    wake_waiter(task);
    return 0;
}

/* ---- Elements; under the lock ---------------------------------------------------------------- */

static void copy_element(const struct cp_chan *chan, void *to, const void *from)
{
    if (chan->elem_size > 0)
        memcpy(to, from, chan->elem_size);
}

static void put_element(struct cp_chan *chan, const void *elem)
{
    copy_element(chan, chan->elems + (chan->first + chan->count) % chan->capacity * chan->elem_size, elem);
    chan->count++;
}

static void take_element(struct cp_chan *chan, void *elem)
{
    copy_element(chan, elem, chan->elems + chan->first * chan->elem_size);
    chan->first = (chan->first + 1) % chan->capacity;
    chan->count--;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

struct cp_chan *cp_chan_new(size_t elem_size, size_t capacity)
{
    struct cp_chan *chan;
    size_t size;

    if (__builtin_mul_overflow(elem_size, capacity, &size) ||
        __builtin_add_overflow(size, sizeof *chan, &size))
        return NULL;
    chan = malloc(size);
    if (chan == NULL)
        return NULL;
    *chan =
        (struct cp_chan){.elem_size = elem_size, .capacity = capacity, .lock = CP__LOCK_INIT(CP__RANK_SCHED)};
    chan->senders.last = &chan->senders.first;
    chan->receivers.last = &chan->receivers.first;
    return chan;
}

int cp_chan_send(struct cp_chan *chan, const void *elem)
{
    struct waiter self = {.from = elem}, *receiver;

    cp__lock(&chan->lock);
    if (chan->closed) {
        cp__unlock(&chan->lock);
        return -EPIPE;
    }
    receiver = take_first(&chan->receivers);
    if (receiver != NULL) {
        copy_element(chan, receiver->to, elem);
        return served(chan, receiver);
    }
    if (chan->count == chan->capacity)
        return wait_in(chan, &chan->senders, &self, CP_WAIT_CHANNEL_SEND);
    put_element(chan, elem);
    cp__unlock(&chan->lock);
    return 0;
}

int cp_chan_recv(struct cp_chan *chan, void *elem)
{
    struct waiter self = {.to = elem}, *sender;

    cp__lock(&chan->lock);
    sender = take_first(&chan->senders);
    if (chan->count > 0) {
        take_element(chan, elem);
        if (sender != NULL)
            put_element(chan, sender->from);
    } else if (sender != NULL) {
        copy_element(chan, elem, sender->from);
    } else if (chan->closed) {
        cp__unlock(&chan->lock);
        return -EPIPE;
    } else {
        return wait_in(chan, &chan->receivers, &self, CP_WAIT_CHANNEL_RECEIVE);
    }
    if (sender != NULL)
        return served(chan, sender);
    cp__unlock(&chan->lock);
    return 0;
}

void cp_chan_close(struct cp_chan *chan)
{
    struct waiter *w, *next;

    cp__lock(&chan->lock);
    /* one of the two lists is empty, so this list has all waiters */
    *chan->senders.last = chan->receivers.first;
    w = chan->senders.first;
    chan->senders = (struct list){NULL, &chan->senders.first};
    chan->receivers = (struct list){NULL, &chan->receivers.first};
    chan->closed = true;
    cp__unlock(&chan->lock);
    for (; w != NULL; w = next) {
        next = w->next; /* w is invalid as soon as its G runs */
        w->result = -EPIPE;
        wake_waiter(w->task);
    }
}

void cp_chan_free(struct cp_chan *chan)
{
    if (chan == NULL)
        return;
    pthread_mutex_destroy(&chan->lock.mutex);
    free(chan);
}
