/*
 * What a watch for keys costs a queue: a begin and an end of a key, on one thread and on two, beside what a
 * program would write for itself, a hash table of start times under one mutex and sums of what it measures.
 * Each thread has KEYS keys open at a time. A round measures one after the other; x-own is the median of the
 * rounds' quotients.
 */
#include "bench.h"
#include "watch.h"

#include <pthread.h>
#include <stdbool.h>

enum { KEYS = 64, PAIRS = 100000, THREADS_MAX = 2 };

/* ---- A program's own table ------------------------------------------------------------------- */

enum { BUCKETS = 4096 };

struct node {
    struct node *next;
    uint64_t key;
    int64_t began;
};

static struct {
    pthread_mutex_t mutex;
    struct node *buckets[BUCKETS];
    uint64_t count;
    int64_t sum, min, max;
} own = {.mutex = PTHREAD_MUTEX_INITIALIZER, .min = INT64_MAX};

static struct node **bucket_of(uint64_t key)
{
    return &own.buckets[(key * 0x9e3779b97f4a7c15u) >> 52];
}

static void own_begin(uint64_t key)
{
    struct node *node = malloc(sizeof *node);
    struct node **bucket = bucket_of(key);

    if (node == NULL)
        abort();
    *node = (struct node){.key = key, .began = cp__clock_ns(CLOCK_MONOTONIC)};
    pthread_mutex_lock(&own.mutex);
    node->next = *bucket;
    *bucket = node;
    pthread_mutex_unlock(&own.mutex);
}

static void own_end(uint64_t key)
{
    int64_t now = cp__clock_ns(CLOCK_MONOTONIC), ns;
    struct node **at = bucket_of(key), *node;

    pthread_mutex_lock(&own.mutex);
    while ((*at)->key != key)
        at = &(*at)->next;
    node = *at;
    *at = node->next;
    ns = now - node->began;
    own.count++;
    own.sum += ns;
    own.min = ns < own.min ? ns : own.min;
    own.max = ns > own.max ? ns : own.max;
    pthread_mutex_unlock(&own.mutex);
    free(node);
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

static struct cp_watch_keys *watch; /* NULL: the own table is measured */
static pthread_barrier_t barrier;

static void begin(uint64_t key)
{
    if (watch != NULL)
        cp_watch_key_begin(watch, key, 0);
    else
        own_begin(key);
}

static void end(uint64_t key)
{
    if (watch != NULL)
        cp_watch_key_end(watch, key);
    else
        own_end(key);
}

/* Begins and ends PAIRS keys. Returns how many ns a pair took. */
static double run_pairs(uint64_t first)
{
    double began;

    for (uint64_t i = 0; i < KEYS; i++)
        begin(first + i);
    pthread_barrier_wait(&barrier);
    began = bench_now_ns();
    for (uint64_t i = 0; i < PAIRS; i++) {
        begin(first + KEYS + i);
        end(first + i);
    }
    began = bench_now_ns() - began;
    for (uint64_t i = 0; i < KEYS; i++)
        end(first + PAIRS + i);
    return began / PAIRS;
}

static void *run_thread(void *ns)
{
    *(double *)ns = run_pairs((uint64_t)(uintptr_t)ns << 20);
    return NULL;
}

/* Returns the mean over the threads of what a pair took. */
static double run_threads(unsigned n)
{
    pthread_t threads[THREADS_MAX];
    double ns[THREADS_MAX], sum = 0;

    pthread_barrier_init(&barrier, NULL, n);
    for (unsigned i = 0; i < n; i++) {
        if (pthread_create(&threads[i], NULL, run_thread, &ns[i]) != 0)
            abort();
    }
    for (unsigned i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
        sum += ns[i];
    }
    pthread_barrier_destroy(&barrier);
    return sum / n;
}

static void measure_keys(struct cp_t *b, void *n_threads)
{
    const struct cp_watch_keys_options options = {.size = sizeof options, .name = "bench"};
    struct bench_rounds watches = {0}, owns = {0}, quotients = {0};
    struct cp_watch_keys *keys;
    unsigned n = *(unsigned *)n_threads;
    struct cp_error err;

    if (cp_watch_keys_open(&keys, &options, &err) < 0)
        cp_t_fatal(b, "%s", err.message);
    while (cp_bench_next(b)) {
        double of_watch, of_own;

        watch = keys;
        of_watch = run_threads(n);
        watch = NULL;
        of_own = run_threads(n);
        bench_add(&watches, of_watch);
        bench_add(&owns, of_own);
        bench_add(&quotients, of_watch / of_own);
    }
    bench_spread(b, &watches, "watch-ns");
    bench_spread(b, &owns, "own-ns");
    bench_median(b, &quotients, "x-own");
    cp_watch_keys_close(keys);
}

CP_BENCHMARK(BeginEnd)
{
    for (unsigned n = 1; n <= THREADS_MAX; n++) {
        char name[20];

        snprintf(name, sizeof name, "threads=%u", n);
        cp_t_run(b, name, measure_keys, &n);
    }
}

BENCH_MAIN()
