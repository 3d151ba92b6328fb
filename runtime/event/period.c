/* The period that a name may end in: "taskClock:1ms", "pageFaults:100". */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"
#include "runtime/base/fail.h"

/*
 * The units of a time. Counts have none: 100k would look like the suffix k, and the events of
 * libpfm4 have unit masks such as 4K_PAGE_FETCHES.
 */
static const struct unit {
    const char *name;
    uint64_t ns;
} units[] = {{"", 1}, {"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", CP__NS_PER_SECOND}};

static const struct unit *find_suffix(const char *name)
{
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(name, units[i].name) == 0)
            return &units[i];
    }
    return NULL;
}

/* Returns the last colon of a name; NULL if there is none. What follows a watchpoint's first colon is its
 * address, so that colon does not count. */
static char *last_colon(char *name)
{
    char *colon = strrchr(name, ':');

    return strncmp(name, "mem:", strlen("mem:")) == 0 && colon == name + strlen("mem") ? NULL : colon;
}

static int refuse_no_number(const char *name, struct cp_error *err)
{
    const int n = (int)strlen(name) - 1;

    return cp__error(err, -EINVAL,
                     "The event \"%.60s\" ends in a colon. Remove the colon, or write after the colon which "
                     "modes count, as in \"%.*s:u\", or a period, as in \"%.*s:1000\".",
                     name, n < 60 ? n : 60, name, n < 60 ? n : 60, name);
}

/* Checks that the period's unit is one of time only if the event is a clock or a wait. The name has no period
 * any more. */
static int check_unit(const char *name, const struct unit *unit, const char *text, struct cp_error *err)
{
    struct cp_event_spec spec = {.size = sizeof spec};
    int result = unit->name[0] == '\0' ? 0 : cp_event_parse(name, &spec, err);

    if (result < 0 || unit->name[0] == '\0' || cp__event_kind_is_time(spec.kind))
        return result;
    return cp__error(
        err, -EINVAL,
        "The event %.60s cannot have the period \"%.40s\": its period is a number of events, not "
        "a time. Write a number without a unit, such as 1000, or take taskClock.",
        name, text);
}

/* Computes the period that a text of digits and a unit stands for. */
static int read_period(const char *text, const struct unit *unit, const char *name, uint64_t *period,
                       struct cp_error *err)
{
    uint64_t n;

    errno = 0;
    n = strtoull(text, NULL, 10);
    if (errno != 0 || n > INT64_MAX / unit->ns)
        return cp__error(err, -EINVAL,
                         "The period \"%.40s\" of the event \"%.60s\" is too large: the largest is %" PRId64
                         ", in ns for a clock.",
                         text, name, INT64_MAX);
    if (n == 0)
        return cp__error(err, -EINVAL,
                         "The event \"%.60s\" cannot have a period of 0. Write a number of at least 1, or "
                         "leave the period out: the event then has its default.",
                         name);
    *period = n * unit->ns;
    return 0;
}

/* Returns the unit if a text is a number and a unit, and nothing else; otherwise NULL. */
static const struct unit *unit_of(const char *text)
{
    const size_t n = strspn(text, "0123456789");

    return n == 0 ? NULL : find_suffix(text + n);
}

int cp_event_take_period(char *name, uint64_t *period, struct cp_error *err)
{
    char *colon = name == NULL ? NULL : last_colon(name);
    const struct unit *unit = colon == NULL ? NULL : unit_of(colon + 1);
    uint64_t found = 0;
    int result = 0;

    if (colon != NULL && colon[1] == '\0')
        return refuse_no_number(name, err);
    if (unit != NULL) {
        *colon = '\0';
        result = read_period(colon + 1, unit, name, &found, err);
        if (result == 0)
            result = check_unit(name, unit, colon + 1, err);
        if (result < 0)
            *colon = ':';
    }
    if (result == 0)
        *period = found;
    return result;
}
