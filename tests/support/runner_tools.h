/* Runs runner_sample, and checks what it prints about its tests. */
#ifndef COUNTERPOINT_TESTS_RUNNER_TOOLS_H
#define COUNTERPOINT_TESTS_RUNNER_TOOLS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

/* The sample's path, if it is not where it was built. */
static const char *sample;

/* Runs the sample with flags; returns its output. */
static inline char *run(int *status, const char *flags)
{
    return sample ? test_command(status, "%s %s", sample, flags)
                  : test_command(status, "%s/tests/runner_sample %s", test_build_dir(), flags);
}

/* Checks the sample's exit status and the words in its output. A word after "!" must not be in the output. */
static inline void expect_words(const char *flags, int expected_status, const char *const *words)
{
    int status;
    char *output = run(&status, flags);
    CHECKF(status == expected_status, "%s: %d\n%s", flags, status, output);
    for (; *words; words++)
        if (**words == '!')
            CHECKF(!strstr(output, *words + 1), "%s: \"%s\" in:\n%s", flags, *words + 1, output);
        else
            CHECKF(strstr(output, *words), "%s: no \"%s\" in:\n%s", flags, *words, output);
    free(output);
}
#define expect(flags, status, ...) expect_words(flags, status, (const char *const[]){__VA_ARGS__, NULL})

static inline long count_matches(const char *flags, const char *pattern)
{
    char *output = test_command(NULL, "%s/tests/runner_sample %s | grep -caE '%s' || :", test_build_dir(),
                                flags, pattern);
    long n = atol(output);
    free(output);
    return n;
}

#define SEGV "killed by signal 11 (Segmentation fault)"

#endif
