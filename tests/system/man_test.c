/* The manual's pages, which man/generate makes out of the headers' comments and of the commands' help. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

/* The page as a reader with a terminal of 80 columns sees it. */
static char *read_page(const char *section, const char *name)
{
    return test_command(NULL, "MANWIDTH=80 LC_ALL=C man -M build/man %s %s", section, name);
}

CP_TEST(each_call_has_a_page)
{
    free(test_command(NULL, "make -s man"));
    char *missing = test_command(NULL, "for name in $(grep -ohE '\\bcp_[a-z_0-9]+;' abi/*.map | tr -d ';')\n"
                                       "do test -e build/man/man3/$name.3 || echo $name; done");
    CHECK_STR(missing, "");
    free(missing);
    free(test_command(NULL, "grep -q 'cp_session_start;' abi/*.map")); /* the list was not empty */
}

CP_TEST(man_shows_what_the_header_says)
{
    char *page = read_page("3", "cp_session_start");

    CHECK_CONTAINS(page, "cp_session_start - starts a session\n");
    CHECK_CONTAINS(page, "#include <counterpoint/pprof.h>\n");
    CHECK_CONTAINS(page, "int cp_session_start(struct cp_session **session,\n");
    CHECK_CONTAINS(page, "Events and writers must be different.");
    CHECK_CONTAINS(page, "none from a signal handler");
    CHECK_CONTAINS(page, "cp_profiling_option(3)");
    free(page);
}

/* Calls that share a comment share a page; so do macros, structs with their members, and what only C has. */
CP_TEST(each_name_of_a_group_leads_to_its_page)
{
    static const char *const names[][2] = {
        {"cp_cpu_cycles", "cp_cpu_branch_misses"},
        {"cp_start_cpu_profile_with_options", "cp_start_cpu_profile_with_config"},
        {"CP_TEST", "CP_BENCHMARK"},
        {"cp_event_info", "cp_event_each_fn"},
    };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *page = read_page("3", names[i][0]);
        char *alias = read_page("3", names[i][1]);

        CHECK_STR(page, alias);
        CHECK_CONTAINS(page, names[i][1]);
        free(page);
        free(alias);
    }
}

CP_TEST(a_struct_and_its_call_are_one_page)
{
    char *page = read_page("3", "cp_runtime_stats");

    CHECK_CONTAINS(page, "struct cp_runtime_stats {\n");
    CHECK_CONTAINS(page, "int cp_runtime_stats(struct cp_runtime_stats *stats);");
    CHECK_CONTAINS(page, "Returns -EINVAL if the\n       size was never set.");
    free(page);
}

CP_TEST(the_overview_leads_to_each_page)
{
    char *page = read_page("7", "counterpoint");

    CHECK_CONTAINS(page, "<counterpoint/sched.h>");
    CHECK_CONTAINS(page, "An M:N scheduler for programs that have none.");
    free(page);
    page = test_command(NULL, "cd build/man/man3 && for page in *.3; do\n"
                              "    [ -h $page ] || grep -qw \"${page%%.3} (3)\" ../man7/counterpoint.7 ||"
                              " echo $page\ndone");
    CHECK_STR(page, "");
    free(page);
}

CP_TEST(commands_have_pages_that_say_what_their_help_says)
{
    char *page = read_page("1", "counterpoint");

    CHECK_CONTAINS(page, "counterpoint-events(1)");
    free(page);
    page = read_page("1", "counterpoint-events");
    CHECK_CONTAINS(page, "counterpoint events [--json]");
    CHECK_CONTAINS(page, "EXIT STATUS\n");
    free(page);
    page = test_command(NULL,
                        "for command in $(%s/bin/counterpoint --help | sed -n 's/^  \\([a-z]*\\) .*/\\1/p')\n"
                        "do echo $command\n"
                        "    for option in $(%s/bin/counterpoint $command --help | grep -o '^  --[a-z]*')\n"
                        "    do man -M build/man 1 counterpoint-$command | grep -qe \"$option\" ||"
                        " echo \"lacks $option\"\n"
                        "    done\n"
                        "done",
                        test_build_dir(), test_build_dir());
    CHECK_CONTAINS(page, "report\n");
    CHECKF(strstr(page, "lacks") == NULL, "%s", page);
    free(page);
}

static const char table_of_commands[] = "    {\"watch\", command_watch, \"runs a program\"},\n"
                                        "    {\"mute\", command_mute, \"says nothing\"},\n";

static const char help_of_watch[] = "static const char help[] =\n"
                                    "    \"usage: counterpoint watch [OPTION...] [--] PROGRAM\\n\"\n"
                                    "    \"\\n\"\n"
                                    "    \"Runs a program.\\n\"\n"
                                    "    \"\\n\"\n"
                                    "    \"  -e, --event EVENT   the event, \\\"timer\\\"\\n\"\n"
                                    "    \"                      if there is none\\n\"\n"
                                    "    \"  --a-long-option-of-its-own FILE\\n\"\n"
                                    "    \"                      where the profile goes\\n\"\n"
                                    "    \"\\n\"\n"
                                    "    \"Exit status: that of the program.\\n\";\n";

/* A command of which the sources say nothing has no page, and is listed all the same. */
CP_TEST(a_new_command_has_a_page)
{
    free(test_command(NULL, "cp -r man %s && mkdir -p %s/cmd/counterpoint", test_dir(), test_dir()));
    test_write_file("cmd/counterpoint/main.c", table_of_commands);
    test_write_file("cmd/counterpoint/watch.c", help_of_watch);
    test_write_file("a.h", "/* counterpoint/a.h: a header. */\n");
    char *page =
        test_command(NULL,
                     "cd %s && man/generate pages 1 2000-01-01 a.h && export MANWIDTH=80 LC_ALL=C &&\n"
                     "man -M pages 1 counterpoint-watch && man -M pages 1 counterpoint",
                     test_dir());
    CHECK_CONTAINS(page, "counterpoint-watch - runs a program\n");
    CHECK_CONTAINS(page, "counterpoint watch [OPTION...] [--] PROGRAM\n");
    CHECK_CONTAINS(page, "       -e, --event EVENT\n              the event, \"timer\" if there is none\n");
    CHECK_CONTAINS(page, "       --a-long-option-of-its-own FILE\n              where the profile goes\n");
    CHECK_CONTAINS(page, "EXIT STATUS\n       That of the program.\n");
    CHECK_CONTAINS(page, "see counterpoint-watch(1).");
    CHECK_CONTAINS(page, "Says nothing.\n");
    free(page);
}

/* ---- The form of the pages ------------------------------------------------------------------- */

CP_TEST(man_complains_of_nothing)
{
    char *complaints =
        test_command(NULL, "cd build/man && groff -ww -man -Tutf8 -Z $(find . -type f -name '*.[1-9]')"
                           " 2>&1 > /dev/null");
    CHECK_STR(complaints, "");
    free(complaints);
    complaints = test_command(NULL, "LC_ALL=C man --warnings -l -Tutf8 -Z build/man/man7/counterpoint.7"
                                    " 2>&1 > /dev/null");
    CHECK_STR(complaints, "");
    free(complaints);
}

CP_TEST(mandoc_complains_of_nothing)
{
    int status;

    free(test_command(&status, "command -v mandoc"));
    if (status != 0)
        SKIP("mandoc is not here");
    char *complaints = test_command(&status, "cd build/man && mandoc -Tlint -W warning man*/*");
    CHECK_STR(complaints, "");
    free(complaints);
}

CP_TEST(a_call_without_a_comment_is_refused)
{
    int status;

    test_write_file("bad.h", "/* counterpoint/bad.h: a header. */\n\nint cp_nothing(void);\n");
    char *text = test_command(&status, "man/generate %s/man 0 2000-01-01 %s/bad.h", test_dir(), test_dir());
    CHECK(status != 0);
    CHECK_CONTAINS(text, "bad.h: cp_nothing has no comment");
    free(text);
}
