#include "events.h"

#include <fnmatch.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"

/* Longer groups than this are listed only if the user asks for them. Of more tracepoints than this, none is
 * tried, because the kernel takes tens of milliseconds to close one. */
#define MANY 40

static const char help[] =
    "usage: counterpoint events [--json] [GROUP | PATTERN | NAME]\n"
    "       counterpoint events --names [GROUP | PATTERN]\n"
    "\n"
    "Lists the events that can be sampled: what they are, the period that is used\n"
    "if none is given, and whether they work on this machine for this user. If an\n"
    "event does not work, a sentence below the list says why, and what would help.\n"
    "An event works if the kernel opens the event and the hardware counts: the\n"
    "command writes to a watched word once, and reads the cycles of the PMU. Of a\n"
    "PMU's own events, the kernel also opens those that the processor does not have\n"
    "and that never happen; the command cannot tell these from the others.\n"
    "\n"
    "A group takes one line if all of its events are refused for one reason, or if\n"
    "it has more than 40 events, unless the argument asks for the group:\n"
    "\n"
    "  GROUP     lists the events under a heading of the list: presets, cache, ...\n"
    "  PATTERN   lists the events that a shell pattern matches, in upper or lower\n"
    "            case: counterpoint events 'tracepoint:sched:*'; '*' lists all\n"
    "            events. If a list has more than 40 tracepoints, the command does\n"
    "            not try them, because that would take long.\n"
    "  NAME      describes one event: how perf_event_open(2) is asked for the event,\n"
    "            and perf's name for it. The event need not be in a list: r1c2, by\n"
    "            the processor's own number; mem:0x601040/8:w, a watchpoint;\n"
    "            cycles:k. A period may follow the name: taskClock:uk:1ms.\n"
    "\n"
    "  --json    prints an object with: groups, an array of objects (name; events,\n"
    "            the number of events; works, how many of them work, or null;\n"
    "            listed, whether \"events\" includes them); events, the events of the\n"
    "            groups that are listed; no_tracepoints, why there are none, or null;\n"
    "            engine, how samples come here, and engine_reason: see CP_ENGINE.\n"
    "            With NAME the object is one event. An event has: name, alias (perf's\n"
    "            name, or null), group, kind (timer, clock, software, hardware,\n"
    "            tracepoint, watchpoint, wait), description, period (the preset,\n"
    "            or what follows NAME, or null),\n"
    "            period_unit (ns or events), modes (the modes that would count: user,\n"
    "            kernel, hypervisor), works (null: not tried) and, if the event does\n"
    "            not work, reason and message. With NAME also perf, precise_ip and\n"
    "            encoding (type, config, config1, config2, bp_type; null for the\n"
    "            timer and waits). Numbers of 64 bits are strings.\n"
    "\n"
    "  --names   prints the events' names alone, a line each, without trying the\n"
    "            events.\n"
    "\n"
    "CP_ENGINE in the environment names how samples come: trap, signal, or auto,\n"
    "which takes traps (SIGTRAP) unless something speaks against them here. The\n"
    "list ends with what is taken, and why it is not traps.\n"
    "\n"
    "Exit status: 0 if events were listed or the event works; 1 if the event does\n"
    "not work here; 2 if there is no such event or the usage is wrong; 3 if the\n"
    "output could not be written.\n";

struct events {
    struct event *at;
    size_t n;
    size_t room;
};

/* ---- One event ------------------------------------------------------------------------------- */

const char *event_kind(const struct event *event)
{
    static const char *const kinds[] = {
        [CP_EVENT_TIMER] = "timer",
        [CP_EVENT_CLOCK] = "clock",
        [CP_EVENT_SOFTWARE] = "software",
        [CP_EVENT_HARDWARE] = "hardware",
        [CP_EVENT_TRACEPOINT] = "tracepoint",
        [CP_EVENT_WATCHPOINT] = "watchpoint",
        [CP_EVENT_WAIT] = "wait",
    };

    return kinds[event->spec.kind];
}

const char *event_engine(const char **why)
{
    static struct cp_error err;
    enum cp_engine engine;

    if (cp_engine_choose(&engine, why, &err) == 0)
        return cp_engine_name(engine);
    *why = err.message;
    return NULL;
}

bool event_is_timed(const struct event *event)
{
    return event->spec.kind == CP_EVENT_TIMER || event->spec.kind == CP_EVENT_CLOCK ||
           event->spec.kind == CP_EVENT_WAIT;
}

/* Returns whether only a part of the event counts: the event also happens in the kernel, and the kernel does
 * not count here. */
bool event_is_user_only(const struct event *event)
{
    return (event->spec.kind == CP_EVENT_CLOCK || event->spec.kind == CP_EVENT_SOFTWARE) &&
           event->spec.modes == 0 && !event->config.is_kernel_included;
}

const char *event_reason(const struct event *event)
{
    return event->error.reason[0] != '\0' ? event->error.reason : strerror(-event->error.code);
}

/* Sets the config with which the event would run: with its preset period, or with a period of 1 if there is
 * none. */
static void configure(struct event *event)
{
    if (cp_cpu_profile_config_init(&event->config, &event->spec, 0, NULL) < 0)
        cp_cpu_profile_config_init(&event->config, &event->spec, 1, NULL);
}

static void try(struct event *event)
{
    event->state = cp_event_probe(&event->spec, &event->error) == 0 ? EVENT_WORKS : EVENT_REFUSED;
}

/* ---- The whole list -------------------------------------------------------------------------- */

static char *copy(const char *text)
{
    char *copied = text != NULL ? strdup(text) : NULL;

    if (text != NULL && copied == NULL)
        exit(complain(STATUS_FAILURE, "There is no memory for the list."));
    return copied;
}

/* Adds an event to the list, unless the parser does not know its name. */
static int add(void *context, const struct cp_event_info *info)
{
    struct events *events = context;
    struct event event = {.spec.size = sizeof event.spec, .config.size = sizeof event.config};

    if (cp_event_parse(info->name, &event.spec, NULL) < 0)
        return 0;
    if (events->n == events->room) {
        events->room = events->room * 2 + 64;
        events->at = realloc(events->at, events->room * sizeof *events->at);
        if (events->at == NULL)
            exit(complain(STATUS_FAILURE, "There is no memory for the list."));
    }
    configure(&event);
    event.name = copy(info->name);
    event.alias = copy(info->alias);
    event.group = copy(info->group);
    event.description = copy(info->description);
    events->at[events->n++] = event;
    return 0;
}

static void free_event(struct event *event)
{
    free(event->name);
    free(event->alias);
    free(event->group);
    free(event->description);
}

static void free_events(struct events *events)
{
    for (size_t i = 0; i < events->n; i++)
        free_event(&events->at[i]);
    free(events->at);
}

/* ---- A part of the list ---------------------------------------------------------------------- */

static bool is_pattern(const char *text)
{
    return strpbrk(text, "*?[") != NULL;
}

static bool is_group(const struct events *events, const char *text)
{
    for (size_t i = 0; i < events->n; i++) {
        if (strcmp(events->at[i].group, text) == 0)
            return true;
    }
    return false;
}

static bool matches(const struct event *event, const char *wanted)
{
    if (!is_pattern(wanted))
        return strcmp(event->group, wanted) == 0;
    return fnmatch(wanted, event->name, FNM_CASEFOLD) == 0 ||
           (event->alias != NULL && fnmatch(wanted, event->alias, FNM_CASEFOLD) == 0);
}

/* Removes the events that the user did not ask for. */
static void narrow(struct events *events, const char *wanted)
{
    size_t kept = 0;

    for (size_t i = 0; i < events->n; i++) {
        if (matches(&events->at[i], wanted))
            events->at[kept++] = events->at[i];
        else
            free_event(&events->at[i]);
    }
    events->n = kept;
}

/* ---- Groups ---------------------------------------------------------------------------------- */

/* Returns how many events from `from` on belong to the same group. */
static size_t group_length(const struct events *events, size_t from)
{
    size_t n = 1;

    while (from + n < events->n && strcmp(events->at[from + n].group, events->at[from].group) == 0)
        n++;
    return n;
}

/* Returns whether all n events were refused for the same reason. */
static bool is_one_refusal(const struct event *events, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (events[i].state != EVENT_REFUSED ||
            strcmp(event_reason(&events[i]), event_reason(&events[0])) != 0)
            return false;
    }
    return true;
}

int group_working(const struct event_group *group)
{
    int working = 0;

    for (size_t i = 0; i < group->n; i++) {
        if (group->events[i].state == EVENT_UNTRIED)
            return -1;
        working += group->events[i].state == EVENT_WORKS;
    }
    return working;
}

static void try_group(struct event *events, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (n <= MANY || events[i].spec.kind != CP_EVENT_TRACEPOINT)
            try(&events[i]);
    }
}

/* Tries the events of a group, and decides how to show the group. The presets are always listed, because
 * users look for them first. */
static struct event_group make_group(struct event *events, size_t n, bool is_asked_for)
{
    bool is_listed = is_asked_for || strcmp(events[0].group, "presets") == 0;

    try_group(events, n);
    return (struct event_group){.events = events,
                                .n = n,
                                .is_long = !is_listed && n > MANY,
                                .is_refused = !is_listed && is_one_refusal(events, n)};
}

/* Returns whether this user cannot see the tracepoints, and why. No other group can be hidden from a user. */
static bool are_tracepoints_missing(const struct events *events, struct cp_error *why)
{
    struct cp_event_spec spec = {.size = sizeof spec};

    return !is_group(events, "tracepoints") &&
           cp_event_parse("tracepoint:sched:sched_switch", &spec, why) < 0;
}

static enum status list_groups(struct events *events, bool is_asked_for, bool json)
{
    struct cp_error why;
    bool is_missing = !is_asked_for && are_tracepoints_missing(events, &why);
    struct event_group *groups = calloc(events->n + 1, sizeof *groups);
    size_t n = 0;

    if (groups == NULL)
        return complain(STATUS_FAILURE, "There is no memory for the list.");
    for (size_t i = 0; i < events->n; i += groups[n - 1].n)
        groups[n++] = make_group(&events->at[i], group_length(events, i), is_asked_for);
    (json ? print_list_json : print_list_text)(groups, n, is_missing ? why.message : NULL);
    free(groups);
    return STATUS_OK;
}

enum form {
    FORM_TEXT,
    FORM_JSON,
    FORM_NAMES,
};

static enum status put_event_names(const struct events *events)
{
    for (size_t i = 0; i < events->n; i++)
        puts(events->at[i].name);
    return STATUS_OK;
}

static enum status list(struct events *events, bool is_asked_for, enum form form)
{
    return form == FORM_NAMES ? put_event_names(events)
                              : list_groups(events, is_asked_for, form == FORM_JSON);
}

/* ---- The command ----------------------------------------------------------------------------- */

static bool is_same(const struct cp_event_spec *a, const struct cp_event_spec *b)
{
    struct cp_event_encoding x = {0}, y = {0};

    if (cp_event_encode(a, &x) < 0 || cp_event_encode(b, &y) < 0) /* perf_event_open(2) does not know it */
        return a->event == b->event;
    return memcmp(&x, &y, sizeof x) == 0;
}

/* Copies what the list says of the event, whichever of the event's names the user gave. */
static void describe(struct event *event, const struct events *events)
{
    for (size_t i = 0; i < events->n; i++) {
        const struct event *listed = &events->at[i];

        if (!is_same(&listed->spec, &event->spec))
            continue;
        event->alias = copy(listed->alias);
        event->group = copy(listed->group);
        event->description = copy(listed->description);
        return;
    }
}

/* Finds the event of event->name, and takes the period off that, which then stands for the preset. */
static int read_event(struct event *event)
{
    uint64_t period;
    int result = cp_event_take_period(event->name, &period, &event->error);

    if (result == 0)
        result = cp_event_parse(event->name, &event->spec, &event->error);
    if (result == 0 && period != 0) {
        result = cp_cpu_profile_config_init(&event->config, &event->spec, period, &event->error);
        event->spec.preset_period = period;
    }
    return result;
}

static enum status show(const struct events *events, const char *name, bool json)
{
    struct event event = {
        .name = copy(name), .spec.size = sizeof event.spec, .config.size = sizeof event.config};
    enum status status = STATUS_USAGE;

    if (read_event(&event) < 0) {
        complain(status, "%s", event.error.message);
    } else {
        configure(&event);
        describe(&event, events);
        try(&event);
        (json ? print_event_json : print_event_text)(&event);
        status = event.state == EVENT_WORKS ? STATUS_OK : STATUS_NO;
    }
    free_event(&event);
    return status;
}

static enum status list_wanted(struct events *events, const char *wanted, enum form form)
{
    struct cp_error why;
    bool is_missing =
        strncmp(wanted, "tracepoint", strlen("tracepoint")) == 0 && are_tracepoints_missing(events, &why);

    narrow(events, wanted);
    if (events->n > 0)
        return list(events, true, form);
    if (is_missing)
        return complain(STATUS_USAGE, "%s", why.message);
    return complain(STATUS_USAGE, "No event matches \"%s\". 'counterpoint events' lists all events.", wanted);
}

static enum status run_events(const char *wanted, enum form form)
{
    struct events events = {.n = 0};
    enum status status;

    cp_event_each(add, &events);
    if (wanted == NULL)
        status = list(&events, false, form);
    else if (form == FORM_NAMES || is_pattern(wanted) || is_group(&events, wanted) ||
             strcmp(wanted, "tracepoints") == 0)
        status = list_wanted(&events, wanted, form);
    else
        status = show(&events, wanted, form == FORM_JSON);
    free_events(&events);
    return status;
}

enum status command_events(int argc, char **argv)
{
    static const struct option options[] = {{"json", no_argument, NULL, 'j'},
                                            {"names", no_argument, NULL, 'n'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    enum form form = FORM_TEXT;

    opterr = 0;
    for (int option; (option = getopt_long_only(argc, argv, "", options, NULL)) != -1;) {
        if (option == 'h') {
            fputs(help, stdout);
            return STATUS_OK;
        }
        if (option != 'j' && option != 'n')
            return complain(STATUS_USAGE,
                            "The command events does not know %s. Try 'counterpoint events --help'.",
                            argv[optind - 1]);
        form = option == 'j' ? FORM_JSON : FORM_NAMES;
    }
    if (argc - optind > 1)
        return complain(
            STATUS_USAGE,
            "The command events takes one name, group or pattern, not %d. Quote a pattern: 'cache*'.",
            argc - optind);
    return run_events(argv[optind], form);
}
