/*
 * The M, and the registry of all of them.
 *
 * Fields are grouped by owner. Fields that the M owns are used by the M's thread and by the signal handler
 * on that thread, and by the thread that has the claim CHANGING. The M's thread has the library's signals,
 * SIGPROF and SIGTRAP, blocked while it changes such a field.
 *
 * An M has four states, each with few values: life, claim, whether the M is up to date with the slots, and
 * whether a signal may come late. No other field of an M is a state.
 *
 *   life        what it means                          next       who changes it, and when
 *   LIVE        the thread may run with the M; the M   LEAVING    the thread, in cp_m_detach() and
 *               is listed, armed and looked at                    cp_before_exec(), before it takes the claim
 *   LEAVING     nobody opens a handle any more         GONE       the thread, when the M has no handle, under
 *                                                                 the runtime lock
 *                                                      LIVE       the thread, in cp_after_exec()
 *                                                                 LIVE becomes LEAVING and GONE at once
 *                                                                 by a thread with the runtime lock that
 *                                                                 finds that the M's thread is not there:
 *                                                                 cp__outside_find_gone()
 *   GONE        no thread runs with the M. The M is    freed      the thread that ends the last reason to
 *               kept for samples that are not read                keep the M, under the runtime lock:
 *               yet (undrained), for readers that                 cp__m_free_if_done()
 *               look at it (refs), and while it is in
 *               a slot's queue (queued)
 *
 *   claim       who may change the handles             next       who changes it, and how
 *   NONE        no thread; the handler reads them      SELF       the thread, signals blocked, or its
 *                                                                 handler: compare-and-swap
 *                                                      OUTSIDE    another thread, under the runtime lock:
 *                                                      CHANGING   compare-and-swap
 *   SELF        the M: opens, enables and closes       NONE       the M: store with release
 *   OUTSIDE     that thread: disables events and       NONE       the same thread, still under that lock:
 *               lets them count again, so the handler             store with release
 *               may read the handles
 *   CHANGING    that thread: opens, enables and        NONE       the same thread, still under that lock:
 *               closes; the handler keeps off                     store with release
 *
 *   A thread that finds the claim taken leaves the M behind and tries again later. cp_execute_slow() does
 *   not store cp_generation in the M, so the next scheduling point tries again. Another thread tries again
 *   after a millisecond, or with its next pass. cp_m_detach() waits for the runtime lock, which a thread with
 *   OUTSIDE or CHANGING holds.
 *
 *   Whoever has taken CHANGING must not meet a handler that reads the handles. runs is odd while the M is in
 *   its handler. The handler makes runs odd, and then looks at the claim; if that is CHANGING, the handler
 *   touches no handle. Whoever takes CHANGING makes all threads pass a barrier, and then looks at runs; if
 *   runs is odd, that thread gives the claim back and changes nothing. So at least one of the two sees the
 *   other, and the handler needs no fence: cp__os_light_barrier_from_handler().
 *
 *   slots       generation and cp_generation           next       who changes it, and how
 *   up to date  equal: the handles are what the        behind     a thread that changes the slots, under the
 *               slots held when the claim was taken               runtime lock, by adding 1 to cp_generation
 *   behind      not equal                              up to date the thread with SELF or CHANGING; LIVE only
 *
 *   late        what it means                          next       who changes it, and when
 *   NO          no SIGPROF of the library's comes to   PENDING    the thread with CHANGING that closes a
 *               the thread, unless the M has a handle              handle whose samples came by SIGPROF
 *   PENDING     SIGPROFs of closed handles may be      BEGINNING  a thread with the runtime lock that has
 *               pending                                           asked the system: none is pending
 *                                                      NO         the M, with the claim: its own code took
 *                                                                 what was pending off the queue
 *   BEGINNING   none is pending; but one may have      NO         the same; or the M's handler, when it ends
 *               been taken off the queue, and its          PENDING    as above
 *               handler may not have begun yet
 *
 * While an M is late, a SIGPROF of an event that no handle knows is the library's. In BEGINNING, SIGPROF
 * can be given back, because the handler that is about to begin is the library's already.
 *
 * A trap may be late, too, for as long as its thread sleeps, but the handler of SIGTRAP is never given
 * back.
 *
 * SIGPROF can be given back to the host if no slot runs, and each M is GONE, or has claim NONE, no handle
 * (armed) and is not PENDING: cp__disposition_settle().
 */
#ifndef COUNTERPOINT_RUNTIME_M_H
#define COUNTERPOINT_RUNTIME_M_H

#include <sys/types.h>
#include <time.h>

#include "runtime.h"
#include "runtime/base/lock.h"
#include "runtime/perf/count.h"
#include "runtime/unwind/cache.h"
#include "samplebuf.h"
#include "stint.h"

/* Guards the slots, the registry and the signal's disposition. */
extern struct cp__lock cp__runtime_lock;

struct cp__engine;

/* What the core knows of an M's resources for one slot. The rest is the engine's: see own in struct cp__m. */
struct cp__handle {
    uint64_t seq;                    /* the sequence number of the handle's config; 0: none */
    const struct cp__engine *engine; /* which samples the config's event; see engine.h */
    enum cp_event_kind kind;
    int signal;   /* which brings the samples */
    bool is_open; /* false: the M was refused */
};

/* Without a ring, each signal is a sample. */
enum cp__ringless {
    CP__HAS_RING,
    CP__RING_REFUSED, /* the system gives this M none */
    CP__AWAITS_RING,  /* until the event's first signal has come: rings are scarce, and most Ms may sleep */
};

/* What happened to one slot on one M. The M stores the words with relaxed stores, and any thread loads them.
 * All of them have 64 bits. */
struct cp__m_stats {
    /* the sequence number of the config that the figures are about; stored last, with release */
    uint64_t seq;
    uint64_t samples;
    uint64_t signals;
    uint64_t interrupts; /* records read or lost, or signals without a ring; each was an interrupt */
    uint64_t dropped;
    uint64_t lost;
    uint64_t late;
    uint64_t truncated;
    uint64_t incomplete;
    uint64_t new_code;
    uint64_t unknown_stacks;
    uint64_t throttled;
    uint64_t throttled_ns;
    uint64_t overruns;
    uint64_t multiples; /* records of a clock that stood for more than one period */
    uint64_t stalled;
    /* What each of the slot's events has counted, as its last record or read(2) told. Whoever asks adds them
     * up. A timer has the first value, when it has been deleted. */
    struct cp__count counts[CP__CORE_PMUS];
    uint64_t counts_time;  /* 1: the event is a clock, whose count is the time that it ran for */
    uint64_t is_own_doing; /* 1: see cp__event_is_own_doing() */
    uint64_t may_starve;   /* 1: see cp__event_may_starve() */
    uint64_t armed_at;     /* the M's CPU clock when its events began to count; UINT64_MAX: not yet */
    uint64_t disarmed_at;  /* the same when they had ended; 0: not yet */
    uint64_t period;       /* ns or events between two samples */
    uint64_t phase;        /* so much shorter was the first period */
    uint64_t head_ns;      /* the first period began so much before armed_at, with the thread */
    uint64_t behind;       /* so much after the end of a period comes its sample: see periods_linux.c */
    uint64_t by_ticks;     /* 1: samples come at the kernel's ticks, and counts is written at the close */
    uint64_t excludes;     /* 1: a clock that counts modes which it does not sample */
    uint64_t foreign;      /* m->foreign when the slot was armed */
    uint64_t ringless;     /* enum cp__ringless */
    uint64_t closed; /* 1: the program has closed an event of the slot: see engine/descriptors_linux.h */
    int64_t refused; /* a negative errno value */
    /* How often the event was stopped: by another thread for its cost, or by the kernel at its limit. The
     * M's CPU clock at the last stop (0: the event is not stopped now), and how much the clock has
     * advanced in all earlier stops. These three are written with the claim, as seq is. */
    uint64_t stops;
    uint64_t stopped_at;
    uint64_t stopped_ns;
    /* For how long the event did not count because the program had disabled it. Written with the claim. */
    uint64_t disabled_ns;
};

/* What cp__ended_look() found when a slot last had new records. */
struct cp__watched {
    uint64_t seq;
    uint64_t interrupts;
    uint64_t cpu_ns;    /* the M's CPU clock */
    uint64_t looked_at; /* the M's CPU clock at the last look at the event itself */
};

/* The CPU time of an M's thread while a slot ran; see coverage.h. */
struct cp__m_cpu {
    uint64_t run;    /* the config that the figures are about */
    uint64_t since;  /* the M's CPU clock at the slot's start, or at the M's attach */
    uint64_t until;  /* the same at the slot's stop, or at the M's detach; 0: that is to come */
    bool is_new;     /* the M attached while the slot ran: it begins where its events were armed */
    bool is_blocked; /* the thread had a signal of the library's blocked at the stop */
};

#define CP__M_CREATORS 24
/* How many engines there can be. */
#define CP__ENGINES 4

enum cp__m_life {
    CP__M_LIVE,
    CP__M_LEAVING,
    CP__M_GONE,
};

enum cp__m_claim {
    CP__CLAIM_NONE,
    CP__CLAIM_SELF,
    CP__CLAIM_OUTSIDE,
    CP__CLAIM_CHANGING,
};

enum cp__m_late {
    CP__LATE_NO,
    CP__LATE_PENDING,
    CP__LATE_BEGINNING,
};

struct cp__m {
    /* the part that cp_execute() uses, so it comes first. The M owns it, and other threads read generation */
    struct cp_m head;

    /* Immutable from attach on. */
    pid_t tid;
    clockid_t cpu_clock;
    struct cp__stack stack; /* the thread's own stack */
    void *altstack;         /* NULL: the thread had an alternate stack */
    unsigned n_creators;    /* the callers of cp_m_attach(), innermost first */
    uintptr_t creators[CP__M_CREATORS];

    /* Owned by the M. */
    struct cp_g self; /* the G that stands for the thread */
    struct cp__handle handles[CP_EV_MAX];
    struct cp__unwind_cache cache;
    uint64_t random;
    struct {
        uint32_t left;  /* runs of the handler until the next one that is timed */
        uint32_t stood; /* runs before that one that it stands for, too */
    } timing;
    uint32_t due; /* a bit for each slot whose first period was over when its event was opened */
    /* A bit for each slot whose event was refused, and is tried once more, and for each slot whose event is
     * to go so that another M can have one. Set and cleared by a thread with the claim. */
    uint32_t again, left_out;
    bool is_starting; /* the thread is in cp_m_attach() */
    /* what the thread had blocked when it attached, if SIGTRAP was part of it and the library has unblocked
     * that; else 0 */
    uint64_t blocked_traps_with;
    /* a thread of the library's own, which leaves the program's signals to other threads */
    bool is_of_library;

    void *watch;                       /* what runtime/watch/ keeps for the M; NULL: nothing */
    void *wait;                        /* the same of runtime/wait/ */
    uint64_t own_since;                /* since when the thread has run no G, as of cp__account_now() */
    uint64_t waits_of;                 /* when accounts had last been switched on at the first of n_waits */
    unsigned n_waits;                  /* how many cp_wait_begin() have no cp_wait_end() yet */
    struct cp__account *free_accounts; /* see account_pool.c */
    unsigned n_free_accounts;

    /* Shared; the table above says who writes them. */
    uint32_t life;  /* enum cp__m_life */
    uint32_t claim; /* enum cp__m_claim */
    uint32_t off;   /* a bit for each slot whose event another thread has disabled; written with the claim */
    uint32_t late;  /* enum cp__m_late */
    uint64_t late_since; /* the M's CPU clock when late became PENDING; written with the claim */

    /* Written by the M, read by others. */
    uint32_t armed;      /* a bit for each slot for which the M has a handle; written with the claim */
    uint64_t foreign;    /* SIGPROFs and SIGTRAPs that were not the profiler's */
    uint64_t runs;       /* how often the handler has begun or ended: odd while it runs */
    uint64_t handler_ns; /* time in the handler, estimated from the runs that are timed */
    /* Of the G that runs here, as the last switch with accounts has told; NULL: no G, or it has none. And
     * that G: see cp__account_on_from_handler(). */
    struct cp__account *account;
    const struct cp_g *accounted;
    struct cp__m_stats stats[CP_EV_MAX];
    /* Shared, single producer and single consumer; see samplebuf.h. */
    struct cp__samplebuf buffers[CP_EV_MAX];

    /* What each engine keeps for the M, by the engine's index. Other threads add entries under the runtime
     * lock, before they publish the first slot that needs the entry; the M and its handler read them. */
    struct {
        const struct cp__engine *engine;
        void *memory;
    } own[CP__ENGINES];
    uint32_t engines; /* a bit for each entry; written last, with release */

    /* The M's place in each slot's queue; see queue.h. */
    struct {
        struct cp__m *next;
        uint32_t is_in;
    } queued[CP_EV_MAX];

    /* Guarded by the runtime lock. */
    struct cp__m *next;
    struct cp__m **place; /* the pointer that points here: cp__ms, or the next of another M */
    unsigned refs;        /* how many readers look at the M */
    uint32_t undrained;   /* the slots whose readers have samples of the GONE M to read */
    uint64_t settled;     /* the last cp_generation that asks nothing of the M: see outside.c */
    struct {              /* when the M was last heard of, by records or signals; see outside.c */
        uint64_t interrupts;
        uint64_t cpu_ns; /* the M's CPU clock */
    } heard;
    struct cp__m_cpu cpu[CP_EV_MAX];
    struct {             /* at the last call of cp__overload_look() */
        uint64_t cpu_ns; /* the M's CPU clock */
        uint64_t handler_ns;
        uint64_t switches; /* how often the thread got a CPU; 0: nobody has looked */
        uint64_t runs;
        uint64_t count[CP_EV_MAX]; /* set if the handler was in the same run at that call */
        bool is_stuck;             /* the handler was in the same run at the last two calls */
        bool was_too_much;         /* samples took too much of the window that ended with that call */
        uint64_t seq[CP_EV_MAX];
        uint64_t interrupts[CP_EV_MAX];
        uint64_t multiples[CP_EV_MAX];
    } window;
    struct cp__watched watched[CP_EV_MAX];

    struct cp__stint stint; /* of the thread that looks for stalls alone */
};

/* The calling thread's M. Loading a variable of the initial-exec model calls no function. */
extern _Thread_local struct cp__m *cp__m_current __attribute__((tls_model("initial-exec")));

/* All Ms, the newest first; under the runtime lock. A thread that forks does not take that lock, so each
 * change of the list is one store that leaves the list complete: see fork.c. */
extern struct cp__m *cp__ms;
/* The M with which the next pass over the list begins; NULL: the first one. If that M is freed, the pointer
 * moves to the next. */
extern struct cp__m *cp__ms_cursor;
/* The same for the M at which the next search for one that sleeps begins. */
extern struct cp__m *cp__ms_sleep_cursor;

/* Returns the M after m, or the first one if m is NULL; NULL after the last one. The runtime lock is not held
 * while the caller looks at an M. */
struct cp__m *cp__m_next(struct cp__m *m);
/* Maps m's buffer for each slot of the mask. Returns 0 or -ENOMEM. Under the runtime lock. */
int cp__m_make_buffers(struct cp__m *m, uint32_t slots);
/* Makes the memory that the engine keeps for m, if there is none yet. Returns 0 or -ENOMEM. Under the runtime
 * lock, or for an M that no other thread knows. */
int cp__m_make_own(struct cp__m *m, const struct cp__engine *engine);
/* Returns what the slot's events have counted, from their last records. */
uint64_t cp__m_count_from_handler(const struct cp__m_stats *stats);
/* Returns what m's CPU clock has shown at least, by the slot's events, which have been closed: if m's thread
 * has ended by a raw system call, its clock is gone. */
uint64_t cp__m_last_clock_from_handler(const struct cp__m *m, int slot);
/* Returns whether m's thread has not run since the slot's event was armed, so that the event has counted
 * nothing. */
bool cp__m_has_slept_from_handler(const struct cp__m *m, int slot);
/* Returns a number of xorshift64*, for choices that must not follow the program's own rhythm. */
uint64_t cp__m_random_from_handler(struct cp__m *m);
/* Takes the claim on m. Returns false if another thread has it. The exchange pairs with the release in
 * cp__m_unclaim_from_handler(): the handles are as the last holder of the claim left them. */
static inline bool cp__m_claim_from_handler(struct cp__m *m, enum cp__m_claim claim)
{
    uint32_t nobody = CP__CLAIM_NONE;

    return cp_compare_exchange(&m->claim, &nobody, (uint32_t)claim);
}
static inline void cp__m_unclaim_from_handler(struct cp__m *m)
{
    cp_store_release(&m->claim, CP__CLAIM_NONE); /* pairs with the acquires of the claim */
}
/* Returns whether no thread runs with m any more. Under the runtime lock. */
static inline bool cp__m_is_gone(const struct cp__m *m)
{
    return cp_load_relaxed(&m->life) == CP__M_GONE; /* relaxed: stored under the lock */
}
/* Puts m on the list. Under the runtime lock. */
void cp__m_link(struct cp__m *m);
/* Frees m, which is not on the list. */
void cp__m_free(struct cp__m *m);
/* Frees m if it is GONE and there is no reason to keep it. Under the runtime lock. */
void cp__m_free_if_done(struct cp__m *m);
/* Does the rest of what a detach does, if m's thread has ended without a detach, and m has no handle any
 * more. If m need not be kept, m is freed. Under the runtime lock. */
void cp__m_lost_its_thread(struct cp__m *m);
/* Drops the samples of slot that GONE Ms have left for its reader. Under the runtime lock. */
void cp__m_drop_samples(int slot);
/* In the child of a fork: makes the calling thread's M, if there is one, forget what it held, and all other
 * Ms GONE. These are freed when the child first needs an M or a slot. */
void cp__ms_forget(void);
/* Frees the Ms that cp__ms_forget() has found gone. Under the runtime lock. */
void cp__ms_free_forgotten(void);

#endif
