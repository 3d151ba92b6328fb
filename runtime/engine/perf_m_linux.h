/* What the engine of perf events keeps for an M. The core has the M and knows nothing of this. */
#ifndef COUNTERPOINT_RUNTIME_ENGINE_PERF_M_LINUX_H
#define COUNTERPOINT_RUNTIME_ENGINE_PERF_M_LINUX_H

#include "engines.h"
#include "runtime/m.h"
#include "runtime/perf/record.h"

/* An event of perf_event_open(2). */
struct cp__perf_event {
    int fd;
    uint64_t id;    /* the number by which records name the event */
    uint64_t first; /* shared, atomic: its first period, as long as the event has that; 0: it has its own */
    /* What the event's limit needs; see engine/limits_linux.c. */
    uint64_t taken;      /* overflows that the M has heard of: records read, or signals without a ring */
    uint64_t resumed;    /* the part of them up to the last resume in the handler */
    uint64_t crowded;    /* the ring's crowded then */
    uint64_t renewed;    /* shared, atomic: of all overflows, those for which the limit was renewed */
    uint64_t renewed_at; /* shared, atomic: the event's time_enabled when the limit was last whole */
    uint64_t multiples;  /* shared, atomic: the slot's multiples then */
    uint64_t all_at;     /* shared, atomic: how often all of the M's events had overflowed then */
    uint64_t seen;       /* time_enabled at the last look from outside; under the runtime lock */
};

/* Which of an event's periods have samples already; see engine/periods_linux.c. */
struct cp__periods {
    uint64_t phase; /* by how much the first period is shorter than the others: see engine/first_linux.c */
    uint64_t accounted; /* the part of the event's count, and of phase, that samples and losses stand for */
    bool folds;         /* a clock's record stands for the periods before it that have no record, too */
    bool is_throttled;  /* the kernel has stopped the event until the kernel's next tick */
    bool was_throttled; /* the next record is the first one after the kernel stopped the event */
    struct {
        uint64_t since;   /* the time of the THROTTLE record, ns */
        uint64_t ns;      /* the time from then to the UNTHROTTLE record */
        uint64_t running; /* the event's time_running at the record that throttled it */
    } throttling;         /* of the last throttling */
};

/* What perf's engine keeps for one slot of an M. */
struct cp__perf_handle {
    uint64_t seq;    /* the same as in the core's handle; so is kind */
    uint64_t period; /* ns or events */
    struct cp__periods periods;
    struct cp__perf_event events[CP__CORE_PMUS];
    int n_events;
    /* atomic: after so many samples that nothing renews, the kernel disables an event; 0: never. Written with
     * the claim */
    uint32_t limit;
    uint32_t stretch; /* atomic: the kernel samples after so many periods; 0 stands for 1 */
    struct cp__record_layout layout;
    bool traps;          /* the handle's events raise SIGTRAP in place of SIGPROF */
    bool counts_at_once; /* they were enabled when they were opened */
    uint64_t runs;       /* the M's runs just before that */
    /* the record's ip is nearer to the event than the instruction at which the signal came */
    bool is_precise;
    bool has_user_chain; /* the record's chain has the program's frames */
    enum cp_event_kind kind;
};

/* Returns after how many of the config's periods the kernel samples the handle's events. */
static inline uint64_t cp__handle_stretch(const struct cp__perf_handle *handle)
{
    uint32_t stretch = cp_load_relaxed(&handle->stretch); /* relaxed: a number of its own */

    return stretch != 0 ? stretch : 1;
}

/* An M's ring. perf_event_open(2) defines its layout: one page of control, then data. */
struct cp__ring {
    void *page;      /* NULL: none */
    uint64_t *words; /* the data */
    size_t n_words;  /* a power of 2 */
    /* Positions in the data, in bytes, as the kernel counts them. Records before own_end, and from own_begin
     * on, were made while the M was in the library with its signals blocked. These records belong to the
     * place where the signal finds the M. */
    uint64_t own_end;
    uint64_t own_begin;
    uint64_t crowded; /* how often the M has found the ring more than half full */
    int fd;           /* the event that the ring belongs to, which counts nothing */
    uint64_t id;      /* the number of that event in records */
    int users;        /* how many handles write to the ring */
};

/* All of it is owned by the M, unless a comment says who else uses it. */
struct cp__perf_m {
    struct cp__perf_handle handles[CP_EV_MAX];
    struct cp__ring ring;
    uint32_t pausing; /* a bit for each slot whose event stops counting in the handler */
    uint32_t paused;  /* a bit for each of these that this run of the handler has paused */
};

/* Returns what the engine keeps for m; NULL if no perf event was ever to be opened on m. */
static inline struct cp__perf_m *cp__perf_of(const struct cp__m *m)
{
    /* relaxed: whoever finds a handle open has seen the slot's config, which was published later */
    return (struct cp__perf_m *)cp_load_relaxed(&m->own[CP__ENGINE_PERF].memory);
}

#endif
