/* A stint: the time from a switch to a G to the next switch of its M. runtime/stall/ looks for those that
 * last too long. */
#ifndef COUNTERPOINT_RUNTIME_STINT_H
#define COUNTERPOINT_RUNTIME_STINT_H

#include <stdbool.h>
#include <stdint.h>

struct cp__account;
struct cp_labels;

/* How far the clocks of a thread have come. All are in ns. */
struct cp__stint_clocks {
    uint64_t wall;   /* CLOCK_MONOTONIC */
    uint64_t cpu;    /* the thread's CPU clock */
    uint64_t queued; /* for how long the thread was ready and had no CPU */
    uint64_t stolen; /* for how long the host has not run the CPU that the thread ran on last */
    int cpu_number;  /* that CPU's number; -1: unknown */
    bool is_ready;   /* the thread ran or was ready at this moment */
};

enum cp__stint_phase {
    CP__STINT_SHORT,  /* it has lasted less than half of the threshold */
    CP__STINT_LONG,   /* the clocks were noted, and the M was asked for the stack */
    CP__STINT_COUNTED /* it was counted as a stall */
};

/* What was seen of the stint that an M is in. */
struct cp__stint {
    /* These three tell one stint from another. */
    const struct cp__account *account; /* NULL: the M ran no G */
    uint64_t g_id;
    uint64_t switches;
    enum cp__stint_phase phase;
    unsigned kind;                       /* enum cp_stall_kind, once it is known */
    bool is_judged;                      /* kind is known */
    bool may_come_late;                  /* a tick of this stint or an earlier one may be pending */
    uint64_t begun;                      /* a stamp; the stint has begun then or before */
    uint64_t running;                    /* what the account had then */
    struct cp_labels *labels;            /* the G's at the last look, without a reference */
    uint64_t lasted;                     /* ns, at the last look */
    uint64_t asked_at;                   /* the M's CPU clock */
    struct cp__stint_clocks first, last; /* at the first look with CP__STINT_LONG, and at the last one */
    struct cp__asked *asked;             /* NULL: the M is not asked for its stack */
    struct cp__place *place;             /* where it was counted */
};

#endif
