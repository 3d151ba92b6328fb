/* See idle.h. */
#include "idle.h"

#include "processes.h"

#include <stdio.h>
#include <stdlib.h>

/* Returns whether any thread of the process is runnable. The first thread's state is not enough: the first
 * thread may wait for another one, which is runnable and gets no CPU. */
static bool is_runnable(pid_t pid)
{
    char path[40];
    bool is = false;
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    struct cp__processes threads = cp__processes_read(path);
    for (size_t i = 0; i < threads.n; i++)
        is |= threads.at[i].state == 'R' || threads.at[i].state == 'D';
    free(threads.at);
    return is;
}

struct cp__activity cp__activity_of(pid_t group, pid_t parent)
{
    struct cp__activity found = {0};
    struct cp__processes all = cp__processes_read("/proc");
    bool any = cp__processes_choose(&all, group, parent) > 0;
    for (size_t i = 0; i < all.n; i++) {
        if (!all.at[i].is_chosen)
            continue;
        found.cpu += all.at[i].cpu;
        found.is_runnable = found.is_runnable || is_runnable(all.at[i].pid);
    }
    found.is_runnable |= !any;
    free(all.at);
    return found;
}
