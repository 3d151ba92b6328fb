/*
 * Where do items spend their time in a pipeline? Each of its steps is a queue and the green threads that
 * serve it. A watch for keys has two stages for a step, the wait and the work. A key is the address of its
 * item.
 *
 *     build/examples/watch/pipeline [ITEMS]
 */
#include "sched.h"
#include "watch.h"

#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 3, SERVERS = 2, ROOM = 16 };

/* The second step is the slow one, as the table shows by the time that items wait for it. */
static const uint64_t work_ns[STEPS] = {50000, 250000, 50000};
static struct cp_watch_keys *watch;
static struct cp_chan *queues[STEPS];
static struct cp_wait_group *on_their_way;
static uint64_t n_items = 1000;

static void serve(void *number)
{
    unsigned step = (unsigned)(uintptr_t)number;
    uint64_t *item;

    while (cp_chan_recv(queues[step], &item) == 0) {
        cp_watch_key_move(watch, (uintptr_t)item, 2 * step + 1);
        cp_sleep(work_ns[step]); /* the work */
        ++*item;
        if (step + 1 < STEPS) {
            cp_watch_key_move(watch, (uintptr_t)item, 2 * step + 2);
            cp_chan_send(queues[step + 1], &item);
        } else {
            cp_watch_key_end(watch, (uintptr_t)item);
            cp_wait_group_done(on_their_way);
        }
    }
}

static void run(void *items)
{
    cp_wait_group_add(on_their_way, (int64_t)n_items);
    for (uintptr_t i = 0; i < STEPS * SERVERS; i++)
        cp_go(serve, (void *)(i / SERVERS));
    for (uint64_t *item = items; item < (uint64_t *)items + n_items; item++) {
        cp_watch_key_begin(watch, (uintptr_t)item, 0);
        cp_chan_send(queues[0], &item);
    }
    cp_wait_group_wait(on_their_way);
    for (int i = 0; i < STEPS; i++)
        cp_chan_close(queues[i]);
}

int main(int argc, char **argv)
{
    const struct cp_watch_keys_options options = {
        .size = sizeof options,
        .name = "pipeline",
        .stages = "decode wait,decode work,execute wait,execute work,write wait,write work"};
    const struct cp_sched_options threads = {.size = sizeof threads, .threads = 2};
    struct cp_watch_snapshot *snapshot;
    struct cp_error err;
    uint64_t *items;

    if (argc > 1)
        n_items = strtoull(argv[1], NULL, 10);
    items = calloc(n_items, sizeof *items);
    on_their_way = cp_wait_group_new();
    for (int i = 0; i < STEPS; i++)
        queues[i] = cp_chan_new(sizeof(uint64_t *), ROOM);
    if (cp_watch_keys_open(&watch, &options, &err) < 0 || cp_sched_run(&threads, run, items, &err) < 0 ||
        cp_watch_take_keys(&snapshot, watch, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    cp_watch_print(snapshot, CP_WATCH_TEXT, stdout);
    cp_watch_snapshot_free(snapshot);
    cp_watch_keys_close(watch);
    free(items);
    return 0;
}
