/* The transitions of accounts: what cp_execute(), cp_g_park() and cp_g_ready() do to them. */
#include "g_account.h"

#include "label_sum.h"
#include "ticks.h"

/* ---- Changing an account --------------------------------------------------------------------- */

/* Returns how long the state has lasted, and begins the next state. A stamp of another CPU may be some ns
 * older than the last one. */
static uint64_t begin_state(struct cp__account *account, enum cp__g_state state, uint64_t now)
{
    const uint64_t since = cp_load_relaxed(&account->since); /* relaxed: see cp__account_begin_change() */
    const uint64_t lasted = (int64_t)(now - since) > 0 ? now - since : 0;

    cp_store_relaxed(&account->since, since + lasted); /* relaxed, both: between the two ends of a change */
    cp_store_relaxed(&account->state, (uint32_t)state);
    return lasted;
}

/* ---- Transitions ----------------------------------------------------------------------------- */

/* Ends a wait; within a change. */
static void end_wait(struct cp__account *account, enum cp__g_state next, uint64_t now)
{
    const uint64_t lasted = begin_state(account, next, now);

    cp_add_single_writer(&account->values.waited[account->reason], lasted);
    cp_add_single_writer(&account->values.waits[account->reason], 1);
    account->unsummed |= 1u << account->reason;
    account->waited_for |= 1u << account->reason;
    account->last_waited = lasted;
    account->is_woken = true;
}

/* The child of a fork runs a G of its parent's. */
static void wake_dormant(struct cp__account *account, uint64_t now)
{
    begin_state(account, CP__G_RUNNABLE, now);
    cp_store_relaxed(&account->born, account->since); /* relaxed: within a change */
}

/* The G runs, and nobody has told: there were no accounts for a while. Until now it did what it did last.
 * Within a change. */
static void run_untold(struct cp__account *account, uint64_t now)
{
    if (account->state == CP__G_WAITING)
        end_wait(account, CP__G_RUNNING, now);
    else if (account->state == CP__G_RUNNABLE)
        cp_add_single_writer(&account->values.runnable, begin_state(account, CP__G_RUNNING, now));
    else if (account->state == CP__G_AWAY)
        begin_state(account, CP__G_RUNNING, now);
    else
        wake_dormant(account, now);
    cp_store_relaxed(&account->state, CP__G_RUNNING); /* relaxed: within the change */
}

static void leave_g(struct cp__account *account, uint64_t now)
{
    cp__account_begin_change(account);
    if (__builtin_expect(account->state != CP__G_RUNNING, 0))
        run_untold(account, now);
    cp_add_single_writer(&account->values.running,
                         begin_state(account, account->parks ? CP__G_WAITING : CP__G_RUNNABLE, now));
    if (!account->has_told)
        cp_store_relaxed(&account->parked.pc, 0); /* relaxed: within the change */
    cp__account_end_change(account);
    account->parks = account->has_told = false;
}

/* The G does not run, and nobody has told. Within a change. */
static void leave_untold(struct cp__account *account, uint64_t now)
{
    if (account->state == CP__G_RUNNING)
        cp_add_single_writer(&account->values.running, begin_state(account, CP__G_RUNNABLE, now));
    else
        wake_dormant(account, now);
}

/* Returns for how long the G was runnable before. */
static uint64_t enter_g(struct cp__account *account, uint64_t now)
{
    uint64_t runnable;

    cp__account_begin_change(account);
    if (account->state == CP__G_WAITING)
        end_wait(account, CP__G_RUNNABLE, now);
    else if (__builtin_expect(account->state != CP__G_RUNNABLE, 0))
        leave_untold(account, now);
    runnable = begin_state(account, CP__G_RUNNING, now);
    cp_add_single_writer(&account->values.runnable, runnable);
    cp_add_single_writer(&account->values.switches, 1);
    cp__account_end_change(account);
    return runnable;
}

/* A G that was made while there were no accounts gets one when it first runs with them. */
static struct cp__account *account_of_g(struct cp_m *m, struct cp_g *g, uint64_t now)
{
    if (__builtin_expect(g->account == NULL, 0)) {
        /* relaxed: as in cp_g_init() */
        cp_store_relaxed(&g->account, cp__account_new((struct cp__m *)m, g->id, CP__G_RUNNABLE, now,
                                                      cp__label_sum_of(g->labels)));
    }
    return g->account;
}

/* Returns the time of the switch. */
static uint64_t switch_time(struct cp_m *m)
{
    const uint64_t left_at = m->left_at;
    /* relaxed: an M that has left a G before accounts were switched off may have done much since */
    const bool is_same = m->goes_on && left_at > cp_load_relaxed(&cp__accounts_clock.resumed);

    m->left_at = 0;
    m->goes_on = false;
    return is_same ? left_at : cp__account_now_early();
}

/* g runs again, or is about to. */
static void tell_entered(struct cp__m *m, struct cp_g *g, struct cp__account *account, uint64_t runnable)
{
    if (__builtin_expect((cp_load_relaxed(&cp_accounting) & CP__ACCOUNTING_EVENTS) != 0, 0))
        cp__wait_calls_get()->entered(m, g, account, runnable);
    account->is_woken = false;
}

/* Tells others what runs on the M. */
static void publish(struct cp_m *m, const struct cp_g *g, struct cp__account *account)
{
    cp_store_relaxed(&((struct cp__m *)m)->accounted, g); /* relaxed: compared with m->g */
    /* release: pairs with the acquire in cp__account_on_from_handler() */
    cp_store_release(&((struct cp__m *)m)->account, account);
}

/* The thread is about to run a G, or has run one. Most threads have no account of their own. */
static void leave_own(struct cp__account *own, uint64_t now)
{
    if (own->state != CP__G_RUNNING)
        return;
    cp__account_begin_change(own);
    cp_add_single_writer(&own->values.running, begin_state(own, CP__G_AWAY, now));
    cp__account_end_change(own);
}

static void enter_own(struct cp__m *m, uint64_t now)
{
    struct cp__account *own = m->self.account;

    m->own_since = now;
    if (__builtin_expect(own == NULL, 1) || own->state != CP__G_AWAY)
        return;
    cp__account_begin_change(own);
    begin_state(own, CP__G_RUNNING, now);
    cp__account_end_change(own);
}

/* The M leaves what it runs, and is about to run g. */
static void switch_accounts(struct cp_m *m, struct cp_g *g)
{
    struct cp__account *account, *own = ((struct cp__m *)m)->self.account;
    struct cp_g *from = m->g;
    uint64_t now, runnable;

    if (from == g)
        return;
    now = switch_time(m);
    if (from != NULL && from->account != NULL)
        leave_g(from->account, now);
    if (__builtin_expect(from == NULL && own != NULL, 0))
        leave_own(own, now);
    if (g == NULL) {
        enter_own((struct cp__m *)m, now);
        publish(m, NULL, NULL);
        m->left_at = now;
        return;
    }
    account = account_of_g(m, g, now);
    publish(m, g, account);
    if (account == NULL)
        return;
    runnable = enter_g(account, now);
    tell_entered((struct cp__m *)m, g, account, runnable);
}

void cp_execute_accounted(struct cp_m *m, struct cp_g *g)
{
    switch_accounts(m, g);
    cp_execute_uncounted(m, g);
}

/* ---- Told by runtimes ------------------------------------------------------------------------ */

/* The place of a call, as its callee sees it, on a stack that ends at `end`. */
#define CALLED_FROM(end)                                                                                     \
    (&(struct told_place){.pc = (uintptr_t)__builtin_return_address(0),                                      \
                          .sp = (uintptr_t)__builtin_dwarf_cfa(),                                            \
                          .fp = *(const uintptr_t *)__builtin_frame_address(0),                              \
                          .hi = (end)})
struct told_place {
    uintptr_t pc, sp, fp, hi;
};

/* Within a change. */
static void note_told_place(struct cp__account *account, const struct told_place *place)
{
    /* relaxed, all: between the two ends of a change */
    cp_store_relaxed(&account->parked.pc, place->pc);
    cp_store_relaxed(&account->parked.sp, place->sp);
    cp_store_relaxed(&account->parked.fp, place->fp);
    cp_store_relaxed(&account->parked.hi, place->hi);
    account->has_told = true;
}

/* Says why the G waits or is about to, and where. */
static void note_wait(struct cp__account *account, enum cp_wait_reason reason, const void *object,
                      const struct told_place *place)
{
    cp__account_begin_change(account);
    if (__builtin_expect(account->state != CP__G_RUNNING, 0))
        run_untold(account, cp__account_now_early());
    /* relaxed, both: between the two ends of a change */
    cp_store_relaxed(&account->reason, (unsigned)reason < CP_WAIT_REASONS ? (uint32_t)reason : CP_WAIT_OTHER);
    cp_store_relaxed(&account->object, object);
    note_told_place(account, place);
    cp__account_end_change(account);
    account->parks = true;
}

void cp_g_park_accounted_at(struct cp_g *g, enum cp_wait_reason reason, const void *object, uintptr_t pc,
                            uintptr_t sp, uintptr_t fp)
{
    struct cp__account *account = g->account;

    if (account != NULL)
        note_wait(account, reason, object,
                  &(struct told_place){.pc = pc, .sp = sp, .fp = fp, .hi = g->stack_hi});
}

/* The caller's frame stands until the G runs again, and this one does not: the walk begins there. */
__attribute__((noinline)) void cp_g_park_accounted(struct cp_g *g, enum cp_wait_reason reason,
                                                   const void *object)
{
    struct cp__account *account = g->account;

    if (account != NULL)
        note_wait(account, reason, object, CALLED_FROM(g->stack_hi));
}

__attribute__((noinline)) void cp_g_yield_accounted(struct cp_g *g)
{
    struct cp__account *account = g->account;

    if (account == NULL)
        return;
    cp__account_begin_change(account);
    note_told_place(account, CALLED_FROM(g->stack_hi));
    cp__account_end_change(account);
    account->parks = false; /* it has not waited after all */
}

/* A function of its own, so that its caller's frame can be told from it. */
__attribute__((noinline)) void cp_g_ready_accounted(struct cp_g *g)
{
    struct cp__account *account = g->account;
    uint64_t now;

    if (account == NULL || account->state != CP__G_WAITING)
        return;
    now = cp__account_now_early();
    cp__account_begin_change(account);
    end_wait(account, CP__G_RUNNABLE, now);
    cp__account_end_change(account);
    if (__builtin_expect((cp_load_relaxed(&cp_accounting) & CP__ACCOUNTING_EVENTS) != 0, 0)) {
        const struct cp__registers caller = {.pc = (uintptr_t)__builtin_return_address(0),
                                             .sp = (uintptr_t)__builtin_dwarf_cfa(),
                                             .fp = *(const uintptr_t *)__builtin_frame_address(0)};

        cp__wait_calls_get()->woken(g, account, now, &caller);
    }
}

/* A thread's own account begins with its M, or when the thread has run a G last. */
static struct cp__account *account_here(struct cp__m *m)
{
    struct cp_g *g = m->head.g != NULL ? m->head.g : &m->self;
    const uint64_t begun = cp_load_relaxed(&cp__accounts_clock.begun); /* relaxed: written once */

    if (g == &m->self && g->account == NULL)
        g->account =
            cp__account_new(m, CP__ACCOUNT_OF_M | (uint64_t)m->tid, CP__G_RUNNING,
                            m->own_since > begun ? m->own_since : begun, cp__label_sum_of(g->labels));
    return g->account;
}

/* Waits that had begun when accounts were switched off may have ended since. */
static void forget_unended_waits(struct cp__m *m)
{
    const uint64_t resumed =
        cp_load_relaxed(&cp__accounts_clock.resumed); /* relaxed: an old value forgets later */

    if (m->waits_of == resumed)
        return;
    m->waits_of = resumed;
    m->n_waits = 0;
}

__attribute__((noinline)) void cp_wait_begin_accounted(enum cp_wait_reason reason, const void *object)
{
    struct cp__m *m = cp__m_current;
    struct cp__account *account;

    if (m == NULL)
        return;
    forget_unended_waits(m);
    if (m->n_waits++ > 0)
        return;
    account = account_here(m);
    if (account == NULL)
        return;
    note_wait(account, reason, object,
              CALLED_FROM(m->head.g != NULL ? m->head.g->stack_hi : m->self.stack_hi));
    leave_g(account, cp__account_now_early());
}

/* What was no wait, because it was too short, has run; within a change. */
static void go_on_running(struct cp__account *account)
{
    cp_store_relaxed(&account->state, CP__G_RUNNING); /* relaxed: see cp__account_begin_change() */
}

static bool is_shorter(const struct cp__account *account, uint64_t stamp, uint64_t least_ns)
{
    const uint64_t since = cp_load_relaxed(&account->since); /* relaxed: see cp__account_begin_change() */

    return least_ns > 0 && ((int64_t)(stamp - since) <= 0 || cp__stamps_ns(stamp - since) < least_ns);
}

/* Returns whether it was a wait. */
static bool end_outermost_wait(struct cp__m *m, uint64_t least_ns)
{
    struct cp__account *account = account_here(m);
    const uint64_t stamp = cp__account_now();
    bool is_short;

    if (account == NULL || account->state != CP__G_WAITING)
        return false;
    is_short = is_shorter(account, stamp, least_ns);
    cp__account_begin_change(account);
    if (is_short)
        go_on_running(account);
    else
        end_wait(account, CP__G_RUNNING, stamp);
    cp__account_end_change(account);
    return !is_short;
}

bool cp__wait_stops(uint64_t least_ns)
{
    struct cp__m *m = cp__m_current;

    if (m == NULL)
        return false;
    forget_unended_waits(m);
    if (m->n_waits == 0)
        return false;
    if (m->n_waits == 1 && end_outermost_wait(m, least_ns))
        return true;
    m->n_waits--;
    return false;
}

/* The wait is over last of all: what a handler of the program's tells meanwhile is an inner pair. */
void cp__wait_tell(void)
{
    struct cp__m *m = cp__m_current;

    tell_entered(m, m->head.g != NULL ? m->head.g : &m->self, account_here(m), 0);
    cp_fence_signal();
    m->n_waits--;
}

void cp__wait_end_if(uint64_t least_ns)
{
    if (cp__wait_stops(least_ns))
        cp__wait_tell();
}

void cp_wait_end_accounted(void)
{
    cp__wait_end_if(0);
}

void cp__wait_abandon(void)
{
    struct cp__m *m = cp__m_current;
    struct cp__account *account;

    if (m == NULL || m->n_waits == 0)
        return;
    account = account_here(m);
    if (account != NULL) {
        cp__account_begin_change(account);
        go_on_running(account);
        cp__account_end_change(account);
        account->parks = account->has_told = account->is_woken = false;
    }
    m->n_waits = 0;
}

void cp__wait_made(enum cp_wait_reason reason, const void *object, uint64_t lasted,
                   const struct cp__registers *caller)
{
    const struct cp__wait_calls *calls = cp__wait_calls_get();

    if (cp__m_current != NULL && calls != NULL)
        calls->made_wait(cp__m_current, reason, object, lasted, caller);
}
