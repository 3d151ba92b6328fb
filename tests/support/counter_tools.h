/* Counters that a test opens, reads, starts and stops; a call that fails fails the test. */
#ifndef COUNTERPOINT_TESTS_COUNTER_TOOLS_H
#define COUNTERPOINT_TESTS_COUNTER_TOOLS_H

#include <stdio.h>

#include "counter.h"
#include "test.h"

static inline struct cp_event_spec spec_of(const char *name)
{
    struct cp_event_spec spec = {.size = sizeof spec};
    struct cp_error err = {0};
    int result = cp_event_parse(name, &spec, &err);

    CHECKF(result == 0, "%s", err.message);
    return spec;
}

static inline struct cp_counter *opened(const char *name)
{
    struct cp_event_spec spec = spec_of(name);
    struct cp_counter *counter;
    struct cp_error err = {0};
    int result = cp_counter_open(&counter, &spec, &err);

    CHECKF(result == 0, "%s", err.message);
    return counter;
}

static inline struct cp_counter_value value_of(struct cp_counter *counter)
{
    struct cp_counter_value value = {.size = sizeof value};
    struct cp_error err = {0};
    int result = cp_counter_read(counter, &value, &err);

    CHECKF(result == 0, "%s", err.message);
    printf("%llu (%llu), running %llu of %llu ns\n", (unsigned long long)value.count,
           (unsigned long long)value.raw, (unsigned long long)value.running_ns,
           (unsigned long long)value.enabled_ns);
    return value;
}

static inline void start(struct cp_counter *counter)
{
    CHECK_EQ(cp_counters_start(&counter, 1), 0);
}

static inline void stop(struct cp_counter *counter)
{
    CHECK_EQ(cp_counters_stop(&counter, 1), 0);
}

#endif
