/*
 * counterpoint/stall.h: green threads that hold their M for too long.
 *
 *     struct cp_stall_options options = {.size = sizeof options, .log = stderr};
 *     if (cp_stalls_start(&options, &err) < 0)
 *         fprintf(stderr, "%s\n", err.message);
 *
 * A G stalls its M if it runs for longer than a threshold without a switch: all Gs that the M could have run
 * wait for it meanwhile. A thread of the library's looks at all Ms, twice in a threshold, and reports a stall
 * once for each place with the G's stack and labels. Switches cost nothing more for that, because accounts of
 * Gs (account.h) tell since when an M runs its G. The idea is that of Seastar's detector of stalls, of Go's
 * sysmon, and of tokio-console's warnings.
 *
 * A stall that lasts for one and a half thresholds is always seen if the library's thread gets a CPU in time;
 * one that is shorter may be.
 *
 * Threads: a plain thread that is an M and runs no G never stalls. Signals: if a G computes, its thread gets
 * one SIGPROF of a timer on its CPU clock, which takes the stack. No thread that sleeps or waits in a system
 * call is interrupted.
 *
 * Forks: the child has no such thread, nobody has joined there, and it may start one.
 */
#ifndef COUNTERPOINT_STALL_H
#define COUNTERPOINT_STALL_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the M's thread did. New kinds are added before the last name, up to CP_STALL_KINDS_MAX. */
enum cp_stall_kind {
    CP_STALL_COMPUTED, /* it ran for most of the time */
    CP_STALL_WAITED,   /* it slept for most of it: in a system call that waits, for a lock, or for a page */
    /* It was ready, and the system or the machine's host ran something else on the CPU. Without that time the
     * G would have held the M for less than the threshold. Such a stall is told at its end. */
    CP_STALL_NOT_RUN,
    CP_STALL_KINDS
};
#define CP_STALL_KINDS_MAX 8

/* Returns the kind's name: "computed", "waited" or "not run". */
const char *cp_stall_kind_name(enum cp_stall_kind kind);

/* A stall, or all stalls of a place. Valid during the call only. */
struct cp_stall {
    size_t size; /* sizeof(struct cp_stall) as the library was compiled */
    enum cp_stall_kind kind;
    int tid;                  /* the thread of the M, as gettid(2) returns it */
    uint64_t g_id;            /* the G */
    struct cp_labels *labels; /* the G's; cp_labels_ref() keeps them longer. NULL: none, or unknown */
    uint64_t count;           /* how many stalls this is */
    uint64_t longest_ns;      /* for how long the longest one has lasted, so far if it goes on */
    uint64_t total_ns;        /* the sum of all */
    /* The G's stack, innermost first: an instruction, and then return addresses. None if the stall ended
     * before the stack was taken, if the thread blocks SIGPROF, or if the kind is CP_STALL_NOT_RUN, for which
     * the stack is not the reason: cp_stall_print() says which. Of
     * CP_STALL_WAITED it is found by frame pointers from cp_wait_begin() on; if nobody has told of the wait,
     * it is the place of the system call alone. */
    const uintptr_t *frames;
    unsigned depth;
    unsigned flags; /* CP_SAMPLE_ bits of the stack */
    /* Of CP_STALL_WAITED, for what, if cp_wait_begin() has told; else CP_WAIT_OTHER and NULL. */
    enum cp_wait_reason reason;
    const void *object;
    long call; /* the system call that it waited in; -1: unknown */
};

/*
 * Called for the first stall of each place, on the library's thread, while the stall goes on or just after
 * its end. Two stalls that computed are of one place if the same calls led to the function that ran; others
 * if they waited for the same reason at the same place. While the function runs, no further stalls are looked
 * for. It may read what cp_stalls_stats() and cp_stalls_each() tell, and must not begin, end,
 * join or leave a search.
 */
typedef void cp_stall_fn(void *context, const struct cp_stall *stall);

/* The caller sets the struct to zero, and sets size. */
struct cp_stall_options {
    size_t size;               /* sizeof(struct cp_stall_options) as the caller compiled it */
    uint64_t threshold_ns;     /* at least CP_STALL_LEAST_NS; 0: CP_STALL_DEFAULT_NS */
    cp_stall_fn *callback;     /* NULL: none */
    void *context;             /* for the callback */
    FILE *log;                 /* the first stall of each place is printed to it; NULL: to nothing */
    unsigned reports_a_minute; /* how many reports there can be in a minute; 0: 60 */
};
#define CP_STALL_DEFAULT_NS UINT64_C(10000000)
#define CP_STALL_LEAST_NS UINT64_C(2000000)

/*
 * Begins to look for stalls, and forgets those of earlier times. There is one search in a process, and it is
 * the program's: if others have joined one (cp_stalls_join()), it begins anew with these options. Returns 0;
 * -EBUSY if the program has begun already; -EINVAL for bad options; -ENODATA if the program has switched
 * accounts off; -EDEADLK in the callback; -ENOMEM or -EAGAIN if there can be no thread. Without CPU clocks of
 * threads or a handler for SIGPROF it is refused with the system's error.
 */
int cp_stalls_start(const struct cp_stall_options *options, struct cp_error *err);
/* Ends that, and waits for the callback. If others have joined, stalls are looked for until the last of them
 * has left, and reported to nobody. What was found can still be read. Returns 0; -ESRCH if the program has
 * not begun; -EDEADLK in the callback. */
int cp_stalls_stop(void);

/*
 * For those who look at stalls for a while, whether the program does so or not, as a request over HTTP does:
 * joins the search that runs, or begins one that reports to nobody. A threshold of 0 is that of the search,
 * or CP_STALL_DEFAULT_NS. Stores the search's number in *search: cp_stalls_stats.search is another one if a
 * search has begun since, and what was found before is forgotten. Returns 0, and then cp_stalls_leave() is
 * due; -EBUSY if the search has another threshold; and the other errors of cp_stalls_start().
 */
int cp_stalls_join(uint64_t threshold_ns, uint64_t *search, struct cp_error *err);
/* Ends one call of cp_stalls_join(). The search ends with the last of them, unless it is the program's.
 * Returns 0; -ESRCH if nobody has joined; -EDEADLK in the callback. */
int cp_stalls_leave(void);

/* What was found since the search has begun that runs, or ran last. */
struct cp_stalls_stats {
    size_t size;                         /* sizeof(struct cp_stalls_stats) as the caller compiled it */
    uint64_t threshold_ns;               /* 0: stalls have never been looked for */
    uint64_t is_running;                 /* 1: they are looked for now */
    uint64_t stalls[CP_STALL_KINDS_MAX]; /* how many, by kind */
    uint64_t ns[CP_STALL_KINDS_MAX];     /* for how long they lasted, so far if one goes on */
    uint64_t longest_ns;
    uint64_t places;        /* how many places there are */
    uint64_t reports;       /* how many were reported */
    uint64_t suppressed;    /* how many were not, because of reports_a_minute */
    uint64_t without_place; /* stalls of new places for which there was no room: CP_STALL_PLACES_MAX */
    uint64_t search;        /* the search's number: each is more than the last one; 0: there was none */
};
#define CP_STALL_PLACES_MAX 1024
/* Fills *stats, whose size the caller has set. Returns -EINVAL if the size was never set. */
int cp_stalls_stats(struct cp_stalls_stats *stats);

/* Passes each place to fn, with the G and labels of its longest stall, in any order. A result of fn other
 * than 0 ends the list and is returned; -ENOMEM. */
typedef int cp_stalls_each_fn(void *context, const struct cp_stall *stall);
int cp_stalls_each(cp_stalls_each_fn *fn, void *context);

/* Prints a stall as cp_stall_options.log does: a line, and a line for each frame with the module, and the
 * function if the module exports it. If there is no stack, a sentence says why. */
void cp_stall_print(FILE *out, const struct cp_stall *stall);

#ifdef __cplusplus
}
#endif
#endif
