#include "thread_linux.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/fork_gate.h"
#include "runtime/base/os.h"
#include "runtime/base/sys_linux.h"

#define LONGEST_READING_NS 300000u

/* Reads the beginning of a file, as a string, which is empty if there is no such file. A child of a fork must
 * not have its descriptor. */
static void read_beginning(const char *path, char *text, size_t size)
{
    size_t length = 0;
    long n = 0;
    int fd;

    cp__fork_delay();
    fd = cp__sys_open_from_handler(path);
    while (fd >= 0 && length < size - 1 &&
           (n = cp__sys_read_from_handler(fd, text + length, size - 1 - length)) > 0)
        length += (size_t)n;
    if (fd >= 0)
        cp__sys_close_from_handler(fd);
    cp__fork_allow();
    text[length] = '\0';
}

static void read_of_task(pid_t tid, const char *file, char *text, size_t size)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/self/task/%d/%s", (int)tid, file);
    read_beginning(path, text, size);
}

/* schedstat has the CPU time, the time spent in waiting for a CPU, and how often the thread got one. */
static uint64_t queued_of(pid_t tid)
{
    char text[64], *end;

    read_of_task(tid, "schedstat", text, sizeof text);
    strtoull(text, &end, 10);
    return strtoull(end, NULL, 10);
}

/* The third field of stat is the state, the 39th one the CPU; the second one is a name that may have anything
 * in it but ends with the last parenthesis. */
static void read_task_stat(pid_t tid, struct cp__stint_clocks *clocks)
{
    char text[1024], *at;

    read_of_task(tid, "stat", text, sizeof text);
    at = strrchr(text, ')');
    clocks->is_ready = at != NULL && at[1] == ' ' && at[2] == 'R';
    for (int field = 2; at != NULL && field < 39; field++)
        at = strchr(at + 1, ' ');
    clocks->cpu_number = at == NULL ? -1 : (int)strtol(at, NULL, 10);
}

/* A line is "cpuN" and times in the kernel's units: the eighth is what the host has taken. */
static uint64_t stolen_of(int cpu)
{
    const uint64_t units = (uint64_t)sysconf(_SC_CLK_TCK);
    char text[16384], name[24], *at;

    if (cpu < 0 || units == 0)
        return 0;
    read_beginning("/proc/stat", text, sizeof text);
    snprintf(name, sizeof name, "\ncpu%d ", cpu);
    at = strstr(text, name);
    if (at == NULL)
        return 0;
    at += strlen(name);
    for (int i = 0; i < 7; i++)
        strtoull(at, &at, 10);
    return strtoull(at, NULL, 10) * (1000000000u / units);
}

/* If the calling thread lost its CPU between the clocks, they would not be of one moment. */
void cp__stint_clocks_read(const struct cp__m *m, struct cp__stint_clocks *clocks)
{
    for (unsigned attempt = 0; attempt < 4; attempt++) {
        clocks->wall = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC);
        clocks->cpu = cp__os_clock_ns_from_handler(m->cpu_clock);
        clocks->queued = queued_of(m->tid);
        if (cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) - clocks->wall < LONGEST_READING_NS)
            break;
    }
    read_task_stat(m->tid, clocks);
    clocks->stolen = stolen_of(clocks->cpu_number);
}

/* The file has the number of the call, its six arguments, the stack pointer and the program counter;
 * "running" of a thread that runs, and -1 of one that sleeps for another reason, as for a page. */
long cp__thread_call(pid_t tid, uintptr_t *pc)
{
    char text[256], *end;
    long call;

    *pc = 0;
    read_of_task(tid, "syscall", text, sizeof text);
    call = strtol(text, &end, 10);
    if (end == text || call < 0)
        return -1;
    for (int i = 0; i < 7; i++)
        strtoull(end, &end, 16);
    *pc = (uintptr_t)strtoull(end, NULL, 16);
    return call;
}
