/* See end.h. */
#include "end.h"

#include "disarm.h"
#include "runtime/base/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static bool is_adopting;

void cp__end_adopt(void)
{
    siginfo_t info;
    bool has_children = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
    is_adopting = !has_children && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
}

void cp__end_release(void)
{
    if (is_adopting)
        prctl(PR_SET_CHILD_SUBREAPER, 0);
    is_adopting = false;
}

/* Reaps children that have ended: any, or only the one. Returns false if no child is left. */
static bool reap(struct cp__ending *ending, pid_t which)
{
    pid_t pid;
    int status;
    while ((pid = waitpid(which, &status, WNOHANG)) > 0 || (pid < 0 && errno == EINTR))
        if (pid == ending->child && !WIFSTOPPED(status)) { /* libdwfl may have left it to us as a tracee */
            ending->is_reaped = true;
            ending->status = status;
        }
    return pid == 0;
}

/* Returns whether all threads of a process have ended. The first thread of a process may end before the
 * others. */
static bool has_ended(const struct cp__process *process)
{
    char path[40];
    bool is_alive = process->state != 'Z';
    if (is_alive)
        return false;
    snprintf(path, sizeof(path), "/proc/%d/task", (int)process->pid);
    struct cp__processes threads = cp__processes_read(path);
    for (size_t i = 0; i < threads.n; i++)
        is_alive |= threads.at[i].state != 'Z' && threads.at[i].state != 'X';
    free(threads.at);
    return !is_alive;
}

/* Chooses the processes that are to end. Returns their number. */
static size_t choose(const struct cp__ending *ending, struct cp__processes *all)
{
    size_t n = 0;
    cp__processes_choose(all, is_adopting ? 0 : ending->child, is_adopting ? getpid() : 0);
    for (size_t i = 0; i < all->n; i++) {
        struct cp__process *process = &all->at[i];
        bool is_child = process->pid == ending->child && !ending->is_reaped;
        process->is_chosen = is_child || (process->is_chosen && !has_ended(process));
        n += process->is_chosen;
    }
    return n;
}

/* If the caller adopts, it looks again as long as it has children, because a process may get another
 * parent while /proc is read. A child that has ended and that its tracer keeps from being reaped is no
 * reason to look for ever. If the caller does not adopt, the child is reaped last, because until then
 * its number stands for its group. */
size_t cp__end_look(struct cp__ending *ending, struct cp__processes *all)
{
    enum { LOOKS = 3 };
    for (int looks = 0; looks < LOOKS && (!is_adopting || reap(ending, -1)); looks++) {
        *all = cp__processes_read("/proc");
        size_t n = choose(ending, all);
        if (n > 1 || (n == 1 && (is_adopting || ending->is_reaped || reap(ending, ending->child))))
            return n;
        free(all->at);
    }
    return 0;
}

char *cp__end_text(const struct cp__processes *all)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        abort();
    for (size_t i = 0; i < all->n; i++)
        if (all->at[i].is_chosen)
            cp__process_print(stream, all->at[i].pid);
    fclose(stream);
    return text;
}

static char *disarm_chosen(struct cp__ending *ending, const struct cp__processes *all)
{
    return ending->is_late ? NULL : cp__disarm(all, ending->patience_s / 2, &ending->is_late);
}

char *cp__end_disarm(struct cp__ending *ending)
{
    struct cp__processes all;
    if (cp__end_look(ending, &all) == 0)
        return NULL;
    char *refused = disarm_chosen(ending, &all);
    free(all.at);
    return refused;
}

/* Asks the child and its group by one SIGTERM, because the child may take a second one as more urgent. What
 * the child has started in other groups is the child's to end. */
static void ask_to_end(const struct cp__ending *ending)
{
    if (!ending->is_reaped)
        kill(getpgid(ending->child) == ending->child ? -ending->child : ending->child, SIGTERM);
}

static void kill_chosen(const struct cp__processes *all)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->at[i].is_chosen)
            kill(all->at[i].pid, SIGKILL);
}

/* Adds what cp__disarm() has told to a text. Frees both. */
static char *add_refused(char *text, char *refused)
{
    char *all;
    if (asprintf(&all, "%s%s", text, refused ? refused : "") < 0)
        abort();
    free(text);
    free(refused);
    return all;
}

/* Looks again after each round, because a process may have started another one meanwhile. */
char *cp__end(struct cp__ending *ending)
{
    enum { LONGEST_NAP_US = 100000 };
    bool is_asking = ending->ask_s > 0;
    double kill_at = cp__clock_s(), deadline = kill_at + ending->patience_s;
    struct cp__processes all;
    char *left = NULL, *refused = NULL;
    for (useconds_t us = 1000; !left && cp__end_look(ending, &all) > 0; us *= us < LONGEST_NAP_US ? 2 : 1) {
        double now = cp__clock_s();
        if (now > deadline)
            left = cp__end_text(&all);
        else if (is_asking || now >= kill_at) {
            free(refused);
            refused = disarm_chosen(ending, &all);
            is_asking ? ask_to_end(ending) : kill_chosen(&all);
            if (is_asking) {
                kill_at = cp__clock_s() + ending->ask_s;
                deadline = kill_at + ending->patience_s;
            }
            is_asking = false;
        }
        free(all.at);
        usleep(us);
    }
    if (left)
        return add_refused(left, refused);
    free(refused);
    return NULL;
}
