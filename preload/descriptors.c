/* The program's calls that close descriptors that it does not know. They leave out those of the profile. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "process.h"
#include "real.h"
#include "runtime/base/sys_linux.h"

static bool is_of_profile(unsigned fd)
{
    return (fd <= CP__SYS_LIFTED_MAX && cp__sys_is_lifted((int)fd)) || cp__files_have((int)fd);
}

/* Finds the first descriptor of the profile in [first, last]; returns last + 1 if there is none, which is 0
 * past the highest number. */
static unsigned next_of_profile(unsigned first, unsigned last)
{
    const unsigned most = last < CP__SYS_LIFTED_MAX ? last : CP__SYS_LIFTED_MAX;

    for (; first <= most; first++) {
        if (is_of_profile(first))
            return first;
    }
    return last + 1;
}

int close_range(unsigned first, unsigned last, int flags)
{
    int result = 0;

    if (!cp__process_is_profiled_from_handler() || first > last || (flags & (int)CLOSE_RANGE_CLOEXEC) != 0)
        return REAL(close_range)(first, last, flags);
    for (unsigned own; result == 0; first = own + 1) {
        own = next_of_profile(first, last);
        if (own != first)
            result = REAL(close_range)(first, own - 1, flags);
        if (own == last + 1 || own == last)
            break;
    }
    return result;
}

/* Linux before 5.9, and some containers, have no close_range(). */
static void close_each(int first)
{
    DIR *all = opendir("/proc/self/fd");
    const struct dirent *entry;

    while (all != NULL && (entry = readdir(all)) != NULL) {
        const int fd = entry->d_name[0] == '.' ? -1 : atoi(entry->d_name);

        if (fd >= first && fd != dirfd(all) && !is_of_profile((unsigned)fd))
            close(fd);
    }
    if (all != NULL)
        closedir(all);
}

void closefrom(int first)
{
    int saved_errno = errno;

    if (first < 0)
        first = 0;
    if (close_range((unsigned)first, UINT_MAX, 0) < 0)
        close_each(first);
    errno = saved_errno;
}
