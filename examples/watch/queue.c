/*
 * How long do items wait in a queue? Producers and consumers are green threads, and the queue is a channel.
 * An item belongs to no green thread while it waits, so a watch for keys times it: the item's number is the
 * key, which the producer begins and the consumer ends.
 *
 *     build/examples/watch/queue [ITEMS]
 */
#include "sched.h"
#include "watch.h"

#include <stdio.h>
#include <stdlib.h>

enum { PRODUCERS = 4, CONSUMERS = 3, ROOM = 8 };

static struct cp_watch_keys *waiting;
static struct cp_chan *queue;
static struct cp_wait_group *producers;
static uint64_t items = 2000;

static void produce(void *number)
{
    for (uint64_t item = (uintptr_t)number; item < items; item += PRODUCERS) {
        /* The key begins before the send: afterwards, a consumer may have ended it already. So the time has
         * what the producer waits for room in the queue, too. */
        cp_watch_key_begin(waiting, item, 0);
        cp_chan_send(queue, &item);
    }
    cp_wait_group_done(producers);
}

static void consume(void *unused)
{
    uint64_t item;

    (void)unused;
    while (cp_chan_recv(queue, &item) == 0) {
        cp_watch_key_end(waiting, item);
        cp_sleep(10000); /* the work */
    }
}

static void run(void *unused)
{
    (void)unused;
    cp_wait_group_add(producers, PRODUCERS);
    for (uintptr_t i = 0; i < PRODUCERS; i++)
        cp_go(produce, (void *)i);
    for (int i = 0; i < CONSUMERS; i++)
        cp_go(consume, NULL);
    cp_wait_group_wait(producers);
    cp_chan_close(queue);
}

int main(int argc, char **argv)
{
    const struct cp_watch_keys_options options = {.size = sizeof options, .name = "queue"};
    const struct cp_sched_options threads = {.size = sizeof threads, .threads = 2};
    struct cp_watch_snapshot *snapshot;
    struct cp_error err;

    if (argc > 1)
        items = strtoull(argv[1], NULL, 10);
    queue = cp_chan_new(sizeof(uint64_t), ROOM);
    producers = cp_wait_group_new();
    if (queue == NULL || producers == NULL)
        return 1;
    if (cp_watch_keys_open(&waiting, &options, &err) < 0 || cp_sched_run(&threads, run, NULL, &err) < 0 ||
        cp_watch_take_keys(&snapshot, waiting, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    cp_watch_print(snapshot, CP_WATCH_TEXT, stdout);
    cp_watch_snapshot_free(snapshot);
    cp_watch_keys_close(waiting);
    cp_wait_group_free(producers);
    cp_chan_free(queue);
    return 0;
}
