/*
 * Listing 100 000 Gs that wait while others yield. The benchmark reports how long the listing takes, and the
 * longest time that a running G did not get its turn (away-us, the minimum over all iterations). For
 * comparison, it also reports the longest such time while another thread computes.
 */
#include "bench.h"
#include "http/goroutine.h"
#include "sched.h"

#include <pthread.h>
#include <semaphore.h>

#define WAITING 100000
#define YIELDING 4

static struct cp_wait_group *waiting, *end;
static uint32_t stops;                /* atomic */
static uint64_t longest_ns[YIELDING]; /* atomic */

static uint64_t now_ns(void)
{
    return (uint64_t)cp__clock_ns(CLOCK_MONOTONIC);
}

static void waits(void *arg)
{
    (void)arg;
    cp_wait_group_done(waiting);
    cp_wait_group_wait(end);
}

static void yields(void *longest)
{
    uint64_t last = now_ns(), now;

    while (!cp_load_acquire(&stops)) { /* pairs with the release in the benchmark */
        cp_yield();
        now = now_ns();
        if (now - last > cp_load_relaxed((uint64_t *)longest)) /* relaxed, both: only a figure */
            cp_store_relaxed((uint64_t *)longest, now - last);
        last = now;
    }
}

static int count(void *n, const struct cp_g_info *g)
{
    uintptr_t frames[64];

    if (g->context != NULL)
        cp__http_unwind(g, frames, 64);
    ++*(unsigned *)n;
    return 0;
}

static uint64_t reset_longest(void)
{
    uint64_t longest = 0;

    for (int i = 0; i < YIELDING; i++) { /* relaxed: as above */
        longest = cp_load_relaxed(&longest_ns[i]) > longest ? cp_load_relaxed(&longest_ns[i]) : longest;
        cp_store_relaxed(&longest_ns[i], 0u);
    }
    return longest;
}

static void report_longest(struct cp_t *b, uint64_t *least)
{
    uint64_t longest = reset_longest();

    *least = longest < *least ? longest : *least;
    cp_bench_metric(b, (double)*least / 1e3, "away-us");
}

/* The floor: a thread that takes the CPU as a listing does. */
static void compute(struct cp_t *b, void *arg)
{
    uint64_t least = UINT64_MAX;

    (void)arg;
    for (; cp_bench_next(b);) {
        uint64_t until = now_ns() + 400000000;

        reset_longest();
        while (now_ns() < until) {
        }
        report_longest(b, &least);
    }
}

static void list_all(struct cp_t *b, void *arg)
{
    uint64_t least = UINT64_MAX;

    (void)arg;
    for (; cp_bench_next(b);) {
        struct cp_error err;
        unsigned n = 0;

        reset_longest();
        if (cp_g_each(count, &n, &err) < 0)
            cp_t_fatal(b, "%s", err.message);
        report_longest(b, &least);
        cp_bench_metric(b, n, "Gs");
    }
}

/* ---- The Gs, on a thread of their own -------------------------------------------------------- */

static void wait_and_yield(void *is_ready)
{
    for (int i = 0; i < WAITING; i++)
        cp_go(waits, NULL);
    cp_wait_group_wait(waiting);
    for (int i = 0; i < YIELDING - 1; i++)
        cp_go(yields, &longest_ns[i]);
    sem_post(is_ready);
    yields(&longest_ns[YIELDING - 1]);
    cp_wait_group_done(end);
}

static void *run_gs(void *is_ready)
{
    struct cp_sched_options options = {.size = sizeof options, .threads = 1};

    if (cp_sched_run(&options, wait_and_yield, is_ready, NULL) < 0)
        abort();
    return NULL;
}

CP_BENCHMARK(Listing)
{
    pthread_t thread;
    sem_t is_ready;

    waiting = cp_wait_group_new();
    end = cp_wait_group_new();
    cp_wait_group_add(waiting, WAITING);
    cp_wait_group_add(end, 1);
    sem_init(&is_ready, 0, 0);
    if (pthread_create(&thread, NULL, run_gs, &is_ready) != 0)
        cp_t_fatal(b, "There is no thread for the Gs.");
    while (sem_wait(&is_ready) < 0) {
    }
    cp_t_run(b, "computing", compute, NULL);
    cp_t_run(b, "all stacks", list_all, NULL);
    cp_store_release(&stops, 1u); /* pairs with the acquire in yields() */
    pthread_join(thread, NULL);
}

BENCH_MAIN()
