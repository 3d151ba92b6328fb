/* Tracepoints: places in the kernel's code, to which tracefs gives numbers. */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rows.h"
#include "runtime/base/fail.h"

const char *const cp__tracefs[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing", NULL};

/* the size of a system's or a tracepoint's name, with the zero; the longest name in Linux 6.18 has 40
 * characters */
#define NAME_MAX_ 64

/* ---- tracefs --------------------------------------------------------------------------------- */

/* Reads the number of a tracepoint from the tracefs at root. Returns -ENOENT if there is no such tracepoint,
 * -ENODEV if there is no tracefs at root, -EACCES if this user may not read the file. */
static int read_id(const char *root, const char *system, const char *name, uint64_t *id)
{
    char path[256];
    unsigned long value;
    int result = 0;
    FILE *file;

    snprintf(path, sizeof path, "%s/events/%s/%s/id", root, system, name);
    file = fopen(path, "re");
    if (file == NULL && errno == ENOENT) {
        snprintf(path, sizeof path, "%s/events", root);
        return access(path, X_OK) == 0 || errno == EACCES ? -ENOENT : -ENODEV;
    }
    if (file == NULL)
        return errno == EACCES || errno == EPERM ? -EACCES : -ENOENT;
    if (fscanf(file, "%lu", &value) != 1)
        result = -ENOENT;
    fclose(file);
    *id = value;
    return result;
}

/* Reads the number from the first tracefs that has the tracepoint. On failure, returns the error of a tracefs
 * that can be read, or else of the first place. */
static int find_id(const char *const *tracefs, const char *system, const char *name, uint64_t *id)
{
    int first = read_id(tracefs[0], system, name, id);

    for (size_t i = 1; tracefs[i] != NULL && first != 0; i++) {
        int result = read_id(tracefs[i], system, name, id);

        if (result == 0 || (result == -ENOENT && first != -ENOENT))
            first = result;
    }
    return first;
}

/* Explains why the number of a tracepoint could not be read. */
static int explain_tracepoint(int code, const char *root, const char *system, const char *name,
                              struct cp_error *err)
{
    if (code == -ENODEV)
        return cp__error(err, code,
                         "The tracepoint %s:%s cannot be looked up: tracefs is not mounted at %s. As root, "
                         "\"mount -t tracefs nodev %s\" mounts it.",
                         system, name, root, root);
    if (code == -EACCES)
        return cp__error(
            err, code,
            "The tracepoint %s:%s cannot be looked up: this user may not read %s. As root, \"mount "
            "-o remount,mode=755 %s\" opens it to all.",
            system, name, root, root);
    return cp__error(err, code,
                     "This kernel has no tracepoint %s:%s. \"counterpoint events\" and the directory "
                     "%s/events list all tracepoints.",
                     system, name, root);
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* Reads a name that can be a directory's, and moves *text past it. */
static bool take_tracepoint_name(const char **text, char *name)
{
    size_t n = strspn(*text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");

    if (n == 0 || n >= NAME_MAX_ || **text == '.')
        return false;
    snprintf(name, NAME_MAX_, "%.*s", (int)n, *text);
    *text += n;
    return true;
}

int cp__event_find_tracepoint(const char *const *tracefs, const char *text, struct cp_event_spec *spec,
                              const char **suffix, struct cp_error *err)
{
    struct cp_event_encoding encoding = {.type = PERF_TYPE_TRACEPOINT};
    char system[NAME_MAX_], name[NAME_MAX_];
    const char *rest = text;
    int result;

    if (!take_tracepoint_name(&rest, system) || *rest++ != ':' || !take_tracepoint_name(&rest, name) ||
        (*rest != '\0' && *rest != ':'))
        return cp__error(
            err, -EINVAL,
            "The tracepoint \"%.60s\" cannot be read. Write tracepoint:SYSTEM:NAME[:SUFFIX], such as "
            "tracepoint:sched:sched_switch.",
            text);
    result = find_id(tracefs, system, name, &encoding.config);
    if (result < 0)
        return explain_tracepoint(result, tracefs[0], system, name, err);
    cp__event_take_named(spec, &encoding);
    if (!cp__event_print(spec->name, "tracepoint:%s:%s", system, name))
        return cp__error(err, -ENAMETOOLONG, "The tracepoint's name %s:%s is too long.", system, name);
    *suffix = *rest == ':' ? rest + 1 : NULL;
    return 0;
}
