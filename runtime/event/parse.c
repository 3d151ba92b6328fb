/* From a name to an event: which form the name has. Each form has a file of its own. */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

#include "rows.h"
#include "runtime/base/fail.h"
#include "runtime/base/sized.h"

/* Explains that the name is unknown. tracefs is the result of asking tracefs; 0: tracefs was not asked. */
static int unknown(const char *name, int tracefs, struct cp_error *err)
{
    const char *said = tracefs == -EACCES   ? "and tracefs, which may not be read,"
                       : tracefs == -ENODEV ? "and tracefs, which is not mounted,"
                       : tracefs != 0       ? "and tracefs"
                                            : "and the hardware caches";
    char list[192] = "";
    char pfm[96];
    size_t used = 0;

    for (size_t i = 0; i < CP_CPUPROF_EVENT_COUNT; i++) {
        if (!cp__event_is_many(i))
            used += (size_t)snprintf(list + used, sizeof list - used, "%s, ", cp__event_row(i)->name);
    }
    cp__pfm_describe(pfm, sizeof pfm);
    return cp__error(
        err, -EINVAL,
        "There is no event named \"%.40s%s\": the table, %s %s have no such event. Use one of %sor rHEX for "
        "the processor's own event number; \"counterpoint events\" lists all events.",
        name, strlen(name) > 40 ? "..." : "", pfm, said, list);
}

/* Applies the suffix to an event whose complete name is spec's. */
static int take_suffix(struct cp_event_spec *spec, const char *suffix, struct cp_error *err)
{
    char base[sizeof spec->name];

    snprintf(base, sizeof base, "%s", spec->name);
    return cp__event_take_suffix(spec, base, ":", suffix, err);
}

/* Finds a name that tracefs or libpfm4 knows. If has_event, spec already holds the event of the first part,
 * but the rest of the name is no suffix: the rest is an error unless tracefs or libpfm4 knows the whole
 * name. */
static int parse_foreign(const char *name, const char *suffix, bool has_event, struct cp_event_spec *spec,
                         struct cp_error *err)
{
    struct cp_event_spec other = {.event = CP_CPUPROF_NAMED};
    const char *rest;
    int tracefs = 0;
    int result;

    if (suffix != NULL)
        tracefs = cp__event_find_tracepoint(cp__tracefs, name, &other, &rest, NULL);
    if (suffix != NULL && tracefs == 0) {
        *spec = other;
        return take_suffix(spec, rest, err);
    }
    result = cp__event_parse_pfm(name, &other, has_event ? NULL : err);
    if (result < 0 && spec->kind == CP_EVENT_WAIT && suffix != NULL && strcspn(suffix, "0123456789") > 0)
        return unknown(name, tracefs, err); /* a tracepoint has the name: "lock:contention_begin" */
    if (has_event && (result < 0 || other.encoding.type <= PERF_TYPE_HW_CACHE))
        return take_suffix(spec, suffix, err);
    if (result == 0)
        *spec = other;
    return result == -ENOENT ? unknown(name, tracefs, err) : result;
}

/* Parses a name without a prefix. The text after the first colon is a suffix, or the second half of the
 * name. */
static int parse_word(const char *name, struct cp_event_spec *spec, struct cp_error *err)
{
    char base[sizeof spec->name];
    size_t n = strcspn(name, ":");
    const char *suffix = name[n] == ':' ? name + n + 1 : NULL;
    int result = -ENOENT;

    if (n < sizeof base) {
        snprintf(base, sizeof base, "%.*s", (int)n, name);
        result = cp__event_parse_table(base, spec, err);
    }
    if (result == 0 && (suffix == NULL || cp__event_is_suffix(suffix)))
        return take_suffix(spec, suffix, err);
    if (result == -EINVAL)
        return result;
    return parse_foreign(name, suffix, result == 0, spec, err);
}

/* Returns the rest of a name after a prefix; NULL if the name does not begin with the prefix. */
static const char *after_prefix(const char *name, const char *prefix)
{
    size_t n = strlen(prefix);

    return strncmp(name, prefix, n) == 0 ? name + n : NULL;
}

static int parse_tracepoint(const char *text, struct cp_event_spec *spec, struct cp_error *err)
{
    const char *suffix;
    int result = cp__event_find_tracepoint(cp__tracefs, text, spec, &suffix, err);

    return result < 0 ? result : take_suffix(spec, suffix, err);
}

static int parse_name(const char *name, struct cp_event_spec *spec, struct cp_error *err)
{
    const char *rest;

    if (after_prefix(name, "mem:") != NULL)
        return cp__event_parse_watch(name, spec, err);
    if ((rest = after_prefix(name, "tracepoint:")) != NULL)
        return parse_tracepoint(rest, spec, err);
    if ((rest = after_prefix(name, "pfm:")) != NULL)
        return cp__event_parse_pfm(rest, spec, err);
    if (strchr(name, '/') != NULL)
        return cp__event_parse_pmu(cp__pmus, name, spec, err);
    return parse_word(name, spec, err);
}

int cp_event_parse(const char *name, struct cp_event_spec *spec, struct cp_error *err)
{
    struct cp_event_spec found = {.event = CP_CPUPROF_NAMED};
    int result = cp__struct_check(spec, "struct cp_event_spec", err);

    if (result < 0)
        return result;
    if (name == NULL || name[0] == '\0')
        return cp__error(err, -EINVAL, "The event has no name. \"counterpoint events\" lists all events.");
    result = parse_name(name, &found, err);
    return result < 0 ? result : CP__GIVE(cp_event_spec, spec, &found, err);
}

/* Returns where a name ends: at the next comma after the second slash of a PMU's terms. A watchpoint's
 * address has one slash. */
static char *end_of_name(char *name)
{
    char *end = name + strcspn(name, ",/");

    if (*end == '/' && after_prefix(name, "mem:") == NULL) {
        end++;
        end += strcspn(end, "/");
    }
    return end + strcspn(end, ",");
}

char *cp_event_next(char **list)
{
    char *name = *list;
    char *end;

    if (name == NULL)
        return NULL;
    end = end_of_name(name);
    *list = *end == ',' ? end + 1 : NULL;
    *end = '\0';
    return name;
}
