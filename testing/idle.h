/* Whether the processes of a test still do something. */
#ifndef COUNTERPOINT_TESTING_IDLE_H
#define COUNTERPOINT_TESTING_IDLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What one look at a process group, and at all that its processes have started, has found. */
struct cp__activity {
    uint64_t cpu;     /* CPU time of its processes, in ticks of the kernel's */
    bool is_runnable; /* one of their threads runs, waits for a CPU or for a disk; or nothing can be seen */
};

struct cp__activity cp__activity_of(pid_t group);

#endif
