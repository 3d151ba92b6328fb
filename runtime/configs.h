/*
 * Which events the calls of proposal.c have started. This is apart from those calls, because the child of a
 * fork forgets the events, and what all processes need must not need those calls.
 */
#ifndef COUNTERPOINT_RUNTIME_CONFIGS_H
#define COUNTERPOINT_RUNTIME_CONFIGS_H

#include "runtime.h"
#include "runtime/base/lock.h"

extern struct cp__lock cp__configs_lock;

/* The slot of each event, counted from 1; 0: none. A stopped event's slot is kept until its samples have been
 * read. Under cp__configs_lock. */
struct cp__running {
    int slot;
    bool stopped;
};
extern struct cp__running cp__running[CP_CPUPROF_EVENT_COUNT];

/* In the child of a fork: no event runs. */
void cp__configs_forget(void);

#endif
