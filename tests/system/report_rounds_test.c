/* "counterpoint report" of the rounds of a watch: which samples it keeps, and that go tool pprof keeps
 * the same. */
#include "tests/support/made_profiles.h"
#include "tests/support/report_run.h"

#define STRINGS                                                                                              \
    "", "samples", "count", "cpu", "nanoseconds", "/bin/program", "a1b2c3", "watch", "parse", "sort",        \
        "recorded_location", "watch:recorded_location", "bytes"

/* A sample of so many, at the location of the first frame that make_profile() makes, with labels. */
#define SAMPLE(n, labels) "sample { location_id: 1 value: " #n " value: " #n "0000000 " labels " }\n"
#define WATCH(name) "label { key: 7 str: " #name " } "
#define TOOK(name, ns) "label { key: " #name " num: " #ns " num_unit: 4 } "

/* Rounds of "parse" of 1 to 10 ms, each with a sample but the slowest, which has two stacks, and one that has
 * not ended; a round of "sort" in two of them. */
#define ROUNDS                                                                                               \
    SAMPLE(1, WATCH(8) TOOK(8, 1000000))                                                                     \
    SAMPLE(1, WATCH(8) TOOK(8, 2000000))                                                                     \
    SAMPLE(1, WATCH(8) TOOK(8, 3000000))                                                                     \
    SAMPLE(1, WATCH(8) TOOK(8, 4000000))                                                                     \
    SAMPLE(1, WATCH(8) TOOK(8, 5000000))                                                                     \
    SAMPLE(1, WATCH(8) TOOK(8, 6000000))                                                                     \
    SAMPLE(1, WATCH(8) TOOK(8, 7000000))                                                                     \
    SAMPLE(2, WATCH(8) WATCH(9) TOOK(8, 8000000) TOOK(9, 300))                                               \
    SAMPLE(4, WATCH(8) TOOK(8, 9000000))                                                                     \
    SAMPLE(8, WATCH(8) TOOK(8, 10000000))                                                                    \
    SAMPLE(16, WATCH(8) WATCH(9) TOOK(8, 10000000) TOOK(9, 200))                                             \
    SAMPLE(32, WATCH(8))                                                                                     \
    SAMPLE(64, WATCH(10) TOOK(11, 50) "label { key: 10 num: 7000 } ")                                        \
    SAMPLE(128, "label { key: 8 num: 77 num_unit: 12 } ")

static void make_rounds(const char *name, const char *comment)
{
    const char *const strings[] = {STRINGS, comment};
    char head[8192];

    snprintf(head, sizeof head, "%s comment: 13\n%s", CPU_HEAD, ROUNDS);
    make_profile(name, head, strings, sizeof strings / sizeof strings[0], "main 256 2560000000\n");
}

/* Checks how many samples are kept, of 515. */
static void check_kept(const char *arguments, int samples)
{
    char part[80];

    snprintf(part, sizeof part, "Showing nodes accounting for %d,", samples);
    check_report(arguments, 0, part);
}

#define TOP "--event samples --top "

CP_TEST(samples_are_chosen_by_their_watch)
{
    make_rounds("rounds", "event: taskClock");
    check_kept(TOP "--watch parse rounds.pb.gz", 7 + 2 + 4 + 8 + 16 + 32);
    check_kept(TOP "--watch sort rounds.pb.gz", 2 + 16);
    check_kept(TOP "--watch sort --tagignore thread=x rounds.pb.gz", 2 + 16);
    check_report("--watch sort rounds.pb.gz", 0, "Active filters:\n   watch=sort\n");
    check_report("--watch par rounds.pb.gz 2>&1", 1,
                 "No sample was taken in a round of the watch \"par\". The profile has samples in rounds of "
                 "\"parse\"");
    make_cpu_profile("none", "", calls);
    check_report("--watch par none.pb.gz 2>&1", 1, "No sample was taken in a round of a watch");
}

CP_TEST(a_share_is_of_the_rounds_with_samples)
{
    make_rounds("rounds", "event: taskClock");
    check_kept(TOP "--watch parse --slowest 10% rounds.pb.gz", 8 + 16);
    check_kept(TOP "--watch parse --slowest 1 rounds.pb.gz", 8 + 16);
    check_kept(TOP "--watch parse --slowest 11% rounds.pb.gz", 4 + 8 + 16);
    check_kept(TOP "--watch parse --slowest 30% rounds.pb.gz", 2 + 4 + 8 + 16);
    check_kept(TOP "--watch parse --slowest 100% rounds.pb.gz", 7 + 2 + 4 + 8 + 16);
    check_kept(TOP "--watch sort --slowest 50% rounds.pb.gz", 2);
    check_kept(TOP "--watch recorded_location --slowest 50% rounds.pb.gz", 64);
    check_report("--watch parse --slowest 30% rounds.pb.gz 2>&1", 0,
                 "The slowest 30 % of the rounds with samples of the watch \"parse\" took 8ms or longer.");
}

CP_TEST(one_percent_is_of_all_rounds_if_the_profile_tells_the_bound)
{
    make_rounds("told", "watch_slowest: 8500000 parse # ns or longer took the slowest 1 % of all rounds");
    check_kept(TOP "--watch parse --slowest 1% told.pb.gz", 4 + 8 + 16);
    check_kept(TOP "--watch parse --slowest 10% told.pb.gz", 8 + 16);
    check_kept(TOP "--watch sort --slowest 1% told.pb.gz", 2); /* the comment is of another watch */
    check_report("--watch parse --slowest 1% told.pb.gz 2>&1", 0,
                 "The slowest 1 % of all rounds of the watch \"parse\" took 8.50ms or longer.");
    make_rounds("above", "watch_slowest: 10000001 parse # ns or longer");
    check_report("--watch parse --slowest 1% above.pb.gz 2>&1", 1, "None of these rounds has a sample.");
    make_rounds("other", "watch_slowest: 8500000 parse 2 # ns or longer");
    check_kept(TOP "--watch parse --slowest 1% other.pb.gz", 8 + 16);
    make_rounds("again", "watch_slowest: 9500000 parse # ns or longer");
    check_kept(TOP "--watch parse --slowest 1% again.pb.gz told.pb.gz", 2 * (8 + 16)); /* two bounds */
}

/* go tool pprof keeps the same samples by the filter that the profile names. */
CP_TEST(pprof_keeps_the_same_samples)
{
    char *text;

    make_rounds("told", "watch_slowest: 8500000 parse # ns or longer took the slowest 1 % of all rounds");
    text = test_command(NULL,
                        "cd %s && HOME=. go tool pprof -symbolize=none -top -sample_index=samples "
                        "-tagfocus=parse=8500000ns: told.pb.gz 2>&1",
                        test_dir());
    CHECK_CONTAINS(text, "Showing nodes accounting for 28,");
    free(text);
}

CP_TEST(what_makes_no_sense_is_refused)
{
    make_rounds("rounds", "event: taskClock");
    check_report("--slowest 1% rounds.pb.gz 2>&1", 2, "give --watch NAME, too");
    check_report("--watch parse --slowest 0 rounds.pb.gz 2>&1", 2, "a share of rounds, such as 1%");
    check_report("--watch parse --slowest 101% rounds.pb.gz 2>&1", 2, "a share of rounds, such as 1%");
    check_report("--watch parse --slowest few rounds.pb.gz 2>&1", 2, "and not \"few\"");
    check_report("--watch none --slowest 1% rounds.pb.gz 2>&1", 1, "No round of the watch \"none\"");
    check_report("--merge all.pb.gz --watch parse rounds.pb.gz 2>&1", 2, "leave --watch out");
}
