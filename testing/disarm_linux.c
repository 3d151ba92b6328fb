/* See disarm.h. */
#include "disarm.h"

#include "runtime/base/clock.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Returns whether the entry of a directory "fd" is a perf event. */
static bool is_event(DIR *directory, const char *fd)
{
    static const char event[] = "anon_inode:[perf_event]";
    char target[sizeof(event)] = "";
    return readlinkat(dirfd(directory), fd, target, sizeof(target)) == sizeof(event) - 1 &&
           memcmp(target, event, sizeof(event) - 1) == 0;
}

/* Disables an event of the thread. Returns 0 or an errno value. */
static int disable_event(int pidfd, int its_fd)
{
    int fd = pidfd_getfd(pidfd, its_fd, 0);
    int error = fd < 0 || ioctl(fd, PERF_EVENT_IOC_DISABLE, 0) < 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    return error == EBADF ? 0 : error; /* closed meanwhile */
}

/* Disables the events in a directory "fd". Returns whether there were any descriptors. Stores the errno value
 * of the last failure in *error. */
static bool disable_all(DIR *directory, int pidfd, int *error)
{
    bool any = false;
    for (const struct dirent *entry; (entry = readdir(directory));) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        any = true;
        int failure = is_event(directory, entry->d_name) ? disable_event(pidfd, atoi(entry->d_name)) : 0;
        if (failure != 0)
            *error = failure;
    }
    return any;
}

/* Disables the events among the descriptors of one thread, which the threads of a process share as a rule.
 * Returns false if the thread has no descriptors any more, because it has ended. Stores an errno value in
 * *error if this user may not reach the descriptors. */
static bool disarm_thread(pid_t pid, pid_t tid, int *error)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task/%d/fd", (int)pid, (int)tid);
    DIR *directory = opendir(path);
    if (!directory) {
        *error = errno;
        return false;
    }
    /* O_EXCL is PIDFD_THREAD: a thread may be reached that way whose process's first thread has ended. */
    int pidfd = pidfd_open(tid, tid == pid ? 0 : O_EXCL);
    if (pidfd < 0)
        *error = errno;
    bool is_reached = disable_all(directory, pidfd, error);
    closedir(directory);
    if (pidfd >= 0)
        close(pidfd);
    return is_reached;
}

static bool is_dead(const struct cp__process *thread)
{
    return thread->state == 'Z' || thread->state == 'X';
}

/* Returns 0, or the errno value that says why events of the process may still be enabled. Those of a
 * thread that has ended are gone, also if this user may not look. */
static int disarm_process(pid_t pid)
{
    char path[40];
    int error = 0;
    bool is_reached = disarm_thread(pid, pid, &error);
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    struct cp__processes threads = is_reached ? (struct cp__processes){0} : cp__processes_read(path);
    for (size_t i = 0; i < threads.n; i++)
        if (threads.at[i].pid == pid && is_dead(&threads.at[i]))
            error = 0;
    for (size_t i = 0; i < threads.n && !is_reached; i++)
        if (threads.at[i].pid != pid && !is_dead(&threads.at[i])) {
            error = 0;
            is_reached = disarm_thread(pid, threads.at[i].pid, &error);
        }
    free(threads.at);
    return error == ENOENT || error == ESRCH ? 0 : error; /* it has ended meanwhile */
}

/* Returns why the events of a process could not be taken. The caller frees the text. */
static char *reason_of(int error)
{
    char *text;
    int n =
        error == EINVAL
            ? asprintf(&text,
                       "its first thread has ended, and before 6.9 Linux has no descriptors of threads")
            : asprintf(&text, "this user may not reach its descriptors (pidfd_getfd: %s)", strerror(error));
    if (n < 0)
        abort();
    return text;
}

static void disarm_processes(const struct cp__processes *all, FILE *stream)
{
    for (size_t i = 0; i < all->n; i++) {
        const struct cp__process *process = &all->at[i];
        int error = process->is_chosen ? disarm_process(process->pid) : 0;
        if (error == 0)
            continue;
        char *reason = reason_of(error);
        fprintf(stream, "The perf events of process %d (%s) could not be taken: %s.\n", (int)process->pid,
                process->name, reason);
        free(reason);
    }
}

/* Reads what the child writes until the child has closed its end. Returns false if that takes too long. */
static bool read_to_end(int fd, double seconds, FILE *stream)
{
    double deadline = cp__clock_s() + seconds;
    char part[1000];
    ssize_t n = 1;
    for (double s; n > 0 && (s = deadline - cp__clock_s()) > 0;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (poll(&ready, 1, (int)(s * 1000) + 1) != 1)
            continue;
        n = read(fd, part, sizeof(part));
        fwrite(part, 1, n > 0 ? (size_t)n : 0, stream);
    }
    return n <= 0;
}

/* Writes the child's lines to the stream. Returns false if the child does not come to its end. */
static bool follow_child(pid_t child, int fd, double seconds, FILE *stream)
{
    bool has_ended = read_to_end(fd, seconds, stream);
    if (!has_ended) {
        fprintf(
            stream,
            "Perf events could not be taken within %g s: a thread holds what the kernel needs for that.\n",
            seconds);
        kill(child, SIGKILL);
    }
    waitpid(child, NULL, has_ended ? 0 : WNOHANG);
    return has_ended;
}

/* A child of its own makes the calls, because they wait for as long as a starving thread holds a lock that
 * they need, such as that of its events' context, or that of an execve(). */
static void disarm_in_child(const struct cp__processes *all, double seconds, FILE *stream, bool *is_late)
{
    int ends[2] = {-1, -1};
    pid_t child = pipe2(ends, O_CLOEXEC) < 0 ? -1 : fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        FILE *out = fdopen(ends[1], "w");
        if (out) {
            disarm_processes(all, out);
            fclose(out);
        }
        _exit(0);
    }
    if (child < 0)
        fprintf(stream, "Perf events could not be taken: %s.\n", strerror(errno));
    close(ends[1]);
    *is_late = child > 0 && !follow_child(child, ends[0], seconds, stream);
    close(ends[0]);
}

char *cp__disarm(const struct cp__processes *all, double seconds, bool *is_late)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        abort();
    disarm_in_child(all, seconds, stream, is_late);
    fclose(stream);
    if (size == 0) {
        free(text);
        text = NULL;
    }
    return text;
}
