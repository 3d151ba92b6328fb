/*
 * What the event wall costs: the CPU time of its thread while so many Gs wait. What switches pay is in the
 * benchmark of waits (wait.c). An iteration is half a second. On a busy machine there are fewer looks in it,
 * so they are counted by their samples.
 *
 *     us/look   CPU time of a look, the start and the end of the thread included; quartiles
 *     percent   of a CPU, with 100 looks a second as at the preset period; median
 */
#include "bench.h"
#include "runtime/base/thread.h"
#include "runtime/wait/recording.h"
#include "sched.h"

enum { PERIOD = 10000000, SPAN = 500000000, MOST_DRAWN = 16 };

struct sleepers {
    struct cp_t *b;
    unsigned n;
};

static struct cp_chan *closed_at_end;

static void wait_long(void *arg)
{
    int value;

    (void)arg;
    (void)cp_chan_recv(closed_at_end, &value);
}

static int none(void *context, const struct cp__waits *waits)
{
    (void)context, (void)waits;
    return 0;
}

static void measure(const struct sleepers *sleepers)
{
    const unsigned drawn = sleepers->n + 1 < MOST_DRAWN ? sleepers->n + 1 : MOST_DRAWN;
    struct bench_rounds look = {0}, percent = {0};

    while (cp_bench_next(sleepers->b)) {
        struct cp__recording *recording;
        struct cp__recording_stats stats;
        const double cpu = (double)cp__own_threads_ns();
        struct cp_error err;
        double used, looks;

        if (cp__recording_start(CP__WAIT_EVENT_WALL, PERIOD, &recording, &err) < 0)
            cp_t_fatal(sleepers->b, "%s", err.message);
        cp_sleep(SPAN);
        cp__recording_stop(recording);
        used = (double)cp__own_threads_ns() - cpu;
        cp__recording_each(recording, &stats, none, NULL);
        cp__recording_free(recording);
        looks = (double)stats.sampled / drawn;
        if (looks >= 1) {
            bench_add(&look, used / looks / 1000);
            bench_add(&percent, 100 * 100 * used / looks / 1e9);
        }
    }
    cp_bench_metric(sleepers->b, 0, "ns/op");
    bench_spread(sleepers->b, &look, "us/look");
    bench_median(sleepers->b, &percent, "percent");
}

static void in_g(void *arg)
{
    const struct sleepers *sleepers = arg;

    for (unsigned i = 0; i < sleepers->n; i++) {
        if (cp_go(wait_long, NULL) < 0)
            cp_t_fatal(sleepers->b, "There is no memory for %u Gs.", sleepers->n);
    }
    cp_yield();
    measure(sleepers);
    cp_chan_close(closed_at_end);
}

static void so_many(struct cp_t *b, void *arg)
{
    const struct cp_sched_options options = {.size = sizeof options, .threads = 1};
    struct sleepers sleepers = {.b = b, .n = *(const unsigned *)arg};
    struct cp_error err;

    closed_at_end = cp_chan_new(sizeof(int), 0);
    if (cp_sched_run(&options, in_g, &sleepers, &err) < 0)
        cp_t_fatal(b, "%s", err.message);
    cp_chan_free(closed_at_end);
}

CP_BENCHMARK(Wall)
{
    static unsigned few = 10, many = 1000, very_many = 100000;

    cp_t_run(b, "10 Gs", so_many, &few);
    cp_t_run(b, "1000 Gs", so_many, &many);
    cp_t_run(b, "100000 Gs", so_many, &very_many);
}

BENCH_MAIN()
