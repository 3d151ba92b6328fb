/*
 * State Threads (libst) with the profiler: a C runtime that is not changed, but calls hooks at its switches.
 * Each of its threads is a G, with labels, samples, watches and an account.
 *
 *     gcc -DST_SWITCH_CB state_threads.c $(pkg-config --cflags --libs counterpoint) -lst
 *
 * The lines marked "waits" are what accounts and profiles of waits need beside CPU profiles. State Threads
 * tells nobody which thread it makes ready, so whoever does something that ends a wait calls wait_ends()
 * before. A sleep is over for the profiler when the thread runs again. The program prints where the time of
 * its threads went.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/queue.h>
#include <time.h>

#include <st.h>

#include <counterpoint/runtime.h>

/* ---- The embedding --------------------------------------------------------------------------- */

#define STACK_SIZE 65536

struct task {
    struct cp_g g;
    const char *name;
    void (*run)(void);
    uint64_t before, after; /* the clock around cp_g_init() */
    TAILQ_ENTRY(task) place;
    enum cp_wait_reason reason; /* waits */
    const void *object;         /* waits; NULL: for nothing */
};

static struct cp_m *m;
static int task_key; /* each thread's task; the first thread has none */
static TAILQ_HEAD(, task) tasks = TAILQ_HEAD_INITIALIZER(tasks);

static struct task *self(void)
{
    return st_thread_getspecific(task_key);
}

/* On the stack of the thread that is left. */
static void switched_out(void)
{
    struct task *task = self();

    if (task != NULL && task->object != NULL)                    /* waits */
        cp_g_park_in_hook(&task->g, task->reason, task->object); /* waits */
    cp_execute(m, NULL);
}

/* On the stack of the thread that runs again. */
static void switched_in(void)
{
    struct task *task = self();

    cp_execute(m, task != NULL ? &task->g : NULL);
    if (task != NULL)
        task->object = NULL; /* waits */
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Prints the account of the calling thread, in ns: how long it has lived, between which times by the clock,
 * and what that is the sum of. */
static void print_account(const struct task *task)
{
    struct cp_account account = {.size = sizeof account};
    uint64_t least = now_ns() - task->after;

    if (cp_g_stats(&task->g, &account) < 0) {
        printf("%s: no account\n", task->name);
        return;
    }
    printf("%s: %llu (%llu to %llu) = running %llu + runnable %llu", task->name,
           (unsigned long long)account.lifetime_ns, (unsigned long long)least,
           (unsigned long long)(now_ns() - task->before), (unsigned long long)account.running_ns,
           (unsigned long long)account.runnable_ns);
    for (int reason = 0; reason < CP_WAIT_REASONS; reason++)
        if (account.waits[reason] > 0)
            printf(" + %s %llu", cp_wait_reason_name((enum cp_wait_reason)reason),
                   (unsigned long long)account.waited_ns[reason]);
    printf("\n");
}

/* The first function of each thread. */
static void *begin_task(void *arg)
{
    struct task *task = arg;
    char *end = __builtin_dwarf_cfa();

    task->before = now_ns();
    cp_g_init(&task->g, end - STACK_SIZE, end, NULL);
    task->after = now_ns();
    st_thread_setspecific(task_key, task);
    TAILQ_INSERT_TAIL(&tasks, task, place);
    cp_execute(m, &task->g);
    task->run();
    print_account(task);
    cp_execute(m, NULL);
    TAILQ_REMOVE(&tasks, task, place);
    st_thread_setspecific(task_key, NULL);
    cp_g_fini(&task->g);
    return NULL;
}

/* The next switch of the calling thread is a wait, the newest one. */
static void waits_for(enum cp_wait_reason reason, const void *object) /* waits */
{
    struct task *task = self();             /* waits */
    TAILQ_REMOVE(&tasks, task, place);      /* waits */
    TAILQ_INSERT_TAIL(&tasks, task, place); /* waits */
    task->reason = reason;                  /* waits */
    task->object = object;                  /* waits */
}

/* The oldest wait for the object ends. */
static void wait_ends(const void *object) /* waits */
{
    struct task *task = TAILQ_FIRST(&tasks);       /* waits */
    while (task != NULL && task->object != object) /* waits */
        task = TAILQ_NEXT(task, place);            /* waits */
    if (task != NULL) {                            /* waits */
        task->object = NULL;                       /* waits */
        cp_g_ready(&task->g);                      /* waits */
    }
}

/* ---- The runtime's calls --------------------------------------------------------------------- */

static void nap(void)
{
    waits_for(CP_WAIT_SLEEP, self());
    st_usleep(20000);
}

static void lock(st_mutex_t mutex)
{
    if (st_mutex_trylock(mutex) == 0)
        return;
    waits_for(CP_WAIT_LOCK, mutex);
    st_mutex_lock(mutex);
}

static void unlock(st_mutex_t mutex)
{
    wait_ends(mutex);
    st_mutex_unlock(mutex);
}

static void await(st_cond_t condition)
{
    waits_for(CP_WAIT_CONDITION, condition);
    st_cond_wait(condition);
}

static void signal_one(st_cond_t condition)
{
    wait_ends(condition);
    st_cond_signal(condition);
}

/* ---- What it is tried with ------------------------------------------------------------------- */

static st_mutex_t mutex;
static st_cond_t condition;

static void owns(void)
{
    lock(mutex);
    st_sleep(0); /* for those that wait from then on */
    nap();
    unlock(mutex);
}

static void waits_for_owner(void)
{
    lock(mutex);
    unlock(mutex);
}

static void waits_for_signal(void)
{
    await(condition);
}

static void signals_later(void)
{
    nap();
    signal_one(condition);
}

static void yields(void)
{
    for (int i = 0; i < 1000; i++)
        st_sleep(0);
}

int main(void)
{
    static struct task all[] = {{.name = "sleeper", .run = nap},
                                {.name = "owner", .run = owns},
                                {.name = "waiter", .run = waits_for_owner},
                                {.name = "second waiter", .run = waits_for_owner},
                                {.name = "signalled", .run = waits_for_signal},
                                {.name = "signaller", .run = signals_later},
                                {.name = "yielder", .run = yields}};
    enum { N = sizeof all / sizeof all[0] };
    st_thread_t threads[N];
    struct cp_error err;

    if (cp_m_attach(&m, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    if (st_init() < 0 || st_key_create(&task_key, NULL) < 0) {
        perror("State Threads");
        return 1;
    }
    st_set_switch_out_cb(switched_out);
    st_set_switch_in_cb(switched_in);
    mutex = st_mutex_new();
    condition = st_cond_new();
    for (int i = 0; i < N; i++)
        threads[i] = st_thread_create(begin_task, &all[i], 1, STACK_SIZE);
    for (int i = 0; i < N; i++)
        st_thread_join(threads[i], NULL);
    return 0;
}
