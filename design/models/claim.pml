/*
 * The claim on an M, and those who meet at it: the M's scheduling points, its handler, its attach and its
 * detach; whoever starts and stops; the pass of a reader; a fork. `make model` tries every order of their
 * steps.
 *
 * Without OUTSIDE, this is the protocol as it is built and as runtime/m.h specifies it: the M alone opens and
 * closes its handle; others disable the event and send kicks. With OUTSIDE, this is the protocol of
 * design/0028-arming-from-outside.md: others open and close, too, and nobody is kicked. Each define that is
 * named in design/models/run is a mistake that spin must find.
 *
 * There is one M and one slot, whose configs are number 1 and number 2. One SIGPROF of somebody else can come
 * at any moment, so that the handler meets every other step. The steps are sequentially consistent: the model
 * says which order of steps is right, and the comments in the code say what keeps the steps in that order.
 *
 * The assertions check:
 *   start       When nothing moves any more, an M that is awake has the config that the slot holds.
 *   stop        With OUTSIDE, an M that is awake then has nothing open that no slot holds.
 *   use         No descriptor is used that is closed, and no ring or handle that is not complete.
 *   owners      One at a time has the claim, and nobody closes what a handler reads.
 *   SIGPROF     No signal of ours comes while the disposition is the host's or is handed on to the host.
 *   fork        No fork finds an open descriptor that no handle names.
 */

/* The claim. */
#define NONE 0
#define SELF 1
#define OTHER 2   /* opens, enables and disables from outside; the handler reads on */
#define CLOSING 3 /* closes from outside; the handler keeps off */

#define LIVE 0
#define LEAVING 1
#define GONE 2

/* What the kernel has of the M. */
bool fd_open, mapped, counts; /* the event, and the ring that it writes to */
bool pending;                 /* a SIGPROF of the event */
bool kick_pending;
bool foreign_pending = true;  /* somebody else's SIGPROF, once */
byte overflows = 1;           /* how many are still to come */

/* What the process has. */
bool lock;
byte gen = 1, slot;
bool installed;
byte delays; /* of a fork */

/* What the M has. */
bool listed;
byte life = LIVE, claim, m_gen;
byte seen;   /* the generation that somebody else has brought the M in line with */
byte handle; /* its seq */
bool filled; /* whether the other fields of the handle are written */
bool off, kick_sent;
bool late;   /* a signal of an event that was closed from outside may be pending */
bool runs;   /* odd: the M is in its handler */
bool awake = true;

/* What the M is going to do. */
byte naps = 1;
bool has_points, ends;

/* For the assertions alone. */
byte owners;
bool unnoted, reads, gave_up;

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
    delays--
#else
    skip
#endif
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

inline give_claim() { atomic { owners--; claim = NONE } }

/* Opens the event, disabled, and then makes the handle known. */
inline open_event(seq)
{
    atomic { assert(!fd_open); fd_open = true; unnoted = true };
#ifdef PUBLISH_FIRST
    handle = seq;
#endif
#ifdef ENABLE_FIRST
    counts = true;
#endif
    atomic { mapped = true; filled = true; unnoted = false; handle = seq }
}

/* Gives SIGPROF back to the host if nothing of ours can come. Under the lock. */
inline settle()
{
    if
    :: installed && slot == 0 && (life == GONE || (handle == 0
#ifndef NO_CLAIM_IN_SETTLE
           && claim == NONE
#endif
#ifndef OUTSIDE
           && !kick_sent
#endif
#if defined(OUTSIDE) && !defined(NO_LATE_IN_SETTLE)
           && !(late && pending) /* the kernel says what is pending: /proc/self/task/TID/status */
#endif
           )) -> installed = false
    :: else
    fi
}

/* ---- On the M -------------------------------------------------------------------------------- */

inline take_pending()
{
    atomic {
        pending = false;
        late = false;
        kick_sent = (kick_pending -> false : kick_sent);
        kick_pending = false
    }
}

inline close_own()
{
    atomic { assert(fd_open && mapped && filled); counts = false };
    atomic { mapped = false; filled = false; fd_open = false };
#ifndef NO_TAKE_PENDING
    take_pending();
#endif
    atomic { handle = 0; off = false }
}

/* cp__configure_from_handler(). Whether the M had the claim is in `had`. */
inline configure()
{
    take_claim(SELF, had);
    if
    :: had ->
#ifndef GENERATION_LAST
        g = gen;
#endif
        if
        :: atomic { handle != 0 && (life != LIVE || slot != handle) -> close_own() }
        :: else -> if :: late -> take_pending() :: else fi
        fi;
        s = slot;
        if
        :: handle == 0 && life == LIVE && s != 0 -> open_event(s); opened = true
        :: else
        fi;
#ifdef GENERATION_LAST
        g = gen;
#endif
        m_gen = g;
        if
        :: opened -> atomic { assert(fd_open); counts = true; opened = false }
        :: else
        fi;
        give_claim()
    :: else
    fi
}

/* The handler of whichever signal is pending. It blocks all others. */
inline handler()
{
    atomic {
        runs = true;
        if
        :: pending -> assert(installed); pending = false; ours = true
        :: !pending && kick_pending -> assert(installed); kick_pending = false; kick_sent = false
        :: !pending && !kick_pending -> foreign_pending = false
        fi
    };
    if
    :: claim == CLOSING -> ours = false /* the one who closes reads the ring */
    :: atomic { claim != CLOSING -> reads = true };
        if
        :: atomic { handle != 0 -> assert(mapped && filled); ours = false }
        :: atomic {
               handle == 0 ->
                   assert(!ours || late); /* if it is not late, it is taken for the host's */
                   late = (ours -> false : late);
                   ours = false
           }
        fi;
        if
        :: atomic { gen != m_gen -> delay() };
            configure();
            allow();
            if /* the next scheduling point looks whether SIGPROF can be given back */
            :: had && handle == 0 -> m_gen = 0
            :: else
            fi
        :: gen == m_gen
        fi
    fi;
    atomic { runs = false; reads = false }
}

#define SIGNAL (pending || kick_pending || (foreign_pending && installed))

proctype M()
{
    byte g, s;
    bool had, opened, ours;

    atomic { !lock -> listed = true }; /* cp_m_attach() */
end_loop:
    do
    :: awake && SIGNAL -> handler()
    :: atomic { awake && has_points && gen != m_gen -> delay() }; /* cp_execute() */
        configure();
        allow();
        if
        :: handle == 0 -> LOCK; settle(); UNLOCK
        :: else
        fi
    :: atomic { awake && !SIGNAL && naps > 0 -> awake = false; naps-- }
    :: !awake -> awake = true
    :: atomic { awake && ends -> delay(); life = LEAVING }; /* cp_m_detach(), SIGPROF blocked */
        break
    od;
    do
    :: configure();
        if
        :: had -> break
        :: else -> LOCK; UNLOCK
        fi
    od;
    allow();
    LOCK;
    atomic { assert(handle == 0 && !fd_open); life = GONE };
    take_pending();
    settle();
    UNLOCK
}

/* ---- The kernel and a fork ------------------------------------------------------------------- */

active proctype Kernel()
{
end:
    do
    :: atomic { counts && awake && overflows > 0 && !runs -> overflows--; pending = true }
    od
}

active proctype Fork()
{
    atomic { delays == 0 -> assert(!unnoted) } /* cp__fork_begins() has waited */
}

/* ---- From outside, under the lock ------------------------------------------------------------ */

#define IS_THERE (listed && life != GONE)

inline disable_unwanted()
{
#ifdef NO_CLAIM
    ok = true;
#else
    take_claim(OTHER, ok);
#endif
    if
    :: ok ->
        if
        :: handle != 0 && slot != handle && !off ->
            off = true;
            atomic { assert(fd_open); counts = false }
        :: else
        fi;
#ifndef NO_CLAIM
        give_claim()
#endif
    :: else
    fi
}

/* Opens what the slot holds. */
inline arm()
{
    take_claim(OTHER, ok);
    if
    :: ok ->
        g = gen;
#ifdef NO_LIFE
        s = slot;
#else
        s = (life == LIVE -> slot : 0);
#endif
        if
        :: handle == 0 && s != 0 -> open_event(s); opened = true
        :: else
        fi;
        seen = (handle == 0 || handle == s -> g : seen); /* if not, it is to be closed first */
        if
        :: opened -> atomic { assert(fd_open); counts = true; opened = false }
        :: else
        fi;
        give_claim()
    :: else
#ifdef BUSY_IS_DONE
        seen = gen
#endif
    fi
}

/* Closes what no slot holds. If the M is in its handler, that waits for the next pass. */
inline close_unwanted()
{
    take_claim(CLOSING, ok);
    if
    :: ok -> /* here is the barrier, cp__os_barrier() */
        if
#ifdef NO_RUNS
        :: handle != 0 && slot != handle ->
#else
        :: handle != 0 && slot != handle && !runs ->
#endif
            atomic { assert(fd_open && mapped && filled && !reads); counts = false };
            atomic { assert(!reads); mapped = false; filled = false; fd_open = false };
            atomic { late = true; handle = 0; off = false; m_gen = 0; seen = 0 }
        :: else
        fi;
        give_claim()
    :: else
    fi
}

inline arm_or_close()
{
    if
    :: handle != 0 && handle != slot -> close_unwanted()
    :: else -> arm()
    fi
}

/* Starts number 1, perhaps stops it, and then perhaps starts number 2. */
active proctype Control()
{
    byte g, s, round = 1;
    bool ok, opened;

    do
    :: round <= 2 ->
        LOCK_AND_DELAY;
        atomic { installed = true; slot = round };
        gen++;
#ifdef OUTSIDE
        if
        :: IS_THERE && awake -> arm_or_close()
        :: true
        fi;
#endif
        UNLOCK_AND_ALLOW;
        if
        :: break /* it goes on running */
        :: round == 1 -> LOCK
        fi;
        slot = 0;
        gen++;
        UNLOCK;
        do
#ifdef OUTSIDE
        :: atomic { !lock && IS_THERE && (handle != 0 || claim != NONE) -> lock = true };
            disable_unwanted();
            close_unwanted();
            UNLOCK
        /* A signal that is pending for a thread that runs comes soon: the stop waits for it. */
        :: !IS_THERE || (handle == 0 && claim == NONE && !(late && pending && awake)) -> break
#else
        :: atomic { !lock && IS_THERE && claim == NONE && handle != 0 && awake && !kick_sent -> lock = true };
            disable_unwanted();
            if
            :: ok && installed && !kick_sent -> atomic { kick_pending = true; kick_sent = true }
            :: else
            fi;
            UNLOCK
        :: !IS_THERE || (claim == NONE && (handle == 0 || !awake)) -> break
#endif
        :: gave_up = true; break /* after 2 s */
        od;
        LOCK;
        settle();
        UNLOCK;
        round++;
        if
        :: break
        :: true
        fi
    :: round > 2 -> break
    od
}

#define BEHIND (IS_THERE && slot != 0 && awake && m_gen != gen)

/* A reader's passes look for an M that is awake and behind. */
active proctype Reader()
{
    byte g, s;
    bool ok, opened;

end:
    do
#ifdef OUTSIDE
    :: atomic { BEHIND && seen != gen && !lock -> lock = true; delay() };
        arm_or_close();
        UNLOCK_AND_ALLOW
#else
    :: atomic { BEHIND && installed && !kick_sent && !lock -> kick_pending = true; kick_sent = true }
#endif
    od
}

init
{
    if
    :: has_points = true
    :: ends = true
    :: true
    fi;
    run M();
    timeout -> /* nothing moves any more */
    assert(!lock && claim == NONE && owners == 0 && delays == 0 && !runs);
    if
    :: life == LIVE && slot != 0 -> assert(handle == slot && counts && fd_open)
    :: life == LIVE && slot == 0
#ifdef OUTSIDE
        -> assert(gave_up || (!counts && !fd_open && (!installed || !has_points)))
#endif
    :: life == GONE -> assert(!fd_open && !mapped)
    fi
}
