/* Events as "counterpoint events" shows them. */
#ifndef COUNTERPOINT_CMD_EVENTS_H
#define COUNTERPOINT_CMD_EVENTS_H

#include "runtime.h"

enum event_state {
    EVENT_UNTRIED,
    EVENT_WORKS,
    EVENT_REFUSED, /* error says why */
};

struct event {
    char *name; /* as the user may write it */
    char *alias;
    char *group;
    char *description;
    struct cp_event_spec spec;
    struct cp_cpu_profile_config config; /* that it would run with */
    enum event_state state;
    struct cp_error error;
};

/* Events of one heading, which stand together. */
struct event_group {
    const struct event *events;
    size_t n;
    /* where nobody asked for just these: */
    bool is_long;    /* too many to list */
    bool is_refused; /* all of them, for one reason */
};

/* What an event is, in words. */
const char *event_kind(const struct event *event);
bool event_is_timed(const struct event *event); /* its period is in ns */
bool event_is_user_only(const struct event *event);
/* How many of a group work; -1: they were not tried. */
int group_working(const struct event_group *group);
/* Why it is refused, in a phrase. */
const char *event_reason(const struct event *event);

/* The argument of perf record -e for an event; false where perf has no such event. */
bool event_perf_spelling(const struct event *event, char *text, size_t size);

/* missing: why there are no tracepoints among them; NULL: there are, or nobody asked for them. */
void print_list_text(const struct event_group *groups, size_t n, const char *missing);
void print_list_json(const struct event_group *groups, size_t n, const char *missing);
void print_event_text(const struct event *event);
void print_event_json(const struct event *event);

#endif
