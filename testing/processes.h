/* The processes of this machine, and which of them a test or a command has started. */
#ifndef COUNTERPOINT_TESTING_PROCESSES_H
#define COUNTERPOINT_TESTING_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* A process or a thread, as its "stat" file describes it. */
struct cp__process {
    pid_t pid, parent, group;
    char state;     /* state of the thread; a process's own file has the state of its first thread */
    uint64_t cpu;   /* user and system time in the kernel's clock ticks (USER_HZ) */
    char name[64];  /* the thread's name */
    bool is_chosen; /* set by cp__processes_choose() */
};

struct cp__processes {
    struct cp__process *at;
    size_t n;
};

/* Reads the processes of "/proc", or the threads of "/proc/PID/task". The caller frees "at". Reads
 * "stat" files only, because other files of a process may wait for a lock that one of its threads holds. */
struct cp__processes cp__processes_read(const char *path);
/* Chooses the processes of the group (0: none), the children of the process `parent` (0: none), and all
 * descendants of both. Returns how many there are. */
size_t cp__processes_choose(struct cp__processes *all, pid_t group, pid_t parent);
/* Prints a line for each thread of the process: its number, its name, and what the thread does. */
void cp__process_print(FILE *stream, pid_t pid);

#endif
