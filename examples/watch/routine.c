/*
 * How long does a routine take? Each call is a round of a watch, which has the distribution of all of them:
 * so the program sees the few calls that take long, and not only a mean that nobody waits for.
 *
 *     build/examples/watch/routine [CALLS]
 */
#include "watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct cp_watch *look_up_watch;

/* Most calls find what they look for in the table. One of 32 computes it, which takes many times as long. */
static unsigned look_up(unsigned n)
{
    static unsigned table[1024];

    CP_WATCH(look_up_watch) /* a round, however the block is left */
    {
        if (n % 32 != 0)
            return table[n % 1024];
        for (unsigned i = 0; i < 100 * 1024; i++)
            table[i % 1024] = table[(i + n) % 1024] * 31 + i;
        return table[n % 1024];
    }
    return 0;
}

static int say_percentiles(void *context, const struct cp_watch_row *row)
{
    (void)context;
    if (strcmp(row->quantity, "time") == 0)
        printf("Half of the %llu calls took at most %.3g us, and one of a hundred took more than %.3g us.\n",
               (unsigned long long)row->count, cp_watch_percentile(row, 50) / 1000,
               cp_watch_percentile(row, 99) / 1000);
    return 0;
}

int main(int argc, char **argv)
{
    const struct cp_watch_options options = {.size = sizeof options, .name = "look up"};
    unsigned calls = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 10000, sum = 0;
    struct cp_watch_snapshot *snapshot;
    struct cp_error err;
    struct cp_m *m;

    if (cp_m_attach(&m, &err) < 0 || /* a thread that has rounds is an M */
        cp_watch_open(&look_up_watch, &options, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    for (unsigned i = 0; i < calls; i++)
        sum += look_up(i);
    if (cp_watch_take(&snapshot, look_up_watch, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    printf("The sum of what was looked up is %u.\n", sum);
    cp_watch_each(snapshot, say_percentiles, NULL);
    cp_watch_print(snapshot, CP_WATCH_TEXT, stdout);
    cp_watch_snapshot_free(snapshot);
    cp_watch_close(look_up_watch);
    cp_m_detach(m);
    return 0;
}
