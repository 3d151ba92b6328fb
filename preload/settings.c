/* See settings.h. */
#include "settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/fail.h"

#define SUFFIX ".pb.gz"

/* ---- The environment ------------------------------------------------------------------------- */

static int no_memory_to_profile(struct cp_error *err)
{
    return cp__error(err, -ENOMEM, "There is not enough memory to profile this program.");
}

/* Copies a variable that is set and not empty; *copy stays NULL otherwise. */
static int copy_variable(char **copy, const char *name, struct cp_error *err)
{
    const char *value = getenv(name);

    if (value == NULL || *value == '\0')
        return 0;
    *copy = strdup(value);
    return *copy == NULL ? no_memory_to_profile(err) : 0;
}

double cp__preload_seconds(const char *text)
{
    char *end;
    double seconds;

    if (strspn(text, "0123456789.") != strlen(text) || *text == '\0')
        return 0;
    seconds = strtod(text, &end);
    return *end != '\0' || !(seconds < 1e9) ? 0 : seconds;
}

int cp__preload_take_events(struct cp__preload_settings *settings, const char *list, struct cp_error *err)
{
    struct cp_event_spec spec = {.size = sizeof spec};
    char *rest, *event;
    int result = 0;

    rest = settings->event_list = strdup(list);
    if (rest == NULL)
        return no_memory_to_profile(err);
    settings->n = 0;
    while (result == 0 && (event = cp_event_next(&rest)) != NULL) {
        if (settings->n == CP_EV_MAX)
            return cp__error(err, -EINVAL, "There are more than %d events in \"%s\". Leave some of them out.",
                             CP_EV_MAX, list);
        result = cp_event_take_period(event, &settings->periods[settings->n], err);
        if (result == 0)
            result = cp_event_parse(event, &spec, err);
        settings->events[settings->n++] = event;
    }
    return result;
}

bool cp__preload_records_waits(const struct cp__preload_settings *settings)
{
    static const char *const names[] = {"wait", "runnable", "lock", "wall"};
    bool records = false;

    for (size_t i = 0; i < settings->n; i++) {
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
            records |= strcmp(settings->events[i], names[k]) == 0;
    }
    return records;
}

static int take_seconds(struct cp__preload_settings *settings, struct cp_error *err)
{
    const char *value = getenv(CP__VARIABLE_SECONDS);

    if (value == NULL || *value == '\0')
        return 0;
    settings->seconds = cp__preload_seconds(value);
    if (settings->seconds > 0)
        return 0;
    return cp__error(err, -EINVAL,
                     CP__VARIABLE_SECONDS " must be a number of seconds above 0, and \"%s\" is not.", value);
}

static int take_names(struct cp__preload_settings *settings, struct cp_error *err)
{
    static const char later[] = "later";
    const char *value = getenv(CP__VARIABLE_NAMES);
    const char *rest;

    if (value == NULL || *value == '\0')
        return 0;
    rest = strncmp(value, later, strlen(later)) == 0 ? value + strlen(later) : value;
    settings->are_names_left = rest > value;
    if (settings->are_names_left && *rest == ':')
        settings->namer = (int)strtol(rest + 1, NULL, 10);
    if (settings->are_names_left && (*rest == '\0' || settings->namer > 0))
        return 0;
    return cp__error(err, -EINVAL, CP__VARIABLE_NAMES " must be \"later\" or not set, and it is \"%s\".",
                     value);
}

/* The numbers are another process's, and not the user's: nobody is told of what makes no sense. */
static void take_told_costs(struct cp__preload_settings *settings)
{
    struct cp__switch_costs *costs = &settings->switch_costs;
    const char *value = getenv(CP__VARIABLE_COST);

    if (value != NULL && strspn(value, "0123456789,") == strlen(value))
        sscanf(value, CP__COST_SCAN, &settings->cost_ns, &costs->bare, &costs->soon, &costs->later,
               &costs->other);
}

int cp__preload_settings(struct cp__preload_settings *settings, struct cp_error *err)
{
    const char *events = getenv(CP__VARIABLE_EVENT);
    const char *first = getenv(CP__VARIABLE_FIRST);
    int result;

    memset(settings, 0, sizeof *settings);
    result = copy_variable(&settings->file, CP__VARIABLE_FILE, err);
    if (result < 0 || settings->file == NULL)
        return result;
    settings->has_executed = first != NULL && atol(first) == getpid();
    settings->program = strdup(program_invocation_short_name);
    if (settings->program == NULL)
        return no_memory_to_profile(err);
    settings->is_first = first == NULL || settings->has_executed;
    take_told_costs(settings);
    result = take_seconds(settings, err);
    if (result == 0)
        result = take_names(settings, err);
    if (result == 0 && settings->is_first)
        result = copy_variable(&settings->http, CP__VARIABLE_HTTP, err);
    if (result == 0)
        result = cp__preload_take_events(settings,
                                         events == NULL || *events == '\0' ? cp__best_event() : events, err);
    return result;
}

/* ---- The event ------------------------------------------------------------------------------- */

const char *cp__best_event(void)
{
    static const char *const names[] = {"cycles", "taskClock"};
    struct cp_event_spec spec = {.size = sizeof spec};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (cp_event_parse(names[i], &spec, NULL) == 0 && cp_event_probe(&spec, NULL) == 0)
            return names[i];
    }
    return "timer";
}

/* ---- The file -------------------------------------------------------------------------------- */

/* Prints a text, with underscores for what cannot be in a file's name. */
static void print_name(FILE *out, const char *text)
{
    for (; *text != '\0'; text++)
        fputc(*text == '/' ? '_' : *text, out);
}

void cp__print_pattern_of(FILE *out, const char *path)
{
    for (; *path != '\0'; path++)
        fputs(*path == '%' ? "%%" : (char[]){*path, '\0'}, out);
}

/* Prints the pattern with what its %-signs stand for. Returns whether the id of the process is among that. */
static bool print_pattern(FILE *out, const char *pattern, size_t size, const char *program, int pid)
{
    bool has_pid = false;

    for (size_t i = 0; i < size; i++) {
        const char next = pattern[i] == '%' && i + 1 < size ? pattern[i + 1] : '\0';

        has_pid |= next == 'p';
        if (next == 'p')
            fprintf(out, "%d", pid);
        else if (next == 'n')
            print_name(out, program);
        else
            fputc(pattern[i], out);
        i += next == 'p' || next == 'n' || next == '%';
    }
    return has_pid;
}

char *cp__profile_path(const char *pattern, const char *program, int pid, bool is_first, const char *event,
                       unsigned again)
{
    const size_t length = strlen(pattern), end = strlen(SUFFIX);
    const size_t stem = length >= end && strcmp(pattern + length - end, SUFFIX) == 0 ? length - end : length;
    char *path = NULL;
    size_t size;
    FILE *out = open_memstream(&path, &size);
    bool has_pid;

    if (out == NULL)
        return NULL;
    has_pid = print_pattern(out, pattern, stem, program, pid);
    if (!has_pid && !is_first)
        fprintf(out, ".%d", pid);
    if (again > 0)
        fprintf(out, "-%u", again + 1);
    if (event != NULL) {
        fputc('.', out);
        print_name(out, event);
    }
    fputs(pattern + stem, out);
    if (fclose(out) == 0)
        return path;
    free(path);
    return NULL;
}
