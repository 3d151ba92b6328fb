/* The program's calls that end the process without exit()'s handlers. */
#include <stdlib.h>
#include <unistd.h>

#include "process.h"
#include "real.h"

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
