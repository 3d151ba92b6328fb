/* See idle.h. Reads /proc. */
#include "idle.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A process or a thread, as its "stat" file describes it. */
struct seen {
    pid_t pid, parent, group;
    char state;      /* state of the thread; a process's own file has the state of its first thread */
    uint64_t cpu;    /* user and system time in clock ticks */
    bool is_of_test; /* set by mark_group() */
};

struct all {
    struct seen *at;
    size_t n;
};

/* Fills *seen from DIRECTORY/ID/stat. Returns false if the process or thread is gone. */
static bool read_stat(const char *directory, const char *id, struct seen *seen)
{
    char path[64], line[1024] = "";
    uint64_t user, system;
    snprintf(path, sizeof(path), "%s/%.20s/stat", directory, id);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    line[fread(line, 1, sizeof(line) - 1, file)] = 0;
    fclose(file);
    const char *after_name = strrchr(line, ')'); /* a process name may contain any character */
    if (!after_name || sscanf(after_name, ") %c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64,
                              &seen->state, &seen->parent, &seen->group, &user, &system) != 5)
        return false;
    seen->pid = atoi(id);
    seen->cpu = user + system;
    seen->is_of_test = false;
    return true;
}

/* Reads the processes of "/proc", or the threads of "/proc/PID/task". The caller frees "at". */
static struct all read_processes(const char *path)
{
    struct all all = {0};
    size_t room = 0;
    DIR *directory = opendir(path);
    for (const struct dirent *entry; directory && (entry = readdir(directory));) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        if (all.n == room) {
            struct seen *more = realloc(all.at, (room = 2 * room + 64) * sizeof(*more));
            if (!more)
                abort();
            all.at = more;
        }
        all.n += read_stat(path, entry->d_name, &all.at[all.n]);
    }
    if (directory)
        closedir(directory);
    return all;
}

static bool has_parent_of_test(const struct all *all, const struct seen *child)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->at[i].pid == child->parent)
            return all->at[i].is_of_test;
    return false;
}

/* Marks the processes of the group and all their descendants, which may have other groups. */
static void mark_group(struct all *all, pid_t group)
{
    bool any = true;
    for (size_t i = 0; i < all->n; i++)
        all->at[i].is_of_test = all->at[i].group == group;
    while (any) {
        any = false;
        for (size_t i = 0; i < all->n; i++)
            if (!all->at[i].is_of_test && has_parent_of_test(all, &all->at[i]))
                any = all->at[i].is_of_test = true;
    }
}

/* Returns whether any thread of the process is runnable. The first thread's state is not enough: the first
 * thread may * wait for another one, which is runnable and gets no CPU. */
static bool is_runnable(pid_t pid)
{
    char path[40];
    bool is = false;
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    struct all threads = read_processes(path);
    for (size_t i = 0; i < threads.n; i++)
        is |= threads.at[i].state == 'R' || threads.at[i].state == 'D';
    free(threads.at);
    return is;
}

struct cp__activity cp__activity_of(pid_t group)
{
    struct cp__activity found = {0};
    struct all all = read_processes("/proc");
    bool any = false;
    mark_group(&all, group);
    for (size_t i = 0; i < all.n; i++) {
        if (!all.at[i].is_of_test)
            continue;
        any = true;
        found.cpu += all.at[i].cpu;
        found.is_runnable = found.is_runnable || is_runnable(all.at[i].pid);
    }
    found.is_runnable |= !any;
    free(all.at);
    return found;
}
