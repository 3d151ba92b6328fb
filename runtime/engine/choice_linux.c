/*
 * Which engine the samples of an event come by: what the config asks for, then what the environment asks for,
 * then the default. Traps are taken only if nothing speaks against them here; design/0027-traps.md has the
 * reasons.
 */
#include "choice_linux.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/fail.h"
#include "runtime/base/signals.h"
#include "runtime/base/sys_linux.h"
#include "runtime/event/rows.h"
#include "runtime/perf/perf_linux.h"

/* ---- What speaks against traps --------------------------------------------------------------- */

/* Each returns a phrase that is never freed, or NULL if it finds nothing. */

static const char *version_obstacle(void)
{
    return cp__perf_find_fault(CP__FAULT_TRAPS);
}

/* A debugger stops the program at each trap. */
static const char *tracer_obstacle(void)
{
    static const char key[] = "\nTracerPid:\t";
    char text[1024];
    const char *found;
    int fd = cp__sys_open_from_handler("/proc/self/status");
    long n;

    if (fd < 0)
        return NULL;
    n = cp__sys_read_from_handler(fd, text, sizeof text - 1);
    cp__sys_close_from_handler(fd);
    text[n < 0 ? 0 : n] = '\0';
    found = strstr(text, key);
    return found == NULL || found[sizeof key - 1] == '0' ? NULL : "a debugger traces the process";
}

static const char *handler_obstacle(void)
{
    return cp__signal_was_installed_from_handler(SIGTRAP) && !cp__signal_is_ours(SIGTRAP)
               ? "another SIGTRAP handler was installed over the library's"
               : NULL;
}

/* Asks for an event that counts nothing. Other errors than these two have nothing to do with traps. */
static const char *kernel_obstacle(void)
{
    const struct perf_event_attr attr = {.size = sizeof attr,
                                         .type = PERF_TYPE_SOFTWARE,
                                         .config = PERF_COUNT_SW_DUMMY,
                                         .disabled = 1,
                                         .exclude_kernel = 1,
                                         .exclude_hv = 1,
                                         .sigtrap = 1,
                                         .remove_on_exec = 1};
    int fd = cp__perf_open_from_handler(&attr, 0);

    if (fd >= 0)
        cp__sys_close_from_handler(fd);
    return fd == -EINVAL || fd == -E2BIG ? "the kernel has no events that trap" : NULL;
}

static const char *find_obstacle(void)
{
    static const char *(*const obstacles[])(void) = {version_obstacle, kernel_obstacle, handler_obstacle,
                                                     tracer_obstacle};
    const char *found = NULL;

    for (size_t i = 0; i < sizeof obstacles / sizeof obstacles[0] && found == NULL; i++)
        found = obstacles[i]();
    return found;
}

/* ---- The choice ------------------------------------------------------------------------------ */

/* Replaces AUTO by what the environment asks for, if it does. */
static int ask_environment(enum cp_engine *engine, struct cp_error *err)
{
    const char *value = *engine == CP_ENGINE_AUTO ? getenv("CP_ENGINE") : NULL;
    struct cp_error why;

    if (value == NULL || value[0] == '\0' || cp_engine_parse(value, engine, &why) == 0)
        return 0;
    return cp__error(err, -EINVAL, "The environment variable CP_ENGINE is wrong. %s", why.message);
}

int cp__choose_engine(struct cp_slot_request *request, const char **why, struct cp_error *err)
{
    enum cp_engine *engine = &request->config.engine;
    const char *obstacle;
    int result;

    *why = NULL;
    if (request->event == CP_CPUPROF_OS_TIMER) {
        *engine = CP_ENGINE_SIGNAL;
        return 0;
    }
    result = ask_environment(engine, err);
    if (result < 0)
        return result;
    if (*engine == CP_ENGINE_AUTO)
        *why = "it is the default";
    else if (*engine == CP_ENGINE_SIGNAL)
        *why = "it was asked for";
    if (*engine != CP_ENGINE_TRAP) {
        *engine = CP_ENGINE_SIGNAL;
        return 0;
    }
    obstacle = find_obstacle();
    if (obstacle == NULL)
        return 0;
    return cp__error_because(err, -EOPNOTSUPP, "no traps",
                             "The event %s cannot be sampled by traps: %s. Take engine=signal, or leave the "
                             "choice to the library.",
                             cp__request_name(request).text, obstacle);
}
