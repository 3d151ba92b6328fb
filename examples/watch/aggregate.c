/*
 * Where does the time go, by kind of work and by interval? The watch has a distribution for each value of the
 * label "route". The program opens it anew for each interval, and merges the snapshots of all intervals:
 * percentiles of the whole come out as if there had been one watch. It does not matter in which order
 * snapshots are merged.
 *
 *     build/examples/watch/aggregate [REQUESTS]
 */
#include "sched.h"
#include "watch.h"

#include <stdio.h>
#include <stdlib.h>

enum { INTERVALS = 3, ROUTES = 3 };
static const char *const routes[ROUTES] = {"/", "/search", "/report"};

static struct cp_watch *watch;
static uintptr_t requests = 300; /* an interval */

static void serve(void *number)
{
    uintptr_t request = (uintptr_t)number, route = request % 10 < 7 ? 0 : request % 10 < 9 ? 1 : 2;
    volatile double x = 1; /* the compiler cannot remove what is stored here */

    CP_LABEL_SCOPE("route", routes[route]); /* before the round, which has the labels of its begin */
    CP_WATCH_SCOPE(watch);
    for (uintptr_t i = 0; i < (uintptr_t)2000 << 2 * route; i++)
        x = x * 0.5 + 1 / (x + (double)i);
}

static void run_interval(void *unused)
{
    (void)unused;
    for (uintptr_t i = 0; i < requests; i++)
        cp_go(serve, (void *)i);
}

/* Measures one interval with a watch of its own. */
static int measure(struct cp_watch_snapshot **snapshot, struct cp_error *err)
{
    const struct cp_watch_options options = {
        .size = sizeof options, .name = "request", .quantities = "cpuTime", .labels = "route"};
    const struct cp_sched_options threads = {.size = sizeof threads, .threads = 2};
    int called = cp_watch_open(&watch, &options, err);

    if (called < 0)
        return called;
    called = cp_sched_run(&threads, run_interval, NULL, err);
    if (called == 0)
        called = cp_watch_take(snapshot, watch, err);
    cp_watch_close(watch); /* a snapshot outlives its watch */
    return called;
}

int main(int argc, char **argv)
{
    struct cp_watch_snapshot *all = NULL, *interval;
    struct cp_error err;

    requests = argc > 1 ? strtoul(argv[1], NULL, 10) : requests;
    for (int i = 0; i < INTERVALS; i++) {
        if (measure(&interval, &err) < 0 || (all != NULL && cp_watch_merge(all, interval, &err) < 0)) {
            fprintf(stderr, "%s\n", err.message);
            return 1;
        }
        printf("Interval %d:\n", i + 1);
        cp_watch_print(interval, CP_WATCH_TEXT, stdout);
        if (all == NULL)
            all = interval;
        else
            cp_watch_snapshot_free(interval);
    }
    printf("All intervals:\n");
    cp_watch_print(all, CP_WATCH_TEXT, stdout);
    cp_watch_snapshot_free(all);
    return 0;
}
