/* The program's calls that end the process. What returns from main() comes to no function here, but to the
 * handler of process.c. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "atomic.h"
#include "process.h"
#include "real.h"
#include "runtime/base/os.h"

static uint32_t exiting_tid; /* the thread that has called exit() first; 0: none. Atomic */

/* Another thread may be in exit(), and wait for its profile in the last handler. The C library has no handler
 * left then, and would end the process at once. A handler may call exit(), too. */
void exit(int status)
{
    uint32_t tid = 0;

    /* pairs with itself, in another thread */
    if ((!cp_compare_exchange(&exiting_tid, &tid, (uint32_t)cp__os_tid()) && tid != (uint32_t)cp__os_tid()) ||
        cp__scribe_is_asked_from_handler())
        cp__scribe_finish_from_handler(CP__SCRIBE_WAIT_MS);
    REAL(exit)(status);
    __builtin_unreachable();
}

/* _Exit() is the same function in the C library. */
void _exit(int status)
{
    cp__scribe_finish_from_handler(CP__SCRIBE_WAIT_MS);
    REAL(_exit)(status);
    __builtin_unreachable();
}

void _Exit(int status)
{
    _exit(status);
}

void quick_exit(int status)
{
    cp__scribe_finish_from_handler(CP__SCRIBE_WAIT_MS);
    REAL(quick_exit)(status);
    __builtin_unreachable();
}

/* ---- daemon() -------------------------------------------------------------------------------- */

/* Returns whether the descriptor is that of /dev/null, and sets errno if it is not. */
static bool is_null_device(int fd)
{
    struct stat found;

    if (fd < 0 || fstat(fd, &found) < 0)
        return false;
    errno = ENODEV;
    return S_ISCHR(found.st_mode) && found.st_rdev == makedev(1, 3);
}

static int use_null_device(void)
{
    const int fd = open("/dev/null", O_RDWR);

    if (!is_null_device(fd)) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    for (int i = 0; i <= STDERR_FILENO; i++)
        dup2(fd, i);
    if (fd > STDERR_FILENO)
        close(fd);
    return 0;
}

/* Does what the C library's function does, whose _exit() is not the one above. */
int daemon(int keeps_directory, int keeps_files)
{
    const pid_t pid = fork();

    if (pid > 0)
        _exit(0);
    if (pid < 0 || setsid() < 0)
        return -1;
    if (keeps_directory == 0)
        (void)!chdir("/"); /* the C library does not mind either if that fails */
    return keeps_files == 0 ? use_null_device() : 0;
}
