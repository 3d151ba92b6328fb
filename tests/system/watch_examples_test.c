/* The programs of examples/watch/, and what their tables say. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

static char *run_watch_example(const char *arguments)
{
    return test_command(NULL, "%s/examples/watch/%s", test_build_dir(), arguments);
}

/* Returns a time as the table shows it, such as 1.234ms, in ns; *text is moved behind the time. */
static double read_time(const char **text)
{
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    char *end;
    double value = strtod(*text, &end);

    CHECKF(end != *text, "no time: %s", *text);
    for (size_t i = 0; i < 4; i++) {
        size_t length = strlen(units[i].unit);

        if (strncmp(end, units[i].unit, length) == 0 && strchr(" \n", end[length]) != NULL) {
            *text = end + length;
            return value * units[i].ns;
        }
    }
    CHECKF(value == 0, "no unit: %s", *text);
    *text = end;
    return 0;
}

/* A row of the table. */
struct shown {
    unsigned long long count;
    double mean, min, p50, max; /* in ns, with 4 digits */
};

/* Returns the only row with these labels and that quantity, which is a time. */
static struct shown row_of(const char *table, const char *labels, const char *quantity)
{
    struct shown row;
    char begins[100];
    const char *at, *cells;
    char *end;

    snprintf(begins, sizeof begins, " %s ", labels);
    at = strstr(table, begins);
    CHECKF(at != NULL, "no row with \"%s\":\n%s", labels, table);
    CHECKF(strstr(at + 1, begins) == NULL, "two rows with \"%s\":\n%s", labels, table);
    cells = at + strlen(begins);
    cells += strspn(cells, " ");
    CHECKF(strncmp(cells, quantity, strlen(quantity)) == 0, "no %s: %s", quantity, cells);
    cells += strlen(quantity);
    row.count = strtoull(cells, &end, 10);
    cells = end;
    row.mean = read_time(&cells);
    read_time(&cells); /* sigma */
    row.min = read_time(&cells);
    row.p50 = read_time(&cells);
    for (int i = 0; i < 3; i++) /* other percentiles */
        read_time(&cells);
    row.max = read_time(&cells);
    CHECKF(*cells == '\n', "a row goes on: %s", cells);
    return row;
}

/* Checks that so many values were measured, and that nothing went wrong: each kind has a line of its own. */
static struct shown expect_row(const char *table, const char *labels, unsigned long long count)
{
    struct shown row = row_of(table, labels, "time");

    CHECKF(row.count == count, "%llu with %s, not %llu:\n%s", row.count, labels, count, table);
    CHECKF(row.min <= row.p50 && row.p50 <= row.max, "%s:\n%s", labels, table);
    CHECKF(row.min <= row.mean && row.mean <= row.max, "%s:\n%s", labels, table);
    return row;
}

static void expect_lines(const char *table, int expected)
{
    int lines = 0;

    for (const char *at = table; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    CHECKF(lines == expected, "%d lines:\n%s", lines, table);
}

CP_TEST(queue_counts_each_item_once)
{
    char *table = run_watch_example("queue 500");

    expect_row(table, "stage=", 500);
    expect_lines(table, 2);
    free(table);
}

/* The mean of the whole is the sum of the stages' means, because each item passes each stage once. */
CP_TEST(pipeline_counts_each_item_in_each_stage)
{
    static const char *const stages[] = {"stage=\"decode wait\"",  "stage=\"decode work\"",
                                         "stage=\"execute wait\"", "stage=\"execute work\"",
                                         "stage=\"write wait\"",   "stage=\"write work\""};
    static const double least[] = {0, 50e3, 0, 250e3, 0, 50e3}; /* what the work takes */
    char *table = run_watch_example("pipeline 300");
    double sum = 0, whole = expect_row(table, "stage=", 300).mean;

    for (size_t i = 0; i < 6; i++) {
        struct shown row = expect_row(table, stages[i], 300);

        CHECKF(row.min >= least[i] * 0.999, "%s: %.0f ns", stages[i], row.min);
        sum += row.mean;
    }
    CHECKF(sum > whole * 0.998 && sum < whole * 1.002, "%.0f ns in all, and %.0f by stages", whole, sum);
    expect_lines(table, 8);
    free(table);
}
