/* A program that takes profiles of itself and ends with 0: two sessions, one after the other, while threads
 * come and go that allocate, lock, and set labels. Tests build it with sanitizers, and run it under other
 * tools.
 *
 *     tools_target PATH EVENT [PATH EVENT]...
 */
#include "pprof.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000
#define MOST_EVENTS 4
#define BLOCKS 16

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long passes; /* under the lock */
static int quit;             /* atomic */

static uint64_t cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000 * MS + (uint64_t)t.tv_nsec;
}

__attribute__((noinline)) static void work(uint64_t ns)
{
    volatile unsigned long sink = 0;

    for (uint64_t end = cpu_ns() + ns; cpu_ns() < end;) {
        char *blocks[BLOCKS];

        for (size_t i = 0; i < BLOCKS; i++) {
            blocks[i] = malloc(1 + 200 * i);
            memset(blocks[i], (int)i, 1 + 200 * i);
        }
        for (unsigned i = 0; i < 5000; i++)
            sink += i;
        pthread_mutex_lock(&lock);
        passes++;
        pthread_mutex_unlock(&lock);
        for (size_t i = 0; i < BLOCKS; i++)
            free(blocks[i]);
    }
}

/* Ends as a thread that has detached itself, or as one that has not. */
static void *body(void *detaches)
{
    struct cp_m *m;

    if (cp_m_attach(&m, NULL) < 0)
        abort();
    for (int i = 0; i < 4; i++) {
        if (cp_label_set("part", i % 2 == 0 ? "even" : "odd") < 0)
            abort();
        work((uint64_t)3 * MS);
        cp_execute(m, NULL);
    }
    if (detaches != NULL)
        cp_m_detach(m);
    return NULL;
}

static void *start_threads(void *arg)
{
    while (__atomic_load_n(&quit, __ATOMIC_ACQUIRE) == 0) {
        pthread_t threads[2];

        for (size_t i = 0; i < 2; i++)
            if (pthread_create(&threads[i], NULL, body, i == 0 ? &lock : NULL) != 0)
                abort();
        for (size_t i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
    }
    return arg;
}

static void take_profiles(const struct cp_profiling_option *options, size_t n)
{
    struct cp_session *session;
    struct cp_error err;
    int status = 3;

    if (cp_session_start(&session, options, n, &err) == 0) {
        status = 4;
        work((uint64_t)100 * MS);
        if (cp_session_stop(session, &err) == 0)
            status = 0;
        cp_session_close(session);
    }
    if (status == 0)
        return;
    fprintf(stderr, "%s\n", err.message);
    _exit(status); /* exit() would have ThreadSanitizer complain of threads that run */
}

int main(int argc, char **argv)
{
    struct cp_profiling_option options[MOST_EVENTS];
    pthread_t starter;
    struct cp_m *m;

    if (argc < 3 || argc > 1 + 2 * MOST_EVENTS || cp_m_attach(&m, NULL) < 0)
        return 2;
    for (int i = 1; i + 1 < argc; i += 2)
        options[i / 2] = cp_option_event(cp_writer_path(argv[i]), argv[i + 1], (uint64_t)10 * MS);
    if (pthread_create(&starter, NULL, start_threads, NULL) != 0)
        return 2;
    for (int i = 0; i < 2; i++)
        take_profiles(options, (size_t)(argc - 1) / 2);
    __atomic_store_n(&quit, 1, __ATOMIC_RELEASE);
    pthread_join(starter, NULL);
    cp_m_detach(m);
    return 0;
}
