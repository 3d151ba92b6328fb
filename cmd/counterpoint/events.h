/* Events as "counterpoint events" shows them. */
#ifndef COUNTERPOINT_CMD_EVENTS_H
#define COUNTERPOINT_CMD_EVENTS_H

#include "runtime.h"

enum event_state {
    EVENT_UNTRIED,
    EVENT_WORKS,
    EVENT_REFUSED, /* `error` says why */
};

struct event {
    char *name; /* a name that the user may give */
    char *alias;
    char *group;
    char *description;
    struct cp_event_spec spec;
    struct cp_cpu_profile_config config; /* the config with which the event would run */
    enum event_state state;
    struct cp_error error;
};

/* The events under one heading, which are adjacent in the list. */
struct event_group {
    const struct event *events;
    size_t n;
    /* Set only if the user did not ask for this group: */
    bool is_long;    /* the group has too many events to list */
    bool is_refused; /* all events were refused for one reason */
};

/* Returns what kind of event it is, as a word. */
const char *event_kind(const struct event *event);
bool event_is_timed(const struct event *event); /* Returns whether the event's period is in ns. */
bool event_is_user_only(const struct event *event);
/* Returns how many events of a group work; -1: they were not tried. */
int group_working(const struct event_group *group);
/* Returns why the event was refused, as a phrase. */
const char *event_reason(const struct event *event);

/* Writes the argument of `perf record -e` for an event. Returns false if perf has no such event. */
bool event_perf_spelling(const struct event *event, char *text, size_t size);

/* Returns the name of the engine that brings the samples of events here; NULL if CP_ENGINE names none. *why
 * says why the engine is not trap, or why there is none; NULL: it is trap. */
const char *event_engine(const char **why);

/* missing: why the list has no tracepoints; NULL: the list has them, or the user did not ask for them. */
void print_list_text(const struct event_group *groups, size_t n, const char *missing);
void print_list_json(const struct event_group *groups, size_t n, const char *missing);
void print_event_text(const struct event *event);
void print_event_json(const struct event *event);

#endif
