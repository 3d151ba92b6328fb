/*
 * The scheduler: what two threads do at the same time, in the one order that matters. The test calls the
 * scheduler's functions in that order, or stops at each instruction.
 */
#include "runtime/sched/internal.h"
#include "tests/support/gs.h"
#include "tests/support/step.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

/* ---- An M falls asleep while a G becomes runnable -------------------------------------------- */

static struct cp__worker workers[2];
static struct cp__task task;

/* Prepares a scheduler with two Ms that does not run: the test acts for both Ms. */
static void begin_by_hand(void)
{
    CHECK_EQ(cp__wait_start(NULL), 0);
    cp__sched.workers = workers;
    cp__sched.worker_count = 2;
    cp__sched.global_last = &cp__sched.global_first;
}

/*
 * M 1 has searched and found nothing. Then M 0 puts a task into its queue and wakes no M, because M 1 is
 * searching. Then M 1 goes to sleep. M 1 must look once more and find the task: if it slept, no M would ever
 * wake it.
 */
static void put_between_search_and_sleep(void)
{
    CHECK(cp__idle_search(&workers[1]) == NULL);
    cp__queue_push(&workers[0], &task);
    cp__idle_wake();
    CHECK(cp__idle_sleep(&workers[1]));
    CHECK(cp__sched.idle == NULL);
    CHECK(cp__queue_pop(&workers[0]) == &task);
}

CP_TEST(an_m_looks_once_more_before_it_sleeps_on_its_futex)
{
    begin_by_hand();
    cp__sched.poller = &workers[0]; /* another M is the poller */
    put_between_search_and_sleep();
    cp__wait_stop();
}

CP_TEST(an_m_looks_once_more_before_it_sleeps_as_the_poller)
{
    begin_by_hand();
    put_between_search_and_sleep();
    CHECK(cp__sched.poller == NULL);
    cp__wait_stop();
}

/* ---- A G parks while another G makes it ready ------------------------------------------------ */

static struct cp__task *parking; /* NULL: the task has been made ready */
static unsigned steps, steps_that_wait, steps_on_its_stack;

/* As soon as the state says that the G waits, another thread may make it ready and an M may run it. So this M
 * must have left the G's stack by then. */
static void on_step(int signo, siginfo_t *info, void *ucontext)
{
    uintptr_t sp = cp__registers_from_handler(ucontext).sp;

    (void)signo, (void)info;
    if (!step_arrive(ucontext))
        return;
    steps++;
    if (parking != NULL && (cp_load_acquire(&parking->state) & CP__WAKE_PERMIT << CP__AWAITS) != 0) {
        steps_that_wait++;
        steps_on_its_stack += sp >= (uintptr_t)parking->stack_lo && sp < (uintptr_t)parking->stack_hi;
    }
    step_on(ucontext);
}

static void readies_the_parking(void *arg)
{
    struct cp__task *to_ready = parking;

    (void)arg;
    parking = NULL;
    cp_ready(&to_ready->g);
}

static void parks_step_by_step(void *arg)
{
    (void)arg;
    go(readies_the_parking, NULL);
    parking = cp__task_self();
    step_from_here();
    CHECK_EQ(cp_park(), 0);
    step_to_here();
}

CP_TEST(a_g_that_waits_is_off_its_stack)
{
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    if (!STEP_IS_KNOWN)
        SKIP("how to run one instruction at a time is not known here");
    if (TEST_ASAN || TEST_TSAN)
        SKIP("a sanitizer's own code takes too many steps");
    step_prepare();
    CHECK_EQ(sigaction(SIGTRAP, &action, NULL), 0);
    run(1, parks_step_by_step, NULL);
    CHECKF(steps_that_wait > 0, "%u steps", steps);
    CHECK_EQ(steps_on_its_stack, 0);
}

/* ---- A G becomes ready while a lister looks at it -------------------------------------------- */

static struct cp__task *watched;
static unsigned watched_goes_on, other_has_run;

static void parks_once(void *arg)
{
    (void)arg;
    cp_store_release(&watched, cp__task_self());
    cp_park();
    cp_store_release(&watched_goes_on, 1u);
}

/* The only M takes the two Gs in the order in which they became runnable. If the second one has run, the M
 * has tried to run the one that is being looked at before. */
static int ready_and_look(void *context, const struct cp_g_info *g)
{
    uint64_t start = wall_ns();

    CHECK_STR(g->state, "park");
    *(bool *)context = true;
    cp_ready(&watched->g);
    go(add_one, &other_has_run);
    while (cp_load_acquire(&other_has_run) == 0) {
        CHECK(wall_ns() - start < 5000 * MS * TEST_SLOWDOWN);
        sched_yield();
    }
    CHECK_EQ(cp_load_acquire(&watched_goes_on), 0);
    return -1; /* ends the list: there is no other G */
}

static bool is_parked(const struct cp__task *watched_one)
{
    return (cp_load_relaxed(&watched_one->state) & (uint32_t)CP__WAKE_PERMIT << CP__AWAITS) != 0;
}

static void *looks_at_the_parked(void *arg)
{
    struct cp__task *parked;

    while ((parked = cp_load_acquire(&watched)) == NULL || !is_parked(parked))
        sched_yield();
    cp_g_each(ready_and_look, arg, NULL);
    return NULL;
}

CP_TEST(a_g_that_is_looked_at_does_not_run)
{
    bool is_looked_at = false;
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, looks_at_the_parked, &is_looked_at), 0);
    run(1, parks_once, NULL);
    pthread_join(thread, NULL);
    CHECK(is_looked_at);
    CHECK_EQ(watched_goes_on, 1);
}
