/* What a stop tells of threads that do not release their events. */
#include "tests/support/burn.h"

#include <errno.h>

#include "pprof.h"
#include "runtime/base/os.h"
#include "runtime/m.h"
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

static void body_blocks_sigprof(struct worker *worker)
{
    cp__os_block_from_handler();
    burn_a(MS);                            /* a thread without any CPU time counts as asleep */
    cp_store_release(&worker->running, 2); /* pairs with the acquire in await() */
    burn_c(&worker->stop);
}

/* The thread runs with the first slot's event, and cannot take the kick that tells it of the second slot. */
SIM_TEST(a_stop_does_not_give_up_on_threads_that_hold_another_slot_only)
{
    struct cp_slot_request timer = request("timer", 10 * MS);
    struct cp_slot_stats stats = {.size = sizeof stats};
    struct worker worker;
    int slots[2];

    CHECK_EQ(cp_slots_start(&timer, 1, &slots[0], NULL), 0);
    start_worker(&worker, body_blocks_sigprof, NULL);
    await(&worker.running, 2);
    CHECK_EQ(cp_slots_start(&timer, 1, &slots[1], NULL), 0);
    begin_stop();
    CHECK_EQ(cp_slots_stop(&slots[1], 1), 0);
    end_long_stop();
    CHECK_EQ(cp_slots_stats(slots[1], &stats), 0);
    CHECK_EQ(stats.ms_unsettled, 0);
    stop_worker(&worker);
    CHECK_EQ(cp_slots_stop(&slots[0], 1), 0);
    cp_slots_release(slots, 2);
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
