/* Output for people: lines have at most 80 columns, except names that are longer. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "events.h"

#define WIDTH 80
#define INDENT 2
#define MIN_NAME_WIDTH 22

/* ---- Values ---------------------------------------------------------------------------------- */

struct text {
    char text[80];
};

/* Returns "10 ms", "10 us" or "1000000"; "-" if there is no preset. */
static struct text period_of(const struct event *event)
{
    uint64_t period = event->spec.preset_period;
    struct text text = {"-"};

    if (period == 0)
        return text;
    if (!event_is_timed(event))
        snprintf(text.text, sizeof text.text, "%" PRIu64, period);
    else if (period % 1000000 == 0)
        snprintf(text.text, sizeof text.text, "%" PRIu64 " ms", period / 1000000);
    else if (period % 1000 == 0)
        snprintf(text.text, sizeof text.text, "%" PRIu64 " us", period / 1000);
    else
        snprintf(text.text, sizeof text.text, "%" PRIu64 " ns", period);
    return text;
}

static const char *state_of(const struct event *event)
{
    if (event->state == EVENT_UNTRIED)
        return "not tried";
    if (event->state == EVENT_REFUSED)
        return event_reason(event);
    return event_is_user_only(event) ? "works, in user mode only" : "works";
}

/* Prints words between indent and the right margin. The cursor is at column. */
static void print_wrapped(const char *text, size_t column, size_t indent)
{
    for (bool is_first = true; *text != '\0'; is_first = false) {
        size_t length = strcspn(text, " ");

        if (!is_first && column + 1 + length > WIDTH) {
            printf("\n%*s", (int)indent, "");
            column = indent;
        } else if (!is_first) {
            putchar(' ');
            column++;
        }
        printf("%.*s", (int)length, text);
        column += length;
        text += length;
        text += strspn(text, " ");
    }
    putchar('\n');
}

/* ---- The list -------------------------------------------------------------------------------- */

#define KIND 10
#define PERIOD 9
#define MIDDLE (1 + KIND + 1 + PERIOD + 2)

static bool is_listed(const struct event_group *group)
{
    return !group->is_long && !group->is_refused;
}

/* Returns the last column of a group that is shown in one line. */
static struct text summary_of(const struct event_group *group)
{
    int working = group_working(group);
    struct text text;

    if (group->is_refused || working < 0)
        snprintf(text.text, sizeof text.text, "%s", state_of(&group->events[0]));
    else if ((size_t)working == group->n)
        snprintf(text.text, sizeof text.text, "all work");
    else
        snprintf(text.text, sizeof text.text, "%d of them work", working);
    return text;
}

static size_t longer(size_t length, const char *text)
{
    return strlen(text) > length ? strlen(text) : length;
}

/* Returns the width of the first column: wide enough for all names, if all states still fit. Longer names get
 * a line of their own. */
static int name_width(const struct event_group *groups, size_t n)
{
    size_t name = 0, state = 0, width;

    for (size_t i = 0; i < n; i++) {
        if (!is_listed(&groups[i]))
            state = longer(state, summary_of(&groups[i]).text);
        for (size_t k = 0; k < groups[i].n && is_listed(&groups[i]); k++) {
            name = longer(name, groups[i].events[k].name);
            state = longer(state, state_of(&groups[i].events[k]));
        }
    }
    width = WIDTH - INDENT - MIDDLE > state ? WIDTH - INDENT - MIDDLE - state : 0;
    width = width < name ? width : name;
    return width > MIN_NAME_WIDTH ? (int)width : MIN_NAME_WIDTH;
}

static void print_columns(const char *kind, const char *period, const char *state)
{
    printf(" %-*s %*s  %s\n", KIND, kind, PERIOD, period, state);
}

static void print_row(const struct event *event, int width)
{
    printf("%*s%-*s", INDENT, "", width, event->name);
    if (strlen(event->name) > (size_t)width)
        printf("\n%*s", INDENT + width, "");
    print_columns(event_kind(event), period_of(event).text, state_of(event));
}

/* Prints a group in one line. */
static void print_summary(const struct event_group *group, int width)
{
    char many[24];

    snprintf(many, sizeof many, "%zu event%s", group->n, group->n == 1 ? "" : "s");
    printf("%-*s %-*s  %s\n", INDENT + width, group->events[0].group, KIND + 1 + PERIOD, many,
           summary_of(group).text);
}

static void print_group(const struct event_group *group, int width)
{
    if (!is_listed(group)) {
        print_summary(group, width);
        return;
    }
    printf("%s\n", group->events[0].group);
    for (size_t i = 0; i < group->n; i++)
        print_row(&group->events[i], width);
}

/* Returns whether the reasons below the list include this event's. A group that only shows how many of its
 * events work has no reasons. */
static bool has_reason(const struct event_group *group, const struct event *event)
{
    return event->state == EVENT_REFUSED && (is_listed(group) || group->is_refused);
}

/* Returns whether an earlier event was refused for the same reason. */
static bool is_known(const struct event_group *groups, const struct event *event)
{
    for (const struct event_group *group = groups;; group++) {
        for (size_t i = 0; i < group->n; i++) {
            const struct event *earlier = &group->events[i];

            if (earlier == event)
                return false;
            if (has_reason(group, earlier) && strcmp(event_reason(earlier), event_reason(event)) == 0)
                return true;
        }
    }
}

/* Prints each reason once, in the words of the first event that was refused for it. */
static void print_reasons(const struct event_group *groups, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < groups[i].n; k++) {
            const struct event *event = &groups[i].events[k];

            if (!has_reason(&groups[i], event) || is_known(groups, event))
                continue;
            printf("\n%s: ", event_reason(event));
            print_wrapped(event->error.message, strlen(event_reason(event)) + 2, 2);
        }
    }
}

static void print_engine(void)
{
    const char *why, *engine = event_engine(&why);
    int column = engine == NULL ? printf("\nengine: ")
                 : why == NULL  ? printf("\nengine: %s", engine)
                                : printf("\nengine: %s, because ", engine);

    print_wrapped(why == NULL ? "" : why, (size_t)column - 1, 2);
}

void print_list_text(const struct event_group *groups, size_t n, const char *missing)
{
    int width = name_width(groups, n);
    bool all_listed = true;

    printf("%-*s", INDENT + width, "EVENT");
    print_columns("KIND", "PERIOD", "HERE");
    for (size_t i = 0; i < n; i++) {
        print_group(&groups[i], width);
        all_listed = all_listed && is_listed(&groups[i]);
    }
    print_reasons(groups, n);
    if (missing != NULL) {
        printf("\nno tracepoints: ");
        print_wrapped(missing, strlen("no tracepoints: "), 2);
    }
    print_engine();
    printf("\n'counterpoint events NAME' describes one event.");
    if (!all_listed)
        printf(" 'counterpoint events GROUP'\nlists a group that is one line here.");
    putchar('\n');
}

/* ---- One event ------------------------------------------------------------------------------- */

static void print_field(const char *name, const char *value)
{
    printf("  %-12s", name);
    print_wrapped(value, 14, 14);
}

static const char *type_name(uint32_t type)
{
    static const char *const names[] = {"hardware", "software", "tracepoint", "cache", "raw", "breakpoint"};

    return type < sizeof names / sizeof names[0] ? names[type] : "a PMU's own";
}

static void print_encoding(const struct event *event)
{
    struct cp_event_encoding encoding;
    char text[160];
    int n;

    if (cp_event_encode(&event->spec, &encoding) < 0) {
        print_field("encoding", event->spec.kind == CP_EVENT_TIMER
                                    ? "none: timer_create(2) on the thread's CPU clock"
                                    : "none: the runtime tells when Gs and threads wait");
        return;
    }
    n = snprintf(text, sizeof text, "type=%" PRIu32 " (%s) config=0x%" PRIx64, encoding.type,
                 type_name(encoding.type), encoding.config);
    if (event->spec.kind == CP_EVENT_WATCHPOINT)
        snprintf(text + n, sizeof text - (size_t)n,
                 " bp_type=%" PRIu32 " bp_addr=0x%" PRIx64 " bp_len=%" PRIu64, encoding.bp_type,
                 encoding.config1, encoding.config2);
    else
        snprintf(text + n, sizeof text - (size_t)n, " config1=0x%" PRIx64 " config2=0x%" PRIx64,
                 encoding.config1, encoding.config2);
    print_field("encoding", text);
}

static void print_text_modes(const struct event *event)
{
    const struct cp_cpu_profile_config *config = &event->config;
    char text[64];

    snprintf(text, sizeof text, "%s%s%s", config->is_user_excluded ? "" : " user",
             config->is_kernel_included ? " kernel" : "", config->is_hv_included ? " hypervisor" : "");
    print_field("modes", text + 1);
    snprintf(text, sizeof text, "%d", (int)config->precise_ip);
    print_field("precise_ip", text);
}

static void print_period(const struct event *event)
{
    struct text period = period_of(event);

    print_field("period",
                event->spec.preset_period != 0 ? period.text : "no preset: programs differ too much in it");
}

void print_event_text(const struct event *event)
{
    char spelling[512] = "perf record -e ";
    size_t length = strlen(spelling);

    printf("%s\n", event->spec.name);
    if (event->description != NULL)
        print_field("counts", event->description);
    print_field("kind", event_kind(event));
    print_encoding(event);
    if (event->spec.kind != CP_EVENT_WAIT)
        print_text_modes(event);
    print_period(event);
    if (event_perf_spelling(event, spelling + length, sizeof spelling - length)) {
        length = strlen(spelling);
        snprintf(spelling + length, sizeof spelling - length, " -c %" PRIu64, event->config.period);
        print_field("perf", spelling);
    } else {
        print_field("perf", "has no such event");
    }
    print_field("here", state_of(event));
    if (event->state == EVENT_REFUSED) {
        putchar('\n');
        print_wrapped(event->error.message, 0, 0);
    }
}
