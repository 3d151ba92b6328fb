/* A cancelled thread does not end inside the library: neither in its signal handler, nor while it holds one
 * of the library's locks. */
#include "tests/support/burn.h"

#include "runtime/base/lock.h"
#include "runtime/cost.h"

/* Runs body on a thread for which a deferred cancellation is pending from the beginning. */
static void run_cancelled(void *(*body)(void *), void *arg)
{
    pthread_t thread;
    void *result;

    CHECK_EQ(pthread_create(&thread, NULL, body, arg), 0);
    CHECK_EQ(pthread_join(thread, &result), 0);
    CHECK(result == PTHREAD_CANCELED);
}

/* ---- Locks ----------------------------------------------------------------------------------- */

static struct cp__lock outer = CP__LOCK_INIT(CP__RANK_DEFAULT_SESSION);
static struct cp__lock inner = CP__LOCK_INIT(CP__RANK_LABELS);

struct steps {
    bool is_disabled; /* the thread has disabled cancellation itself */
    bool inside;      /* the thread passed cancellation points with both locks and with one lock */
    bool behind;      /* the thread passed a cancellation point without a lock */
};

static void *body_locks(void *arg)
{
    struct steps *steps = arg;
    int state;

    if (steps->is_disabled)
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    pthread_cancel(pthread_self());
    cp__lock(&outer);
    cp__lock(&inner);
    pthread_testcancel();
    cp__unlock(&inner);
    pthread_testcancel();
    steps->inside = true;
    cp__unlock(&outer);
    pthread_testcancel();
    steps->behind = true;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
    pthread_testcancel();
    return NULL;
}

static bool is_free(struct cp__lock *lock)
{
    bool is_free = pthread_mutex_trylock(&lock->mutex) == 0;

    if (is_free)
        pthread_mutex_unlock(&lock->mutex);
    return is_free;
}

CP_TEST(a_thread_with_a_lock_is_not_cancelled)
{
    struct steps steps[] = {{.is_disabled = false}, {.is_disabled = true}};

    if (TEST_ASAN)
        SKIP("AddressSanitizer takes the stack of a cancelled thread for another function's");
    for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
        run_cancelled(body_locks, &steps[i]);
        CHECK(steps[i].inside);
        CHECK_EQ(steps[i].behind, steps[i].is_disabled);
        CHECK(is_free(&outer) && is_free(&inner));
    }
}

/* ---- The runtime ----------------------------------------------------------------------------- */

static void take_sample(void *context, const struct cp_sample *sample)
{
    (void)context;
    CHECK(sample->weight > 0);
}

static const char *volatile reached; /* the last call from which the cancelled thread returned */

static void *body_runtime(void *arg)
{
    struct cp_slot_request made = request("taskClock", MS);
    struct cp_slot_stats stats = {.size = sizeof stats};
    struct cp_m *m;
    int slot = -1;

    (void)arg;
    reached = "nothing";
    pthread_cancel(pthread_self());
    cp__cost_set(0);
    cp_sample_cost_ns(NULL);
    cp__cost_set(1);
    reached = "cost";
    if (cp_m_attach(&m, NULL) < 0)
        return NULL;
    reached = "attach";
    if (cp_slots_start(&made, 1, &slot, NULL) < 0)
        return NULL;
    reached = "start";
    cp_execute(m, NULL);
    raise(SIGPROF);
    burn_a(5 * MS);
    reached = "handler";
    cp_slots_read(slot, take_sample, NULL);
    cp_slots_stats(slot, &stats);
    CHECK_EQ(stats.samples, 5);
    reached = "read";
    cp_slots_stop(&slot, 1);
    cp_execute(m, NULL);
    cp_slots_release(&slot, 1);
    reached = "stop";
    cp_m_detach(m);
    reached = "detach";
    pthread_testcancel();
    return NULL;
}

/* Each of these calls opens, reads and closes files or events. */
SIM_TEST(no_call_of_the_runtime_is_a_cancellation_point)
{
    run_cancelled(body_runtime, NULL);
    CHECK_STR(reached, "detach");
}

/* What the thread waits for, and what it has done. */
enum step { ATTACHED = 1, ARMED, BURNT, DISARMED };

struct interrupted {
    struct cp_m *m;
    int step; /* enum step, atomic */
    bool is_through;
};

/* Waits without a cancellation point. */
static void wait_for_step(const struct interrupted *thread, enum step step)
{
    while (cp_load_acquire(&thread->step) < (int)step) /* pairs with the release in go_on() */
        SPIN_HERE();
}

static void go_on(struct interrupted *thread, enum step step)
{
    cp_store_release(&thread->step, (int)step); /* pairs with the acquire of whoever waits */
}

/* The thread itself has no cancellation point between the first step and the last. */
static void *body_interrupted(void *arg)
{
    struct interrupted *thread = arg;

    if (cp_m_attach(&thread->m, NULL) < 0)
        return NULL;
    pthread_cancel(pthread_self());
    burn_a(MS);
    go_on(thread, ATTACHED);
    wait_for_step(thread, ARMED);
    burn_a(10 * MS);
    go_on(thread, BURNT);
    wait_for_step(thread, DISARMED);
    thread->is_through = true;
    pthread_testcancel();
    return NULL;
}

/* The thread is armed, sampled and disarmed without a scheduling point. */
SIM_TEST(the_handler_has_no_cancellation_point)
{
    struct cp_slot_request made = request("taskClock", MS);
    struct interrupted thread = {.step = 0};
    struct cp_slot_stats stats = {.size = sizeof stats};
    struct cp_error err;
    pthread_t id;
    void *result;
    int slot;

    CHECK_EQ(pthread_create(&id, NULL, body_interrupted, &thread), 0);
    await(&thread.step, ATTACHED);
    CHECKF(cp_slots_start(&made, 1, &slot, &err) == 0, "%s", err.message);
    while (stats.ms == 0) {
        sleep_ms(1);
        cp_slots_read(slot, take_sample, NULL);
        cp_slots_stats(slot, &stats);
    }
    go_on(&thread, ARMED);
    await(&thread.step, BURNT);
    cp_slots_stop(&slot, 1);
    cp_slots_stats(slot, &stats);
    CHECK_EQ(stats.samples, 10);
    cp_slots_release(&slot, 1);
    go_on(&thread, DISARMED);
    CHECK_EQ(pthread_join(id, &result), 0);
    CHECK(result == PTHREAD_CANCELED);
    CHECK(thread.is_through);
}
