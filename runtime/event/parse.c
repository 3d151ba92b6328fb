/* From a name to an event: which form the name has, the forms that are found in a table, and the suffix. */
#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"
#include "runtime/base/fail.h"
#include "runtime/base/sized.h"

bool cp__event_print(char *name, const char *format, ...)
{
    const size_t size = sizeof((struct cp_event_spec *)NULL)->name;
    va_list arguments;
    int n;

    va_start(arguments, format);
    n = vsnprintf(name, size, format, arguments);
    va_end(arguments);
    return n >= 0 && (size_t)n < size;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

void cp__event_take_named(struct cp_event_spec *spec, const struct cp_event_encoding *encoding)
{
    const struct cp__event *row = cp__event(CP_CPUPROF_NAMED, encoding);

    spec->event = CP_CPUPROF_NAMED;
    spec->kind = row->kind;
    spec->encoding = *encoding;
    spec->preset_period = row->preset_period;
}

void cp__event_take_row(struct cp_event_spec *spec, size_t i)
{
    const struct cp__event *row = cp__event_row(i);

    if (i > CP_CPUPROF_NAMED) {
        cp__event_take_named(spec,
                             &(struct cp_event_encoding){.type = row->perf_type, .config = row->perf_config});
    } else {
        spec->event = (enum cp_cpu_event)i;
        spec->kind = row->kind;
        spec->preset_period = row->preset_period;
    }
    snprintf(spec->name, sizeof spec->name, "%s", row->name);
}

/* Returns whether a row stands for many events. */
static bool is_many(size_t i)
{
    return i == CP_CPUPROF_HW_RAW || i == CP_CPUPROF_NAMED;
}

bool cp__event_take_encoding(struct cp_event_spec *spec, uint32_t type, uint64_t config)
{
    const struct cp__event *row;

    for (size_t i = CP_CPUPROF_HW_CPU_CYCLES; (row = cp__event_row(i)) != NULL; i++) {
        if (!is_many(i) && row->perf_type == type && row->perf_config == config) {
            cp__event_take_row(spec, i);
            return true;
        }
    }
    return type == PERF_TYPE_HW_CACHE && cp__event_take_cache(spec, config);
}

/* Finds a name among the rows. */
static bool parse_row(const char *name, struct cp_event_spec *spec)
{
    const struct cp__event *row;

    for (size_t i = 0; (row = cp__event_row(i)) != NULL; i++) {
        if (!is_many(i) && cp__event_is_called(row, name)) {
            cp__event_take_row(spec, i);
            return true;
        }
    }
    return false;
}

/* Reads "r" and 1 to 16 hexadecimal digits. */
static bool parse_raw(const char *name, struct cp_event_spec *spec)
{
    size_t digits = name[0] == 'r' ? strspn(name + 1, "0123456789abcdefABCDEF") : 0;

    if (digits == 0 || digits > 16 || name[1 + digits] != '\0')
        return false;
    cp__event_take_row(spec, CP_CPUPROF_HW_RAW);
    spec->raw_event = strtoull(name + 1, NULL, 16);
    snprintf(spec->name, sizeof spec->name, "r%" PRIx64, spec->raw_event);
    return true;
}

/* ---- Suffixes -------------------------------------------------------------------------------- */

/* perf's modifiers that say which modes count, in the order in which names have them. */
static const struct {
    char letter;
    unsigned mode;
} modes[] = {{'u', CP_EVENT_USER}, {'k', CP_EVENT_KERNEL}, {'h', CP_EVENT_HV}};

/* perf's other modifiers, which this library does not support. */
static const struct {
    char letter;
    const char *meaning;
} others[] = {
    {'G', "counting in guests only"},
    {'H', "counting outside of guests only"},
    {'I', "leaving the idle task out, as is always done"},
    {'S', "reading a group of events at each sample"},
    {'D', "keeping the event on its counter"},
    {'P', "the highest precision there is: use :ppp"},
    {'W', "taking a group of events apart"},
    {'e', "having the PMU for this event alone"},
    {'b', "counting by BPF"},
};

#define SIZE(array) (sizeof(array) / sizeof(array)[0])

bool cp__event_is_suffix(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "ukhpGHISDPWeb")] == '\0';
}

/* Explains why a letter of the suffix is wrong; '\0' is an empty suffix. */
static int refuse_letter(char letter, const char *base, struct cp_error *err)
{
    if (letter == '\0')
        return cp__error(err, -EINVAL,
                         "The event \"%.60s:\" ends in a colon. Remove the colon, or write after the colon "
                         "which modes count, as in \"%.60s:u\".",
                         base, base);
    for (size_t i = 0; i < SIZE(others); i++) {
        if (letter == others[i].letter)
            return cp__error(
                err, -EINVAL,
                "perf's modifier \"%c\" of \"%s\" (%s) has no meaning here. Use u, k and h for the "
                "modes that count, and p, pp or ppp for precision.",
                letter, base, others[i].meaning);
    }
    return cp__error(
        err, -EINVAL,
        "The event \"%.60s\" cannot have a suffix with \"%c\" in it. Use u, k and h for the modes "
        "that count, and p, pp or ppp for precision, as in \"%.60s:u\".",
        base, letter, base);
}

/* Applies one letter. Returns false if the letter is unknown or was used before. */
static bool take_letter(char letter, struct cp_event_spec *spec)
{
    if (letter == 'p' && spec->precise_ip < CP_CPUPROF_IP_NO_SKID) {
        spec->precise_ip++;
        return true;
    }
    for (size_t i = 0; i < SIZE(modes); i++) {
        if (letter == modes[i].letter && (spec->modes & modes[i].mode) == 0) {
            spec->modes |= modes[i].mode;
            return true;
        }
    }
    return false;
}

/* Returns whether the suffix leaves out the only mode in which the event happens. */
static bool counts_nothing(const struct cp_event_spec *spec)
{
    return spec->modes != 0 && (spec->modes & CP_EVENT_KERNEL) == 0 &&
           cp__event(spec->event, &spec->encoding)->kernel_mode == CP__KERNEL_REQUIRED;
}

/* Completes the name: base, mark, and the modifiers in their order. */
static int name_spec(struct cp_event_spec *spec, const char *base, const char *mark, struct cp_error *err)
{
    char letters[8] = "";
    size_t n = 0;

    for (size_t i = 0; i < SIZE(modes); i++) {
        if ((spec->modes & modes[i].mode) != 0)
            letters[n++] = modes[i].letter;
    }
    for (int level = 0; level < (int)spec->precise_ip; level++)
        letters[n++] = 'p';
    if (cp__event_print(spec->name, "%s%s%s", base, n > 0 ? mark : "", letters))
        return 0;
    return cp__error(err, -ENAMETOOLONG, "The event \"%.60s...\" has a name of more than %zu characters.",
                     base, sizeof spec->name - 1);
}

int cp__event_take_suffix(struct cp_event_spec *spec, const char *base, const char *mark, const char *suffix,
                          struct cp_error *err)
{
    if (suffix != NULL && spec->kind == CP_EVENT_TIMER)
        return cp__error(err, -EINVAL,
                         "The timer cannot have the suffix \"%.40s\": the timer measures CPU time in all "
                         "modes. Use taskClock, which can have a suffix.",
                         suffix);
    if (suffix != NULL && suffix[0] == '\0')
        return refuse_letter('\0', base, err);
    for (; suffix != NULL && *suffix != '\0'; suffix++) {
        if (!take_letter(*suffix, spec))
            return refuse_letter(*suffix, base, err);
    }
    if (counts_nothing(spec))
        return cp__error(err, -EINVAL,
                         "The event %.80s happens in the kernel only, and its suffix leaves the kernel out. "
                         "Add k to the suffix, or remove the suffix.",
                         base);
    return name_spec(spec, base, mark, err);
}

/* ---- Forms ----------------------------------------------------------------------------------- */

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

    for (size_t i = 0; i < CP_CPUPROF_NAMED; i++) {
        if (!is_many(i))
            used += (size_t)snprintf(list + used, sizeof list - used, "%s, ", cp__event_row(i)->name);
    }
    cp__pfm_describe(pfm, sizeof pfm);
    return cp__error(
        err, -EINVAL,
        "There is no event named \"%.40s%s\": the table, %s %s have no such event. Use one of %sor rHEX for "
        "the processor's own event number; \"counterpoint events\" lists all events.",
        name, strlen(name) > 40 ? "..." : "", pfm, said, list);
}

int cp__event_parse_table(const char *base, struct cp_event_spec *spec, struct cp_error *err)
{
    if (parse_row(base, spec) || parse_raw(base, spec))
        return 0;
    return cp__event_parse_cache(base, spec, err);
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
