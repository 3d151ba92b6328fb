/* Runs the command report in the test's directory. */
#ifndef COUNTERPOINT_TESTS_REPORT_RUN_H
#define COUNTERPOINT_TESTS_REPORT_RUN_H

#include <stdlib.h>
#include <string.h>

#include "test.h"

static inline char *report(int *status, const char *arguments)
{
    return test_command(status, "cd %s && %s/bin/counterpoint report %s", test_dir(), test_build_dir(),
                        arguments);
}

/* Checks the exit status, and that the output contains a part. */
static inline void check_report(const char *arguments, int expected, const char *part)
{
    int status;
    char *text = report(&status, arguments);

    CHECKF(status == expected, "report %s: status %d, not %d:\n%s", arguments, status, expected, text);
    CHECKF(strstr(text, part) != NULL, "report %s:\n%s\nhas no \"%s\"", arguments, text, part);
    free(text);
}

static inline void check_output(const char *arguments, const char *expected)
{
    char *text = report(NULL, arguments);

    CHECKF(strcmp(text, expected) == 0, "report %s:\n%s\nand expected was:\n%s", arguments, text, expected);
    free(text);
}

/* Stacks with inlining, recursion, and code without symbols, for make_cpu_profile(). */
static const char calls[] = "main;work;sort;swap 10 100000000\n"
                            "main;work;sort 30 300000000\n"
                            "main;work;sort+less 20 200000000\n"
                            "main;work;sort+less+compare 5 50000000\n"
                            "main;less 3 30000000\n"
                            "main;work;parse 25 250000000\n"
                            "main;work;parse;parse;parse 4 40000000\n"
                            "main;[libc.so.6] 2 20000000\n"
                            "main;idle 1 10000000\n";

#endif
