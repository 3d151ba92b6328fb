/* libpfm4 has another table of events for each processor. What reads the tables, or shows them, must do so
 * for processors other than this machine's, too: programs of tests run as if the processor were another. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/test.h"

/* Few events and many, names longer than their column, and names that are in this library's tables, too. */
#ifdef __aarch64__
static const char *const processors[] = {"arm_ac57", "arm_n1", "arm_v1"};
#else
static const char *const processors[] = {"amd64_fam17h_zen2", "amd64_fam19h_zen4", "knc", "spr", "tmt"};
#endif

/* Runs the tests of a program whose names match, as if the processor were another. */
static void check(const char *processor, const char *program, const char *tests)
{
    int status;
    char *text = test_command(&status, "LIBPFM_FORCE_PMU=%s %s/tests/%s_test -run '%s'", processor,
                              test_build_dir(), program, tests);

    CHECKF(status == 0, "%s, %s:\n%s", processor, program, text);
    free(text);
}

CP_TEST(no_processors_table_is_a_surprise)
{
    for (size_t i = 0; i < sizeof processors / sizeof processors[0]; i++) {
        check(processors[i], "cmd", "presets_are_listed|json_agrees|json_tells|groups_and_patterns");
        check(processors[i], "event_list", ".");
        check(processors[i], "event_pfm", ".");
    }
}
