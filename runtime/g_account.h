/*
 * The accounts of Gs, as the core keeps them.
 *
 * A G's account is written by whoever has the G: the thread on which it runs or that is about to run it, and
 * between cp_g_park() and the next cp_execute() of the G the thread that has taken it out of its wait
 * (cp_g_ready()). The runtime's own locks and queues hand the G, and its account with it, from one to the
 * next. Others read: version is odd while the account changes, and they read it before and after.
 *
 *   state       means                                 next       who changes it
 *   RUNNABLE    no M runs the G, and it could run     RUNNING    cp_execute() to the G, on its M
 *   RUNNING     an M runs it                          RUNNABLE   cp_execute() from the G
 *                                                     WAITING    the same, after cp_g_park()
 *                                                     AWAY       cp_execute() to a G
 *   WAITING     it waits for account->reason          RUNNABLE   cp_g_ready()
 *                                                     RUNNING    cp_execute() to it: nobody has told who made
 *                                                                it ready
 *   DORMANT     the parent of this process had the    RUNNING    cp_execute() to it, which begins it anew
 *               G: nobody knows whether it is here
 *   AWAY        it is a thread's own, and the thread  RUNNING    cp_execute() from the G
 *               runs a G, whose time it is
 *
 * All times are stamps (ticks.h), less the time in which accounts were switched off: cp__account_now().
 */
#ifndef COUNTERPOINT_RUNTIME_G_ACCOUNT_H
#define COUNTERPOINT_RUNTIME_G_ACCOUNT_H

#include "m.h"
#include "runtime.h"
#include "ticks.h"

/* In the id of the account that a thread has for itself. */
#define CP__ACCOUNT_OF_M ((uint64_t)1 << 63)

enum cp__g_state { CP__G_RUNNABLE, CP__G_RUNNING, CP__G_WAITING, CP__G_AWAY, CP__G_DORMANT };

/* What adds up. */
struct cp__account_values {
    uint64_t running;
    uint64_t runnable;
    uint64_t switches;
    uint64_t waited[CP_WAIT_REASONS];
    uint64_t waits[CP_WAIT_REASONS];
};

struct cp__account {
    /* Written by who has the G, read by others. */
    uint64_t version;
    uint64_t born;
    uint64_t since;  /* when the state began */
    uint32_t state;  /* enum cp__g_state */
    uint32_t reason; /* enum cp_wait_reason: why the G waits, or waited last */
    const void *object;
    struct cp__account_values values; /* up to since */
    struct cp__label_sum *sum;        /* of the G's labels; NULL: the G has ended (label_sum.h) */
    struct cp__account_values summed; /* what of the values is in sums, up to any moment */
    /* Where the G has told that it gives its M up, on a stack that ends at hi: the frames from there on stand
     * still until the G runs again. pc is 0 if the G has told nothing when it left its M last. */
    struct {
        uintptr_t pc, sp, fp, hi;
    } parked;

    /* Of who has the G alone. */
    bool has_told;        /* of a place, by one of the calls, and the G still runs */
    bool parks;           /* the call was cp_g_park() */
    bool is_woken;        /* a wait has ended since the G ran last: it was so long */
    uint64_t last_waited; /* a stamp's difference */
    uint32_t unsummed;    /* a bit for each reason of which a wait has ended since it was summed */
    uint32_t waited_for;  /* a bit for each reason of which the account has values that are not 0 */

    /* Shared. */
    uint64_t id;              /* the G's, or CP__ACCOUNT_OF_M and a thread's; 0: the account is free */
    struct cp__account *next; /* the next free one */
};

/* ---- Once in a process ----------------------------------------------------------------------- */

/* What cp_accounting has. As long as it is not 0, the core keeps accounts: a recording of waits has a bit of
 * its own, and so misses nothing if the program clears the first one meanwhile. */
enum cp__accounting {
    CP__ACCOUNTING_ON = 1,     /* the program wants accounts */
    CP__ACCOUNTING_EVENTS = 2, /* cp__wait_calls are called, too */
    CP__ACCOUNTING_WALL = 4,   /* somebody looks at accounts from time to time */
};

/* Switches accounts on, unless the program has switched them off. Called by cp__prepare(). */
void cp__accounts_prepare(void);
/* Sets or clears a bit of enum cp__accounting. */
void cp__accounting_set(enum cp__accounting bit, bool on);
/* In the child of a fork: nobody sets a bit. */
void cp__accounting_forget(void);

/* The clock of accounts, which stands still while cp_accounting is 0. Written by cp__accounting_set(). */
struct cp__accounts_clock {
    uint64_t off;     /* for how many stamps it has stood still, up to the last time that it went on */
    uint64_t resumed; /* its own time when it last went on */
    uint64_t begun;   /* the same of the first time */
    uint64_t stopped; /* its own time when it last stopped */
};
extern struct cp__accounts_clock cp__accounts_clock;

/* Returns the present time of accounts. If the clock goes on meanwhile, the stamp is older than what is taken
 * from it, and the time that is counted is too short: so the stamp comes first. */
static inline uint64_t cp__account_time(uint64_t stamp)
{
    /* acquire: pairs with the release in cp__accounting_set(), account.c */
    if (__builtin_expect(cp_load_acquire(&cp_accounting) == 0, 0))
        return cp_load_relaxed(&cp__accounts_clock.stopped); /* relaxed, both: see above */
    return stamp - cp_load_relaxed(&cp__accounts_clock.off);
}
static inline uint64_t cp__account_now(void)
{
    return cp__account_time(cp__stamp());
}
static inline uint64_t cp__account_now_early(void)
{
    return cp__account_time(cp__stamp_early());
}

/* What the core calls of runtime/wait/, which is above it. */
struct cp__wait_calls {
    /* The calling thread has ended a wait of the account's G, by cp_g_ready() at that time. account->reason
     * and object say what for, last_waited how long. `caller` has the pc, sp and fp with which the caller of
     * cp_g_ready() goes on. */
    void (*woken)(struct cp_g *g, struct cp__account *account, uint64_t now,
                  const struct cp__registers *caller);
    /* m, the calling thread's, is about to run g, after so long in which it was runnable. If is_woken, it has
     * waited before that. */
    void (*entered)(struct cp__m *m, struct cp_g *g, struct cp__account *account, uint64_t runnable);
    /* The calling thread has made another one wait for so many stamps, which has not called cp_g_ready(). */
    void (*made_wait)(struct cp__m *m, enum cp_wait_reason reason, const void *object, uint64_t lasted,
                      const struct cp__registers *caller);
    /* The next two are called if m->wait is not NULL. m, the calling thread's, is about to stop being an
     * M. */
    void (*detach)(struct cp__m *m);
    /* Frees m->wait. m's thread is gone, or has called detach(). */
    void (*free_m)(struct cp__m *m);
    /* In the child of a fork. */
    void (*after_fork_in_child)(void);
};
/* Set before the first CP__ACCOUNTING_EVENTS, with release. */
extern const struct cp__wait_calls *cp__wait_calls;
static inline const struct cp__wait_calls *cp__wait_calls_get(void)
{
    return cp_load_acquire(&cp__wait_calls); /* pairs with the release of who sets the calls */
}

/* The two halves of cp_wait_end(), whatever cp_accounting is: each cp_wait_begin_accounted() needs the first
 * one, which returns whether the second one is to follow. What has lasted less than least_ns was no wait, and
 * the time counts as running; UINT64_MAX: whatever it has lasted. Only the second half takes memory or locks.
 * Needs cp__ticks_measure() if least_ns is not 0. */
bool cp__wait_stops(uint64_t least_ns);
void cp__wait_tell(void);
/* Both. */
void cp__wait_end_if(uint64_t least_ns);
/* The calling thread does not wait any more: a handler has jumped out of cp_wait_begin_accounted(), of
 * cp__wait_stops(), or of the wait between them. */
void cp__wait_abandon(void);
/* The calling thread has made another one wait for so many stamps. `caller` has the pc, sp and fp with which
 * the function goes on at which the stack begins. Nothing happens if the thread is no M. */
void cp__wait_made(enum cp_wait_reason reason, const void *object, uint64_t lasted,
                   const struct cp__registers *caller);

/* ---- Accounts -------------------------------------------------------------------------------- */

/* Between the two, a reader reads again. A handler may jump out of a change: then the next one makes it
 * whole. */
static inline void cp__account_begin_change(struct cp__account *account)
{
    /* relaxed, both: one thread at a time changes the account */
    cp_store_relaxed(&account->version, cp_load_relaxed(&account->version) | 1);
    cp_fence_release(); /* pairs with the fence in cp__account_read() */
}
static inline void cp__account_end_change(struct cp__account *account)
{
    /* release: pairs with the acquire in cp__account_read() */
    cp_store_release(&account->version, (cp_load_relaxed(&account->version) | 1) + 1);
}

/* Returns the account of the G that m runs; NULL: m runs none, or the G has none. While accounts are off,
 * switches tell only which G runs: an account of another one is of a G that m has left since. */
static inline const struct cp__account *cp__account_on_from_handler(const struct cp__m *m)
{
    /* acquire: pairs with the release in publish(), g_account.c. relaxed, both: at a switch, they are of two
     * Gs for a moment, and the account counts at the next look */
    const struct cp__account *account = cp_load_acquire(&m->account);
    const struct cp_g *running = cp_load_relaxed(&m->head.g), *accounted = cp_load_relaxed(&m->accounted);

    return running == accounted ? account : NULL;
}

/* Returns an account that begins in that state, born at that time, and adds to that sum; NULL: no memory. m
 * is the calling thread's, or NULL, also for the next one. */
struct cp__account *cp__account_new(struct cp__m *m, uint64_t id, enum cp__g_state state, uint64_t born,
                                    struct cp__label_sum *sum);
/* Makes an account free again. */
void cp__account_free(struct cp__m *m, struct cp__account *account);
/* m stops being an M: returns the free accounts that it keeps. */
void cp__accounts_leave(struct cp__m *m);
/* In the child of a fork, whose only thread has m or is no M: all accounts begin anew, most of them dormant.
 */
void cp__accounts_forget(struct cp__m *m);

/* A copy of an account, of one moment. */
struct cp__account_copy {
    uint64_t id; /* the G's; 0: the account was free */
    uint64_t born, since;
    enum cp__g_state state;
    enum cp_wait_reason reason;
    const void *object;
    struct cp__account_values values;
    struct cp__label_sum *sum;
    struct cp__account_values summed;
};
/* The copy's id is 0, too, if the account cannot be read, because a change of it was never ended. */
void cp__account_read(const struct cp__account *account, struct cp__account_copy *copy);
/* Adds what has passed since the copy's state began, up to a time as of cp__account_now(), to its values. */
void cp__account_advance(struct cp__account_copy *copy, uint64_t now);
/* Fills *to, apart from its size, with the values of so many Gs, in ns. Needs cp__ticks_measure(). */
void cp__account_tell(const struct cp__account_values *values, uint64_t gs, struct cp_account *to);
/* Passes to fn all accounts that are neither free nor dormant, each as it is at that moment. Accounts that
 * come or go meanwhile may be left out. fn's result other than 0 ends the list and is returned. */
typedef int cp__account_each_fn(void *context, const struct cp__account_copy *copy);
int cp__accounts_each(cp__account_each_fn *fn, void *context);
/* The places of all accounts are numbered from 0; there are never fewer. Returns the account at a place;
 * NULL: the place is free, or does not exist. */
size_t cp__account_places(void);
const struct cp__account *cp__account_at(size_t place);

#endif
