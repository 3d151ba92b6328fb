/* The command report: its forms against go tool pprof and against what the made profiles hold, and what it
 * says of files that are no profiles. */
#include "tests/support/made_profiles.h"
#include "tests/support/report_run.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* ---- Running both ---------------------------------------------------------------------------- */

/* Checks that --top prints what go tool pprof -top prints about the files, line for line. */
static void check_top(const char *options, const char *files)
{
    char *expected =
        test_command(NULL, "cd %s && HOME=%s PPROF_TMPDIR=%s go tool pprof -top %s %s 2> /dev/null",
                     test_dir(), test_dir(), test_dir(), options, files);
    char *text = test_command(NULL, "cd %s && %s/bin/counterpoint report --top %s %s 2> /dev/null",
                              test_dir(), test_build_dir(), options, files);

    CHECKF(strcmp(text, expected) == 0, "%s %s:\n%s\nand of go tool pprof:\n%s", options, files, text,
           expected);
    free(expected);
    free(text);
}

static void check_tops(const char *file)
{
    static const char *const options[] = {"",
                                          "-cum",
                                          "-nodecount=3",
                                          "-nodecount=2 -cum",
                                          "-sample_index=0",
                                          "-focus=[bm]a",
                                          "-focus=main -ignore='s[eo]'",
                                          "-ignore=.*"};

    for (size_t i = 0; i < ARRAY_SIZE(options); i++)
        check_top(options[i], file);
}

/* ---- Profiles -------------------------------------------------------------------------------- */

static uint32_t seed;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)(((uint64_t)seed * below) >> 32);
}

/* Makes a profile of n samples: function i of 40 has a chance that grows with i, and function `slow` has
 * three times as much as in other profiles; -1: no function has. */
static void make_run(const char *name, uint32_t number, size_t n, int slow)
{
    enum { N = 40 };
    size_t counts[N] = {0}, length;
    char *stacks = NULL;
    FILE *out = open_memstream(&stacks, &length);
    char more[200];

    seed = number;
    for (size_t i = 0; i < n; i++) {
        uint32_t drawn = draw(N * (N + 1) / 2 + (slow < 0 ? 0 : 2 * ((uint32_t)slow + 1))), function = 0;

        while (function < N && drawn > function)
            drawn -= ++function;
        counts[function < N ? function : (uint32_t)slow]++;
    }
    for (size_t i = 0; i < N; i++) {
        if (counts[i] > 0)
            fprintf(out, "main;work;f%zu %zu %zu\n", i, counts[i], counts[i] * 10000000);
    }
    fclose(out);
    snprintf(more, sizeof more, "duration_nanos: %zu", n * 10000000);
    make_cpu_profile(name, more, stacks);
    free(stacks);
}

/* ---- --top ----------------------------------------------------------------------------------- */

CP_TEST(top_is_that_of_go_tool_pprof)
{
    make_cpu_profile("calls", "", calls);
    check_tops("calls.pb.gz");
    make_cpu_profile("rare", "", "main;work+tiny 5000 50000000000\nmain;tiny 1 10000000\n");
    check_tops("rare.pb.gz");
    make_run("run", 7, 3000, -1);
    check_tops("run.pb.gz");
}

/* What stands above the list: comments, the time, and the duration. Functions below half a percent are left
 * out. */
CP_TEST(top_has_the_lines_above_the_list)
{
    static const char *const strings[] = {"",    "samples",     "count",
                                          "cpu", "nanoseconds", "/a/b/program (deleted)",
                                          "",    "a comment",   "# a hidden one"};

    make_profile("head",
                 CPU_HEAD "comment: 7 comment: 8 comment: 7 time_nanos: 1700000000123456789 "
                          "duration_nanos: 2500000000",
                 strings, ARRAY_SIZE(strings), "main;hot 1000 10000000000\nmain;cold 1 10000000\n");
    check_tops("head.pb.gz");
    setenv("TZ", "America/New_York", 1);
    check_top("", "head.pb.gz");
    check_report("head.pb.gz", 0, "Dropped 1 node (cum <= 0.05s)");
}

CP_TEST(top_scales_units_as_go_tool_pprof)
{
    static const char *const units[] = {"bytes", "count",   "milliseconds", "seconds",
                                        "GCU",   "widgets", "kilobytes",    ""};
    char file[40];

    for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
        const char *const strings[] = {"", "objects", "count", "space", units[i], "", ""};

        snprintf(file, sizeof file, "units%zu", i);
        make_profile(file, CPU_HEAD, strings, ARRAY_SIZE(strings),
                     "main;a 1 123456789\nmain;b 2 98765\nmain;c 1 4321\nmain;d 3 1\nmain -1 -70000\n");
        snprintf(file, sizeof file, "units%zu.pb.gz", i);
        check_tops(file);
    }
}

/* A build that looks for undefined behaviour ends at sums that overflow, unless they may. */
CP_TEST(sums_overflow_as_those_of_go_tool_pprof)
{
    make_cpu_profile("large", "",
                     "main;a 1 9223372036854775807\nmain;b 1 9223372036854775807\nmain;b;a 1 5\n");
    check_tops("large.pb.gz");
    make_cpu_profile("least", "", "main;a 1 -9223372036854775808\nmain;b 1 4611686018427387904\n");
    check_tops("least.pb.gz");
    check_report("--tree large.pb.gz", 0, "main");
}

/* Names that the writer has left as the linker has them, and frames that it asks to leave out. */
CP_TEST(names_and_frames_are_those_of_go_tool_pprof)
{
    static const char *const strings[] = {"", "samples",        "count", "cpu", "nanoseconds", "/bin/program",
                                          "", "alloc|(?:new.*)"};

    make_profile(
        "names", CPU_HEAD "drop_frames: 7", strings, ARRAY_SIZE(strings),
        "main;_ZN3foo3barEi 10 100\nmain;_ZSt4sortIPiEvT_S1_ 9 90\nmain;std::vector<int>::size() 8 80\n"
        "main;_ZN4core3fmt5write17h0123456789abcdefE 7 70\n"
        "main;_ZN36_$LT$foo..Bar$u20$as$u20$core..Baz$GT$3run17h0123456789abcdefE 4 40\n"
        "main;_RNvC6_123foo3bar 4 40\nmain;main.(*T).Run 6 60\n"
        "main;work;alloc;page 5 50\nmain;work;new_page;page 4 40\nalloc;page 3 30\n"
        "main;work+alloc;page 2 20\n");
    check_tops("names.pb.gz");
}

/* Makes a profile with the stack main;work;page, and an expression for the frames to leave out. */
static void make_dropping(const char *name, const char *dropped)
{
    const char *const strings[] = {"", "samples", "count", "cpu", "nanoseconds", "/bin/program", "", dropped};
    char head[1000];

    snprintf(head, sizeof head, "%s drop_frames: 7", CPU_HEAD);
    make_profile(name, head, strings, ARRAY_SIZE(strings), "main;work;page 5 50\n");
}

/* A profile may be from anywhere. regcomp() crashes at the first expression, and would take all memory for
 * the second one if that had more counts. */
CP_TEST(expressions_of_a_profile_do_no_harm)
{
    enum { DEPTH = 200000 };
    char *deep = malloc(2 * DEPTH + 10);

    memset(deep, '(', DEPTH);
    strcpy(deep + DEPTH, "work");
    memset(deep + DEPTH + 4, ')', DEPTH);
    deep[2 * DEPTH + 4] = '\0';
    make_dropping("deep", deep);
    check_output("--collapsed deep.pb.gz", "main;work;page 50\n");
    make_dropping("count", "((work.{255}){100}|work)");
    check_output("--collapsed count.pb.gz", "main;work;page 50\n");
    make_dropping("reference", "(w)ork|\\\\1");
    check_output("--collapsed reference.pb.gz", "main;work;page 50\n");
    make_dropping("braces", "w\\\\{|work");
    check_output("--collapsed braces.pb.gz", "main 50\n");
    free(deep);
}

/* Two mappings of one size and build id are one, and samples of opposite signs cancel out, as they do when
 * go tool pprof merges profiles. */
CP_TEST(equal_mappings_and_samples_are_one)
{
    static const char *const strings[] = {
        "", "samples", "count", "cpu", "nanoseconds", "/bin/program", "a1b2c3", "/bin/other"};

    make_profile("mappings",
                 CPU_HEAD
                 "mapping { id: 2 memory_start: 4194304 memory_limit: 5238784 filename: 7 build_id: 6 } "
                 "location { id: 900 mapping_id: 2 address: 4194400 } "
                 "sample { location_id: 900 value: 1 value: 10 }",
                 strings, ARRAY_SIZE(strings), "main 3 30\n");
    check_tops("mappings.pb.gz");
    check_report("mappings.pb.gz", 0, "[program]");
    make_cpu_profile("difference", "", "main;a 5 50\nmain;a -2 -20\nmain;b 1 10\nmain;b -1 -10\n");
    check_tops("difference.pb.gz");
    check_report("difference.pb.gz", 0, "of 30ns total");
}

/* The label is on one of two samples. */
CP_TEST(samples_are_chosen_by_their_labels)
{
    static const char *const strings[] = {"", "samples", "count",    "cpu", "nanoseconds", "/bin/program",
                                          "", "thread",  "worker/12"};

    make_profile("labels", CPU_HEAD "sample { location_id: 1 value: 7 value: 70 label { key: 7 str: 8 } }",
                 strings, ARRAY_SIZE(strings), "main 3 30\n");
    check_top("-tagfocus=thread=work.*2", "labels.pb.gz");
    check_top("-tagignore=thread=work -focus=main", "labels.pb.gz");
    check_top("-tagfocus=other=work", "labels.pb.gz");
    check_report("--tagfocus thread=work labels.pb.gz", 0, "accounting for 70ns, 70.00% of 100ns total");
    check_report("--tagfocus thread=idle labels.pb.gz 2>&1", 0,
                 "No sample is left by --tagfocus thread=idle.");
    check_report("--tagfocus worker labels.pb.gz 2>&1", 2, "--tagfocus takes KEY=REGEX");
}

/* A type that is made of two of the type before, and so on, has gigabytes of a name. */
CP_TEST(a_name_that_would_become_huge_stays)
{
    char inner[1000] = "1pI1aS0_E", more[sizeof inner], stacks[sizeof inner + 50];

    for (int i = 1; i <= 30; i++) {
        snprintf(more, sizeof more, "S_I%sS%c_E", inner, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i]);
        strcpy(inner, more);
    }
    snprintf(stacks, sizeof stacks, "main;_Z1fI%sEvv 10 100\n", inner);
    make_cpu_profile("huge", "", stacks);
    check_report("huge.pb.gz", 0, "  _Z1fIS_IS_I");
}

/* The profiles that the source of go tool pprof is tested with, most of which are in old formats: it turns
 * them into the new one. */
CP_TEST(top_is_equal_for_the_profiles_of_others)
{
    char *list =
        test_command(NULL,
                     "cd %s && for file in $(dpkg -L golang-github-google-pprof-dev | grep -E "
                     "'/testdata/[a-z0-9.]*[.](cpu|heap|contention|growth|thread|crash)$'); do "
                     "name=$(echo $file | tr / _).pb.gz; HOME=. go tool pprof -symbolize=none -proto "
                     "-output=$name $file > said 2>&1 && echo $name; done",
                     test_dir());
    size_t n = 0;

    for (char *name = strtok(list, "\n"); name != NULL; name = strtok(NULL, "\n"), n++) {
        check_top("", name);
        check_top("-cum -nodecount=7", name);
    }
    CHECKF(n >= 8, "%zu profiles", n);
    free(list);
}

CP_TEST(an_event_is_chosen_by_name_or_number)
{
    make_cpu_profile("calls", "default_sample_type: 1", calls);
    check_report("calls.pb.gz", 0, "Type: samples\n");
    check_report("--event cpu calls.pb.gz", 0, "Type: cpu\n");
    check_report("--event 1 calls.pb.gz", 0, "Type: cpu\n");
    check_report("--event cycles calls.pb.gz 2>&1", 2,
                 "no values named \"cycles\". It has:\n  samples (count)\n");
    check_report("--event 2 calls.pb.gz 2>&1", 2, "no values named \"2\"");
}

/* ---- Trees ----------------------------------------------------------------------------------- */

CP_TEST(a_tree_folds_small_branches)
{
    make_cpu_profile("tree", "", calls);
    check_output("--tree --event samples -n 6 tree.pb.gz",
                 "samples: 100 in all\n"
                 "       cum   cum%       flat\n"
                 "       100   100%             main\n"
                 "        94 94.00%             ├ work\n"
                 "        65 65.00%         30  │ ├ sort\n"
                 "        25 25.00%         20  │ │ ├ less\n"
                 "         5  5.00%             │ │ │ (1 smaller branch)\n"
                 "        10 10.00%         10  │ │ └ swap\n"
                 "        29 29.00%         25  │ └ parse\n"
                 "         4  4.00%             │   (1 smaller branch)\n"
                 "         6  6.00%             └ (3 smaller branches)\n");
}

CP_TEST(callers_are_a_tree_from_the_function_up)
{
    make_cpu_profile("tree", "", calls);
    check_output("--callers less --event 0 tree.pb.gz", "samples: 100 in all\n"
                                                        "       cum   cum%       flat\n"
                                                        "        28 28.00%             less\n"
                                                        "        25 25.00%             ├ sort\n"
                                                        "        25 25.00%             │ work\n"
                                                        "        25 25.00%         25  │ main\n"
                                                        "         3  3.00%          3  └ main\n");
    check_report("--callers 'l[e]ss' tree.pb.gz", 0, "sort\n");
    check_report("--callers '(?:l[e])ss' tree.pb.gz", 0, "sort\n");
    check_report("--callers absent tree.pb.gz 2>&1", 2, "no function \"absent\"");
    check_report("--callers '(' tree.pb.gz 2>&1", 2, "\"(\" is no regular expression: ");
}

CP_TEST(collapsed_stacks_begin_at_the_root)
{
    make_cpu_profile("tree", "", "main;work;sort+less 20 200\nmain;work;sort+less 2 20\nmain 1 10\n");
    check_output("--collapsed --event samples tree.pb.gz", "main 1\nmain;work;sort;less 22\n");
}

/* ---- Differences ----------------------------------------------------------------------------- */

CP_TEST(runs_of_one_program_do_not_differ)
{
    char file[40], arguments[100];

    make_run("base", 1, 4000, -1);
    for (uint32_t i = 2; i < 12; i++) {
        snprintf(file, sizeof file, "run%u", i);
        make_run(file, i, 1000 * i, -1);
        snprintf(arguments, sizeof arguments, "--diff base.pb.gz %s.pb.gz", file);
        check_report(arguments, 0, "Nothing differs by more than noise.\n");
        snprintf(arguments, sizeof arguments, "--cum --diff base.pb.gz %s.pb.gz", file);
        check_report(arguments, 0, "Nothing differs by more than noise.\n");
    }
}

CP_TEST(a_change_is_named_with_its_standard_error)
{
    char *text;

    make_run("base", 1, 20000, -1);
    make_run("slow", 2, 20000, 20);
    text = report(NULL, "--diff base.pb.gz slow.pb.gz");
    CHECK_CONTAINS(text, "20000 samples");
    CHECK_CONTAINS(text, "  f20\n");
    CHECKF(strstr(text, "  f3\n") == NULL && strstr(text, "Nothing differs") == NULL, "%s", text);
    free(text);
    make_cpu_profile("one", "", "main;a 100 1000000000\nmain;b 300 3000000000\n");
    make_cpu_profile("two", "", "main;a 400 4000000000\nmain;b 400 4000000000\n");
    /* sqrt(100) / 400 and sqrt(400) / 800 make 0.0354, and the mean rate 500 / 1200 makes
     * sqrt(500 / 1200 * (1 / 400 + 1 / 800)) = 0.0395. */
    check_report("--diff one.pb.gz two.pb.gz", 0, "25.00%      50.00%     +25.00%       3.95%     6.3  a\n");
}

CP_TEST(a_difference_takes_profiles_of_one_event)
{
    static const char *const strings[] = {"", "samples", "count", "cycles", "count", "", ""};

    make_cpu_profile("cpu", "", calls);
    make_profile("cycles", CPU_HEAD, strings, ARRAY_SIZE(strings), calls);
    check_report("--diff cpu.pb.gz cycles.pb.gz 2>&1", 2, "has no values of cycles (count)");
    check_report("--diff absent.pb.gz cpu.pb.gz 2>&1", 2, "absent.pb.gz cannot be read: No such file");
}

/* ---- Several profiles ------------------------------------------------------------------------ */

CP_TEST(several_files_are_merged_as_by_go_tool_pprof)
{
    make_run("one", 1, 500, -1);
    make_run("two", 2, 900, 5);
    make_cpu_profile("three", "", calls);
    check_top("", "one.pb.gz two.pb.gz three.pb.gz");
    check_report("--merge all.pb.gz one.pb.gz two.pb.gz three.pb.gz", 0,
                 "all.pb.gz has 3 profiles, merged.\n");
    check_top("", "all.pb.gz");
    check_report("--merge some.pb.gz --ignore x one.pb.gz 2>&1; [ ! -e some.pb.gz ] || exit 9", 0,
                 "--merge writes all samples, and cannot choose some: leave --ignore out.");
    check_report("--merge /absent/all.pb.gz one.pb.gz 2>&1", 3, "/absent/all.pb.gz");
}

CP_TEST(profiles_of_different_events_are_not_merged)
{
    static const char *const strings[] = {"", "samples", "count", "cycles", "count", "", ""};

    make_cpu_profile("cpu", "", calls);
    make_profile("cycles", CPU_HEAD, strings, ARRAY_SIZE(strings), calls);
    check_report("--merge all.pb.gz cpu.pb.gz cycles.pb.gz 2>&1", 3, "cycles.pb.gz cannot be merged");
    check_report("cpu.pb.gz cycles.pb.gz 2>&1", 3, "cycles.pb.gz cannot be merged");
    check_report("cpu.pb.gz; [ ! -e all.pb.gz ]", 0, "Type: cpu");
}

/* ---- --markdown ------------------------------------------------------------------------------ */

CP_TEST(markdown_tells_what_is_missing)
{
    static const char *const strings[] = {"",
                                          "samples",
                                          "count",
                                          "cpu",
                                          "nanoseconds",
                                          "/bin/program",
                                          "a1b2c3",
                                          "event: timer",
                                          "cpu_ns: 1000000000 # ns",
                                          "coverage: 81.20 # percent",
                                          "dropped: 7 # periods were lost",
                                          "limits: coverage, dropped # tell what is missing"};
    char *text;

    make_profile("x", CPU_HEAD "comment: 7 comment: 8 comment: 9 comment: 10 comment: 11", strings,
                 ARRAY_SIZE(strings), "main;a|b`c 10 100000000\nmain 2 20000000\n");
    text = report(NULL, "--markdown x.pb.gz");
    CHECK_CONTAINS(text, "# Profile `x.pb.gz`\n");
    CHECK_CONTAINS(text, "- event: timer\n");
    CHECK_CONTAINS(text, "- values: cpu, 120ms in all, of 12 samples\n");
    CHECK_CONTAINS(text, "- CPU time of the process: 1s\n");
    CHECK_CONTAINS(text, "- coverage of the CPU time: 81.20 %\n");
    CHECK_CONTAINS(text, "- dropped: 7 # periods were lost\n");
    CHECK_CONTAINS(text, "| 100ms | 83.33% | 100ms | 83.33% | `a\\|b'c` |\n");
    CHECK_CONTAINS(text, "| 20ms | 16.67% | 120ms | 100% | `main` |\n");
    CHECK_CONTAINS(text, "1. 100ms (83.33%): `main` → `a\\|b'c`\n");
    free(text);
    make_cpu_profile("y", "", calls);
    check_report("--markdown y.pb.gz", 0, "The profile does not say what is missing.\n");
}

/* A merged profile has the limits of each of its parts. */
CP_TEST(markdown_tells_what_is_missing_of_each_part)
{
    static const char *const strings[] = {"",
                                          "samples",
                                          "count",
                                          "cpu\\n# bad",
                                          "nano\\n# worse",
                                          "/bin/program",
                                          "",
                                          "limits: none # nothing is known to be missing",
                                          "limits: dropped # tell what is missing",
                                          "dropped: 7 # periods were lost"};
    char head[1000];
    char *text;

    snprintf(head, sizeof head, "%s comment: 7 comment: 8 comment: 9", CPU_HEAD);
    make_profile("parts", head, strings, ARRAY_SIZE(strings), "main 2 20000000\n");
    text = report(NULL, "--markdown parts.pb.gz");
    CHECK_CONTAINS(text, "## What is missing\n\n- dropped: 7 # periods were lost\n\n");
    CHECKF(strstr(text, "\n# bad") == NULL && strstr(text, "\n# worse") == NULL, "%s", text);
    free(text);
    snprintf(head, sizeof head, "%s comment: 7", CPU_HEAD);
    make_profile("whole", head, strings, ARRAY_SIZE(strings), "main 2 20000000\n");
    check_report("--markdown whole.pb.gz", 0, "## What is missing\n\n- nothing is known to be missing\n\n");
}

/* ---- What is no profile ---------------------------------------------------------------------- */

CP_TEST(files_that_are_no_profiles_are_told)
{
    make_cpu_profile("calls", "", calls);
    free(test_command(
        NULL,
        "cd %s && : > empty && head -c 300 calls.pb.gz > cut && echo hello > text && "
        "cp /bin/true elf && printf 'heap profile: 1' > heap && "
        "printf '\\0\\0\\0\\0\\0\\0\\0\\0\\3\\0\\0\\0\\0\\0\\0\\0' > old && printf '<html>' > page",
        test_dir()));
    check_report("absent 2>&1", 2,
                 "absent cannot be read: No such file or directory. The command report takes");
    check_report("/ 2>&1", 3, "/ cannot be read: Is a directory.");
    check_report("empty 2>&1", 3, "empty is empty. The program that writes a profile does so when");
    check_report("cut 2>&1", 3, "cut is not a profile in pprof's format. It is damaged, cut off");
    check_report("text 2>&1", 3, "It is damaged, cut off, or something else.");
    check_report("elf 2>&1", 3, "It is a program or a library.");
    check_report("heap 2>&1", 3, "go tool pprof reads it");
    check_report("old 2>&1", 3, "gperftools");
    check_report("page 2>&1", 3, "web page");
    check_report("calls.pb.gz text 2>&1", 3, "text is not a profile");
}

/* No cut makes the program crash; a cut may leave a profile of fewer samples. */
CP_TEST(cut_profiles_do_no_harm)
{
    make_cpu_profile("calls", "", calls);
    free(test_command(NULL,
                      "cd %s && gzip -dc calls.pb.gz > plain && for n in $(seq 1 7 $(wc -c < plain)); do "
                      "head -c $n plain > cut; %s/bin/counterpoint report --tree cut > said 2>&1; status=$?; "
                      "[ $status -le 3 ] || { echo $n: $status; cat said; exit 1; }; done",
                      test_dir(), test_build_dir()));
}

CP_TEST(an_empty_profile_says_what_to_do)
{
    make_cpu_profile("none", "", "");
    check_report("none.pb.gz 2>&1", 1, "The profile has no samples. Let the program use more CPU time");
    make_cpu_profile("calls", "", calls);
    check_report("--diff none.pb.gz calls.pb.gz 2>&1", 1, "nothing to compare");
}

CP_TEST(bad_usage_of_report_is_told)
{
    make_cpu_profile("calls", "", calls);
    check_report("2>&1", 2, "takes the file of a profile");
    check_report("--tip calls.pb.gz 2>&1", 2, "does not know --tip");
    check_report("--top --tree calls.pb.gz 2>&1", 2, "shows one form: --top or --tree");
    check_report("-n 0 calls.pb.gz 2>&1", 2, "at least 1");
    check_report("-n x calls.pb.gz 2>&1", 2, "\"x\" is no such number");
    check_report("calls.pb.gz --callers 2>&1", 2, "--callers takes an argument");
    check_report("--focus '(' calls.pb.gz 2>&1", 2, "\"(\" is no regular expression");
    check_report("--help", 0, "usage: counterpoint report");
    check_report("calls.pb.gz 2>&1 > /dev/full", 3, "could not be written");
}

/* ---- The terminal ---------------------------------------------------------------------------- */

/* Runs it on a terminal of its own, as script makes one. */
static char *on_terminal(const char *environment, const char *arguments)
{
    if (system("command -v script > /dev/null") != 0)
        SKIP("script, which makes terminals, is not here");
    return test_command(NULL,
                        "cd %s && script -qec \"stty cols 60 rows 20; env %s %s/bin/counterpoint report %s\" "
                        "/dev/null < /dev/null",
                        test_dir(), environment, test_build_dir(), arguments);
}

CP_TEST(a_terminal_has_colours_and_a_pager)
{
    static const char *const evil[] = {
        "", "samples", "count", "cpu\\033[33m", "cats\\302\\23334m", "/bin/program", "id\\033[32m"};
    char *text;

    make_run("run", 3, 2000, -1);
    make_cpu_profile(
        "calls", "",
        "main;bad\\033[31mname 90 900\nmain;a_function_with_a_name_that_is_longer_than_the_line 9 90\n");
    text = on_terminal("TERM=xterm NO_COLOR=", "--top calls.pb.gz");
    CHECK_CONTAINS(text, "\033[1;31m");
    CHECK_CONTAINS(text, "bad?[31mname");
    free(text);
    make_profile("types", CPU_HEAD, evil, ARRAY_SIZE(evil), "main 9 90\n");
    text = on_terminal("TERM=xterm NO_COLOR=1", "--top types.pb.gz");
    CHECK_CONTAINS(text, "Build ID: id?[32m");
    CHECK_CONTAINS(text, "Type: cpu?[33m");
    CHECK_CONTAINS(text, "of 90cats??34m total");
    free(text);
    text = on_terminal("TERM=xterm NO_COLOR=1", "--tree calls.pb.gz");
    CHECKF(strchr(text, '\033') == NULL, "%s", text);
    CHECK_CONTAINS(text, "a_function_with_a_na");
    CHECK_CONTAINS(text, "…");
    free(text);
    text = on_terminal("TERM=xterm PAGER='sed s/^/paged:/'", "--top run.pb.gz");
    CHECK_CONTAINS(text, "paged:");
    free(text);
    text = on_terminal("-u LESS TERM=xterm PAGER='cat > pages; echo options: \\$LESS'", "--top run.pb.gz");
    CHECK_CONTAINS(text, "options: FRX");
    free(text);
    text = on_terminal("TERM=xterm PAGER='sed s/^/paged:/'", "--top calls.pb.gz");
    CHECKF(strstr(text, "paged:") == NULL, "%s", text);
    free(text);
    text = report(NULL, "--top run.pb.gz");
    CHECKF(strchr(text, '\033') == NULL, "%s", text);
    free(text);
}
