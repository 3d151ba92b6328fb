/*
 * How many cycles does an instruction of a routine take? The routine sleeps in its middle: its green thread
 * then leaves the thread to others, which compute meanwhile, and goes on elsewhere. The watch counts for the
 * green thread, so what the others do is not in its figures; only time goes on while it sleeps.
 *
 *     build/examples/watch/cpi [CALLS]
 */
#include "sched.h"
#include "watch.h"

#include <stdio.h>
#include <stdlib.h>

enum { OTHERS = 8 };

static struct cp_watch *watch;
static unsigned long calls = 100; /* that are to be made still */

static void compute(unsigned steps)
{
    volatile double x = 1; /* the compiler cannot remove what is stored here */

    for (unsigned i = 0; i < steps; i++)
        x = x * 0.5 + 1 / (x + i);
}

static void routine(void)
{
    CP_WATCH_SCOPE(watch); /* a round of the rest of the function */
    compute(20000);
    cp_sleep(100000);
    compute(20000);
}

static void others(void *unused)
{
    (void)unused;
    while (cp_load_relaxed(&calls) > 0) { /* relaxed: a number of its own */
        compute(10000);
        cp_yield();
    }
}

static void run(void *unused)
{
    (void)unused;
    for (int i = 0; i < OTHERS; i++)
        cp_go(others, NULL);
    for (; calls > 0; cp_store_relaxed(&calls, calls - 1)) /* relaxed: as above */
        routine();
}

int main(int argc, char **argv)
{
    /* The first that can be counted here: many virtual machines have no PMU. */
    static const char *const lists[] = {"cycles,instructions,cpi", "cpuTime,pageFaults,contextSwitches",
                                        "cpuTime"};
    struct cp_watch_options options = {.size = sizeof options, .name = "routine"};
    const struct cp_sched_options threads = {.size = sizeof threads, .threads = 2};
    struct cp_watch_snapshot *snapshot;
    struct cp_error err;

    for (int i = 0; watch == NULL && i < 3; i++) {
        options.quantities = lists[i];
        if (cp_watch_open(&watch, &options, &err) < 0)
            printf("Not counted: %s. %s\n", lists[i], err.message);
    }
    calls = argc > 1 ? strtoul(argv[1], NULL, 10) : calls;
    if (watch == NULL || cp_sched_run(&threads, run, NULL, &err) < 0 ||
        cp_watch_take(&snapshot, watch, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    cp_watch_print(snapshot, CP_WATCH_TEXT, stdout);
    cp_watch_snapshot_free(snapshot);
    cp_watch_close(watch);
    return 0;
}
