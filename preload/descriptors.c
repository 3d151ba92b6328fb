/* The program's calls that close descriptors that it does not know. They leave out those of the profile. */
#include <errno.h>
#include <limits.h>
#include <sys/resource.h>
#include <unistd.h>

#include "process.h"
#include "real.h"
#include "runtime/base/sys_linux.h"

static bool is_of_profile(unsigned fd)
{
    return cp__sys_is_lifted((int)fd) || cp__files_have((int)fd);
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

void closefrom(int first)
{
    int saved_errno = errno;

    close_range(first < 0 ? 0 : (unsigned)first, UINT_MAX, 0);
    errno = saved_errno;
}
