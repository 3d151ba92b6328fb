/* Programs that profile themselves while a tool of others looks on, tests/support/tools_target.c, and those
 * that know nothing of the library. */
#ifndef COUNTERPOINT_TESTS_TARGET_TOOLS_H
#define COUNTERPOINT_TESTS_TARGET_TOOLS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile_tools.h"

/* Builds the program in the test's directory, with flags for the compiler. The library is that of this build.
 * Skips the test if what this command needs is not there. */
static inline void build_target(const char *flags, const char *needed, const char *why_not)
{
    int status;

    if (TEST_ASAN || TEST_TSAN)
        SKIP("this build of the library has a sanitizer of its own");
    test_need_events();
    free(test_command(&status, "cd %s && %s", test_dir(), needed));
    if (status != 0)
        SKIP("%s", why_not);
    free(test_command(
        NULL,
        "cd %s && top=$(dirname %s)/../.. && gcc -O1 -g %s -iquote $top/pprof -iquote $top/runtime -iquote "
        "$top/runtime/base -iquote $top/runtime/event %s %s/lib/libcounterpoint.a -lprotobuf-c -lz -ldw "
        "-lelf "
        "-lpfm -liberty -ldl -lrt -pthread -o target",
        test_dir(), test_source("tools_target.c"), flags, test_source("tools_target.c"), test_build_dir()));
}

/* Builds a program without the library, in the test's directory, once. Skips the test if the library cannot
 * be preloaded, or the machine has no events. */
static inline void build_stranger(const char *name, const char *source)
{
    if (TEST_ASAN || TEST_TSAN)
        SKIP("a sanitizer's library would have to be preloaded first");
    test_need_events();
    free(test_command(NULL, "cd %s && { [ -x %s ] || gcc -D_GNU_SOURCE -O1 -g -pthread %s -o %s; }",
                      test_dir(), name, test_source(source), name));
}

/* Has the program take two profiles of itself at a time. before is what stands before the command. Returns
 * its exit status; *output is what it and the tool print. */
static inline int run_target(const char *before, char **output)
{
    int status;

    *output = test_command(&status, "cd %s && env %s ./target x.pb.gz taskClock y.pb.gz timer 2>&1",
                           test_dir(), before);
    return status;
}

/* Checks that a profile of the program has samples, and says something in its comments; and that its stacks
 * have a function, unless that is NULL. */
static inline void check_target(const char *profile, const char *says, const char *function)
{
    const char *pprof = "cd %s && PPROF_TMPDIR=. HOME=. go tool pprof %s %s 2> /dev/null";
    char *text = test_command(NULL, pprof, test_dir(), "-comments", profile);

    CHECK_CONTAINS(text, says);
    CHECKF(strstr(text, "\nsamples: 0") == NULL, "%s", text);
    free(text);
    if (function == NULL)
        return;
    text = test_command(NULL, pprof, test_dir(), "-top -cum", profile);
    CHECK_CONTAINS(text, function);
    free(text);
}

#endif
