/*
 * `counterpoint watch` with the PMU's events: tests/support/watched_sample.c has a function of a known number
 * of instructions, whose threads share their CPUs with others. tests/vm runs this in an emulated machine;
 * CP_TEST_CPI is then the number of cycles that an instruction takes, and an event that does not open is a
 * failure.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/instructions.h"
#include "tests/support/watched_sample.h"

/* Returns a number of the JSON's row for a quantity. */
static double number_of(const char *json, const char *quantity, const char *member)
{
    char key[60];
    const char *row, *at;

    snprintf(key, sizeof key, "\"quantity\":\"%s\"", quantity);
    row = strstr(json, key);
    CHECKF(row != NULL, "%s", json);
    snprintf(key, sizeof key, "\"%s\":", member);
    at = strstr(row, key);
    CHECKF(at != NULL, "%s", json);
    return strtod(at + strlen(key), NULL);
}

CP_TEST(instructions_are_those_of_the_function_and_not_of_its_cpus)
{
    const char *cpi = getenv("CP_TEST_CPI");
    int status;
    char *said, *json;

    if (TEST_ASAN || TEST_TSAN)
        SKIP("a sanitizer has instructions of its own");
    said = test_command(&status,
                        "%s/bin/counterpoint watch -e instructions,cycles --function watched_loop --json -o "
                        "%s/json -- %s/tests/watched_sample -run computes",
                        test_build_dir(), test_dir(), test_build_dir());
    if (status == 1 && cpi == NULL)
        SKIP("%s", said);
    CHECKF(status == 0, "%s", said);
    free(said);
    json = test_command(NULL, "cat %s/json", test_dir());
    CHECK_EQ(number_of(json, "instructions", "count"), WATCHED_CALLS);
    CHECK_NEAR(number_of(json, "instructions", "mean"), WATCHED_INSTRUCTIONS, 0.005);
    CHECK_NEAR(number_of(json, "instructions", "max"), WATCHED_INSTRUCTIONS, 0.005);
    if (cpi != NULL)
        CHECK_NEAR(number_of(json, "cycles", "mean"), strtod(cpi, NULL) * WATCHED_INSTRUCTIONS, 0.005);
    free(json);
}
