#include "thread.h"

#include "lock.h"
#include "os.h"

/* A thread of the library's own, on its own stack. Under own_lock. */
struct own {
    pid_t tid;
    clockid_t clock;
    struct own *next;
};

static struct cp__lock own_lock = CP__LOCK_INIT(CP__RANK_OWN_THREADS);
static struct own *owns;  /* the threads that run; under own_lock */
static uint64_t ended_ns; /* what the others have taken; under own_lock */

static void begin(struct own *own)
{
    own->tid = cp__os_tid();
    own->clock = cp__os_thread_clock(own->tid);
    cp__lock(&own_lock);
    own->next = owns;
    owns = own;
    cp__unlock(&own_lock);
}

/* If the thread has forked, it is not on its child's list. */
static void end(void *arg)
{
    struct own *own = arg, **place = &owns;

    cp__lock(&own_lock);
    while (*place != NULL && *place != own)
        place = &(*place)->next;
    if (*place != NULL)
        *place = own->next;
    ended_ns += cp__os_clock_ns_from_handler(own->clock);
    cp__unlock(&own_lock);
}

/* A callback of the program's may end the thread by pthread_exit(). */
void *cp__thread_own(void *(*fn)(void *), void *arg)
{
    struct own own;
    void *result;

    begin(&own);
    pthread_cleanup_push(end, &own);
    result = fn(arg);
    pthread_cleanup_pop(1);
    return result;
}

uint64_t cp__own_threads_ns(void)
{
    uint64_t ns;

    cp__lock(&own_lock);
    ns = ended_ns;
    for (const struct own *own = owns; own != NULL; own = own->next)
        ns += cp__os_clock_ns_from_handler(own->clock);
    cp__unlock(&own_lock);
    return ns;
}

bool cp__own_threads_have(pid_t tid)
{
    bool found = false;

    cp__lock(&own_lock);
    for (const struct own *own = owns; own != NULL; own = own->next)
        found |= own->tid == tid;
    cp__unlock(&own_lock);
    return found;
}

void cp__own_threads_forget(void)
{
    cp__lock_reset(&own_lock);
    owns = NULL;
    ended_ns = 0;
}

/* ---- Threads that the caller waits for ------------------------------------------------------- */

struct work {
    void *(*fn)(void *);
    void *arg;
};

static void *run_own(void *arg)
{
    const struct work *work = arg;

    return cp__thread_own(work->fn, work->arg);
}

int cp__thread_run(void *(*fn)(void *), void *arg)
{
    struct work work = {fn, arg};
    pthread_t thread;
    int result = cp__thread_start(&thread, CP__DEEP_STACK, run_own, &work);

    if (result == 0)
        pthread_join(thread, NULL);
    return result;
}
