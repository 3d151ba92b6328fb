/* See orphans.h. */
#include "orphans.h"

#include "runtime/base/clock.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Seconds for which the runner tries to end all of them; a process stuck in the kernel may take longer. */
enum { PATIENCE_S = 5 };

static bool is_adopting;

void cp__orphans_adopt(void)
{
    siginfo_t info;
    bool has_children = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
    is_adopting = !has_children && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
}

void cp__orphans_release(void)
{
    if (is_adopting)
        prctl(PR_SET_CHILD_SUBREAPER, 0);
    is_adopting = false;
}

/* Returns the parent of a process, or 0 if the process is gone. */
static pid_t parent_of(const char *pid)
{
    char path[NAME_MAX + 16], line[1024];
    snprintf(path, sizeof(path), "/proc/%s/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t n = fread(line, 1, sizeof(line) - 1, file);
    fclose(file);
    line[n] = 0;
    int parent = 0;
    const char *after_name = strrchr(line, ')'); /* a process name may contain any character */
    if (after_name)
        sscanf(after_name, ") %*c %d", &parent);
    return parent;
}

static void kill_children(void)
{
    DIR *directory = opendir("/proc");
    for (const struct dirent *entry; directory && (entry = readdir(directory));)
        if (isdigit((unsigned char)entry->d_name[0]) && parent_of(entry->d_name) == getpid())
            kill(atoi(entry->d_name), SIGKILL);
    if (directory)
        closedir(directory);
}

/* Kills and reaps children until none is left. When a child ends, its own children become the runner's. */
void cp__orphans_end(void)
{
    double deadline = cp__clock_s() + PATIENCE_S;
    pid_t pid;
    while (is_adopting && (pid = waitpid(-1, NULL, WNOHANG)) >= 0 && cp__clock_s() < deadline)
        if (pid == 0) {
            kill_children();
            usleep(1000);
        }
}
