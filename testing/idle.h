/* Tells a test that hangs from a test that computes or waits for the machine. */
#ifndef COUNTERPOINT_TESTING_IDLE_H
#define COUNTERPOINT_TESTING_IDLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What one look at processes has found. */
struct cp__activity {
    uint64_t cpu;     /* CPU time of the processes in the kernel's clock ticks (USER_HZ) */
    bool is_runnable; /* a thread runs, or waits for a CPU or a disk; true also if no process can be seen */
};

/* Looks in /proc at the processes that cp__processes_choose() chooses. Costs a look at every process of
 * the machine. */
struct cp__activity cp__activity_of(pid_t group, pid_t parent);

#endif
