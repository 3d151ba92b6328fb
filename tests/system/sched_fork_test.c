/* Forks in a program with a scheduler: the parent's scheduler goes on, and the child has none, or one of its
 * own. */
#include "tests/support/burn.h"

#include <semaphore.h>
#include <sys/wait.h>

#include "sched.h"

#define THREADS 3

static void run(unsigned threads, void (*fn)(void *), void *arg)
{
    struct cp_sched_options options = {.size = sizeof options, .threads = threads};
    struct cp_error err = {0};

    CHECKF(cp_sched_run(&options, fn, arg, &err) == 0, "%s", err.message);
}

static void reap(pid_t pid)
{
    int status;

    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECKF(status == 0, "the child ended with %#x", (unsigned)status);
}

static int look_at(void *context, const struct cp_g_info *g)
{
    (void)g;
    ++*(int *)context;
    return 0;
}

/* ---- The child ------------------------------------------------------------------------------- */

static struct cp_chan *numbers;

static void sends(void *arg)
{
    int number = (int)(intptr_t)arg;

    CHECK_EQ(cp_sleep(MS), 0);
    CHECK_EQ(cp_chan_send(numbers, &number), 0);
}

static void receives(void *arg)
{
    int number, sum = 0;

    numbers = cp_chan_new(sizeof number, 0);
    for (int i = 1; i <= 10; i++)
        CHECK_EQ(cp_go(sends, (void *)(intptr_t)i), 0);
    for (int i = 1; i <= 10; i++) {
        CHECK_EQ(cp_chan_recv(numbers, &number), 0);
        sum += number;
    }
    *(int *)arg = sum;
}

static void uses_a_scheduler_of_its_own(void)
{
    int gs = 0, sum = 0;

    alarm(5);
    CHECK(cp_sched_self() == NULL);
    cp_yield();
    CHECK_EQ(cp_park(), -ESRCH);
    CHECK_EQ(cp_sleep(0), -ESRCH);
    CHECK_EQ(cp_go(sends, NULL), -ESRCH);
    CHECK_EQ(cp_g_each(look_at, &gs, NULL), 0);
    CHECK_EQ(gs, 0);
    run(1, receives, &sum);
    CHECK_EQ(sum, 55);
}

/* ---- Gs that fork ---------------------------------------------------------------------------- */

static int ending; /* atomic */

static void is_busy(void *arg)
{
    (void)arg;
    while (cp_load_acquire(&ending) == 0) { /* pairs with the release in forks() */
        CHECK_EQ(cp_sleep(MS / 10), 0);
        CHECK_EQ(cp_label_set("a", "1"), 0);
        cp_yield();
    }
}

/* In the child the G's function returns, as it does in the parent. */
static void forks(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20; i++)
        CHECK_EQ(cp_go(is_busy, NULL), 0);
    for (int i = 0; i < 20; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            uses_a_scheduler_of_its_own();
            fflush(NULL);
            if (TEST_ASAN)
                _exit(0); /* LeakSanitizer would report what the fork left to no thread */
            return;
        }
        reap(pid);
        CHECK_EQ(cp_sleep(MS), 0);
    }
    cp_store_release(&ending, 1); /* pairs with the acquire in is_busy() */
}

CP_TEST(a_g_may_fork)
{
    if (TEST_TSAN)
        SKIP("ThreadSanitizer lets a process that was forked from one with threads start none");
    /* A child may find the lock of AddressSanitizer's allocator held for ever by another thread. */
    run(TEST_ASAN ? 1 : THREADS, forks, NULL);
}

/* ---- A fork while a thread lists all Gs ------------------------------------------------------ */

static sem_t looks, may_end;

static int stays(void *context, const struct cp_g_info *g)
{
    (void)context;
    (void)g;
    sem_post(&looks);
    sem_wait(&may_end);
    return -ECANCELED;
}

static void *lists(void *arg)
{
    CHECK_EQ(cp_g_each(stays, NULL, NULL), -ECANCELED);
    return arg;
}

static void forks_beside_lister(void *arg)
{
    pthread_t thread;
    pid_t pid;

    (void)arg;
    CHECK_EQ(pthread_create(&thread, NULL, lists, NULL), 0);
    sem_wait(&looks);
    pid = fork();
    if (pid == 0) {
        uses_a_scheduler_of_its_own();
        fflush(NULL);
        _exit(0);
    }
    reap(pid);
    sem_post(&may_end);
    pthread_join(thread, NULL);
}

CP_TEST(a_g_may_fork_while_somebody_looks_at_all_gs)
{
    if (TEST_TSAN)
        SKIP("ThreadSanitizer lets a process that was forked from one with threads start none");
    sem_init(&looks, 0, 0);
    sem_init(&may_end, 0, 0);
    run(1, forks_beside_lister, NULL);
}

/* ---- The parent's descriptors ---------------------------------------------------------------- */

static int ends[2];

static void waits_for_byte(void *arg)
{
    CHECK_EQ(cp_wait_fd(ends[0], 1 /* EPOLLIN */, -1), 1);
    *(int *)arg = 1;
}

/* While the child waits in a scheduler of its own, the parent's event arrives in the parent. */
static void child_takes_no_event(void *arg)
{
    int went_on[2], has_come = 0, sum;
    pid_t pid;
    char byte = 0;

    (void)arg;
    CHECK(pipe(ends) == 0 && pipe(went_on) == 0);
    CHECK_EQ(cp_go(waits_for_byte, &has_come), 0);
    cp_yield();
    pid = fork();
    if (pid == 0) {
        alarm(5);
        run(1, receives, &sum);
        CHECK_EQ(write(ends[1], &byte, 1), 1);
        run(1, receives, &sum); /* the child polls while the event is there */
        CHECK_EQ(read(went_on[0], &byte, 1), 1);
        _exit(0);
    }
    alarm(5);
    while (has_come == 0)
        cp_yield();
    CHECK_EQ(write(went_on[1], &byte, 1), 1);
    reap(pid);
}

CP_TEST(a_child_takes_no_event_of_its_parents)
{
    if (TEST_TSAN)
        SKIP("ThreadSanitizer lets a process that was forked from one with threads start none");
    run(1, child_takes_no_event, NULL);
}
