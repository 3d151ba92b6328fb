/* What a stop tells of threads that do not release their events. */
#include "tests/support/burn.h"

#include <errno.h>

#include "pprof.h"
#include "runtime/base/os.h"
#include "runtime/m.h"
#include "runtime/outside.h"
#include "runtime/slot.h"
#include "tests/support/puppet.h"
#include "tests/support/stop_time.h"

static int ends[2]; /* of a pipe that nothing is written to */

static void body_sleeps(struct worker *worker)
{
    char byte;

    (void)worker;
    CHECK_EQ(read(ends[0], &byte, 1), 0);
}

/* Starts a thread that sleeps, and holds the timer's slot if that runs. */
static void start_sleeping(struct worker *worker)
{
    CHECK_EQ(pipe(ends), 0);
    start_worker(worker, body_sleeps, NULL);
    await_sleep(worker->tid);
}

static void end_sleeping(struct worker *worker)
{
    close(ends[1]);
    join_worker(worker);
    close(ends[0]);
}

/* Takes the claim of the worker's M: so the M looks while the kernel keeps it in a call that opens or closes
 * an event. */
static struct cp__m *take_claim(const struct worker *worker)
{
    struct cp__m *m = (struct cp__m *)worker->m;

    CHECK(cp__m_claim_from_handler(m, CP__CLAIM_SELF));
    return m;
}

SIM_TEST(a_stop_counts_the_threads_that_hold_a_slot_and_names_one)
{
    struct cp_slot_request requests[] = {request("timer", 10 * MS), request("timer", 10 * MS)};
    struct cp_slot_stats stats = {.size = sizeof stats};
    struct worker worker;
    struct cp__m *m;
    int slots[2];

    CHECK_EQ(cp_slots_start(requests, 2, slots, NULL), 0);
    start_sleeping(&worker);
    m = take_claim(&worker);
    begin_stop();
    CHECK_EQ(cp_slots_stop(&slots[0], 1), -ETIMEDOUT);
    end_long_stop();
    CHECK_EQ(cp_slots_stats(slots[0], &stats), 0);
    CHECK_EQ(stats.ms_unsettled, 1);
    CHECK_EQ(stats.unsettled_tid, worker.tid);
    cp__m_unclaim_from_handler(m);
    begin_stop();
    CHECK_EQ(cp_slots_stop(&slots[1], 1), 0); /* a thread that sleeps is not waited for */
    end_short_stop();
    CHECK_EQ(cp_slots_stats(slots[1], &stats), 0);
    CHECK_EQ(stats.ms_unsettled, 0);
    CHECK_EQ(stats.unsettled_tid, 0);
    cp_slots_release(slots, 2);
    CHECK_EQ(cp_slots_totals(&stats), 0);
    CHECK_EQ(stats.ms_unsettled, 1);
    CHECK_EQ(stats.unsettled_tid, worker.tid);
    end_sleeping(&worker);
}

/* The thread sleeps with the first slot's event, and seems to be in its handler when the second slot starts
 * and stops. */
SIM_TEST(a_stop_does_not_give_up_on_threads_that_hold_another_slot_only)
{
    struct cp_slot_request timer = request("timer", 10 * MS);
    struct cp_slot_stats stats = {.size = sizeof stats};
    struct worker worker;
    struct cp__m *m;
    int slots[2];

    CHECK_EQ(cp_slots_start(&timer, 1, &slots[0], NULL), 0);
    start_sleeping(&worker);
    m = (struct cp__m *)worker.m;
    cp_store_relaxed(&m->runs, m->runs + 1); /* relaxed, both: the thread sleeps */
    CHECK_EQ(cp_slots_start(&timer, 1, &slots[1], NULL), 0);
    CHECK_EQ(m->armed, 1u << slots[0]);
    begin_stop();
    CHECK_EQ(cp_slots_stop(&slots[1], 1), 0);
    end_long_stop();
    CHECK_EQ(cp_slots_stats(slots[1], &stats), 0);
    CHECK_EQ(stats.ms_unsettled, 0);
    cp_store_relaxed(&m->runs, m->runs + 1);
    CHECK_EQ(cp_slots_stop(&slots[0], 1), 0);
    cp_slots_release(slots, 2);
    end_sleeping(&worker);
}

/* A thread that stops a slot. It stands still in the stop's first wait for an M. */
static struct {
    pthread_t thread;
    pid_t tid;
    int slot, result;
    int is_ready, may_stop;
} stopper;

static void *stop_slot(void *arg)
{
    stopper.tid = cp__os_tid();
    cp_store_release(&stopper.is_ready, 1); /* pairs with the acquire in await(), burn.h */
    await(&stopper.may_stop, 1);
    begin_stop();
    stopper.result = cp_slots_stop(&stopper.slot, 1);
    return arg;
}

static void start_stop(int slot)
{
    stopper.slot = slot;
    CHECK_EQ(pthread_create(&stopper.thread, NULL, stop_slot, NULL), 0);
    await(&stopper.is_ready, 1);
    sim_stop(stopper.tid);
    cp_store_release(&stopper.may_stop, 1); /* pairs with the acquire in await(), burn.h */
}

static int finish_stop(void)
{
    sim_continue(stopper.tid);
    pthread_join(stopper.thread, NULL);
    return stopper.result;
}

/* Makes the worker's M look as if its thread was about to detach it, and to close all events. */
static void seem_to_leave(struct cp__m *m)
{
    CHECK(cp__m_claim_from_handler(m, CP__CLAIM_SELF));
    cp_store_relaxed(&m->life, CP__M_LEAVING); /* relaxed: the thread sleeps */
}

static void stay(struct cp__m *m)
{
    cp_store_relaxed(&m->life, CP__M_LIVE);
    cp__m_unclaim_from_handler(m);
}

static bool has_settled(const struct cp__m *m, uint64_t before)
{
    bool has;

    cp__lock(&cp__runtime_lock);
    has = m->settled > before;
    cp__unlock(&cp__runtime_lock);
    return has;
}

static void await_settled(const struct cp__m *m, uint64_t before)
{
    for (struct patience patience = {.looks = 0}; !has_settled(m, before);) {
        CHECK(has_patience(&patience));
        usleep(NAP_US);
    }
}

/* A thread that has let the event go, and one that has come after the stop, are leaving when the last one
 * that the stop waits for lets the event go. Among threads that come and go there is always such a one. */
SIM_TEST(a_stop_waits_once_for_each_thread)
{
    struct cp_slot_request timer = request("timer", 10 * MS);
    struct worker waited_for, settled, younger;
    struct cp__m *m;
    uint64_t generation;
    int slots[2];

    CHECK_EQ(cp_slots_start(&timer, 1, &slots[0], NULL), 0);
    CHECK_EQ(cp_slots_start(&timer, 1, &slots[1], NULL), 0);
    start_sleeping(&waited_for);
    start_worker(&settled, body_sleeps, NULL);
    await_sleep(settled.tid);
    cp__settle_ms = 10000; /* on a busy machine, too */
    m = take_claim(&waited_for);
    generation = cp_load_relaxed(&cp_generation);
    start_stop(slots[0]);
    await_settled((struct cp__m *)settled.m, generation);
    start_worker(&younger, body_sleeps, NULL);
    await_sleep(younger.tid);
    seem_to_leave((struct cp__m *)settled.m);
    seem_to_leave((struct cp__m *)younger.m);
    cp__m_unclaim_from_handler(m);
    CHECK_EQ(finish_stop(), 0);
    stay((struct cp__m *)settled.m);
    stay((struct cp__m *)younger.m);
    CHECK_EQ(cp_slots_stop(&slots[1], 1), 0);
    cp_slots_release(slots, 2);
    close(ends[1]);
    join_worker(&settled);
    join_worker(&younger);
    join_worker(&waited_for);
    close(ends[0]);
}

static bool has_settled_slot;

static void *settle_slot(void *slot)
{
    has_settled_slot = cp__outside_settle(1u << *(const int *)slot, 0);
    return NULL;
}

/* Returns whether another thread's look finds that all Ms have let the slot go. */
static bool is_settled_elsewhere(int slot)
{
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, settle_slot, &slot), 0);
    pthread_join(thread, NULL);
    return has_settled_slot;
}

/* Another thread stops the slot between this thread's look at the slots, in a start, and its wait for the
 * other Ms. That wait leaves this thread's own M alone. The other thread's wait must not, while this thread
 * keeps the claim of its M. */
SIM_TEST(a_stop_waits_for_a_thread_that_waits_for_others)
{
    struct cp_slot_request timer = request("timer", 10 * MS);
    struct worker worker;
    struct cp__m *m;
    int slot;

    CHECK_EQ(cp_slots_start(&timer, 1, &slot, NULL), 0);
    attach(&worker);
    m = take_claim(&worker);
    cp__lock(&cp__runtime_lock);
    cp__slot_stop(slot);
    cp__slots_next_generation();
    cp__unlock(&cp__runtime_lock);
    CHECK(cp__outside_settle(0, 0));
    CHECK(!is_settled_elsewhere(slot));
    cp__m_unclaim_from_handler(m);
    CHECK(is_settled_elsewhere(slot));
    CHECK_EQ(m->armed, 0);
    cp_slots_release(&slot, 1);
    cp_m_detach(worker.m);
}

/* The thread holds the first config's event until the slot has the second config. */
SIM_TEST(a_thread_that_held_its_event_for_too_long_gets_the_next_one_of_the_slot)
{
    struct cp_slot_request first = request("taskClock", 10 * MS), second = request("taskClock", MS);
    struct profile profile = {.n = 0};
    struct puppet puppet;
    struct cp__m *m;

    start_unread(&profile, &first, 1);
    start_puppet(&puppet);
    m = take_claim(&puppet.worker);
    begin_stop();
    CHECK_EQ(cp_slots_stop(profile.slots, 1), -ETIMEDOUT);
    end_long_stop();
    cp_slots_release(profile.slots, 1);
    start_unread(&profile, &second, 1);
    CHECK_EQ(profile.slots[0], 0);
    CHECK_EQ(m->armed, 1);
    cp__m_unclaim_from_handler(m);
    read_profile(&profile); /* a pass closes the first event, and opens the second one */
    run_puppet(&puppet, burn_a, 30 * MS);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].samples, 30);
    CHECK_EQ(profile.stats[0].count, 30 * MS);
    CHECK_EQ(profile.seen[0].leaf[IN_A], 30);
    end_puppet(&puppet);
}

SIM_TEST(a_stop_of_an_event_names_a_thread_that_holds_it_and_the_samples_can_be_read)
{
    struct worker worker;
    struct cp_error err = {0};
    struct cp__m *m;
    char name[40];

    CHECK_EQ(cp_set_cpu_profile_rate(1, &err), 0);
    start_sleeping(&worker);
    m = take_claim(&worker);
    begin_stop();
    CHECK_EQ(cp_set_cpu_profile_rate(0, &err), -ETIMEDOUT);
    end_long_stop();
    CHECK_EQ(err.code, -ETIMEDOUT);
    snprintf(name, sizeof name, "thread %d still holds it", (int)worker.tid);
    CHECK_CONTAINS(err.message, "The event has stopped, but ");
    CHECK_CONTAINS(err.message, name);
    CHECK_EQ(cp_set_cpu_profile_rate(0, &err), 0); /* it stopped the first time */
    cp__m_unclaim_from_handler(m);
    end_sleeping(&worker);
    CHECK_EQ(cp_cpu_profile_read(CP_CPUPROF_OS_TIMER, see, NULL), 0);      /* the thread had none */
    CHECK_EQ(cp_cpu_profile_read(CP_CPUPROF_OS_TIMER, see, NULL), -ESRCH); /* it was read to its end */
}

/* Returns the text of the session's profile. */
static char *text_of(struct cp_session *session)
{
    struct cp_memory memory = {.size = 0};
    struct cp_error err;
    char *text;

    CHECKF(cp_session_write_text(session, 0, cp_writer_memory(&memory), &err) == 0, "%s", err.message);
    text = calloc(1, memory.size + 1); /* strict sanitizers see strndup() look at what follows */
    memcpy(text, memory.data, memory.size);
    free(memory.data);
    return text;
}

SIM_TEST(a_profile_is_written_and_names_a_thread_that_holds_its_event)
{
    struct cp_memory memory = {.size = 0};
    struct cp_profiling_option option = cp_option_event(cp_writer_memory(&memory), "timer", 10 * MS);
    struct cp_session *session;
    struct cp_error err = {0};
    struct worker worker;
    struct cp__m *m;
    char *text, line[60];

    CHECK_EQ(cp__settle_ms, LONGEST_WAIT_MS); /* the comment says so */
    CHECKF(cp_session_start(&session, &option, 1, &err) == 0, "%s", err.message);
    start_sleeping(&worker);
    m = take_claim(&worker);
    begin_stop();
    CHECKF(cp_session_stop(session, &err) == 0, "%s", err.message);
    end_long_stop();
    cp__m_unclaim_from_handler(m);
    CHECK(memory.size > 0);
    text = text_of(session);
    snprintf(line, sizeof line, "# unsettled_thread: %d # is the id of one of them", (int)worker.tid);
    CHECK_CONTAINS(text, "# threads_unsettled: 1 # held the event 2 s after the stop");
    CHECK_CONTAINS(text, line);
    CHECK_CONTAINS(text, "# limits: ");
    CHECK_CONTAINS(strstr(text, "# limits: "), "threads_unsettled");
    cp_session_close(session);
    end_sleeping(&worker);
    free(text);
    free(memory.data);
}

/* ---- Threads that were never armed ----------------------------------------------------------- */

/* The thread's claim is taken from the start on, so nobody can arm its M. */
SIM_TEST(the_time_of_a_thread_that_was_never_armed_is_told)
{
    struct cp_slot_request timer = request("timer", 10 * MS);
    struct cp_slot_stats stats = {.size = sizeof stats};
    struct puppet puppet;
    struct cp__m *m;
    int slot;

    start_puppet(&puppet);
    m = take_claim(&puppet.worker);
    CHECK_EQ(cp_slots_start(&timer, 1, &slot, NULL), 0);
    run_puppet(&puppet, burn_a, 50 * MS);
    CHECK_EQ(cp_slots_stats(slot, &stats), 0);
    CHECK_EQ(stats.unarmed_ns, 50 * MS);
    CHECK_EQ(stats.ms_ns, 50 * MS);
    CHECK_EQ(stats.ms, 0);
    cp__m_unclaim_from_handler(m);
    CHECK_EQ(cp_slots_stop(&slot, 1), 0);
    CHECK_EQ(cp_slots_stats(slot, &stats), 0);
    CHECK_EQ(stats.unarmed_ns, 50 * MS);
    cp_slots_release(&slot, 1);
    end_puppet(&puppet);
}
