/* See processes.h. Reads /proc. */
#include "processes.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* Fills *process from DIRECTORY/ID/stat. Returns false if the process or thread is gone. */
static bool read_stat(const char *directory, const char *id, struct cp__process *process)
{
    char path[64], line[1024] = "";
    uint64_t user, system;
    snprintf(path, sizeof(path), "%s/%.20s/stat", directory, id);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    line[fread(line, 1, sizeof(line) - 1, file)] = 0;
    fclose(file);
    const char *name = strchr(line, '('),
               *after_name = strrchr(line, ')'); /* a name may have any character */
    if (!name || !after_name ||
        sscanf(after_name, ") %c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64, &process->state,
               &process->parent, &process->group, &user, &system) != 5)
        return false;
    snprintf(process->name, sizeof(process->name), "%.*s", (int)(after_name - name - 1), name + 1);
    process->pid = atoi(id);
    process->cpu = user + system;
    process->is_chosen = false;
    return true;
}

struct cp__processes cp__processes_read(const char *path)
{
    struct cp__processes all = {0};
    size_t room = 0;
    DIR *directory = opendir(path);
    for (const struct dirent *entry; directory && (entry = readdir(directory));) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        if (all.n == room) {
            struct cp__process *more = realloc(all.at, (room = 2 * room + 64) * sizeof(*more));
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

static bool has_chosen_parent(const struct cp__processes *all, const struct cp__process *child)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->at[i].pid == child->parent)
            return all->at[i].is_chosen;
    return false;
}

size_t cp__processes_choose(struct cp__processes *all, pid_t group, pid_t parent)
{
    bool any = true;
    size_t chosen = 0;
    for (size_t i = 0; i < all->n; i++)
        all->at[i].is_chosen =
            (group != 0 && all->at[i].group == group) || (parent != 0 && all->at[i].parent == parent);
    while (any) {
        any = false;
        for (size_t i = 0; i < all->n; i++)
            if (!all->at[i].is_chosen && has_chosen_parent(all, &all->at[i]))
                any = all->at[i].is_chosen = true;
    }
    for (size_t i = 0; i < all->n; i++)
        chosen += all->at[i].is_chosen;
    return chosen;
}

/* Returns what a thread in the state does, in words. */
static const char *doing(char state)
{
    switch (state) {
    case 'R':
        return "runs";
    case 'S':
        return "sleeps";
    case 'D':
        return "waits in the kernel for what no signal ends";
    case 'T':
        return "is stopped";
    case 't':
        return "is stopped by a debugger";
    case 'Z':
        return "has ended, and nobody has taken its exit status";
    default:
        return "ends";
    }
}

/* Returns whether SIGKILL is pending for the thread or its process. */
static bool is_killed(pid_t pid, pid_t tid)
{
    char path[64], line[200];
    uint64_t pending, all = 0;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/status", (int)pid, (int)tid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "SigPnd: %" SCNx64, &pending) == 1 ||
            sscanf(line, "ShdPnd: %" SCNx64, &pending) == 1)
            all |= pending;
    if (file)
        fclose(file);
    return all >> (SIGKILL - 1) & 1;
}

void cp__process_print(FILE *stream, pid_t pid)
{
    enum { MOST = 20 }; /* threads */
    char path[40];
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    struct cp__processes threads = cp__processes_read(path);
    for (size_t i = 0; i < threads.n && i < MOST; i++) {
        const struct cp__process *thread = &threads.at[i];
        fprintf(stream, "thread %d (%s) of process %d %s%s\n", (int)thread->pid, thread->name, (int)pid,
                doing(thread->state),
                thread->state != 'Z' && is_killed(pid, thread->pid) ? ", although SIGKILL is pending" : "");
    }
    if (threads.n > MOST)
        fprintf(stream, "and %zu more threads\n", threads.n - MOST);
    free(threads.at);
}
