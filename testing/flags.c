/* The flags of a program's profile, as cp_testing_start() takes them. See profile.h. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"
#include "testing.h"

void cp__bad_usage(const char *program, const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, "%s: ", program);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(
        stderr,
        "\nusage: %s [-cpuprofile FILE [-cpuprofileevent EVENT[:PERIOD][,...]] [-cpuprofileperiod N] "
        "[-cpuprofileengine trap|signal]] [-blockprofile FILE] [-mutexprofile FILE] [-blockprofilerate NS] "
        "...\n",
        program);
    exit(2);
}

uint64_t cp__parse_count(const char *text)
{
    char *end;
    unsigned long long n;

    if (*text < '0' || *text > '9')
        return 0;
    errno = 0;
    n = strtoull(text, &end, 10);
    return errno != 0 || *end != '\0' ? 0 : n;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* Stores the value of a flag, or ends the program by cp__bad_usage(). */
typedef void take_fn(struct cp__profile_flags *flags, const char *program, const char *value);

static void take_file(struct cp__profile_flags *flags, const char *program, const char *value)
{
    if (*value == '\0')
        cp__bad_usage(program, "-cpuprofile must name the file for the profile.");
    flags->file = value;
}

static void take_events(struct cp__profile_flags *flags, const char *program, const char *value)
{
    struct cp_event_spec spec = {.size = sizeof spec};
    struct cp_error err = {0};
    char *copy = strdup(value), *rest = copy, *event;
    uint64_t period;

    flags->events = value;
    while ((event = cp_event_next(&rest)) != NULL)
        if (cp_event_take_period(event, &period, &err) < 0 || cp_event_parse(event, &spec, &err) < 0)
            cp__bad_usage(program, "%s", err.message);
    free(copy);
}

static void take_period(struct cp__profile_flags *flags, const char *program, const char *value)
{
    flags->period = cp__parse_count(value);
    if (flags->period == 0)
        cp__bad_usage(program, "-cpuprofileperiod must be a number of at least 1, and \"%s\" is not.", value);
}

static void take_engine(struct cp__profile_flags *flags, const char *program, const char *value)
{
    struct cp_error err = {0};

    if (cp_engine_parse(value, &flags->engine, &err) < 0)
        cp__bad_usage(program, "-cpuprofileengine: %s", err.message);
}

static void take_contention_file(struct cp__profile_flags *flags, enum cp_contention which,
                                 const char *program, const char *value)
{
    if (*value == '\0')
        cp__bad_usage(program, "-%s must name the file for the profile.",
                      which == CP_CONTENTION_BLOCK ? "blockprofile" : "mutexprofile");
    flags->contention_files[which] = value;
}

static void take_block_file(struct cp__profile_flags *flags, const char *program, const char *value)
{
    take_contention_file(flags, CP_CONTENTION_BLOCK, program, value);
}

static void take_mutex_file(struct cp__profile_flags *flags, const char *program, const char *value)
{
    take_contention_file(flags, CP_CONTENTION_MUTEX, program, value);
}

static void take_block_rate(struct cp__profile_flags *flags, const char *program, const char *value)
{
    flags->contention_period = cp__parse_count(value);
    if (flags->contention_period == 0 || flags->contention_period > INT64_MAX)
        cp__bad_usage(program, "-blockprofilerate must be a number of ns, at least 1, and \"%s\" is not.",
                      value);
}

bool cp__profile_flags_ask(const struct cp__profile_flags *flags)
{
    return flags->file != NULL || flags->contention_files[CP_CONTENTION_BLOCK] != NULL ||
           flags->contention_files[CP_CONTENTION_MUTEX] != NULL;
}

const char *cp__profile_flags_lack(const struct cp__profile_flags *flags)
{
    if (flags->file == NULL &&
        (flags->events != NULL || flags->period != 0 || flags->engine != CP_ENGINE_AUTO))
        return "-cpuprofile must name the file for the profile.";
    if (flags->contention_period != 0 && flags->contention_files[CP_CONTENTION_BLOCK] == NULL &&
        flags->contention_files[CP_CONTENTION_MUTEX] == NULL)
        return "-blockprofilerate is for -blockprofile and -mutexprofile. Give one of them, or leave it out.";
    return NULL;
}

/* Ends the program if -cpuprofileperiod is for no event, or for events that count different things. The timer
 * has a fixed rate, so it does not matter here. */
static void check_period(const struct cp__profile_flags *flags, const char *program)
{
    const char *clock = NULL, *counted = NULL;
    char *copy = strdup(flags->events), *rest = copy, *event;
    size_t n = 0;

    while ((event = cp_event_next(&rest)) != NULL) {
        struct cp_event_spec spec = {.size = sizeof spec};
        uint64_t own = 0;

        if (cp_event_take_period(event, &own, NULL) < 0 || own != 0 || cp_event_parse(event, &spec, NULL) < 0)
            continue;
        n++;
        if (spec.kind == CP_EVENT_CLOCK || spec.kind == CP_EVENT_WAIT)
            clock = event;
        else if (spec.kind != CP_EVENT_TIMER)
            counted = event;
    }
    if (n == 0)
        cp__bad_usage(program,
                      "-cpuprofileperiod is for events without a period of their own, and each event of "
                      "\"%s\" has one. Leave -cpuprofileperiod out.",
                      flags->events);
    if (clock != NULL && counted != NULL)
        cp__bad_usage(program,
                      "-cpuprofileperiod cannot be both ns for %s and a number of events for %s. Give each "
                      "event its own period: -cpuprofileevent %s:1ms,%s:100.",
                      clock, counted, clock, counted);
    free(copy);
}

/* ---- The command line ------------------------------------------------------------------------ */

static const struct flag {
    const char *name;
    take_fn *take;
} flags_known[] = {
    {"cpuprofile", take_file},         {"cpuprofileevent", take_events},
    {"cpuprofileperiod", take_period}, {"cpuprofileengine", take_engine},
    {"blockprofile", take_block_file}, {"blockprofilerate", take_block_rate},
    {"mutexprofile", take_mutex_file},
};

/* Returns the profile flag that the argument is, or NULL; *value is the text after "=", or NULL. */
static const struct flag *find_flag(char *argument, char **value)
{
    char *name = argument + strspn(argument, "-");

    if (name == argument || name > argument + 2)
        return NULL;
    if (strncmp(name, "test.", 5) == 0)
        name += 5;
    for (size_t i = 0; i < sizeof flags_known / sizeof flags_known[0]; i++) {
        const size_t n = strlen(flags_known[i].name);

        if (strncmp(name, flags_known[i].name, n) != 0 || (name[n] != '\0' && name[n] != '='))
            continue;
        *value = name[n] == '=' ? name + n + 1 : NULL;
        return &flags_known[i];
    }
    return NULL;
}

void cp__profile_flags_take(int *argc, char **argv, struct cp__profile_flags *flags)
{
    int kept = 1, i;

    *flags = (struct cp__profile_flags){0};
    for (i = 1; i < *argc && strcmp(argv[i], "--") != 0; i++) {
        char *value;
        const struct flag *flag = find_flag(argv[i], &value);

        if (flag == NULL) {
            argv[kept++] = argv[i];
            continue;
        }
        if (value == NULL && (i + 1 == *argc || strcmp(argv[i + 1], "--") == 0))
            cp__bad_usage(argv[0], "-%s needs a value.", flag->name);
        flag->take(flags, argv[0], value != NULL ? value : argv[++i]);
    }
    if (flags->events != NULL && flags->period != 0)
        check_period(flags, argv[0]);
    while (i < *argc)
        argv[kept++] = argv[i++];
    if (*argc > 0)
        argv[ *argc = kept] = NULL;
}
