/* See idle.h: what /proc tells of processes. */
#include "idle.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct seen {
    pid_t pid, parent, group;
    char state;
    uint64_t cpu;
    bool is_of_test;
};

struct all {
    struct seen *at;
    size_t n;
};

static bool read_process(const char *pid, struct seen *seen)
{
    char path[40], line[1024] = "";
    uint64_t user, system;
    snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    line[fread(line, 1, sizeof(line) - 1, file)] = 0;
    fclose(file);
    const char *after_name = strrchr(line, ')'); /* the name may have anything in it */
    if (!after_name || sscanf(after_name, ") %c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64,
                              &seen->state, &seen->parent, &seen->group, &user, &system) != 5)
        return false;
    seen->pid = atoi(pid);
    seen->cpu = user + system;
    seen->is_of_test = false;
    return true;
}

static struct all read_all(void)
{
    struct all all = {0};
    size_t room = 0;
    DIR *directory = opendir("/proc");
    for (const struct dirent *entry; directory && (entry = readdir(directory));) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        if (all.n == room) {
            struct seen *more = realloc(all.at, (room = 2 * room + 64) * sizeof(*more));
            if (!more)
                abort();
            all.at = more;
        }
        all.n += read_process(entry->d_name, &all.at[all.n]);
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

/* Those of the group, and their descendants, which may have groups of their own. */
static void mark(struct all *all, pid_t group)
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

struct cp__activity cp__activity_of(pid_t group)
{
    struct cp__activity found = {0};
    struct all all = read_all();
    bool any = false;
    mark(&all, group);
    for (size_t i = 0; i < all.n; i++) {
        if (!all.at[i].is_of_test)
            continue;
        any = true;
        found.cpu += all.at[i].cpu;
        found.is_runnable |= all.at[i].state == 'R' || all.at[i].state == 'D';
    }
    found.is_runnable |= !any;
    free(all.at);
    return found;
}
