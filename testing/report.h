/* Reports what runs and what has run: a tree of tests, shown in one of three forms. */
#ifndef COUNTERPOINT_TESTING_REPORT_H
#define COUNTERPOINT_TESTING_REPORT_H

#include "event.h"
#include "options.h"
#include "text.h"

#include <stdio.h>

/* A test of the tree. The list of its subtests is in the order in which they began. */
struct cp__node {
    char *name;
    struct cp__node *parent, *first, *last, *next;
    unsigned depth;
    bool is_ended;
    enum cp__outcome outcome;
    double seconds;
    struct cp__text log; /* the messages that the test logged; freed when a subtest passes */
    size_t log_before;   /* size of the parent's log when this test ended or, until then, began */
};

/* Returns whether the node is a benchmark, which its name tells. */
bool cp__node_is_benchmark(const struct cp__node *node);

/* The functions of one form; NULL if the form does nothing for that call. The tree that end() receives is
 * that of a top-level test with all its subtests. */
struct cp__report_form {
    void (*begin)(void);
    void (*run)(const struct cp__node *node);
    void (*log)(const struct cp__node *node, const char *text);
    void (*printed)(const struct cp__node *node, const char *text); /* node: may be NULL */
    void (*result)(const struct cp__node *node, const char *text);
    void (*end)(const struct cp__node *node, const struct cp__text *printed);
    void (*note)(const char *line); /* a line of the runner's own, with a newline */
    void (*finish)(bool is_passed, double seconds);
};

/* Chooses the form by the options, and begins the report. */
void cp__report_begin(const struct cp__options *options);
/* Handles an event of the test that runs. */
void cp__report_event(const struct cp__event *event);
/* Returns the name of the innermost test that has not ended; NULL if no test runs. */
const char *cp__report_open_test(void);
/* Returns whether the last top-level test failed. */
bool cp__report_last_failed(void);
/* Returns whether any test has failed so far. */
bool cp__report_has_failed(void);
/* Sets on how many Ms tests run from now on. The number is part of the names of benchmarks. */
void cp__report_cpu(unsigned cpu);
/* Prints a line of the runner's own, which must end in a newline. */
void cp__report_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Ends the report. Returns whether nothing failed; a run that was cut short (is_whole is false) has
 * failed. */
bool cp__report_finish(bool is_whole);

/* The forms: report_go.c prints as "go test" does, or as "go tool test2json" does; report_tap.c prints the
 * Test Anything Protocol. */
const struct cp__report_form *cp__report_go(const struct cp__options *options);
const struct cp__report_form *cp__report_tap(const struct cp__options *options);

/* report_json.c: prints one event of test2json. "test" may be NULL; so may "output", which has size bytes;
 * "elapsed" is negative if the event has none. */
void cp__report_json(const char *action, const char *test, double elapsed, const char *output, size_t size);
/* Returns how many bytes of a text that goes on can be printed without splitting a UTF-8 character. */
size_t cp__report_json_whole(const char *text, size_t size);

#endif
