/* The names of statuses and clocks. */
#include "block.h"

const char *cp_block_status_name(enum cp_block_status status)
{
    static const char *const names[CP_BLOCK_STATUSES] = {
        [CP_BLOCK_MEASURED] = "measured",
        [CP_BLOCK_NOT_REPRODUCIBLE] = "not reproducible",
        [CP_BLOCK_EMPTY] = "no instruction",
        [CP_BLOCK_TOO_LONG] = "too long",
        [CP_BLOCK_UNDECODED] = "no code",
        [CP_BLOCK_BRANCH] = "branch inside",
        [CP_BLOCK_REFUSED] = "refused",
        [CP_BLOCK_BAD_ADDRESS] = "bad address",
        [CP_BLOCK_OWN_MEMORY] = "harness touched",
        [CP_BLOCK_MANY_PAGES] = "too many pages",
        [CP_BLOCK_ILLEGAL] = "illegal instruction",
        [CP_BLOCK_ARITHMETIC] = "division error",
        [CP_BLOCK_PROTECTION] = "protection fault",
        [CP_BLOCK_ENDLESS] = "endless",
        [CP_BLOCK_ENDED] = "ended",
    };

    return (unsigned)status < CP_BLOCK_STATUSES ? names[status] : "unknown";
}

const char *cp_block_clock_name(enum cp_block_clock clock)
{
    static const char *const names[] = {[CP_BLOCK_CLOCK_TSC] = "tsc", [CP_BLOCK_CLOCK_RDPRU] = "rdpru"};

    return (unsigned)clock < sizeof names / sizeof names[0] ? names[clock] : "unknown";
}
