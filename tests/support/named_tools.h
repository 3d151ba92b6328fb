/* What tests of watchpoints and tracepoints share: accesses to a word, and what go tool pprof counts. */
#ifndef COUNTERPOINT_TESTS_NAMED_TOOLS_H
#define COUNTERPOINT_TESTS_NAMED_TOOLS_H

#include <errno.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include "session_tools.h"

/* Takes the samples with a function in their stacks, and the total, from pprof's line "N of M total". */
static inline void count(const char *path, const char *function, double *found, double *total)
{
    char arguments[128];
    char *top;
    const char *shown;

    snprintf(arguments, sizeof arguments, "-top -nodefraction=0 -focus='^%s$'", function);
    top = pprof(arguments, path);
    shown = strstr(top, "Showing nodes accounting for ");
    *found = *total = 0;
    if (shown != NULL) {
        *found = strtod(shown + strlen("Showing nodes accounting for "), NULL);
        shown = strstr(shown, " of ");
        CHECKF(shown != NULL, "%s", top);
        *total = strtod(shown + strlen(" of "), NULL);
    }
    free(top);
}

/* Checks that a profile's type has the event's name. */
static inline void check_type(const char *path, const char *event)
{
    char *top = pprof("-top", path);

    CHECK_CONTAINS(top, event);
    free(top);
}

static inline void stop(void)
{
    struct cp_error err;

    CHECKF(cp_stop_cpu_profile(&err) == 0, "%s", err.message);
}

/* Mounts tracefs if it is not mounted, in a mount namespace of this process. */
static inline void need_tracefs(void)
{
    if (access("/sys/kernel/tracing/events", X_OK) == 0)
        return;
    if (geteuid() != 0)
        SKIP("tracefs cannot be read here, and needs root to be mounted");
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        SKIP("no mount namespace of its own: %s", strerror(errno));
    if (mount("nodev", "/sys/kernel/tracing", "tracefs", 0, NULL) < 0)
        SKIP("tracefs cannot be mounted here: %s", strerror(errno));
}

#endif
