/* What the command counterpoint says of waits, which are events of the runtime. */
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

/* Runs the command of the build that this program belongs to. */
static char *show_waits(int *status, const char *arguments)
{
    return test_command(status, "%s/bin/counterpoint events %s", test_build_dir(), arguments);
}

/* Waits work on every machine, whatever the kernel has. */
CP_TEST(waits_are_listed)
{
    int status;
    char *text = show_waits(&status, "waits"), *name;

    CHECK_EQ(status, 0);
    name = strstr(text, "\n  lock ");
    CHECKF(name != NULL && strstr(name, " wait ") != NULL && strstr(name, " 1 ms  works\n") != NULL, "%s",
           text);
    free(text);
}

CP_TEST(a_wait_is_shown_without_an_encoding)
{
    int status;
    char *text = show_waits(&status, "runnable:1ms");

    CHECK_EQ(status, 0);
    CHECK_CONTAINS(text, "\n  kind        wait\n");
    CHECK_CONTAINS(text, "\n  encoding    none: the runtime tells when Gs and threads wait\n");
    CHECK_CONTAINS(text, "\n  period      1 ms\n");
    CHECK_CONTAINS(text, "\n  perf        has no such event\n");
    CHECK_CONTAINS(text, "\n  counts      times in which");
    CHECK(strstr(text, "modes") == NULL);
    free(text);
}

CP_TEST(json_shows_a_wait)
{
    char *text;

    if (system("command -v jq > /dev/null") != 0)
        SKIP("jq is not here");
    text = show_waits(NULL, "--json lock | jq -c '[.name, .kind, .period, .period_unit, (.modes | length), "
                            ".encoding, .works]'");
    CHECK_STR(text, "[\"lock\",\"wait\",1000000,\"ns\",0,null,true]\n");
    free(text);
}
