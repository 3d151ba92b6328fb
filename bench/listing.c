/*
 * Listing 100 000 Gs that wait while others yield: how long it takes, and the longest time that one of those
 * that run did not get its turn, beside the longest while another thread computes.
 */
#include "http/goroutine.h"
#include "runtime/sched.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define WAITING 100000
#define YIELDING 4
#define ROUNDS 9

static struct cp_wait_group *waiting, *end;
static uint32_t stops;                /* atomic */
static uint64_t longest_ns[YIELDING]; /* atomic */

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
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

    while (!cp_load_acquire(&stops)) { /* pairs with the release in measure() */
        cp_yield();
        now = now_ns();
        if (now - last > cp_load_relaxed((uint64_t *)longest)) /* relaxed, both: a figure */
            cp_store_relaxed((uint64_t *)longest, now - last);
        last = now;
    }
}

static int count(void *n, const struct cp_sched_g *g)
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

static void round_of(const char *what, int (*list)(void *, unsigned *))
{
    uint64_t best = UINT64_MAX, pause = UINT64_MAX;
    unsigned n = 0;

    for (int i = 0; i < ROUNDS; i++) {
        uint64_t start, took, longest;

        reset_longest();
        start = now_ns();
        n = 0;
        if (list(NULL, &n) < 0)
            exit(1);
        took = now_ns() - start;
        longest = reset_longest();
        best = took < best ? took : best;
        pause = longest < pause ? longest : pause;
    }
    printf("%-28s %7u Gs %8.1f ms  longest turn away %8.1f us (least of %d)\n", what, n, (double)best / 1e6,
           (double)pause / 1e3, ROUNDS);
}

/* The floor: a thread that takes the CPU as a listing does. */
static int compute(void *arg, unsigned *n)
{
    uint64_t until = now_ns() + 400000000;

    (void)arg;
    (void)n;
    while (now_ns() < until) {
    }
    return 0;
}

static int list_all(void *arg, unsigned *n)
{
    (void)arg;
    return cp_sched_each_g(count, n, NULL);
}

static void *measure(void *arg)
{
    round_of("computing", compute);
    round_of("listing, with all stacks", list_all);
    cp_store_release(&stops, 1u); /* pairs with the acquire in yields() */
    return arg;
}

static void bench(void *arg)
{
    pthread_t thread;

    waiting = cp_wait_group_new();
    end = cp_wait_group_new();
    cp_wait_group_add(waiting, WAITING);
    cp_wait_group_add(end, 1);
    for (int i = 0; i < WAITING; i++)
        cp_go(waits, arg);
    cp_wait_group_wait(waiting);
    for (int i = 0; i < YIELDING - 1; i++)
        cp_go(yields, &longest_ns[i]);
    pthread_create(&thread, NULL, measure, NULL);
    yields(&longest_ns[YIELDING - 1]);
    pthread_join(thread, NULL);
    cp_wait_group_done(end);
}

int main(void)
{
    struct cp_sched_options options = {.size = sizeof options, .threads = 1};
    struct cp_error err;

    if (cp_sched_run(&options, bench, NULL, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    return 0;
}
