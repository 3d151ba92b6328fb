#include "wall.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/asked.h"
#include "runtime/base/fail.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/loads.h"
#include "runtime/base/os.h"
#include "runtime/base/thread.h"
#include "runtime/disposition.h"
#include "runtime/engine/timer_linux.h"
#include "runtime/unwind/code.h"
#include "wall_draw.h"
#include "wall_stack.h"
#include "weight.h"

/* How often an account is read that changes, and its stack copied. */
enum { READS = 100, COPIES = 3 };

/* A G that ran when it was drawn: its stack is still to come. */
struct running {
    const struct cp__account *account; /* NULL: none */
    struct cp__asked *asked;           /* NULL: nobody could be asked */
    uint64_t id, switches;
    struct cp_labels *labels; /* as in struct cp__wall_seen */
    uint64_t ns;              /* that it stands for */
};

struct cp__wall {
    pthread_t thread;
    uint32_t is_stopping; /* shared, atomic */

    /* Of the thread. */
    uint64_t looked_ns; /* when the last look came */
    struct cp__wall_draw draw;
    struct running running[CP__ASKED_MOST];
    bool may_come_late; /* a tick may be pending */
    struct cp__wait_chain chain;
    struct cp__unwind_cache cache;
    struct cp__wall_stack stack;
};

/* ---- Samples --------------------------------------------------------------------------------- */

static uint64_t parts_of(const struct cp__recording *recording, uint64_t ns)
{
    return (uint64_t)((double)ns / (double)recording->period * CP__WAIT_PARTS + 0.5);
}

/* Records the wall's chain. */
static void record_state(struct cp__recording *recording, const struct cp__wall_seen *seen,
                         enum cp__wall_state state, uint64_t ns)
{
    const bool waits = state == CP__WALL_WAITING;
    const struct cp__wait_taken taken = {.chain = &recording->wall->chain,
                                         .labels = seen->labels,
                                         .state = state,
                                         .reason = waits ? seen->reason : CP_WAIT_OTHER,
                                         .object = waits ? seen->object : NULL,
                                         .parts = parts_of(recording, ns),
                                         .delay = ns};

    if (seen->is_refused)
        cp_store_relaxed(&recording->has_no_stacks, true); /* relaxed, all: numbers of their own */
    cp__wait_record_outside(recording, &taken);
}

static void record_standing(struct cp__recording *recording, const struct cp__wall_seen *seen,
                            enum cp__wall_state state, uint64_t ns)
{
    struct cp__wall *wall = recording->wall;

    cp__wall_walk(&wall->stack, seen, &wall->cache, &wall->chain);
    record_state(recording, seen, state, ns);
}

/* ---- Gs that run ----------------------------------------------------------------------------- */

static void end_asked(struct cp__wall *wall, struct running *running)
{
    if (running->asked != NULL) {
        if (running->asked->timer >= 0)
            cp__timer_end_from_handler(running->asked->timer);
        wall->may_come_late |= !cp__asked_is_taken(running->asked);
        cp__asked_end(running->asked);
    }
    running->account = NULL;
    running->asked = NULL;
}

static void take_asked_chain(const struct cp__asked *asked, struct cp__wait_chain *chain)
{
    chain->loads = cp__loads_from_handler();
    chain->flags = asked->flags;
    chain->depth = asked->depth;
    memcpy(chain->frames, asked->frames, asked->depth * sizeof *chain->frames);
    chain->hash = cp__wait_hash_chain(chain);
}

static bool is_same_stint(const struct running *running, const struct cp__wall_seen *seen)
{
    return seen->id == running->id && seen->switches == running->switches;
}

static bool runs_since(const struct running *running, const struct cp__wall_seen *seen)
{
    return is_same_stint(running, seen) && seen->state == CP__G_RUNNING;
}

/* Whether the G has given its M up since, and has not run again: seen is of the present. */
static bool stands_since(const struct running *running, const struct cp__wall_seen *seen)
{
    return is_same_stint(running, seen) && seen->state != CP__G_RUNNING;
}

/* Records what ran with the stack that there is: that of the tick, or where the G stands now. Returns false
 * if the tick may still come. */
static bool settle_running(struct cp__recording *recording, struct running *running, bool is_last)
{
    struct cp__wall *wall = recording->wall;
    const bool is_taken = running->asked != NULL && cp__asked_is_taken(running->asked);
    struct cp__wall_seen seen;
    const bool is_seen = cp__wall_see(running->account, &wall->stack, &seen);

    if (!is_taken && !is_last && (!is_seen || runs_since(running, &seen)))
        return false;
    if (is_taken || !is_seen || !stands_since(running, &seen))
        seen = (struct cp__wall_seen){.id = running->id};
    seen.labels = running->labels;
    if (is_taken) {
        take_asked_chain(running->asked, &wall->chain);
        record_state(recording, &seen, CP__WALL_RUNNING, running->ns);
    } else {
        record_standing(recording, &seen, CP__WALL_RUNNING, running->ns);
    }
    return true;
}

static void settle_all(struct cp__recording *recording, bool is_last)
{
    for (unsigned i = 0; i < CP__ASKED_MOST; i++) {
        struct running *running = &recording->wall->running[i];

        if (running->account != NULL && settle_running(recording, running, is_last))
            end_asked(recording->wall, running);
    }
}

/* Asks the M that runs what is said to run for its stack, if it is the account's. */
static bool ask_m(struct cp__recording *recording, struct running *running, struct cp__m *m)
{
    const bool is_own = (running->id & CP__ACCOUNT_OF_M) != 0;

    /* relaxed: an M that has just gone takes no tick */
    if (cp_load_relaxed(&m->life) != CP__M_LIVE)
        return false;
    if (is_own ? running->id != (CP__ACCOUNT_OF_M | (uint64_t)m->tid)
               : cp__account_on_from_handler(m) != running->account)
        return false;
    running->asked = cp__asked_begin(recording, running->account, running->switches);
    if (running->asked != NULL &&
        cp__timer_start_from_handler(m, &running->asked->timer, cp__asked_value(running->asked), 1, 0) < 0)
        end_asked(recording->wall, &(struct running){.asked = running->asked});
    return true;
}

static struct running *place_for(struct cp__wall *wall, const struct running *drawn)
{
    struct running *free_one = NULL;

    for (unsigned i = 0; i < CP__ASKED_MOST; i++) {
        struct running *running = &wall->running[i];

        if (running->account == NULL)
            free_one = running;
        else if (running->account == drawn->account && running->id == drawn->id &&
                 running->switches == drawn->switches && running->labels == drawn->labels)
            return running;
    }
    return free_one;
}

/* The thread runs a G, and not its own code. */
static bool runs_g(const struct running *running, const struct cp__m *m)
{
    return running->id == (CP__ACCOUNT_OF_M | (uint64_t)m->tid) && cp__account_on_from_handler(m) != NULL;
}

/* The G ran. What is drawn in the same stint again, with the same labels, waits for the same tick. */
static void add_running(struct cp__recording *recording, const struct running *drawn)
{
    struct running *running = place_for(recording->wall, drawn), only;
    bool is_asked = running != NULL && running->account != NULL;

    if (is_asked) {
        running->ns += drawn->ns;
        return;
    }
    running = running == NULL ? &only : running;
    *running = *drawn;
    for (struct cp__m *m = cp__m_next(NULL); m != NULL; m = cp__m_next(m)) {
        if (runs_g(running, m))
            running->account = NULL;
        else if (!is_asked && running->account != NULL && running != &only)
            is_asked = ask_m(recording, running, m);
    }
    if (running->account != NULL && running->asked == NULL) {
        settle_running(recording, running, true);
        running->account = NULL;
    }
}

/* ---- Looks ----------------------------------------------------------------------------------- */

static bool see_account(const struct cp__account *account, struct cp__wall_seen *seen)
{
    for (int i = 0; i < READS; i++) {
        if (cp__wall_see(account, NULL, seen))
            return true;
    }
    return false;
}

/* Adds the stack to what was seen. If the G does not stand still for so long, a later stack of the same state
 * does, if all else is the same. What stands still at last is not the sample itself: long states would have
 * too many. */
static void add_later_stack(struct cp__wall *wall, const struct cp__account *account,
                            struct cp__wall_seen *seen)
{
    struct cp__wall_seen later;

    for (int i = 0; i < COPIES; i++) {
        if (cp__wall_see(account, &wall->stack, &later) && later.id == seen->id &&
            later.state == seen->state && later.reason == seen->reason && later.object == seen->object &&
            later.labels == seen->labels) {
            *seen = later;
            return;
        }
    }
}

/* Takes a sample of an account, which stands for so many ns. */
static void sample_account(struct cp__recording *recording, const struct cp__account *account, uint64_t ns)
{
    struct cp__wall_seen seen;

    if (!see_account(account, &seen)) {
        cp_fetch_add_relaxed(&recording->dropped, 1u); /* relaxed, both: numbers of their own */
        cp_fetch_add_relaxed(&recording->dropped_ns, ns);
    } else if (seen.id == 0 || seen.state == CP__G_DORMANT) {
        return;
    } else if (seen.state == CP__G_RUNNING) {
        add_running(recording, &(struct running){.account = account,
                                                 .id = seen.id,
                                                 .switches = seen.switches,
                                                 .labels = seen.labels,
                                                 .ns = ns});
    } else {
        add_later_stack(recording->wall, account, &seen);
        record_standing(recording, &seen, seen.state == CP__G_WAITING ? CP__WALL_WAITING : CP__WALL_RUNNABLE,
                        ns);
    }
}

static void look_at_accounts(struct cp__recording *recording)
{
    struct cp__wall *wall = recording->wall;
    const uint64_t now = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC), passed = now - wall->looked_ns;

    cp__code_look(); /* stacks may lead through code that was loaded since */
    settle_all(recording, false);
    cp__wall_draw(&wall->draw, cp__account_places(), cp__account_at);
    for (size_t i = 0; i < wall->draw.n; i++)
        sample_account(recording, wall->draw.drawn[i], (uint64_t)((double)passed * wall->draw.each + 0.5));
    wall->looked_ns = now;
}

/* Half of the period to three halves, so that no rhythm of the program's keeps step with the looks. */
static int next_in_ms(struct cp__recording *recording)
{
    const uint64_t period = recording->period, random = cp__wait_random(&recording->wall->draw.random);
    const uint64_t ns = period / 2 + (uint64_t)((unsigned __int128)random * period >> 64);

    return ns < 1000000 ? 1 : (int)((ns + 500000) / 1000000);
}

/* If a thread has SIGPROF blocked, a tick may stay pending for any time, and needs the library's handler when
 * it comes. */
static void look_for_late_ticks(const struct cp__wall *wall)
{
    for (struct cp__m *m = wall->may_come_late ? cp__m_next(NULL) : NULL; m != NULL; m = cp__m_next(m)) {
        struct cp__os_pending pending;

        cp__fork_delay(); /* a child must not have the file's descriptor */
        pending = cp__os_thread_pending(m->tid, SIGPROF);
        cp__fork_allow();
        if (pending.is_pending || pending.is_traced)
            cp__disposition_keep_from_handler();
    }
}

static void *look_often(void *arg)
{
    struct cp__recording *recording = arg;
    struct cp__wall *wall = recording->wall;

    for (;;) {
        const uint64_t until =
            cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) + (uint64_t)next_in_ms(recording) * 1000000;
        uint64_t now;

        /* acquire: pairs with the release in cp__wall_stop() */
        while (cp_load_acquire(&wall->is_stopping) == 0 &&
               (now = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC)) < until)
            cp__os_futex_wait(&wall->is_stopping, 0, (int)((until - now + 999999) / 1000000));
        if (cp_load_acquire(&wall->is_stopping) != 0) /* acquire: as above */
            break;
        look_at_accounts(recording);
    }
    settle_all(recording, true);
    look_for_late_ticks(wall);
    return NULL;
}

static void *run_looks(void *arg)
{
    return cp__thread_own(look_often, arg);
}

/* ---- Starting and stopping ------------------------------------------------------------------- */

static struct cp__wall *make_wall(void)
{
    struct cp__wall *wall = aligned_alloc(CP__SYS_PAGE, (sizeof *wall + CP__SYS_PAGE - 1) & -CP__SYS_PAGE);

    if (wall == NULL)
        return NULL;
    memset(wall, 0, sizeof *wall);
    wall->looked_ns = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC);
    wall->draw.random = wall->looked_ns * 0x9e3779b97f4a7c15u | 1;
    return wall;
}

int cp__wall_start(struct cp__recording *recording, struct cp_error *err)
{
    int result = cp__disposition_hold(err);

    if (result < 0)
        return result;
    recording->wall = make_wall();
    result = recording->wall == NULL
                 ? -ENOMEM
                 : cp__thread_start(&recording->wall->thread, CP__DEEP_STACK, run_looks, recording);
    if (result == 0)
        return 0;
    cp__wall_free(recording);
    cp__disposition_drop();
    return cp__error(err, result, "There can be no thread that looks at green threads: %s.",
                     strerror(-result));
}

void cp__wall_stop(struct cp__recording *recording)
{
    struct cp__wall *wall = recording->wall;

    cp_store_release(&wall->is_stopping, 1u); /* pairs with the acquires in look_often() */
    cp__os_futex_wake_from_handler(&wall->is_stopping);
    pthread_join(wall->thread, NULL);
    cp__disposition_drop();
}

void cp__wall_free(struct cp__recording *recording)
{
    free(recording->wall);
    recording->wall = NULL;
}
