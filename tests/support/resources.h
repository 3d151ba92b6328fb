/* What this process holds of the system, for tests that nothing is left behind. */
#ifndef COUNTERPOINT_TESTS_RESOURCES_H
#define COUNTERPOINT_TESTS_RESOURCES_H

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "test.h"

#define RESOURCES_API __attribute__((unused)) static

struct resources {
    int fds;
    int perf_fds; /* how many of fds are perf events */
    int mappings;
    int rings; /* how many of mappings are rings of perf events */
    int timers;
    int threads;
    long rss_kib;
};

/* Counts the lines of a file that begin with start and contain part. */
RESOURCES_API int count_lines(const char *path, const char *start, const char *part)
{
    FILE *file = fopen(path, "re");
    char line[1024];
    int n = 0;

    CHECKF(file != NULL, "%s", path);
    while (fgets(line, sizeof line, file) != NULL)
        n += strncmp(line, start, strlen(start)) == 0 && strstr(line, part) != NULL;
    fclose(file);
    return n;
}

/* Returns the number after start in a file. */
RESOURCES_API long number_in(const char *path, const char *start)
{
    FILE *file = fopen(path, "re");
    char line[1024];
    long number = -1;

    CHECKF(file != NULL, "%s", path);
    while (number < 0 && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, start, strlen(start)) == 0)
            sscanf(line + strlen(start), "%ld", &number);
    fclose(file);
    CHECKF(number >= 0, "no %s in %s", start, path);
    return number;
}

RESOURCES_API void count_descriptors(struct resources *resources)
{
    DIR *directory = opendir("/proc/self/fd");
    const struct dirent *entry;

    CHECK(directory != NULL);
    resources->fds = -1; /* the directory's own descriptor does not count */
    while ((entry = readdir(directory)) != NULL) {
        char target[64] = "";

        if (entry->d_name[0] == '.')
            continue;
        resources->fds++;
        if (readlinkat(dirfd(directory), entry->d_name, target, sizeof target - 1) > 0)
            resources->perf_fds += strstr(target, "[perf_event]") != NULL; /* simulated ones, too */
    }
    closedir(directory);
}

/* Returns whether a thread of this process is ending. A thread that was joined may still be in the kernel's
 * lists for a moment, because joining only waits until its memory is free. */
RESOURCES_API bool is_thread_ending(const char *tid)
{
    enum { PF_EXITING = 0x4 }; /* from the kernel's include/linux/sched.h */
    char path[320], line[1024] = "";
    const char *after_name;
    unsigned flags = PF_EXITING; /* also if the thread is gone meanwhile */
    FILE *file;

    snprintf(path, sizeof path, "/proc/self/task/%s/stat", tid);
    file = fopen(path, "re");
    if (file == NULL)
        return true;
    after_name = fgets(line, sizeof line, file) != NULL ? strrchr(line, ')') : NULL;
    if (after_name != NULL)
        CHECK_EQ(sscanf(after_name, ") %*c %*d %*d %*d %*d %*d %u", &flags), 1);
    fclose(file);
    return (flags & PF_EXITING) != 0;
}

/* Counts the threads that are not ending. */
RESOURCES_API int count_threads(void)
{
    DIR *directory = opendir("/proc/self/task");
    const struct dirent *entry;
    int n = 0;

    CHECK(directory != NULL);
    while ((entry = readdir(directory)) != NULL)
        n += entry->d_name[0] != '.' && !is_thread_ending(entry->d_name);
    closedir(directory);
    CHECK(n > 0);
    return n;
}

RESOURCES_API struct resources resources_now(void)
{
    struct resources resources = {
        .mappings = count_lines("/proc/self/maps", "", ""),
        .rings = count_lines("/proc/self/maps", "", "[perf_event]"),
        .timers = access("/proc/self/timers", R_OK) == 0 ? count_lines("/proc/self/timers", "ID: ", "") : 0,
        .threads = count_threads(),
        .rss_kib = number_in("/proc/self/status", "VmRSS:"),
    };

    count_descriptors(&resources);
    return resources;
}

/* The mappings of three stacks. The C library keeps the stack of a thread that has ended for the next thread,
 * and makes another if the kernel still uses the first one, which on a busy machine may be so of two. */
#define STACKS 6

/* Checks everything except the resident memory, which the caller judges. The mappings other than rings may
 * differ by as many as the caller says, and by three stacks. */
RESOURCES_API void check_resources(const struct resources *now, const struct resources *then, int mappings)
{
    printf(
        "descriptors %d (%d), mappings %d (%d), rings %d (%d), timers %d (%d), threads %d (%d), resident %ld "
        "(%ld) KiB\n",
        now->fds, then->fds, now->mappings, then->mappings, now->rings, then->rings, now->timers,
        then->timers, now->threads, then->threads, now->rss_kib, then->rss_kib);
    CHECK_EQ(now->fds, then->fds);
    CHECK_EQ(now->perf_fds, then->perf_fds);
    CHECK_EQ(now->rings, then->rings);
    CHECK_EQ(now->timers, then->timers);
    CHECK_EQ(now->threads, then->threads);
    if (!TEST_ASAN && !TEST_TSAN) /* the sanitizers make mappings of their own */
        CHECK(abs(now->mappings - then->mappings) <= mappings + STACKS);
}

/* Returns whether SIGPROF has this handler (or SIG_DFL, SIG_IGN). */
RESOURCES_API bool sigprof_is(void (*handler)(int))
{
    struct sigaction action;

    return sigaction(SIGPROF, NULL, &action) == 0 && action.sa_handler == handler;
}

#endif
