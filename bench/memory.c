/*
 * What a profile takes in memory if a program has many threads: 1000 Ms, of which 16 run while one event is
 * sampled for a second; the others sleep. The profile itself is a part of it. An iteration is one profile.
 * Only the first one of a process tells what it maps, so -benchtime says 1x. The figures are medians:
 *
 *     KiB-mapped, KiB-resident    more than before the profile, before it is stopped
 *     KiB-left                    resident after it was stopped, more than before
 */
#include "bench.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "pprof.h"

enum { MS = 1000, RUNNING = 16, STACK = 64 << 10, DEPTH = 20 };

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static uint32_t attached, ending;
static uint64_t result;

/* Has as many different stacks as there are depths and program counters. */
__attribute__((noinline)) static uint64_t spin(unsigned depth, uint64_t x)
{
    if (depth > 0)
        return spin(depth - 1, x) + 1;
    for (int i = 0; i < 10000; i++)
        x = x * 6364136223846793005u + 1;
    return x;
}

static void *run(void *arg)
{
    struct cp_m *m;
    uint64_t x = 0;

    if (cp_m_attach(&m, NULL) < 0)
        abort();
    cp_fetch_add_relaxed(&attached, 1u); /* relaxed, all: numbers of their own */
    for (unsigned i = 0; arg != NULL && cp_load_relaxed(&ending) == 0; i++)
        x += spin(i % DEPTH, x);
    pthread_mutex_lock(&gate); /* sleeps until the end */
    result += x;
    pthread_mutex_unlock(&gate);
    return NULL;
}

static double kib(const char *name)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    double value = 0;

    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, name, strlen(name)) == 0)
            value = strtod(line + strlen(name), NULL);
    }
    if (file != NULL)
        fclose(file);
    return value;
}

static void start_threads(struct cp_t *b, pthread_t *threads)
{
    pthread_attr_t attr;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    for (int i = 0; i < MS; i++) {
        void *runs = i < RUNNING ? b : NULL;

        if (pthread_create(&threads[i], &attr, run, runs) != 0)
            cp_t_fatal(b, "There are only %d threads.", i);
    }
    pthread_attr_destroy(&attr);
    while (cp_load_relaxed(&attached) < MS)
        usleep(1000);
}

static struct cp_session *start_profile(struct cp_t *b, struct cp_memory *memory)
{
    struct cp_profiling_option option = cp_option_event(cp_writer_memory(memory), "taskClock", 1000000);
    struct cp_session *session;
    struct cp_error err;

    if (cp_session_start(&session, &option, 1, &err) < 0)
        cp_t_fatal(b, "%s", err.message);
    return session;
}

CP_BENCHMARK(Memory)
{
    struct bench_rounds mapped = {0}, resident = {0}, left = {0};
    pthread_t threads[MS];

    pthread_mutex_lock(&gate);
    start_threads(b, threads);
    for (; cp_bench_next(b);) {
        struct cp_memory memory = {0};
        double mapped_before = kib("VmSize:"), resident_before = kib("VmRSS:");
        struct cp_session *session = start_profile(b, &memory);

        sleep(1);
        bench_add(&mapped, kib("VmSize:") - mapped_before);
        bench_add(&resident, kib("VmRSS:") - resident_before);
        cp_session_stop(session, NULL);
        cp_session_close(session);
        free(memory.data);
        bench_add(&left, kib("VmRSS:") - resident_before);
    }
    cp_store_relaxed(&ending, 1u);
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < MS; i++)
        pthread_join(threads[i], NULL);
    bench_median(b, &mapped, "KiB-mapped");
    bench_median(b, &resident, "KiB-resident");
    bench_median(b, &left, "KiB-left");
}

BENCH_MAIN()
