/* Starts and stops the scheduler: this file creates the Ms and ends them. */
#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "runtime/base/fail.h"
#include "runtime/base/fork_child.h"
#include "runtime/base/sized.h"

/* How a new thread tells cp_sched_run() whether the thread has become an M. */
struct start {
    struct cp__worker *worker;
    struct cp_error *err;
    int result;
    sem_t done;
};

/* Returns the number of CPUs that this process may use. */
static unsigned cpu_count(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) < 0)
        return 1;
    return (unsigned)CPU_COUNT(&set);
}

/* Copies the caller's options to *options, and fills in the defaults. */
static int read_options(struct cp_sched_options *options, const struct cp_sched_options *from,
                        struct cp_error *err)
{
    int result;

    *options = (struct cp_sched_options){.size = sizeof *options};
    result = from == NULL ? 0 : CP__TAKE(cp_sched_options, options, from, err);
    if (result < 0)
        return result;
    if (options->threads > CP_SCHED_THREADS_MAX)
        return cp__error(err, -EINVAL, "The scheduler has at most %d threads, not %u.", CP_SCHED_THREADS_MAX,
                         options->threads);
    if (options->threads == 0)
        options->threads = cpu_count();
    return 0;
}

/* ---- Ms -------------------------------------------------------------------------------------- */

static int make_workers(unsigned n, struct cp_error *err)
{
    size_t size = n * sizeof(struct cp__worker);
    struct cp__worker *workers = aligned_alloc(_Alignof(struct cp__worker), size);

    if (workers == NULL)
        return cp__error(err, -ENOMEM, "There is no memory for %u Ms (%zu bytes).", n, size);
    memset(workers, 0, size);
    for (unsigned i = 0; i < n; i++)
        workers[i].random = (i + 1) * 2654435769u;
    cp__sched.workers = workers;
    cp__sched.worker_count = n;
    return 0;
}

static void *thread_main(void *arg)
{
    struct start *start = arg;
    struct cp__worker *w = start->worker;
    int result = cp_m_attach(&w->m, start->err);

    start->result = result;
    sem_post(&start->done); /* *start may be invalid from here on */
    if (result == 0) {
        cp__worker_run(w);
        cp_m_detach(w->m);
    }
    return NULL;
}

/* Starts the thread of M i, and waits until the thread is an M or has failed to become one. */
static int start_thread(struct start *start, unsigned i)
{
    struct cp__worker *w = &cp__sched.workers[i];
    int result;
    char name[16];

    start->worker = w;
    result = -pthread_create(&w->thread, NULL, thread_main, start);
    if (result < 0)
        return cp__error(start->err, result,
                         "Thread %u of %u could not be started: %s. Ask for fewer threads, or raise the "
                         "limit (ulimit -u, pids.max).",
                         i + 1, cp__sched.worker_count, strerror(-result));
    snprintf(name, sizeof name, "cp-m%u", i);
    pthread_setname_np(w->thread, name);
    while (sem_wait(&start->done) < 0) { /* a signal (EINTR) */
    }
    if (start->result < 0)
        pthread_join(w->thread, NULL);
    return start->result;
}

/* Starts all threads except the caller's. *started is the number of Ms afterwards, with the caller's. */
static int start_threads(unsigned *started, struct cp_error *err)
{
    struct start start = {.err = err};
    int result = 0;

    sem_init(&start.done, 0, 0);
    for (*started = 1; *started < cp__sched.worker_count && result == 0;) {
        result = start_thread(&start, *started);
        if (result == 0)
            ++*started;
    }
    sem_destroy(&start.done);
    return result;
}

/* Runs the scheduler with the calling thread, which is an M, as the first M. */
static int run_on_ms(void (*fn)(void *), void *arg, struct cp_error *err)
{
    unsigned started;
    int result = start_threads(&started, err);

    if (result == 0) {
        result = cp__go_first(fn, arg);
        if (result < 0)
            cp__error(err, result, "There is no memory for the first G's stack.");
        else
            cp__worker_run(&cp__sched.workers[0]);
    } else {
        cp__idle_stop();
    }
    for (unsigned i = 1; i < started; i++)
        pthread_join(cp__sched.workers[i].thread, NULL);
    return result;
}

/* Makes the calling thread an M, unless it is one already, and runs the scheduler. */
static int run_as_m(void (*fn)(void *), void *arg, struct cp_error *err)
{
    bool was_m = cp_m_self() != NULL;
    int result = cp_m_attach(&cp__sched.workers[0].m, err);

    if (result < 0)
        return result;
    result = run_on_ms(fn, arg, err);
    if (!was_m)
        cp_m_detach(cp__sched.workers[0].m);
    return result;
}

/* ---- The whole scheduler --------------------------------------------------------------------- */

/* Takes the right to run the only scheduler. Returns false if one runs already. */
static bool claim_scheduler(void)
{
    bool claimed;

    cp__lock(&cp__sched.lock);
    claimed = !cp__sched.running;
    if (claimed) {
        cp__sched.running = true;
        cp__sched.stopping = false;
        cp__sched.searching = 0;
        cp__sched.global_first = NULL;
        cp__sched.global_last = &cp__sched.global_first;
    }
    cp__unlock(&cp__sched.lock);
    return claimed;
}

static void release_scheduler(void)
{
    cp__lock(&cp__sched.lock);
    free(cp__sched.workers);
    cp__sched.workers = NULL;
    cp__sched.running = false;
    cp__unlock(&cp__sched.lock);
}

static int run_with(const struct cp_sched_options *options, void (*fn)(void *), void *arg,
                    struct cp_error *err)
{
    int result = cp__stacks_start(options->stack_size, err);

    if (result < 0)
        return result;
    result = make_workers(options->threads, err);
    if (result == 0)
        result = cp__wait_start(err);
    if (result == 0) {
        result = run_as_m(fn, arg, err);
        cp__wait_stop();
    }
    cp__stacks_stop();
    return result;
}

int cp_sched_run(const struct cp_sched_options *options, void (*fn)(void *), void *arg, struct cp_error *err)
{
    struct cp_sched_options read;
    int result = read_options(&read, options, err);

    if (result < 0)
        return result;
    if (!claim_scheduler())
        return cp__error(err, -EBUSY,
                         "A scheduler runs in this process already; start a G on it with cp_go() instead.");
    result = run_with(&read, fn, arg, err);
    release_scheduler();
    return result;
}

/* ---- In the child of a fork ------------------------------------------------------------------ */

/*
 * Resets the scheduler in the child of a fork: the scheduler, its Ms and its Gs belong to the parent. The
 * other Ms may have been in the middle of anything, so nothing of theirs is touched: the child begins with an
 * empty scheduler. The G that forked continues on its stack, as a thread that is no G.
 */
static void forget_scheduler(void)
{
    cp__fork_child_resets();
    cp__sched = (struct cp__sched){.lock = CP__LOCK_INIT(CP__RANK_SCHED)};
    cp__stacks_forget();
    cp__wait_forget();
    cp__worker_forget();
    cp__fork_child_has_reset();
}

__attribute__((constructor)) static void register_fork_handler(void)
{
    pthread_atfork(NULL, NULL, forget_scheduler);
}
