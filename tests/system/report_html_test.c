/* "counterpoint report --html": a file that shows profiles in a browser that tests/ui/report.mjs drives. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/profile_text.h"
#include "tests/support/test.h"

/* cook_meals has 3/4 of 100 ms in the first profile. The second profile does not say how long it took. Both
 * functions are in rounds of the watch "meal", and one also in the watch "oven". */
#define COOK_LABELS                                                                                          \
    "label { key: 11 str: 12 } label { key: 11 str: 13 } label { key: 12 num: 8500000 num_unit: 4 }"
#define SERVE_LABELS "label { key: 11 str: 12 } label { key: 12 num: 2000 num_unit: 4 }"
#define PROFILE(cook, serve, end)                                                                            \
    "sample_type { type: 1 unit: 2 } sample_type { type: 3 unit: 4 } sample_type { type: 10 unit: 4 }\n"     \
    "sample { location_id: 2 location_id: 1 value: 15 value: " cook " value: 1 " COOK_LABELS "}\n"           \
    "sample { location_id: 3 location_id: 1 value: 5 value: " serve " value: 1 " SERVE_LABELS "}\n"          \
    "location { id: 1 line { function_id: 1 } } location { id: 2 line { function_id: 2 } }\n"                \
    "location { id: 3 line { function_id: 3 } }\n"                                                           \
    "function { id: 1 name: 5 } function { id: 2 name: 6 } function { id: 3 name: 7 }\n"                     \
    "string_table: '' string_table: 'samples' string_table: 'count' string_table: 'cpu'\n"                   \
    "string_table: 'nanoseconds' string_table: 'main' string_table: 'cook_meals' string_table: 'serve'\n"    \
    "string_table: 'limits: dropped' string_table: 'dropped: 7 # samples were lost' string_table: 'wall'\n"  \
    "string_table: 'watch' string_table: 'meal' string_table: 'oven' comment: 8 comment: 9\n" end

/* Of a name that is neither HTML nor UTF-8. */
#define SECOND "a <b>&\"\001\377.pb"

static void make_profiles(void)
{
    encode_profile("first.pb", PROFILE("75000000", "25000000", "duration_nanos: 1000000000"));
    encode_profile(SECOND, PROFILE("10000000", "20000000", ""));
    free(test_command(NULL, "gzip %s/first.pb", test_dir()));
}

static char *run_report(int *status, const char *arguments)
{
    return test_command(status, "cd %s && %s/bin/counterpoint report %s 2>&1", test_dir(), test_build_dir(),
                        arguments);
}

static void make_page(void)
{
    make_profiles();
    free(run_report(NULL, "--html page.html --event cpu first.pb.gz '" SECOND "'"));
}

/* Prints the bytes of the n-th profile in the page. */
#define EMBEDDED(n)                                                                                          \
    "awk '/<script .*class=\"profile\"/ { n++; next } /<.script>/ { next } n == " #n "' page.html | base64 " \
    "-d"

CP_TEST(the_profiles_stand_in_the_file)
{
    make_page();
    free(test_command(NULL, "cd %s && " EMBEDDED(1) " | cmp - first.pb.gz", test_dir()));
    free(test_command(NULL, "cd %s && " EMBEDDED(2) " | gzip -dc | cmp - '" SECOND "'", test_dir()));
    free(test_command(NULL, "cd %s && tail -n 1 page.html | grep -qx '</html>'", test_dir()));
}

CP_TEST(the_page_can_go_to_the_standard_output)
{
    make_page();
    free(test_command(NULL,
                      "cd %s && %s/bin/counterpoint report --html - --event cpu first.pb.gz '" SECOND "' | "
                      "cmp - page.html",
                      test_dir(), test_build_dir()));
    free(test_command(NULL,
                      "cd %s && %s/bin/counterpoint report --html - - < first.pb.gz | "
                      "grep -q 'data-name=\"standard input\"'",
                      test_dir(), test_build_dir()));
}

CP_TEST(a_page_that_cannot_be_written_is_told)
{
    int status;
    char *said;

    make_profiles();
    said = run_report(&status, "--html no/page.html first.pb.gz");
    CHECK_EQ(status, 3);
    CHECK_STR(said, "counterpoint: The page cannot be written to no/page.html: No such file or directory.\n");
    free(said);
    said = run_report(&status, "--html /dev/full first.pb.gz");
    CHECK_EQ(status, 3);
    CHECK_CONTAINS(said, "The page cannot be written to /dev/full: No space left on device. What is there ");
    free(said);
    said = run_report(&status, "--html page.html --focus serve first.pb.gz");
    CHECK_EQ(status, 2);
    CHECK_CONTAINS(said,
                   "counterpoint: --html writes all samples, and cannot choose some: leave --focus out.");
    free(said);
    said = run_report(&status, "--html page.html page.html");
    CHECK(status != 0);
    free(test_command(NULL, "! test -e %s/page.html", test_dir()));
    free(said);
}

CP_TEST(a_browser_shows_the_page_and_asks_nobody)
{
    char pictures[400];

    if (system("command -v node > /dev/null && command -v chromium > /dev/null") != 0)
        SKIP("node or chromium is not installed");
    snprintf(pictures, sizeof pictures, "%s/pictures", test_build_dir());
    mkdir(pictures, 0777);
    make_page();
    char *steps = test_command(NULL, "HOME=%s node %s/report.mjs %s/page.html %s", test_dir(), CP_UI_TEST,
                               test_dir(), pictures);
    printf("%s", steps);
    free(steps);
    free(test_command(NULL, "cd %s && gzip -dc %s/report-download.pb.gz | cmp - '" SECOND "'", test_dir(),
                      pictures));
}
