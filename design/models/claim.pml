/*
 * The claim on an M, and those who meet at it: the M's attach, its scheduling points, its handler, its exec and
 * its detach; whoever starts and stops; the pass of a reader; a fork. This is the protocol that runtime/m.h
 * specifies. `make model` tries every order of the steps. Each define that design/models/run names is a mistake
 * that spin must find.
 *
 * There is one M and one slot, whose configs are number 1 and number 2. The M's event raises SIGPROF, or traps:
 * both are verified. One SIGPROF of somebody else's can come at any moment, so that the handler meets every other
 * step. A thread that sleeps is one that takes no step. The steps are sequentially consistent: the model says
 * which order of steps is right, and the comments in the code say what keeps the steps in that order.
 *
 * The assertions check:
 *   start       When nothing moves any more, an M has the config that the slot holds, and the event counts.
 *   stop        When nothing moves any more, an M has nothing open that no slot holds. The exception is an M
 *               that has no scheduling points, and that a stop has given up on.
 *   handler     The handler never reads a handle that is not complete, or that another thread is changing.
 *   SIGPROF     No signal of the library's comes while the disposition is the host's, or is handed on to the
 *               host. At the end SIGPROF has been given back. The exception is an M that has no scheduling points
 *               and that a stop has given up on, or that has blocked SIGPROF.
 *   descriptors No descriptor is closed twice, lost, or used when it is closed. One thread at a time has the
 *               claim.
 *   leaving     An M that has left has no handle. Nothing is pending for a thread that executes a program.
 *   fork        No fork finds an open descriptor that no handle names.
 */

/* The claim. */
#define NONE 0
#define SELF 1
#define OUTSIDE 2  /* looks at the event, disables it or renews its limit; the handler reads on */
#define CHANGING 3 /* opens, enables and closes; the handler keeps off */

#define LIVE 0
#define LEAVING 1
#define GONE 2

/* Whether a SIGPROF may come whose event was closed from outside. */
#define NOT 0
#define PENDING 1 /* it may be on the queue */
#define BEGUN 2   /* it is not on the queue; but a handler may just be beginning with it */

#ifndef TRAPS
#define TRAPS false /* whether the event traps */
#endif
#ifndef OVERFLOWS
#define OVERFLOWS 2
#endif
#ifndef FOREIGN
#define FOREIGN true
#endif
#define OF_THE_HOST 9 /* the number of a signal that is not of an event */

/* What the kernel has of the M. */
bool fd_open, ring_open, counts; /* the event, its ring, and whether the event counts */
bool has_counted;                /* the event has overflowed */
byte event;                      /* the number that the event's signals carry */
byte pending;                    /* the number of the signal that is on the queue; 0: none */
bool foreign_pending = true;     /* somebody else's SIGPROF, once */
byte overflows = OVERFLOWS;      /* how many are still to come */

/* What the process has. */
bool lock;
byte gen = 1, slot;
bool installed;
byte delays; /* of a fork */

/* What the M has. */
bool is_current; /* the thread's handler finds its M */
bool listed;
byte life = LIVE, claim, m_gen;
byte handle; /* its seq */
bool filled; /* whether the other fields of the handle are written */
byte late;
bool runs;   /* odd: the M is in its handler */

/* What the M is going to do. */
bool has_points, leaves, executes;
bool may_block = true, blocks;

/* For the assertions alone. */
byte owners;
bool unnoted, reads, gave_up, has_blocked;

#define LOCK atomic { !lock -> lock = true }
#define UNLOCK lock = false
#define LOCK_AND_DELAY atomic { !lock -> lock = true; delay() }
#define UNLOCK_AND_ALLOW atomic { lock = false; allow() }

inline delay()
{
#ifndef NO_FORK_DELAY
    delays++
#else
    skip
#endif
}

inline allow()
{
#ifndef NO_FORK_DELAY
    delays--;
#endif
    assert(delays != 0 || !unnoted)
}

inline take_claim(as, ok)
{
    atomic {
        if
        :: claim == NONE -> claim = as; owners++; assert(owners == 1); ok = true
        :: else -> ok = false
        fi
    }
}

inline give_claim() { atomic { owners--; claim = NONE; s = 0 } }

/* ---- Changing the handles: with SELF, or with CHANGING ----------------------------------------- */

inline close_event(from_outside)
{
    atomic { assert(fd_open && filled && !reads); counts = false };
    atomic {
        assert(!reads);
        fd_open = false; ring_open = false; filled = false;
        handle = 0
#ifndef NO_LATE
        ;
        late = (from_outside && has_counted && !TRAPS -> PENDING : late)
#endif
    }
}

/* The event is closed, or the M has no event: nothing follows what is taken off the queue here. */
inline take_pending() { atomic { pending = 0; late = NOT } }

/* Opens the event. It is disabled, unless it traps and another thread opens it. An M that opens its event runs,
 * and makes its ring at once. */
inline open_event(seq, from_outside)
{
    atomic {
        assert(!fd_open);
        fd_open = true; event = seq; has_counted = false; unnoted = true; counts = TRAPS && from_outside;
        assert(delays != 0)
    };
    atomic { assert(!reads); handle = seq; ring_open = !from_outside; unnoted = false };
    filled = true
}

/* Brings the M in line. The caller has the claim. */
inline change(from_outside)
{
#ifndef GENERATION_LAST
    g = gen;
#endif
#ifdef SLOTS_FIRST
    s = seen;
#else
    s = slot;
#endif
    if
    :: handle != 0 && (life != LIVE || s != handle) -> close_event(from_outside); closed = true
    :: else
    fi;
    if
#ifdef NO_TAKE_PENDING
    :: late != NOT && !from_outside -> take_pending()
#else
    :: (closed || late != NOT) && !from_outside -> take_pending()
#endif
    :: else
    fi;
#ifdef SLOTS_FIRST
    closed = false;
#else
    atomic { closed = false; s = slot };
#endif
    if
#ifdef NO_LIFE
    :: handle == 0 && s != 0 ->
#else
    :: handle == 0 && s != 0 && life == LIVE ->
#endif
        open_event(s, from_outside);
        opened = true
    :: else
    fi;
#ifdef GENERATION_LAST
    g = gen;
#endif
#ifdef NO_GENERATION_0
    atomic { m_gen = g; g = 0 };
#else
    atomic { m_gen = (late == PENDING -> 0 : g); g = 0 };
#endif
#ifdef ENABLE_UNCLAIMED
    give_claim();
#endif
    if
    :: opened -> atomic { assert(fd_open && handle == event); counts = true; opened = false }
    :: else
    fi
#ifndef ENABLE_UNCLAIMED
    ;
    give_claim()
#endif
}

#define IS_THERE (listed && life != GONE)

/* cp__disposition_may_come_late(): asks /proc/self/task/TID/status whether the late signal is on the queue. */
inline ask()
{
    if
    :: late == PENDING ->
        asked = (pending != 0 -> PENDING : BEGUN);
#ifdef NO_LATE_IN_SETTLE
        asked = BEGUN;
#endif
        late = (asked == BEGUN ->
#ifdef LATE_FORGOTTEN
                    NOT
#else
                    BEGUN
#endif
                : late)
    :: else
    fi
}

#ifdef NO_CLAIM_IN_SETTLE
#define CLAIM_IS_FREE true
#else
#define CLAIM_IS_FREE (claim == NONE)
#endif

/* Gives SIGPROF back to the host if nothing of the library's can come. Under the lock. */
inline settle()
{
    asked = NOT;
    if
    :: installed && slot == 0 && IS_THERE ->
        if
        :: handle == 0 && CLAIM_IS_FREE ->
            ask();
            if
            :: asked != PENDING -> installed = false
            :: else
            fi
        :: else
        fi
    :: installed && slot == 0 && !IS_THERE -> installed = false
    :: else
    fi;
    asked = NOT
}

/* ---- On the M -------------------------------------------------------------------------------- */

#define SIGNAL (!blocks && (pending != 0 || (FOREIGN && foreign_pending && installed)))

/* The kernel takes a signal off the queue, and then the handler begins, which blocks all signals. */
inline handler()
{
    atomic {
        if
        :: pending != 0 -> assert(installed || TRAPS); sig = pending; pending = 0
        :: pending == 0 -> sig = OF_THE_HOST; foreign_pending = false
        fi
    };
    if
    :: !is_current -> assert(sig == OF_THE_HOST || TRAPS)
    :: is_current ->
#ifdef NO_BARRIER
        keeps_off = claim == CHANGING;
        runs = true;
#else
        runs = true;
        keeps_off = claim == CHANGING;
#endif
        if
        :: keeps_off /* the event's signal cannot be told from somebody else's event now: it is ours */
        :: !keeps_off ->
            atomic {
                reads = true;
                assert(handle == 0 || filled);
                assert(sig == OF_THE_HOST || sig == handle || late != NOT || TRAPS)
            };
            /* The first signal brings the M its ring. */
            if
            :: atomic { sig == handle && !ring_open && fd_open -> delay() };
                take_claim(SELF, had);
                if
                :: had ->
                    atomic { assert(fd_open && !ring_open); ring_open = true; unnoted = true; assert(delays != 0) };
                    unnoted = false;
                    give_claim()
                :: else
                fi;
                atomic { allow(); reads = false; had = false }
            :: else -> reads = false
            fi;
            if
#ifdef LATE_ONCE
            :: sig != OF_THE_HOST && sig != handle && late != NOT -> late = NOT
#endif
            :: late == BEGUN -> late = NOT /* there was one such signal at most */
            :: else
            fi
        fi;
        atomic { runs = false; keeps_off = false }
    fi;
    sig = 0
}

/* cp__configure(), with SIGPROF blocked. Whether the M had the claim is in `had`. */
inline configure()
{
#ifdef SLOTS_FIRST
    seen = slot;
#endif
    take_claim(SELF, had);
    if
    :: had -> change(false)
    :: else
    fi
}

/* cp_execute_slow() */
inline scheduling_point()
{
    configure();
    allow();
    if
    :: handle == 0 -> LOCK; settle(); UNLOCK
    :: else
    fi
}

/* Whoever had the claim has the lock. */
inline configure_until_had()
{
    do
    :: configure();
        if
        :: had -> break
        :: else -> LOCK; UNLOCK
        fi
    od;
    allow()
}

proctype M()
{
    byte g, s, sig, seen, asked;
    bool had, opened, closed, keeps_off;

    /* cp_m_attach() */
#ifndef LINK_FIRST
    is_current = true;
#endif
    atomic { !lock -> listed = true };
    if
    :: SIGNAL -> handler() /* another thread may have opened the event by now */
    :: true
    fi;
#ifdef LINK_FIRST
    is_current = true;
#endif
    delay();
    scheduling_point();
    if
    :: m_gen != gen -> LOCK; UNLOCK; delay(); scheduling_point() /* somebody else had the claim */
    :: else
    fi;
end_loop:
    do
    :: SIGNAL -> handler()
    /* Linux 6.13 and later do not deliver the signal of a timer that was deleted. */
    :: atomic { pending != 0 && !blocks && !fd_open && !TRAPS -> pending = 0 }
    :: may_block -> blocks = true; may_block = false; has_blocked = true
    :: blocks -> blocks = false
    :: atomic { has_points && gen != m_gen -> delay() }; /* cp_execute() */
        scheduling_point()
    :: atomic { executes -> executes = false; delay(); life = LEAVING }; /* cp_before_exec() */
        configure_until_had();
#ifndef EXEC_TAKES_NOTHING
        take_pending(); /* SIGPROF is still blocked */
#endif
        assert(handle == 0 && !fd_open && (!blocks || pending == 0));
        LOCK; life = LIVE; UNLOCK; /* cp_after_exec(): there was no such program */
        delay();
        scheduling_point()
    :: atomic { leaves -> delay(); life = LEAVING }; /* cp_m_detach() */
        break
    od;
    configure_until_had();
    LOCK;
    atomic { assert(handle == 0 && !fd_open); life = GONE };
    take_pending();
    is_current = false;
    settle();
    UNLOCK
}

/* ---- The kernel ------------------------------------------------------------------------------ */

active proctype Kernel()
{
end:
    do
    :: atomic { counts && overflows > 0 ->
            overflows--;
            has_counted = true;
            pending = (pending == 0 -> event : pending) /* SIGPROF does not queue */
        }
    od
}

/* ---- From outside, under the lock ------------------------------------------------------------ */

#define IS_BEHIND (m_gen != gen && (slot != 0 || claim != NONE || handle != 0))

/* cp__outside_bring_in_line(). busy: the M is to be looked at again. */
inline bring_in_line()
{
    busy = false;
    if
    :: life == LIVE && IS_BEHIND ->
#ifdef SLOTS_FIRST
        seen = slot;
#endif
#ifdef OPEN_BESIDE
        take_claim(OUTSIDE, ok);
#else
        take_claim(CHANGING, ok);
#endif
        if
        :: ok -> /* here is the barrier, cp__os_heavy_barrier() */
            if
#ifdef NO_RUNS
            :: false ->
#else
            :: runs ->
#endif
                if
                :: handle != 0 && slot != handle -> atomic { assert(fd_open); counts = false }
                :: else
                fi;
                give_claim();
                busy = true
            :: else -> change(true)
            fi
        :: else -> busy = true
        fi
#ifdef BUSY_IS_DONE
        ;
        busy = false
#endif
    :: else
    fi
}

/* is_any_waited_for(). A signal that is pending and not blocked comes within the thread's next turn. */
inline look_at_all()
{
    LOCK_AND_DELAY;
    busy = false;
    if
    :: IS_THERE && life != LIVE -> busy = handle != 0 || claim != NONE
    :: IS_THERE && life == LIVE ->
        bring_in_line();
        if
        :: !busy ->
            ask();
            busy = asked == PENDING && !blocks;
            asked = NOT
        :: else
        fi
    :: else
    fi;
    UNLOCK_AND_ALLOW
}

/* A reader's pass. One that would change nothing is left out. */
#define PASS_CHANGES (IS_THERE && life == LIVE && m_gen != gen && (handle != slot || late != PENDING))

/* cp__ended_look(): reads the event's count, and renews its limit. */
inline watch()
{
#ifdef NO_CLAIM
    ok = true;
#else
    take_claim(OUTSIDE, ok);
#endif
    if
    :: ok ->
        if
        :: handle != 0 -> assert(fd_open)
        :: else
        fi;
#ifndef NO_CLAIM
        give_claim()
#endif
    :: else
    fi
}

/* cp__outside_hear(): makes the ring, and reads it, because the thread blocks its signal. */
inline hear()
{
#ifdef HEAR_BESIDE
    take_claim(OUTSIDE, ok);
#else
    take_claim(CHANGING, ok);
#endif
    if
    :: ok ->
        if
#ifdef HEAR_BESIDE
        :: true ->
#else
        :: runs
        :: !runs ->
#endif
            if
            :: handle != 0 ->
                atomic { assert(fd_open && filled && !reads); unnoted = !ring_open; ring_open = true };
                unnoted = false
            :: else
            fi
        fi;
        give_claim()
    :: else
    fi
}

/* All who have the lock in turn: a start of number 1, passes of its reader, perhaps a stop, perhaps a start of
 * number 2. */
active proctype Outside()
{
    byte g, s, seen, asked, round = 1;
    bool ok, opened, closed, busy, watches = true, stays;

again:
    LOCK;
    atomic { installed = !TRAPS || installed; slot = round };
    gen++;
    UNLOCK;
    look_at_all(); /* if an M is not in line after that, passes look again */
end:
    do
    :: atomic { PASS_CHANGES && !lock -> lock = true; delay() };
        bring_in_line();
        atomic { lock = false; allow(); busy = false }
    :: atomic { IS_THERE && handle != 0 && !lock && watches -> watches = false; lock = true };
        delay();
        if
        :: true -> watch()
        :: true -> hear()
        fi;
        UNLOCK_AND_ALLOW
    :: !stays -> stays = true
    :: !stays && round == 1 -> break
    od;
    LOCK;
    slot = 0;
    gen++;
    UNLOCK;
    do
    :: look_at_all();
        if
        :: !busy -> break
        :: busy
        :: busy -> gave_up = true; break /* after 2 s */
        fi
    od;
    LOCK;
    settle();
    UNLOCK;
    if
    :: atomic { round == 1 -> round++; watches = true; busy = false; goto again }
    :: true
    fi
}

init
{
    if
    :: has_points = true
    :: leaves = true
    :: executes = true
    :: true
    fi;
    run M();
    timeout -> /* nothing moves any more */
    assert(!lock && claim == NONE && owners == 0 && delays == 0 && !runs && !unnoted);
    if
    :: life == LIVE && slot != 0 -> assert(handle == slot && counts && fd_open)
    :: life == LIVE && slot == 0 ->
        assert(!fd_open || (gave_up && !has_points));
        assert(!installed || (!has_points && (gave_up || has_blocked)))
    :: life == GONE -> assert(!fd_open && !ring_open && (!installed || slot != 0))
    fi
}
