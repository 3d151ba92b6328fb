/*
 * What speaks against traps here, and what the environment says of them. design/0027-traps.md has the
 * reasons.
 */
#include "traps_linux.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "perf_linux.h"
#include "runtime/base/fail.h"
#include "runtime/base/sanitizer.h"
#include "runtime/base/signals.h"
#include "runtime/base/sys_linux.h"
#include "valgrind.h"

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
    struct perf_event_attr attr = cp__perf_dummy_attr_from_handler();
    int result;

    attr.sigtrap = 1;
    attr.remove_on_exec = 1;
    result = cp__perf_try_open(&attr);
    return result == -EINVAL || result == -E2BIG ? "the kernel has no events that trap" : NULL;
}

const char *cp__traps_find_obstacle(void)
{
    static const char *(*const obstacles[])(void) = {version_obstacle,  kernel_obstacle,  sanitizer_obstacle,
                                                     valgrind_obstacle, handler_obstacle, tracer_obstacle};
    const char *found = NULL;

    for (size_t i = 0; i < sizeof obstacles / sizeof obstacles[0] && found == NULL; i++)
        found = obstacles[i]();
    return found;
}

int cp__traps_ask_environment(enum cp_engine *engine, struct cp_error *err)
{
    const char *value = *engine == CP_ENGINE_AUTO ? getenv("CP_ENGINE") : NULL;
    struct cp_error why;

    if (value == NULL || value[0] == '\0' || cp_engine_parse(value, engine, &why) == 0)
        return 0;
    return cp__error(err, -EINVAL, "The environment variable CP_ENGINE is wrong. %s", why.message);
}

bool cp__traps_are_default(void)
{
    enum cp_engine engine = CP_ENGINE_AUTO;

    return cp__traps_ask_environment(&engine, NULL) == 0 && engine != CP_ENGINE_SIGNAL &&
           (cp__signal_is_ours(SIGTRAP) || cp__traps_find_obstacle() == NULL);
}
