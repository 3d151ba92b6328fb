/* What the kernel has told of the watched functions: one thing that has happened. */
#ifndef COUNTERPOINT_CMD_WATCH_RECORD_H
#define COUNTERPOINT_CMD_WATCH_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "watch.h"

/* How many quantities a watch can have beside time. */
#define WATCH_COUNTS (CP_WATCH_QUANTITIES - 1)

enum watch_kind {
    WATCH_ENTRY,  /* a thread is at the first instruction of the function */
    WATCH_RETURN, /* the function has returned */
    WATCH_SWITCH, /* a thread leaves the CPU; the same and the next only if something is counted */
    WATCH_RESUME, /* a thread gets the CPU: until then, what was counted is nobody's */
    WATCH_FORK,   /* a thread has started another one, or a process */
    WATCH_EXEC,   /* a process executes another program */
    WATCH_EXIT,   /* a thread has ended */
    WATCH_LOSS,   /* from `time` to `until` records of the CPU were lost, `lost` of them as far as is known */
};

struct watch_record {
    enum watch_kind kind;
    uint32_t function; /* ENTRY and RETURN: its number */
    uint32_t cpu;
    pid_t pid, tid;               /* FORK: of the new thread */
    pid_t parent_pid, parent_tid; /* FORK only */
    uint32_t counted;             /* a bit for each of the counts that the record has */
    uint32_t switches;            /* SWITCH: a bit for each count of switches, of which this is one */
    uint64_t time;                /* ns, by CLOCK_MONOTONIC */
    uint64_t sp;                  /* ENTRY and RETURN: the stack pointer */
    uint64_t until, lost;         /* LOSS only */
    /* What the CPU had counted, whatever ran on it. */
    uint64_t counts[WATCH_COUNTS];
};

#endif
