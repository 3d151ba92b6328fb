/*
 * The program's calls that execute another program. The profile of this one is written first, and the new
 * program's events are its own: a trap that was pending would end it. The C library's calls among themselves
 * do not come here, so each of the nine has a function.
 */
#include <alloca.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "atomic.h"
#include "process.h"
#include "real.h"
#include "runtime.h"

extern char **environ;

/* ---- Before and after ------------------------------------------------------------------------ */

/* How many threads are about to execute a program. Atomic. The last one that fails begins the next session:
 * the kernel gives a process no thread while another thread is in execve(). */
static uint32_t leaving;

void cp__exec_forget(void)
{
    cp_store_relaxed(&leaving, 0u); /* relaxed: this is the only thread */
}

/* Ends the profile, if the program can be executed as far as can be seen. Returns whether that was tried.
 * If another thread has ended the profile, and begins the next one, no trap of that may reach the program. */
static bool leave_to_exec(bool can)
{
    if (!can || !cp__process_has_handlers_from_handler())
        return false;
    cp_fetch_add_acq_rel(&leaving, 1); /* pairs with the subtraction in come_back() */
    cp_before_exec();
    cp__scribe_finish_for_exec_from_handler(CP__SCRIBE_WAIT_MS);
    return true;
}

/* The program goes on, because nothing was executed. */
static int come_back(bool has_left)
{
    int saved_errno = errno;

    if (has_left) {
        cp_after_exec();
        /* pairs with itself, in the threads that have failed before */
        if (cp_fetch_sub_acq_rel(&leaving, 1) == 1 && cp__scribe_lets_begin())
            cp__process_begin();
    }
    errno = saved_errno;
    return -1;
}

static bool can_execute_at(int directory, const char *path, int flags)
{
    int saved_errno = errno;
    bool can = faccessat(directory, path, X_OK, AT_EACCESS | (flags & AT_SYMLINK_NOFOLLOW)) == 0;

    errno = saved_errno;
    return can;
}

/* Looks along PATH, as execvp() does. */
static bool can_execute_file(const char *file)
{
    const char *path = getenv("PATH");
    char candidate[PATH_MAX];

    if (strchr(file, '/') != NULL)
        return can_execute_at(AT_FDCWD, file, 0);
    if (path == NULL)
        path = "/bin:/usr/bin";
    for (const char *end; path != NULL; path = *end == ':' ? end + 1 : NULL) {
        size_t size;

        end = path + strcspn(path, ":");
        size = (size_t)(end - path);
        if (size + strlen(file) + 2 > sizeof candidate)
            continue;
        memcpy(candidate, path, size);
        candidate[size] = '/';
        strcpy(candidate + size + (size > 0), file);
        if (can_execute_at(AT_FDCWD, candidate, 0))
            return true;
    }
    return false;
}

/* ---- The calls with a list in memory --------------------------------------------------------- */

int execve(const char *path, char *const argv[], char *const envp[])
{
    bool has_left = leave_to_exec(can_execute_at(AT_FDCWD, path, 0));

    REAL(execve)(path, argv, envp);
    return come_back(has_left);
}

int execv(const char *path, char *const argv[])
{
    return execve(path, argv, environ);
}

int execvpe(const char *file, char *const argv[], char *const envp[])
{
    bool has_left = leave_to_exec(can_execute_file(file));

    REAL(execvpe)(file, argv, envp);
    return come_back(has_left);
}

int execvp(const char *file, char *const argv[])
{
    return execvpe(file, argv, environ);
}

int execveat(int directory, const char *path, char *const argv[], char *const envp[], int flags)
{
    bool has_left = leave_to_exec((flags & AT_EMPTY_PATH) != 0 || can_execute_at(directory, path, flags));

    REAL(execveat)(directory, path, argv, envp, flags);
    return come_back(has_left);
}

int fexecve(int fd, char *const argv[], char *const envp[])
{
    bool has_left = leave_to_exec(fcntl(fd, F_GETFD) >= 0);

    REAL(fexecve)(fd, argv, envp);
    return come_back(has_left);
}

/* ---- The calls with a list of arguments ------------------------------------------------------ */

static size_t count_arguments(va_list list)
{
    size_t n = 1;

    while (va_arg(list, char *) != NULL)
        n++;
    return n;
}

/* The list is on the stack, because a child of vfork() may call this, and must not change its parent's heap.
 */
#define LIST(argv, first, list)                                                                              \
    size_t n_;                                                                                               \
    va_start(list, first);                                                                                   \
    n_ = count_arguments(list);                                                                              \
    va_end(list);                                                                                            \
    argv = alloca((n_ + 1) * sizeof *argv);                                                                  \
    argv[0] = (char *)(uintptr_t)(first);                                                                    \
    va_start(list, first);                                                                                   \
    for (size_t i_ = 1; i_ <= n_; i_++)                                                                      \
    argv[i_] = va_arg(list, char *)

int execl(const char *path, const char *first, ...)
{
    char **argv;
    va_list list;

    LIST(argv, first, list);
    va_end(list);
    return execve(path, argv, environ);
}

int execlp(const char *file, const char *first, ...)
{
    char **argv;
    va_list list;

    LIST(argv, first, list);
    va_end(list);
    return execvpe(file, argv, environ);
}

int execle(const char *path, const char *first, ...)
{
    char **argv, **envp;
    va_list list;

    LIST(argv, first, list);
    envp = va_arg(list, char **);
    va_end(list);
    return execve(path, argv, envp);
}
