/* The forms in which snapshots of watches are printed, looked at by jq and promtool. */
#include <errno.h>
#include <locale.h>
#include <stdlib.h>

#include "tests/support/made_watches.h"
#if !TEST_ASAN && !TEST_TSAN
#include "tests/support/failing_memory.h"
#endif

/* ---- Made snapshots -------------------------------------------------------------------------- */

static char *printed(const struct cp_watch_snapshot *snapshot, enum cp_watch_form form)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    CHECK_EQ(cp_watch_print(snapshot, form, out), 0);
    fclose(out);
    return text;
}

/* Prints the snapshot into a file of the test's. */
static void print_to_file(const struct cp_watch_snapshot *snapshot, enum cp_watch_form form, const char *name)
{
    char *text = printed(snapshot, form);

    test_write_file(name, text);
    free(text);
}

static struct cp_watch_snapshot *simple_snapshot(void)
{
    struct cp_watch_snapshot *snapshot = cp__snapshot_new();
    struct cp__snapshot_watch *watch = add_made(snapshot, "parse", "time,cycles,ipc", "route");

    for (unsigned i = 0; i < 1000; i++)
        record_round(watch, "/\xc3\xa4", NULL, CP_WATCH_UNFORKED, 1000000 + i);
    record_round(watch, "a b", NULL, CP_WATCH_CHILD, 12);
    watch->state = (struct cp_watch_state){.open = 1, .partial = 2, .refused = 3, .lost = 4, .dropped = 5};
    watch = add_made(snapshot, "queue", "time", "");
    watch->is_keyed = true;
    watch->state = (struct cp_watch_state){.open = 7, .unknown = 1};
    return snapshot;
}

/* Names and labels that no form can print as they are. */
static struct cp_watch_snapshot *nasty_snapshot(void)
{
    struct cp_watch_snapshot *snapshot = cp__snapshot_new();
    struct cp__snapshot_watch *watch;

    watch = add_made(snapshot, "a \"quoted\" \\ \xc3\xa4",
                     "time,cpuTime,cacheMisses per instructions,cycles:h,cycles_h", "watch,le");
    record_round(watch, "two\nlines", "\"\\\t\x01", CP_WATCH_PARENT, 1);
    record_round(watch, "\xff", "\xc3\xa4", CP_WATCH_UNFORKED, UINT64_MAX / 2);
    watch = add_made(snapshot, "b", "time,pfm:INST::COUNTER,\xc2\xb1,rounds open,x_total,m,time_seconds",
                     "a-b,a_b");
    record_round(watch, "1", "2", CP_WATCH_UNFORKED, 5);
    record_round(watch, "2", "1", CP_WATCH_UNFORKED, 5);
    watch = add_made(snapshot, "c", "time,branchMisses", "1st,\xc3\xa4");
    record_round(watch, "", "", CP_WATCH_CHILD, 3);
    watch = add_made(snapshot, "d", "time,misses", "routeName,route");
    CHECK(cp__snapshot_series_of(watch, (const char *[]){"", ""}, CP_WATCH_UNFORKED) != NULL);
    return snapshot;
}

/* ---- For people ------------------------------------------------------------------------------ */

CP_TEST(people_get_a_table)
{
    struct cp_watch_snapshot *snapshot = simple_snapshot();
    char *text = printed(snapshot, CP_WATCH_TEXT);

    CHECK_STR(
        text,
        "watch  labels       side   quantity  count     mean      sigma      min      p50      p90      p99  "
        "  "
        "p99.9      max\n"
        "parse  route=/\xc3\xa4            time       1000      1ms    288.7ns      1ms  1.001ms  1.001ms  "
        "1.001ms  1.001ms  1.001ms\n"
        "parse  route=/\xc3\xa4            cycles     1000   1.001M      288.7       1M   1.001M   1.001M   "
        "1.001M   1.001M   1.001M\n"
        "parse  route=/\xc3\xa4            ipc        1000    1.001  0.0002887        1    1.001    1.001    "
        "1.001    1.001    1.001\n"
        "parse  route=\"a b\"  child  time          1     12ns          0     12ns     12ns     12ns     "
        "12ns     "
        "12ns     12ns\n"
        "parse  route=\"a b\"  child  cycles        1       22          0       22       22       22       "
        "22       "
        "22       22\n"
        "parse  route=\"a b\"  child  ipc           1  3.2e-05          0  3.2e-05  3.2e-05  3.2e-05  "
        "3.2e-05  "
        "3.2e-05  3.2e-05\n"
        "parse: 1 round was open at that moment.\n"
        "parse: 2 rounds were partial, and are in the distribution of time alone: an event shared the "
        "processor's counters with others, or the kernel switched the thread off its CPU.\n"
        "parse: 3 rounds were refused: the thread was not attached, an event could not be opened for it, or "
        "there was no memory.\n"
        "parse: 4 rounds were lost: there was no memory for their values.\n"
        "parse: 5 rounds were dropped by the program.\n"
        "queue: 7 keys were open at that moment.\n"
        "queue: 1 call was ignored: the key to move or to end was not open, or there is no such stage.\n"
        "queue: no key has ended yet.\n");
    free(text);
    cp_watch_snapshot_free(snapshot);
}

CP_TEST(columns_in_which_nothing_stands_are_left_out)
{
    struct cp_watch_snapshot *snapshot = cp__snapshot_new();
    char *text = printed(snapshot, CP_WATCH_TEXT);

    CHECK_STR(text, "There are no watches.\n");
    free(text);
    record_round(add_made(snapshot, "w", "time", ""), NULL, NULL, CP_WATCH_UNFORKED, 5);
    text = printed(snapshot, CP_WATCH_TEXT);
    CHECK_STR(text, "watch  quantity  count  mean  sigma  min  p50  p90  p99  p99.9  max\n"
                    "w      time          1   5ns      0  5ns  5ns  5ns  5ns    5ns  5ns\n");
    free(text);
    cp_watch_snapshot_free(snapshot);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Checks what jq makes of the file. */
static void check_json(const char *filter, const char *expected)
{
    char *text = test_command(NULL, "jq -c '%s' %s/json", filter, test_dir());

    CHECK_STR(text, expected);
    free(text);
}

CP_TEST(programs_get_json_with_all_buckets)
{
    struct cp_watch_snapshot *snapshot = simple_snapshot();

    print_to_file(snapshot, CP_WATCH_JSON, "json");
    check_json("[.rows[] | [.watch, .labels, .side, .quantity, .unit, .count]]",
               "[[\"parse\",{\"route\":\"/\xc3\xa4\"},\"unforked\",\"time\",\"ns\",1000],"
               "[\"parse\",{\"route\":\"/\xc3\xa4\"},\"unforked\",\"cycles\",\"count\",1000],"
               "[\"parse\",{\"route\":\"/\xc3\xa4\"},\"unforked\",\"ipc\",\"ratio\",1000],"
               "[\"parse\",{\"route\":\"a b\"},\"child\",\"time\",\"ns\",1],"
               "[\"parse\",{\"route\":\"a b\"},\"child\",\"cycles\",\"count\",1],"
               "[\"parse\",{\"route\":\"a b\"},\"child\",\"ipc\",\"ratio\",1]]\n");
    check_json(".rows[0] | [.sum, .min, .max, .mean]", "[1000499500,1000000,1000999,1000499.5]\n");
    check_json(".rows[0].sigma > 288.67 and .rows[0].sigma < 288.68", "true\n");
    check_json(".rows[0].percentiles | keys", "[\"50\",\"90\",\"99\",\"99.9\"]\n");
    check_json(".rows[5] | [.sum, .buckets]", "[3.2e-05,[[3.2e-05,3.2e-05,1]]]\n");
    check_json("[.rows[] | ([.buckets[][2]] | add) == .count] | unique", "[true]\n");
    check_json("[.rows[] | .buckets[0][0] <= .min and .buckets[-1][1] >= .max] | unique", "[true]\n");
    check_json(".states[0]", "{\"watch\":\"parse\",\"open\":1,\"partial\":2,\"refused\":3,\"lost\":4,"
                             "\"unknown\":0,\"dropped\":5}\n");
    check_json(".states[1] | [.watch, .open, .unknown]", "[\"queue\",7,1]\n");
    cp_watch_snapshot_free(snapshot);
}

CP_TEST(any_string_is_a_string_of_json)
{
    struct cp_watch_snapshot *snapshot = nasty_snapshot();

    print_to_file(snapshot, CP_WATCH_JSON, "json");
    check_json(
        ".rows[0] | [.watch, .labels]",
        "[\"a \\\"quoted\\\" \\\\ \xc3\xa4\",{\"watch\":\"two\\nlines\",\"le\":\"\\\"\\\\\\t\\u0001\"}]\n");
    cp_watch_snapshot_free(snapshot);
    snapshot = cp__snapshot_new();
    print_to_file(snapshot, CP_WATCH_JSON, "json");
    check_json(".", "{\"rows\":[],\"states\":[]}\n");
    cp_watch_snapshot_free(snapshot);
}

/* ---- Prometheus ------------------------------------------------------------------------------ */

/* Whether promtool is there: installed, or taken out of its package by "make deps". */
#define PROMTOOL "PATH=$PATH:" CP_TOOLS "; command -v promtool > /dev/null || exit 77; "

static void check_with_promtool(const struct cp_watch_snapshot *snapshot)
{
    int status;
    char *text;

    print_to_file(snapshot, CP_WATCH_PROMETHEUS, "metrics");
    text = test_command(&status, PROMTOOL "promtool check metrics < %s/metrics 2>&1", test_dir());
    if (status == 77)
        SKIP("promtool is not there: \"make deps\" brings it.");
    CHECKF(status == 0 && *text == '\0', "promtool says with status %d: %s", status, text);
    free(text);
}

CP_TEST(promtool_has_nothing_to_complain_of)
{
    struct cp_watch_snapshot *snapshot = simple_snapshot(), *other = nasty_snapshot(),
                             *none = cp__snapshot_new();

    check_with_promtool(snapshot);
    check_with_promtool(other);
    CHECK_EQ(cp_watch_merge(snapshot, other, NULL), 0);
    add_made(none, "parse", "time,cycles", "");
    CHECK_EQ(cp_watch_merge(snapshot, none, NULL), 0);
    check_with_promtool(snapshot);
    free(test_command(NULL, "test -z \"$(grep -v '^#' %s/metrics | sed 's/} [^ ]*$//' | sort | uniq -d)\"",
                      test_dir()));
    cp_watch_snapshot_free(snapshot);
    cp_watch_snapshot_free(other);
    cp_watch_snapshot_free(none);
}

CP_TEST(names_are_those_that_prometheus_wants)
{
    static const char *const parts[] = {
        "# TYPE counterpoint_watch_time_seconds histogram\n",
        "# TYPE counterpoint_watch_cpu_seconds histogram\n",
        "# TYPE counterpoint_watch_cache_misses_per_instructions histogram\n",
        "quantity=\"cacheMisses per instructions\"",
        "counterpoint_watch_rounds_open_value_count{watch=\"b\",a_b=\"1\",a_b_2=\"2\",quantity=\"rounds "
        "open\"} 1\n",
        "{watch=\"c\",label_1st=\"\",label_=\"\",side=\"child\"",
        "{watch=\"d\",route_name=\"\",route=\"\"",
        "{watch=\"a \\\"quoted\\\" \\\\ "
        "\xc3\xa4\",label_watch=\"two\\nlines\",label_le=\"\\\"\\\\\t\x01\",side=",
        "label_watch=\"\\\\xff\"",
        "counterpoint_watch_time_seconds_value_count{watch=\"b\"",
    };
    struct cp_watch_snapshot *snapshot = nasty_snapshot();
    char *text = printed(snapshot, CP_WATCH_PROMETHEUS);

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        CHECK_CONTAINS(text, parts[i]);
    free(text);
    cp_watch_snapshot_free(snapshot);
}

/* Values around all powers of two and what is between them, so that some are next to each bound. */
static const uint64_t *edge_values(size_t *n)
{
    static uint64_t values[64 * 2 * 4];

    *n = 0;
    for (unsigned power = 1; power < 50; power++) {
        for (uint64_t i = 0; i < 4; i++) {
            values[(*n)++] = ((uint64_t)1 << power) + i - 2;
            values[(*n)++] = ((uint64_t)3 << power) / 2 + i - 2;
        }
    }
    return values;
}

/* Checks the counts of a metric's buckets; a value of 1 there is so many of ours. Returns how many there are.
 */
static unsigned check_bounds(const char *text, const char *metric, double divisor)
{
    unsigned n_bounds = 0;
    size_t n;
    const uint64_t *values = edge_values(&n);

    for (const char *line = strstr(text, metric); line != NULL; line = strstr(line + 1, metric)) {
        const double bound = strtod(strstr(line, "le=\"") + strlen("le=\""), NULL);
        const unsigned long long got = strtoull(strstr(line, "} ") + 2, NULL, 10);
        unsigned long long exact = 0;

        for (size_t i = 0; i < n; i++)
            exact += (double)values[i] / divisor <= bound;
        CHECKF(got == exact, "%s up to %.17g: %llu instead of %llu", metric, bound, got, exact);
        n_bounds++;
    }
    return n_bounds;
}

CP_TEST(bounds_of_prometheus_are_exact)
{
    struct cp_watch_snapshot *snapshot = cp__snapshot_new();
    struct cp__snapshot_watch *watch = add_made(snapshot, "w", "time,cycles,ipc", "");
    struct cp__snapshot_series *series = cp__snapshot_series_of(watch, NULL, CP_WATCH_UNFORKED);
    char *text;
    size_t n;
    const uint64_t *values = edge_values(&n);

    for (size_t i = 0; i < n; i++) {
        for (unsigned q = 0; q < 3; q++)
            CHECK_EQ(cp__histogram_record(&series->histograms[q], values[i]), 0);
    }
    text = printed(snapshot, CP_WATCH_PROMETHEUS);
    CHECK_EQ(check_bounds(text, "counterpoint_watch_time_seconds_bucket{", 1e9), 30);
    CHECK_EQ(check_bounds(text, "counterpoint_watch_cycles_bucket{", 1), 21);
    CHECK_EQ(check_bounds(text, "counterpoint_watch_ipc_bucket{", 1e6), 38);
    CHECK_CONTAINS(text, "counterpoint_watch_time_seconds_bucket{watch=\"w\",le=\"1.023e-06\"} ");
    CHECK_CONTAINS(text, "counterpoint_watch_ipc_bucket{watch=\"w\",quantity=\"ipc\",le=\"1.048575\"} ");
    free(text);
    cp_watch_snapshot_free(snapshot);
}

/* ---- What goes wrong ------------------------------------------------------------------------- */

CP_TEST(the_locale_changes_nothing)
{
    struct cp_watch_snapshot *snapshot = simple_snapshot();
    char *before[3];

    for (int form = 0; form < 3; form++)
        before[form] = printed(snapshot, (enum cp_watch_form)form);
    if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL && setlocale(LC_ALL, "fr_FR.UTF-8") == NULL)
        SKIP("There is no locale here whose numbers have a comma.");
    for (int form = 0; form < 3; form++) {
        char *text = printed(snapshot, (enum cp_watch_form)form);

        CHECK_STR(text, before[form]);
        free(text);
        free(before[form]);
    }
    cp_watch_snapshot_free(snapshot);
}

CP_TEST(errors_of_writing_are_returned)
{
    struct cp_watch_snapshot *snapshot = simple_snapshot();
    FILE *full = fopen("/dev/full", "w");

    CHECK(full != NULL);
    for (int form = 0; form < 3; form++)
        CHECK_EQ(cp_watch_print(snapshot, (enum cp_watch_form)form, full), -ENOSPC);
    fclose(full);
    CHECK_EQ(cp_watch_print(snapshot, (enum cp_watch_form)3, stdout), -EINVAL);
    cp_watch_snapshot_free(snapshot);
}

#if TEST_ASAN || TEST_TSAN
CP_TEST(without_memory_nothing_is_printed)
{
    SKIP("A sanitizer has the allocator that this test takes the place of.");
}
#else
CP_TEST(without_memory_nothing_is_printed)
{
    struct cp_watch_snapshot *snapshot = simple_snapshot();

    for (int form = 0; form < 3; form++) {
        char text[100] = "", buffer[100];
        FILE *out = fmemopen(text, sizeof text, "w");
        int result = -ENOMEM;

        setvbuf(out, buffer, _IOFBF, sizeof buffer);
        for (unsigned n = 1; result == -ENOMEM; n++) {
            CHECK_STR(text, "");
            fail_calls(n, UINT32_MAX);
            result = cp_watch_print(snapshot, (enum cp_watch_form)form, out);
            CHECK(have_failed() || result != -ENOMEM); /* qsort() does without memory, too */
        }
        CHECK(result != 0 && text[0] != '\0'); /* what there is to print is longer */
        fclose(out);
    }
    cp_watch_snapshot_free(snapshot);
}
#endif
