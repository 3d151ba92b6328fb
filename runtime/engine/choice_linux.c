/*
 * Which engine the samples of an event come by: what the config asks for, then what the environment asks for.
 * If neither asks, traps are taken, unless something speaks against them here; design/0027-traps.md has the
 * reasons.
 */
#include "choice_linux.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/fail.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/sanitizer.h"
#include "runtime/base/signals.h"
#include "runtime/base/sys_linux.h"
#include "runtime/event/rows.h"
#include "runtime/m.h"
#include "runtime/perf/perf_linux.h"
#include "valgrind.h"

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

/* The library's handler is put over none at all, but not over one that may hand on to the library's. */
static const char *handler_obstacle(void)
{
    return cp__signal_was_installed_from_handler(SIGTRAP) && cp__signal_is_of_program(SIGTRAP)
               ? "another SIGTRAP handler was installed over the library's"
               : NULL;
}

/* ThreadSanitizer delivers SIGTRAP at once, also in the middle of its own runtime. */
static const char *sanitizer_obstacle(void)
{
    return cp__has_thread_sanitizer() ? "the program is built with ThreadSanitizer" : NULL;
}

/* Valgrind aborts if SIGTRAP comes while its own code runs. */
static const char *valgrind_obstacle(void)
{
    return cp__runs_under_valgrind() ? "valgrind runs the program" : NULL;
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
    static const char *(*const obstacles[])(void) = {version_obstacle,  kernel_obstacle,  sanitizer_obstacle,
                                                     valgrind_obstacle, handler_obstacle, tracer_obstacle};
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

/* Replaces AUTO by the engine that is to be had. *why says why that is not traps. */
static int find_engine(enum cp_engine *engine, const char **why, struct cp_error *err)
{
    int result = ask_environment(engine, err);

    if (result < 0)
        return result;
    *why = *engine == CP_ENGINE_SIGNAL ? "it was asked for" : find_obstacle();
    return 0;
}

int cp__choose_engine(struct cp_slot_request *request, const char **why, struct cp_error *err)
{
    enum cp_engine *engine = &request->config.engine;
    bool is_demanded;
    int result;

    *why = NULL;
    if (request->event == CP_CPUPROF_OS_TIMER) {
        *engine = CP_ENGINE_SIGNAL;
        return 0;
    }
    result = find_engine(engine, why, err);
    if (result < 0)
        return result;
    is_demanded = *engine == CP_ENGINE_TRAP;
    *engine = *why == NULL ? CP_ENGINE_TRAP : CP_ENGINE_SIGNAL;
    if (*why == NULL || !is_demanded)
        return 0;
    return cp__error_because(err, -EOPNOTSUPP, "no traps",
                             "The event %s cannot be sampled by traps: %s. Take engine=signal, or leave the "
                             "choice to the library.",
                             cp__request_name(request).text, *why);
}

int cp_engine_choose(enum cp_engine *engine, const char **why, struct cp_error *err)
{
    enum cp_engine asked = CP_ENGINE_AUTO;
    int result;

    cp__fork_delay(); /* because an event is tried */
    cp__lock(&cp__runtime_lock);
    result = find_engine(&asked, why, err);
    cp__unlock(&cp__runtime_lock);
    cp__fork_allow();
    if (result == 0)
        *engine = *why == NULL ? CP_ENGINE_TRAP : CP_ENGINE_SIGNAL;
    return result;
}
