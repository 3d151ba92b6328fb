/* What the runner shows: the tests that run or have run, as a tree, in one of three forms. */
#ifndef COUNTERPOINT_TESTING_REPORT_H
#define COUNTERPOINT_TESTING_REPORT_H

#include "event.h"
#include "options.h"
#include "text.h"

#include <stdio.h>

/* A test of the tree; subtests in the order in which they began. */
struct cp__node {
    char *name;
    struct cp__node *parent, *first, *last, *next;
    unsigned depth;
    bool is_ended;
    enum cp__outcome outcome;
    double seconds;
    struct cp__text log; /* what it logged; nothing any more if it has passed */
    size_t log_before;   /* how much its parent had logged when it ended or, until then, when it began */
};

bool cp__node_is_benchmark(const struct cp__node *node);

/* One form; NULL where it does nothing at that. The tree that end() is given is that of a test on the first
 * level, with all it has. */
struct cp__report_form {
    void (*begin)(void);
    void (*run)(const struct cp__node *node);
    void (*log)(const struct cp__node *node, const char *text);
    void (*printed)(const struct cp__node *node, const char *text); /* node: may be NULL */
    void (*result)(const struct cp__node *node, const char *text);
    void (*end)(const struct cp__node *node, const struct cp__text *printed);
    void (*note)(const char *line); /* of the runner's own, with a newline */
    void (*finish)(bool is_passed, double seconds);
};

void cp__report_begin(const struct cp__options *options);
void cp__report_event(const struct cp__event *event);
/* The innermost test that has not ended; NULL: none. */
const char *cp__report_open_test(void);
/* Whether the last test of the first level failed. */
bool cp__report_last_failed(void);
bool cp__report_has_failed(void);
/* Takes note of on how many Ms benchmarks run from here on: a part of their names. */
void cp__report_cpu(unsigned cpu);
void cp__report_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Whether nothing failed; a run that is not whole has. */
bool cp__report_finish(bool is_whole);

/* report_go.c: as go test prints it, report_json.c: as go tool test2json does, report_tap.c. */
const struct cp__report_form *cp__report_go(const struct cp__options *options);
const struct cp__report_form *cp__report_tap(const struct cp__options *options);

/* report_json.c: prints one event; test may be NULL; so may output, of which size bytes count; elapsed is
 * negative where there is none. */
void cp__report_json(const char *action, const char *test, double elapsed, const char *output, size_t size);
/* How many bytes of a text that goes on can be printed without those of a character that is not whole. */
size_t cp__report_json_whole(const char *text, size_t size);

#endif
