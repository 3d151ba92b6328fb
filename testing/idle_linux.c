/* See idle.h: what /proc tells of the processes of a group. */
#include "idle.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Adds a process to what was found if it is one of the group; whether it is. */
static bool add_process(const char *pid, pid_t group, struct cp__activity *found)
{
    char path[NAME_MAX + 16], line[1024] = "";
    char state;
    int of;
    uint64_t user, system;
    snprintf(path, sizeof(path), "/proc/%s/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t n = fread(line, 1, sizeof(line) - 1, file);
    fclose(file);
    line[n] = 0;
    const char *after_name = strrchr(line, ')'); /* the name may have anything in it */
    if (!after_name || sscanf(after_name, ") %c %*d %d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64,
                              &state, &of, &user, &system) != 4)
        return false;
    if (of != group)
        return false;
    found->cpu += user + system;
    found->is_runnable |= state == 'R' || state == 'D';
    return true;
}

struct cp__activity cp__activity_of(pid_t group)
{
    struct cp__activity found = {0};
    bool any = false;
    DIR *directory = opendir("/proc");
    for (const struct dirent *entry; directory && (entry = readdir(directory));)
        if (isdigit((unsigned char)entry->d_name[0]))
            any |= add_process(entry->d_name, group, &found);
    if (directory)
        closedir(directory);
    found.is_runnable |= !any;
    return found;
}
