/* What the tests of events and their names share. */
#ifndef COUNTERPOINT_TESTS_EVENT_TOOLS_H
#define COUNTERPOINT_TESTS_EVENT_TOOLS_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>

#include "runtime/event/rows.h"
#include "test.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Returns the event for which a name stands. */
static inline struct cp_event_spec parse(const char *name)
{
    struct cp_event_spec spec;
    struct cp_error err = {.code = 1};

    memset(&spec, 0xff, sizeof spec);
    spec.size = sizeof spec;
    CHECKF(cp_event_parse(name, &spec, &err) == 0, "%s: %s", name, err.message);
    CHECK_EQ(err.code, 1); /* success leaves err unchanged */
    return spec;
}

/* Checks that a message is text that a terminal shows unchanged, ends with a full stop, and was not cut
 * off. */
static inline void check_message(const struct cp_error *err)
{
    size_t n = strnlen(err->message, sizeof err->message);

    CHECK(n > 20 && n < sizeof err->message - 1);
    CHECK_STR(strrchr(err->message, '.'), ".");
    for (size_t i = 0; i < n; i++)
        CHECKF((unsigned char)err->message[i] >= ' ' && err->message[i] != 0x7f, "byte %d is %#x", (int)i,
               (unsigned char)err->message[i]);
}

/* Checks that a name is refused with a sentence that contains said, and that the spec stays unchanged. */
static inline void refuse_name(const char *name, int code, const char *said)
{
    struct cp_event_spec spec;
    struct cp_event_spec before;
    struct cp_error err = {0};
    int result;

    memset(&spec, 0xa5, sizeof spec);
    spec.size = sizeof spec;
    before = spec;
    result = cp_event_parse(name, &spec, &err);
    CHECKF(result == code, "%s: %d, %s", name == NULL ? "NULL" : name, result, err.message);
    CHECK_EQ(err.code, code);
    check_message(&err);
    CHECK_CONTAINS(err.message, said);
    CHECK(memcmp(&spec, &before, sizeof spec) == 0);
    CHECK_EQ(cp_event_parse(name, &spec, NULL), code);
}

#endif
