/* The programs of examples/watch/ that have rounds, and the tables that they print. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

static char *output_of(const char *arguments)
{
    int status;
    char *text = test_command(&status, "%s/examples/watch/%s 2>&1", test_build_dir(), arguments);

    CHECKF(status == 0, "%s", text);
    printf("%s", text);
    return text;
}

/* ---- Rows of a table ------------------------------------------------------------------------- */

struct row {
    double count, mean, sigma, min, p50, p90, p99, p999, max;
};

/* Returns a figure, in ns if it is a time, and moves on behind it. */
static double take_figure(const char **at)
{
    static const struct {
        const char *unit;
        double factor;
    } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}};
    char *end;
    double value = strtod(*at, &end);
    size_t length = strcspn(end, " \n");

    CHECKF(end > *at, "no figure: %.80s", *at);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (length == strlen(units[i].unit) && strncmp(end, units[i].unit, length) == 0)
            value *= units[i].factor;
    }
    *at = end + length;
    return value;
}

/* Returns what follows the words in a line that begins with them, with any number of blanks between them;
 * NULL: the line begins otherwise. */
static const char *behind(const char *line, const char *words)
{
    for (; *words != '\0'; words++, line++) {
        if (*line != *words)
            return NULL;
        if (*words == ' ')
            line += strspn(line, " ") - 1;
    }
    return *line == ' ' ? line : NULL;
}

/* Finds the row of the first table in the text: watch, labels and side if the table has them, and quantity.
 * Returns false if there is none, or if it has no rounds. */
static bool find_in_table(const char *text, const char *words, struct row *row)
{
    const char *at = NULL;

    for (const char *line = text; line != NULL && at == NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        at = behind(line, words);
    }
    *row = (struct row){.count = at == NULL ? 0 : take_figure(&at)};
    for (double *figure = &row->mean; row->count > 0 && figure <= &row->max; figure++)
        *figure = take_figure(&at);
    return row->count > 0;
}

static struct row row_of(const char *text, const char *words)
{
    struct row row;

    CHECKF(find_in_table(text, words, &row), "%s", words);
    CHECK(row.min <= row.p50 && row.p50 <= row.p90 && row.p90 <= row.p99 && row.p99 <= row.p999 &&
          row.p999 <= row.max);
    CHECK(row.min <= row.mean * 1.001 && row.mean <= row.max * 1.001);
    return row;
}

/* Returns the text from a heading on. */
static const char *from(const char *text, const char *heading)
{
    const char *at = strstr(text, heading);

    CHECKF(at != NULL, "no %s", heading);
    return at;
}

/* ---- The programs ---------------------------------------------------------------------------- */

/* One call of 32 does some thousand times as much as the others. */
CP_TEST(the_time_of_a_routine)
{
    char *text = output_of("routine 3200");
    struct row time = row_of(text, "look up time");

    CHECK_EQ(time.count, 3200);
    CHECK(time.p99 > 5 * time.p50);
    CHECK_CONTAINS(text, "Half of the 3200 calls took at most ");
    free(text);
}

/* The routine sleeps for 100 us, in which others use the thread. */
static void check_cpu_time(const char *text, struct row time)
{
    struct row cpu_time = row_of(text, "routine cpuTime");

    CHECK_CONTAINS(text, "Not counted: cycles,instructions,cpi. ");
    CHECK_EQ(cpu_time.count, 20);
    CHECK(cpu_time.mean + 99000 < time.mean);
}

CP_TEST(cycles_and_instructions_of_a_routine_that_sleeps)
{
    char *text = output_of("cpi 20");
    struct row time = row_of(text, "routine time"), cycles, instructions, cpi;

    CHECK_EQ(time.count, 20);
    CHECK(time.min >= 99000);
    if (!find_in_table(text, "routine cycles", &cycles)) {
        check_cpu_time(text, time);
    } else {
        instructions = row_of(text, "routine instructions");
        cpi = row_of(text, "routine cpi");
        CHECK(cpi.count == cycles.count && instructions.count == cycles.count);
        CHECK(cpi.max * instructions.max >= cycles.min && cpi.min * instructions.min <= cycles.max);
    }
    free(text);
}

CP_TEST(both_sides_of_a_fork)
{
    char *text = output_of("fork 5");
    const char *parents = from(text, "The parent's table, of process ");
    const char *child = from(text, "The last child's table, of process ");
    struct row none;

    CHECK(strtol(parents + 31, NULL, 10) != strtol(child + 35, NULL, 10));
    CHECK_EQ(row_of(parents, "fork parent time").count, 5);
    CHECK_EQ(row_of(parents, "fork parent cpuTime").count, 5);
    CHECK(!find_in_table(parents, "fork child time", &none));
    CHECK_EQ(row_of(child, "fork child time").count, 1);
    CHECK_EQ(row_of(child, "fork child cpuTime").count, 1);
    free(text);
}

static void check_route(const char *text, const char *words, double each)
{
    const char *whole = from(text, "All intervals:");
    struct row all = row_of(whole, words);
    double least = 1e18, most = 0;

    for (int i = 1; i <= 3; i++) {
        char heading[40];
        struct row interval;

        snprintf(heading, sizeof heading, "Interval %d:", i);
        interval = row_of(from(text, heading), words);
        CHECK_EQ(interval.count, each);
        least = interval.min < least ? interval.min : least;
        most = interval.max > most ? interval.max : most;
    }
    CHECK_EQ(all.count, 3 * each);
    CHECK(all.min == least && all.max == most);
}

CP_TEST(time_by_labels_and_intervals)
{
    char *text = output_of("aggregate 50");

    check_route(text, "request route=/ time", 35);
    check_route(text, "request route=/search time", 10);
    check_route(text, "request route=/report time", 5);
    check_route(text, "request route=/report cpuTime", 5);
    free(text);
}
