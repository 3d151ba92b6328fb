/* Engines stand side by side: the core asks each by its table. The test brings an engine of its own. */
#include "runtime/engine.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/chunk.h"
#include "runtime/disposition.h"
#include "runtime/engine/engines.h"
#include "runtime/engine/perf_m_linux.h"
#include "runtime/event/rows.h"
#include "runtime/m.h"
#include "runtime/moment.h"
#include "runtime/outside.h"
#include "runtime/slot.h"
#include "tests/support/burn.h"
#include "tests/support/test.h"

/* ---- An engine that the library does not know ------------------------------------------------ */

enum { INDEX = CP__ENGINES - 1, WEIGHT = 7 };

/* What the engine keeps for an M: how often it was asked. */
struct asked {
    unsigned opened, enabled, closed, cleared, signals, begun, ended, owned;
    int slot;
};

static struct asked *asked_of(const struct cp__m *m)
{
    return m->own[INDEX].memory;
}

static int open_from_handler(struct cp__m *m, int slot, const struct cp__slot_config *config)
{
    CHECK_EQ(config->seq, m->handles[slot].seq);
    asked_of(m)->opened++;
    asked_of(m)->slot = slot;
    m->handles[slot].is_open = true;
    return 0;
}

static int enable_from_handler(struct cp__m *m, int slot)
{
    CHECK_EQ(asked_of(m)->slot, slot);
    asked_of(m)->enabled++;
    return 0;
}

static void close_from_handler(struct cp__m *m, int slot, struct cp__moment *moment)
{
    asked_of(m)->closed++;
    cp__moment_add_from_handler(moment, slot, 1); /* what it had counted */
}

static void clear_from_handler(struct cp__m *m, int slot)
{
    CHECK(m->handles[slot].seq != 0);
    asked_of(m)->cleared++;
}

static bool on_signal_from_handler(struct cp__m *m, const siginfo_t *info, struct cp__moment *moment)
{
    if (info->si_code != SI_TKILL)
        return false;
    asked_of(m)->signals++;
    cp__moment_add_from_handler(moment, asked_of(m)->slot, WEIGHT);
    return true;
}

static void begin_from_handler(struct cp__m *m)
{
    asked_of(m)->begun++;
}

static void end_from_handler(struct cp__m *m)
{
    asked_of(m)->ended++;
}

static void own_from_handler(struct cp__m *m)
{
    asked_of(m)->owned++;
}

static const struct cp__engine engine = {
    .index = INDEX,
    .size = sizeof(struct asked),
    .tells_places = true,
    .open_from_handler = open_from_handler,
    .enable_from_handler = enable_from_handler,
    .close_from_handler = close_from_handler,
    .clear_from_handler = clear_from_handler,
    .on_signal_from_handler = on_signal_from_handler,
    .begin_from_handler = begin_from_handler,
    .end_from_handler = end_from_handler,
    .own_from_handler = own_from_handler,
};

/* Starts a slot that the engine samples, as start_slots() does; returns the slot. */
static int start_other(struct cp__m *m)
{
    struct cp_slot_request made = request("taskClock", 10 * MS);
    int slot = 0;

    cp__request_encode(&made);
    cp__lock(&cp__runtime_lock);
    while (!cp__slot_is_free(slot))
        slot++;
    CHECK_EQ(cp__pool_resize(cp__slots_in_use() + 1), 0);
    CHECK_EQ(cp__m_make_buffers(m, 1u << slot), 0);
    CHECK_EQ(cp__m_make_own(m, &engine), 0);
    CHECK_EQ(cp__disposition_take(NULL), 0);
    cp__slot_publish(slot, &made, &engine, 0);
    cp__slots_next_generation();
    cp__unlock(&cp__runtime_lock);
    cp__outside_look_at_slots();
    return slot;
}

static void add(void *sum, const struct cp_sample *sample)
{
    *(uint64_t *)sum += sample->weight;
}

static void end_slot(int slot)
{
    CHECK_EQ(cp_slots_stop(&slot, 1), 0);
    CHECK_EQ(cp_slots_release(&slot, 1), 0);
}

SIM_TEST(an_engine_that_the_library_does_not_know_samples_beside_others)
{
    const struct cp_slot_request clock_request = request("taskClock", MS);
    struct cp_error err;
    struct cp_m *head;
    struct cp__m *m;
    uint64_t of_other = 0, of_clock = 0;
    int clock, other;

    CHECK_EQ(cp_m_attach(&head, NULL), 0);
    m = (struct cp__m *)head;
    CHECKF(cp_slots_start(&clock_request, 1, &clock, &err) == 0, "%s", err.message);
    other = start_other(m);
    CHECK(other != clock && m->handles[clock].engine == &cp__engine_perf);
    CHECK(asked_of(m)->opened == 1 && asked_of(m)->enabled == 1 && asked_of(m)->owned >= 1);
    burn_a(10 * MS);
    raise(SIGPROF);
    raise(SIGPROF);
    CHECK_EQ(asked_of(m)->signals, 2);
    CHECK(asked_of(m)->begun >= 12 && asked_of(m)->begun == asked_of(m)->ended);
    CHECK_EQ(cp_slots_stop(&other, 1), 0);
    CHECK(asked_of(m)->closed == 1 && asked_of(m)->cleared == 1);
    CHECK_EQ(m->handles[other].seq, 0);
    cp_slots_read(other, add, &of_other);
    cp_slots_read(clock, add, &of_clock);
    CHECK_EQ(of_other, 2 * WEIGHT + 1);
    CHECK(of_clock >= 9 && of_clock <= 11);
    CHECK_EQ(cp_slots_release(&other, 1), 0);
    end_slot(clock);
    cp_m_detach(head);
}

/* A reader's passes look at threads whose events bring no records. The engine's events have no limit. */
SIM_TEST(a_pass_asks_an_engine_for_nothing_that_it_lacks)
{
    struct cp_m *head;
    struct cp__m *m;
    uint64_t sum = 0;
    int other;

    CHECK_EQ(cp_m_attach(&head, NULL), 0);
    m = (struct cp__m *)head;
    other = start_other(m);
    for (int pass = 0; pass < 3; pass++) {
        burn_a(20 * MS);
        cp_slots_read(other, add, &sum);
    }
    CHECK_EQ(m->watched[other].seq, m->handles[other].seq);
    CHECK_EQ(sum, 0);
    end_slot(other);
    cp_m_detach(head);
}

/* ---- What engines keep for an M -------------------------------------------------------------- */

SIM_TEST(an_m_has_what_its_engines_keep_and_no_more)
{
    struct cp_slot_request of_clock = request("taskClock", MS), of_timer = request("timer", 10 * MS);
    struct cp_m *head;
    struct cp__m *m;
    int clock, timer;

    CHECK_EQ(cp_m_attach(&head, NULL), 0);
    m = (struct cp__m *)head;
    CHECK_EQ(m->engines, 0);
    CHECK_EQ(cp_slots_start(&of_timer, 1, &timer, NULL), 0);
    CHECK_EQ(m->engines, 1u << CP__ENGINE_TIMER);
    cp_m_detach(head);
    CHECK_EQ(cp_m_attach(&head, NULL), 0); /* while the slot runs */
    m = (struct cp__m *)head;
    CHECK_EQ(m->engines, 1u << CP__ENGINE_TIMER);
    CHECK_EQ(cp_slots_start(&of_clock, 1, &clock, NULL), 0);
    CHECK_EQ(m->engines, 1u << CP__ENGINE_TIMER | 1u << CP__ENGINE_PERF);
    CHECK(m->handles[timer].engine == &cp__engine_timer && m->handles[clock].engine == &cp__engine_perf);
    end_slot(clock);
    end_slot(timer);
    cp_m_detach(head);
}

/* Another engine may have the slot next: perf must not take its handle for one of its own. */
SIM_TEST(a_slot_that_perf_has_left_is_forgotten)
{
    struct cp_slot_request of_clock = request("taskClock", MS);
    struct cp__perf_handle *handle;
    struct cp_m *head;
    int clock;

    CHECK_EQ(cp_m_attach(&head, NULL), 0);
    CHECK_EQ(cp_slots_start(&of_clock, 1, &clock, NULL), 0);
    handle = &cp__perf_of((struct cp__m *)head)->handles[clock];
    CHECK(handle->seq != 0 && handle->n_events > 0);
    end_slot(clock);
    CHECK(handle->seq == 0 && handle->n_events == 0 && handle->kind == 0);
    cp_m_detach(head);
}

/* The same in a child of a fork. */
SIM_TEST(a_child_has_forgotten_what_perf_had_in_a_slot)
{
    struct cp_slot_request of_clock = request("taskClock", MS);
    const struct cp__perf_handle *handle;
    struct cp_m *head;
    int clock, status = 0;
    pid_t child;

    CHECK_EQ(cp_m_attach(&head, NULL), 0);
    CHECK_EQ(cp_slots_start(&of_clock, 1, &clock, NULL), 0);
    handle = &cp__perf_of((struct cp__m *)head)->handles[clock];
    child = fork();
    if (child == 0)
        _exit(handle->seq != 0 || handle->n_events != 0 || handle->limit != 0 || handle->kind != 0);
    CHECK(handle->seq != 0 && handle->n_events > 0);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    end_slot(clock);
    cp_m_detach(head);
}

/* A tick that has waited for its thread has no record that says where it was. */
SIM_TEST(ticks_that_have_waited_are_late)
{
    struct cp_slot_request of_timer = request("timer", 10 * MS);
    struct cp_slot_stats stats = {.size = sizeof stats};
    struct cp_m *head;
    sigset_t set;
    int timer;

    CHECK_EQ(cp_m_attach(&head, NULL), 0);
    CHECK_EQ(cp_slots_start(&of_timer, 1, &timer, NULL), 0);
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
    burn_a(35 * MS);
    CHECK_EQ(cp_slots_stop(&timer, 1), 0);
    CHECK_EQ(cp_slots_stats(timer, &stats), 0);
    CHECK(stats.samples >= 3 && stats.late == stats.samples);
    CHECK_EQ(cp_slots_release(&timer, 1), 0);
    CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
    cp_m_detach(head);
}
