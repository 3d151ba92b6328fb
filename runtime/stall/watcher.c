#include "watcher.h"

#include "judge.h"
#include "parked.h"
#include "places.h"
#include "runtime/asked.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/os.h"
#include "runtime/disposition.h"
#include "runtime/engine/timer_linux.h"
#include "runtime/g_account.h"
#include "runtime/label_sum_part.h"
#include "runtime/ticks.h"
#include "runtime/unwind/code.h"
#include "thread_linux.h"

/* A CPU timer expires at the kernel's next tick. If the thread has run for so long since the M was asked, and
 * the handler has taken no stack, the thread has the signal blocked. */
#define LONGEST_ASK_NS 100000000u

/* ---- Asking for the stack -------------------------------------------------------------------- */

static void end_ask(struct cp__asked *asked)
{
    if (asked->timer >= 0)
        cp__timer_end_from_handler(asked->timer);
    cp__asked_end(asked);
}

/* If the stack was not taken, the tick may be pending. */
static void end_ask_of(struct cp__stint *stint)
{
    if (stint->asked == NULL)
        return;
    stint->may_come_late |= !cp__asked_is_taken(stint->asked);
    end_ask(stint->asked);
    stint->asked = NULL;
}

/* If a thread has SIGPROF blocked, a tick may stay pending for any time, and needs the library's handler when
 * it comes. */
static void look_for_late_tick(struct cp__m *m)
{
    struct cp__os_pending pending;

    if (!m->stint.may_come_late)
        return;
    m->stint.may_come_late = false;
    cp__fork_delay(); /* a child must not have the file's descriptor */
    pending = cp__os_thread_pending(m->tid, SIGPROF);
    cp__fork_allow();
    if (pending.is_pending || pending.is_traced)
        cp__disposition_keep_from_handler();
}

/* Asks the M for the stack when its thread has computed for so long. Without a timer there is no stack. */
static void ask_for_stack(struct cp__watcher *watcher, struct cp__m *m, uint64_t in_ns)
{
    struct cp__stint *stint = &m->stint;

    stint->asked = cp__asked_begin(watcher, stint->account, stint->switches);
    if (stint->asked == NULL)
        return;
    stint->asked->seen = watcher->look;
    stint->asked_at = stint->first.cpu + in_ns;
    if (cp__timer_start_from_handler(m, &stint->asked->timer, cp__asked_value(stint->asked), in_ns, 0) < 0)
        end_ask_of(stint);
}

/* Whether the stack may still come. */
static bool is_stack_due(const struct cp__stint *stint)
{
    return stint->asked != NULL && !cp__asked_is_taken(stint->asked) &&
           stint->last.cpu < stint->asked_at + LONGEST_ASK_NS;
}

/* ---- A stall --------------------------------------------------------------------------------- */

static void describe_stint(const struct cp__m *m, const struct cp__account_copy *copy, struct cp_stall *stall)
{
    const struct cp__stint *stint = &m->stint;

    *stall = (struct cp_stall){.size = sizeof *stall,
                               .kind = (enum cp_stall_kind)stint->kind,
                               .tid = m->tid,
                               .g_id = stint->g_id,
                               .count = 1,
                               .longest_ns = stint->lasted,
                               .total_ns = stint->lasted,
                               .call = -1};
    stall->labels = stint->labels;
    if (stint->kind == CP_STALL_WAITED && copy != NULL && copy->state == CP__G_WAITING) {
        stall->reason = copy->reason;
        stall->object = copy->object;
    }
}

static void add_taken_stack(const struct cp__stint *stint, struct cp_stall *stall)
{
    if (stint->asked == NULL || !cp__asked_is_taken(stint->asked))
        return;
    stall->labels = stint->asked->labels;
    stall->frames = stint->asked->frames;
    stall->depth = stint->asked->depth;
    stall->flags = stint->asked->flags;
}

/* The stack of a thread that waits, as far as it has told, or the system tells, where it does. */
static void add_stack_of_wait(const struct cp__stint *stint, uintptr_t *frames, struct cp_stall *stall)
{
    stall->call = cp__thread_call(stall->tid, &frames[0]);
    if (stall->call >= 0 && frames[0] != 0)
        stall->depth = 1;
    if (stall->reason != CP_WAIT_OTHER || stall->object != NULL) {
        unsigned depth = cp__parked_stack(stint->account, stint->g_id, frames, CP_MAX_FRAMES);

        stall->depth = depth > 0 ? depth : stall->depth;
    }
    stall->frames = frames;
    stall->flags = stall->depth > 0 ? CP_SAMPLE_INCOMPLETE : 0;
}

/* Counts the stint as a stall, and reports it if it is the first one of its place. copy is of its account;
 * NULL: the stint has ended. */
static void count(struct cp__watcher *watcher, struct cp__m *m, const struct cp__account_copy *copy)
{
    struct cp__stint *stint = &m->stint;
    uintptr_t frames[CP_MAX_FRAMES];
    struct cp_stall stall;
    bool is_new;

    describe_stint(m, copy, &stall);
    if (stall.kind == CP_STALL_COMPUTED)
        add_taken_stack(stint, &stall);
    else if (stall.kind == CP_STALL_WAITED && copy != NULL)
        add_stack_of_wait(stint, frames, &stall);
    stint->place = cp__places_add(&stall, &is_new);
    stint->phase = CP__STINT_COUNTED;
    if (is_new)
        cp__watcher_report(watcher, &stall);
    end_ask_of(stint);
}

/* ---- A stint --------------------------------------------------------------------------------- */

/* Returns for how many stamps before accounts were last switched on a state has lasted that began at `since`.
 * Meanwhile the G may have left the M and come back, and nobody has told. */
static uint64_t untold(uint64_t since)
{
    /* relaxed: pairs with what are_accounts_on() acquires */
    const uint64_t resumed = cp_load_relaxed(&cp__accounts_clock.resumed);

    return (int64_t)(resumed - since) > 0 ? resumed - since : 0;
}

static void begin_stint(struct cp__m *m, const struct cp__account *account,
                        const struct cp__account_copy *copy)
{
    const uint64_t before = untold(copy->since);

    m->stint =
        (struct cp__stint){.account = account,
                           .g_id = copy->id,
                           .switches = copy->values.switches,
                           .begun = copy->since + before,
                           .running = copy->values.running + (copy->state == CP__G_RUNNING ? before : 0),
                           .may_come_late = m->stint.may_come_late};
}

/* The stint has lasted for half of the threshold. */
static void become_long(struct cp__watcher *watcher, struct cp__m *m)
{
    struct cp__stint *stint = &m->stint;
    const uint64_t threshold = watcher->options.threshold_ns;

    stint->phase = CP__STINT_LONG;
    cp__code_look(); /* the stack may lead through code that was loaded since */
    cp__stint_clocks_read(m, &stint->first);
    stint->last = stint->first;
    ask_for_stack(watcher, m, stint->lasted < threshold ? threshold - stint->lasted : 1);
}

/* Judges the stint by what is known of its thread. If the clocks were read at one time only, nothing is. */
static void judge(const struct cp__watcher *watcher, struct cp__stint *stint)
{
    if (stint->last.wall - stint->first.wall < watcher->options.threshold_ns / 4)
        return;
    stint->kind = cp__stall_judge(&stint->first, &stint->last, stint->lasted, watcher->options.threshold_ns);
    stint->is_judged = true;
}

/* Whether a stint that goes on can be told of now: its stack has come or will not come. If only the system
 * made it long, its end is awaited, because the G may still make it long itself. */
static bool is_ripe(const struct cp__watcher *watcher, const struct cp__stint *stint)
{
    return stint->lasted >= watcher->options.threshold_ns && stint->is_judged &&
           (stint->kind == CP_STALL_WAITED || (stint->kind == CP_STALL_COMPUTED && !is_stack_due(stint)));
}

/* The M is in the same stint as at the last look. */
static void go_on(struct cp__watcher *watcher, struct cp__m *m, const struct cp__account_copy *copy)
{
    struct cp__stint *stint = &m->stint;
    const uint64_t told = stint->lasted, now = cp__account_now();

    if (stint->asked != NULL)
        stint->asked->seen = watcher->look;
    stint->lasted = cp__stamps_ns((int64_t)(now - stint->begun) > 0 ? now - stint->begun : 0);
    if (stint->phase == CP__STINT_COUNTED) {
        cp__places_go_on(stint->place, stint->kind, told, stint->lasted);
    } else if (stint->phase == CP__STINT_LONG) {
        cp__stint_clocks_read(m, &stint->last);
        judge(watcher, stint);
        if (is_ripe(watcher, stint))
            count(watcher, m, copy);
    } else if (stint->lasted >= watcher->options.threshold_ns / 2) {
        become_long(watcher, m);
    }
}

/* Returns for how long the stint has lasted: as its account tells if the G has not run since; else it was as
 * long at the last look. */
static uint64_t length_of(const struct cp__stint *stint)
{
    struct cp__account_copy copy;
    uint64_t ran;

    cp__account_read(stint->account, &copy);
    if (copy.id != stint->g_id || copy.values.switches != stint->switches)
        return stint->lasted;
    ran = cp__stamps_ns(copy.values.running - stint->running);
    return ran > stint->lasted ? ran : stint->lasted;
}

/* The M has left the G. If the stint was never judged, nobody knows what its thread did, unless the thread
 * has computed for long enough to be asked for its stack. */
static void end_stint(struct cp__watcher *watcher, struct cp__m *m)
{
    struct cp__stint *stint = &m->stint;
    const uint64_t told = stint->lasted;

    stint->lasted = length_of(stint);
    if (stint->phase == CP__STINT_COUNTED) {
        cp__places_go_on(stint->place, stint->kind, told, stint->lasted);
    } else if (stint->phase == CP__STINT_LONG && stint->lasted >= watcher->options.threshold_ns) {
        judge(watcher, stint);
        if (!stint->is_judged && stint->asked != NULL && cp__asked_is_taken(stint->asked)) {
            stint->kind = CP_STALL_COMPUTED;
            stint->is_judged = true;
        }
        if (stint->is_judged)
            count(watcher, m, NULL);
    }
    end_ask_of(stint);
    stint->account = NULL;
}

/* ---- All Ms ---------------------------------------------------------------------------------- */

/* Returns the account of the G that m runs, and copies it; NULL if m runs none. */
static const struct cp__account *account_on(const struct cp__m *m, struct cp__account_copy *copy)
{
    const struct cp__account *account = cp__account_on_from_handler(m);

    /* relaxed: an M that has just gone is seen at the next look */
    if (account == NULL || cp_load_relaxed(&m->life) != CP__M_LIVE)
        return NULL;
    cp__account_read(account, copy);
    return copy->id != 0 && (copy->state == CP__G_RUNNING || copy->state == CP__G_WAITING) ? account : NULL;
}

static void look_at_stint(struct cp__watcher *watcher, struct cp__m *m)
{
    struct cp__stint *stint = &m->stint;
    struct cp__account_copy copy;
    const struct cp__account *account = account_on(m, &copy);

    if (stint->account != NULL && (account != stint->account || copy.id != stint->g_id ||
                                   copy.values.switches != stint->switches || untold(stint->begun) > 0))
        end_stint(watcher, m);
    if (account == NULL)
        return;
    if (stint->account == NULL)
        begin_stint(m, account, &copy);
    stint->labels = copy.sum == NULL ? NULL : copy.sum->labels; /* sums are never freed */
    go_on(watcher, m, &copy);
}

static void leave_m(struct cp__watcher *watcher, struct cp__m *m)
{
    (void)watcher;
    end_ask_of(&m->stint);
    m->stint.account = NULL;
}

static void each_m(struct cp__watcher *watcher, void (*fn)(struct cp__watcher *watcher, struct cp__m *m))
{
    watcher->look++;
    for (struct cp__m *m = cp__m_next(NULL); m != NULL; m = cp__m_next(m))
        fn(watcher, m);
    cp__asked_sweep(watcher, watcher->look, end_ask);
}

/* While accounts are off, nobody knows what Ms do. */
static bool are_accounts_on(void)
{
    /* acquire: pairs with the release in cp__accounting_set(), account.c */
    return (cp_load_acquire(&cp_accounting) & CP__ACCOUNTING_ON) != 0;
}

static void leave_m_for_good(struct cp__watcher *watcher, struct cp__m *m)
{
    leave_m(watcher, m);
    look_for_late_tick(m);
}

void cp__watcher_run(struct cp__watcher *watcher)
{
    const int half_ms = (int)(watcher->options.threshold_ns / 2000000u);

    while (cp_load_acquire(&watcher->is_stopping) == 0) { /* pairs with the release in cp_stalls_stop() */
        each_m(watcher, are_accounts_on() ? look_at_stint : leave_m);
        cp__os_futex_wait(&watcher->is_stopping, 0, half_ms > 0 ? half_ms : 1);
    }
    each_m(watcher, leave_m_for_good);
}
