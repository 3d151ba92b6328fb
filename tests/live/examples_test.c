/* The example programs, from the command line to pprof's report of their profiles. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/refuse.h"
#include "tests/support/test.h"

/* The period of the examples' clocks is a millisecond. */
#define RATE 1000

/* ---- Running them and reading their profiles ------------------------------------------------- */

static char *run_example(int *status, const char *arguments)
{
    return test_command(status, "cd %s && %s/examples/%s", test_dir(), test_build_dir(), arguments);
}

static char *pprof(const char *arguments)
{
    return test_command(NULL, "cd %s && PPROF_TMPDIR=. HOME=. go tool pprof %s", test_dir(), arguments);
}

/* Returns the number in a column of the first line that ends in " name", after n other columns: for the table
 * of pprof -top. */
static double column(const char *table, const char *name, int n)
{
    size_t length = strlen(name);

    for (const char *line = table; line != NULL; line = strchr(line, '\n')) {
        const char *end;

        line += *line == '\n';
        end = line + strcspn(line, "\n");
        if (end - line > (long)length && strncmp(end - length, name, length) == 0 &&
            end[-(long)length - 1] == ' ') {
            for (; n > 0; n--) {
                line += strspn(line, " ");
                line += strcspn(line, " ");
            }
            return strtod(line, NULL);
        }
        if (*end == '\0')
            break;
    }
    return 0;
}

static double number_after(const char *text, const char *before)
{
    const char *at = strstr(text, before);

    CHECKF(at != NULL, "no \"%s\" in: %s", before, text);
    return strtod(at + strlen(before), NULL);
}

/* Returns the number, or 0 if the text does not have it. */
static double number_if_any(const char *text, const char *before)
{
    return strstr(text, before) != NULL ? number_after(text, before) : 0;
}

/* Returns for how many percent of the event's own count the samples and the losses stand, by the profile's
 * own figures. Losses depend on how busy the machine is, so they are no fault. On a busy machine, the CPU
 * time has up to a hundredth in which the kernel switched threads and the event did not count. If the kernel
 * throttles the event, these figures mean nothing: see need_unthrottled() in burn.h. */
static double coverage(const char *profile)
{
    char arguments[256];
    char *comments;
    double samples, losses, count, period;

    snprintf(arguments, sizeof arguments, "-comments %s", profile);
    comments = pprof(arguments);
    if (strstr(comments, "throttled: ") != NULL)
        SKIP(TEST_THROTTLED);
    if (strstr(comments, "modes: user #") != NULL)
        SKIP("a clock counts the time in the kernel, and this user may not sample it there");
    samples = number_after(comments, "samples: ");
    losses = number_if_any(comments, "dropped: ") + number_if_any(comments, "lost: ");
    count = number_after(comments, "count: ");
    period = number_after(comments, "period: ");
    free(comments);
    return 100 * (samples + losses) * period / count;
}

/* ---- Shares ---------------------------------------------------------------------------------- */

/* A working sampler is within half a point on a quiet machine, as "make demo" shows. A test must also pass on
 * a busy machine, and still notice a sampler that is wrong. */
#define TOLERANCE 3.0

static void check_share(const char *top, const char *function, double expected)
{
    double share = column(top, function, 1);

    CHECKF(share > expected - TOLERANCE && share < expected + TOLERANCE,
           "%s has %.2f %%, %.2f %% expected:\n%s", function, share, expected, top);
}

CP_TEST(ten_equal_functions_have_a_tenth_each)
{
    char *top;

    if (TEST_TSAN)
        SKIP("ThreadSanitizer delivers signals late, so that shares mean nothing");
    test_need_rate(RATE);
    free(run_example(NULL, "goroutine -threads 2 -seconds 1.5 -cpuprofile x.pb.gz -cpuprofileevent taskClock "
                           "-cpuprofileperiod 1000000 2>&1"));
    CHECKF(coverage("x.pb.gz") >= 99.5, "%.2f %%", coverage("x.pb.gz"));
    top = pprof("-top -nodefraction=0 x.pb.gz");
    CHECK_CONTAINS(top, "Type: cpu");
    for (int i = 1; i <= 10; i++) {
        char name[8];

        snprintf(name, sizeof name, "f%d", i);
        check_share(top, name, 10);
    }
    free(top);
}

CP_TEST(serial_functions_have_the_shares_in_their_names)
{
    static const char *const names[] = {
        "A_expect_1_82",  "B_expect_3_64",  "C_expect_5_46",   "D_expect_7_27",  "E_expect_9_09",
        "F_expect_10_91", "G_expect_12_73", "H_expect_14_546", "I_expect_16_36", "J_expect_18_18"};
    char *top;

    if (TEST_TSAN)
        SKIP("ThreadSanitizer delivers signals late, so that shares mean nothing");
    test_need_rate(RATE);
    free(run_example(
        NULL,
        "serial -seconds 2 -cpuprofile x.pb.gz -cpuprofileevent taskClock -cpuprofileperiod 1000000 2>&1"));
    CHECKF(coverage("x.pb.gz") >= 99.5, "%.2f %%", coverage("x.pb.gz"));
    top = pprof("-top -nodefraction=0 x.pb.gz");
    for (int i = 0; i < 10; i++)
        check_share(top, names[i], 100.0 * (i + 1) / 55);
    free(top);
    top = pprof("-list=J_expect_18_18 x.pb.gz");
    CHECK_CONTAINS(top, "examples/serial.c");
    free(top);
}

CP_TEST(several_events_give_a_file_each)
{
    static const char *const files[] = {"x.taskClock.pb.gz", "x.cpuClock.pb.gz", "x.timer.pb.gz"};

    test_need_rate(RATE);
    free(run_example(NULL, "serial -seconds 1 -cpuprofile x.pb.gz -cpuprofileevent taskClock,cpuClock,timer "
                           "-cpuprofileperiod 1000000 2>&1"));
    for (int i = 0; i < 3; i++) {
        char arguments[64];
        char *top;

        snprintf(arguments, sizeof arguments, "-top %s", files[i]);
        top = pprof(arguments);
        if (!TEST_TSAN)
            CHECK_CONTAINS(top, "J_expect_18_18");
        free(top);
        if (!TEST_TSAN && i < 2)
            CHECKF(coverage(files[i]) >= 99, "%s: %.2f %%", files[i], coverage(files[i]));
    }
}

/* ---- Many green threads ---------------------------------------------------------------------- */

/* The functions in which a stack may end: those that start a green thread or a thread, or a frame that says
 * what is missing. */
static bool is_root(const char *frame)
{
    static const char *const roots[] = {"cp__context_entry", "start_thread", "__libc_start_call_main",
                                        "asan_thread_start"};

    for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++) {
        if (strstr(frame, roots[i]) != NULL)
            return true;
    }
    return strchr(frame, '[') != NULL;
}

/* Checks the output of pprof -traces: stacks between lines of dashes, innermost frame first. */
static void check_roots(char *traces)
{
    char last[256] = "";
    int stacks = 0;

    for (char *line = strtok(strstr(traces, "-----------+"), "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (strncmp(line, "-----------+", 12) == 0) {
            CHECKF(last[0] == '\0' || is_root(last), "a stack ends in %s", last);
            stacks += last[0] != '\0';
            last[0] = '\0';
        } else {
            snprintf(last, sizeof last, "%s", line);
        }
    }
    CHECKF(stacks > 20, "%d stacks", stacks);
}

CP_TEST(ten_thousand_green_threads_on_64_threads)
{
    char *text;

    if (TEST_TSAN)
        SKIP("ThreadSanitizer has room for 8 000 green threads");
    test_need_rate(RATE);
    free(run_example(
        NULL, "goroutine -threads 64 -gs 10000 -seconds 2 -cpuprofile x.pb.gz -cpuprofileevent taskClock "
              "-cpuprofileperiod 1000000 2>&1"));
    text = pprof("-comments x.pb.gz");
    CHECK_CONTAINS(text, "threads: 64 # ");
    CHECK_CONTAINS(text, "limits: ");
    free(text);
    CHECKF(coverage("x.pb.gz") >= 98, "%.2f %%", coverage("x.pb.gz"));
    if (TEST_ASAN)
        SKIP("where stacks end is not looked at: AddressSanitizer's own functions keep no frame pointers");
    text = pprof("-traces x.pb.gz");
    check_roots(text);
    free(text);
}

/* A file in a mount namespace of its own replaces the kernel's limit, for the example only. */
CP_TEST(a_rate_past_the_kernels_limit_is_said)
{
    static const char limit[] = "/proc/sys/kernel/perf_event_max_sample_rate";
    int status;
    char *text = test_command(
        &status,
        "cd %s && echo 500 > limit && unshare -m sh -c 'mount --bind limit %s || exit 99; exec %s/%s'",
        test_dir(), limit, test_build_dir(),
        "examples/serial -cpuprofile x.pb.gz -cpuprofileevent taskClock -cpuprofileperiod 1000000 -seconds "
        "0.1");

    if (status == 99 || strstr(text, "unshare") != NULL)
        SKIP("this user may not mount anything");
    CHECK_EQ(status, 0);
    CHECK_CONTAINS(text,
                   "A sample of taskClock every 1000000 ns is 1000 a second, and the kernel stops at 500");
    free(text);
    text = pprof("-comments x.pb.gz");
    CHECK_CONTAINS(text, "warning: A sample of taskClock every 1000000 ns");
    free(text);
}

/* ---- The command line ------------------------------------------------------------------------ */

CP_TEST(bad_arguments_end_in_a_sentence)
{
    static const struct {
        const char *arguments;
        int status;
        const char *says;
    } bad[] = {
        {"serial -bogus 1 2>&1", 2, "-cpuprofile"},
        {"serial -seconds abc 2>&1", 2, "-seconds must be a number above 0"},
        {"serial -seconds 2>&1", 2, "seconds"},
        {"serial -threads=0 2>&1", 2, "-threads must be a number from 1 to 1024, not \"0\""},
        {"serial -gs 5 2>&1", 2, "unrecognized option '-gs'"},
        {"serial now 2>&1", 2, "There is no flag \"now\""},
        {"goroutine -gs 1e3 2>&1", 2, "-gs must be a number from 1 to"},
        {"server -threads x 2>&1", 2, "-threads must be a number from 1 to 1024, not \"x\""},
        {"server -threads -1 2>&1", 2, "-threads must be a number from 1 to"},
        {"server now 2>&1", 2, "There is no flag \"now\""},
        {"serial -cpuprofile x.pb.gz -cpuprofileevent bogus 2>&1", 2, "no event named \"bogus\""},
        {"serial -cpuprofile /nonexistent/x -seconds 0.1 2>&1", 2, "/nonexistent/x"},
        {"serial -cpuprofile x.pb.gz -cpuprofileevent taskClock -cpuprofileperiod 1 2>&1", 2, "10000 ns"},
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int status;
        char *text = run_example(&status, bad[i].arguments);

        CHECKF(status == bad[i].status, "%s: status %d, %s", bad[i].arguments, status, text);
        CHECKF(strstr(text, bad[i].says) != NULL, "%s: %s", bad[i].arguments, text);
        free(text);
    }
}

/* The machine has no perf events at all. */
CP_TEST(a_refused_event_has_a_status_of_its_own)
{
    refuse_call(SYS_perf_event_open, ENOENT);
    int status;
    char *text =
        run_example(&status, "serial -seconds 0.1 -cpuprofile x.pb.gz -cpuprofileevent taskClock 2>&1");
    CHECKF(status == 3, "status %d: %s", status, text);
    CHECK_CONTAINS(text, "The event taskClock cannot run");
    free(text);
    text = run_example(&status, "serial -seconds 0.1 -cpuprofile x.pb.gz -cpuprofileevent timer,cycles 2>&1");
    CHECKF(status == 3, "status %d: %s", status, text);
    free(text);
    text = run_example(&status, "serial -seconds 0.1 -cpuprofile x.pb.gz -cpuprofileevent timer,timer 2>&1");
    CHECKF(status == 2, "status %d: %s", status, text);
    free(text);
    free(run_example(NULL, "serial -seconds 0.1 -cpuprofile x.pb.gz -cpuprofileevent timer"));
}

CP_TEST(help_is_no_mistake)
{
    static const char *const programs[] = {"serial", "goroutine", "server"};
    static const char *const spellings[] = {"--help", "-help", "-h"};

    for (size_t i = 0; i < 9; i++) {
        char arguments[64];
        char *text;

        snprintf(arguments, sizeof arguments, "%s %s 2> /dev/null", programs[i / 3], spellings[i % 3]);
        text = run_example(NULL, arguments);
        CHECK_CONTAINS(text, "usage: ");
        CHECK_CONTAINS(text, " [-threads N]");
        free(text);
    }
}
