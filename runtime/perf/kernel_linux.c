/* What some versions of the kernel do wrong. */
#include <stddef.h>
#include <stdio.h>
#include <sys/utsname.h>

#include "perf_linux.h"

#define VERSION(major, minor) ((major)*1000u + (minor))

/*
 * CP__FAULT_TRAPS: before 6.1, traps went missing. From 6.11 on, closing an event waited for its pending
 * trap, and for ever if the thread that closes was the one to take the trap, as at the end of a process;
 * mended in 6.15.
 *
 * CP__FAULT_LIMITS: a clock that reaches its limit inside its own timer interrupt waits there for that
 * very interrupt to end (async-profiler's issue 1578 and pull request 1599); mended in 6.18.
 *
 * Stable branches may have the mends, but that cannot be tried: a child in which the trial fails cannot
 * be killed, and the second fault takes the machine.
 */
static const struct {
    enum cp__perf_fault fault;
    unsigned from, before;
    const char *why;
} faults[] = {
    {CP__FAULT_TRAPS, VERSION(0, 0), VERSION(6, 1), "Linux before 6.1 loses traps"},
    {CP__FAULT_TRAPS, VERSION(6, 11), VERSION(6, 15),
     "Linux 6.11 to 6.14 may hang when an event with a pending trap is closed"},
    {CP__FAULT_LIMITS, VERSION(6, 16), VERSION(6, 18),
     "Linux 6.16 and 6.17 hang when a clock reaches its limit"},
};

const char *cp__perf_find_fault(enum cp__perf_fault fault)
{
    struct utsname name;
    unsigned major, minor;

    if (uname(&name) < 0 || sscanf(name.release, "%u.%u", &major, &minor) != 2)
        return "the kernel does not tell its version";
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        if (faults[i].fault == fault && VERSION(major, minor) >= faults[i].from &&
            VERSION(major, minor) < faults[i].before)
            return faults[i].why;
    }
    return NULL;
}
