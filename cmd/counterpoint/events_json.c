/* Output for programs. Numbers of 64 bits are strings, because many readers convert numbers to doubles. */
#include <inttypes.h>
#include <stdio.h>

#include "events.h"
#include "runtime/base/text.h"

static void print_member(const char *name, const char *value)
{
    printf(", \"%s\": ", name);
    cp__json_string(stdout, value);
}

static void print_json_modes(const struct event *event)
{
    const struct cp_cpu_profile_config *config = &event->config;
    const char *comma = "";

    fputs(", \"modes\": [", stdout);
    if (!config->is_user_excluded && event->spec.kind != CP_EVENT_WAIT) {
        fputs("\"user\"", stdout);
        comma = ", ";
    }
    if (config->is_kernel_included) {
        printf("%s\"kernel\"", comma);
        comma = ", ";
    }
    if (config->is_hv_included)
        printf("%s\"hypervisor\"", comma);
    putchar(']');
}

/* Prints an event without the closing brace. */
static void print_event(const struct event *event)
{
    static const char *const works[] = {
        [EVENT_UNTRIED] = "null", [EVENT_WORKS] = "true", [EVENT_REFUSED] = "false"};

    fputs("{\"name\": ", stdout);
    cp__json_string(stdout, event->name);
    print_member("alias", event->alias);
    print_member("group", event->group);
    print_member("kind", event_kind(event));
    print_member("description", event->description);
    if (event->spec.preset_period != 0)
        printf(", \"period\": %" PRIu64, event->spec.preset_period);
    else
        fputs(", \"period\": null", stdout);
    print_member("period_unit", event_is_timed(event) ? "ns" : "events");
    print_json_modes(event);
    printf(", \"works\": %s", works[event->state]);
    if (event->state == EVENT_REFUSED) {
        print_member("reason", event_reason(event));
        print_member("message", event->error.message);
    }
}

static void print_working(const struct event_group *group)
{
    int working = group_working(group);

    printf(", \"events\": %zu, \"works\": ", group->n);
    if (working < 0)
        fputs("null", stdout);
    else
        printf("%d", working);
}

void print_list_json(const struct event_group *groups, size_t n, const char *missing)
{
    const char *comma = "";
    const char *why, *engine = event_engine(&why);

    fputs("{\"groups\": [", stdout);
    for (size_t i = 0; i < n; i++) {
        printf("%s\n  {\"name\": ", i > 0 ? "," : "");
        cp__json_string(stdout, groups[i].events[0].group);
        print_working(&groups[i]);
        printf(", \"listed\": %s}", groups[i].is_long ? "false" : "true");
    }
    fputs("],\n \"events\": [", stdout);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; !groups[i].is_long && k < groups[i].n; k++) {
            printf("%s\n  ", comma);
            print_event(&groups[i].events[k]);
            putchar('}');
            comma = ",";
        }
    }
    fputs("],\n \"no_tracepoints\": ", stdout);
    cp__json_string(stdout, missing);
    print_member("engine", engine);
    print_member("engine_reason", why);
    puts("}");
}

void print_event_json(const struct event *event)
{
    struct cp_event_encoding encoding;
    char spelling[512];

    print_event(event);
    print_member("perf", event_perf_spelling(event, spelling, sizeof spelling) ? spelling : NULL);
    printf(", \"precise_ip\": %d, \"encoding\": ", (int)event->config.precise_ip);
    if (cp_event_encode(&event->spec, &encoding) == 0)
        printf("{\"type\": %" PRIu32 ", \"config\": \"0x%" PRIx64 "\", \"config1\": \"0x%" PRIx64
               "\", \"config2\": \"0x%" PRIx64 "\", \"bp_type\": %" PRIu32 "}",
               encoding.type, encoding.config, encoding.config1, encoding.config2, encoding.bp_type);
    else
        fputs("null", stdout);
    puts("}");
}
