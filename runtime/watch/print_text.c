/* Snapshots for people: a table, and what is in no distribution. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "print.h"
#include "text.h"

/* ---- Cells ----------------------------------------------------------------------------------- */

enum column {
    WATCH,
    LABELS,
    SIDE,
    QUANTITY,
    COUNT,
    MEAN,
    SIGMA,
    MIN,
    PERCENTILE,
    MAX = PERCENTILE + CP__WATCH_PERCENTILES,
    COLUMNS
};

static const char *const titles[COLUMNS] = {"watch", "labels", "side", "quantity", "count", "mean", "sigma",
                                            "min",   "p50",    "p90",  "p99",      "p99.9", "max"};

struct scale {
    double least; /* of the numbers that are shown by it; 4 digits are */
    double divisor;
    const char *unit;
};

static const struct scale times[] = {
    {999.95e6, 1e9, "s"}, {999.95e3, 1e6, "ms"}, {999.95, 1e3, "us"}, {0, 1, "ns"}};
static const struct scale counts[] = {
    {999.95e9, 1e12, "T"}, {999.95e6, 1e9, "G"}, {999.95e3, 1e6, "M"}, {9999.5, 1e3, "k"}, {0, 1, ""}};

static void print_in_unit(FILE *out, double value, const char *unit)
{
    const struct scale *scale = strcmp(unit, "ns") == 0 ? times : counts;
    double shown;

    while (value < scale->least)
        scale++;
    shown = value / scale->divisor;
    if (value <= 0)
        fputs("0", out);
    else
        fprintf(out, shown >= 9999.5 ? "%.0f%s" : "%.4g%s", shown, scale->unit);
}

/* Prints text with "?" for each control character, and for each byte that is not UTF-8. */
static void print_plain(FILE *out, const char *text)
{
    size_t left = strlen(text), n;

    for (; left > 0; text += n, left -= n) {
        n = cp__utf8_size(text, left);
        if (n == 0 || (unsigned char)*text < ' ' || *text == 0x7f) {
            fputc('?', out);
            n = 1;
        } else {
            fwrite(text, 1, n, out);
        }
    }
}

/* A value that has a blank is in quotes. */
static void print_text_labels(FILE *out, const struct cp_watch_row *row)
{
    for (size_t i = 0; i < row->n_labels; i++) {
        const char *quote = strpbrk(row->labels[i].value, " \"") != NULL ? "\"" : "";

        fputs(i > 0 ? " " : "", out);
        print_plain(out, row->labels[i].key);
        fprintf(out, "=%s", quote);
        print_plain(out, row->labels[i].value);
        fputs(quote, out);
    }
}

static double value_of_column(const struct cp_watch_row *row, enum column column)
{
    switch (column) {
    case MEAN:
        return row->mean;
    case SIGMA:
        return row->sigma;
    case MIN:
        return row->min;
    case MAX:
        return row->max;
    default:
        return cp_watch_percentile(row, cp__watch_percentiles[column - PERCENTILE]);
    }
}

static void print_cell(FILE *out, const struct cp_watch_row *row, enum column column)
{
    switch (column) {
    case WATCH:
        print_plain(out, row->watch);
        break;
    case LABELS:
        print_text_labels(out, row);
        break;
    case SIDE:
        fputs(cp__watch_side_name(row->side), out);
        break;
    case QUANTITY:
        print_plain(out, row->quantity);
        break;
    case COUNT:
        fprintf(out, "%" PRIu64, row->count);
        break;
    default:
        if (row->count > 0)
            print_in_unit(out, value_of_column(row, column), row->unit);
    }
}

/* ---- The table ------------------------------------------------------------------------------- */

struct text_table {
    FILE *out;
    FILE *measure; /* counts what is printed into it */
    size_t columns;
    size_t widths[COLUMNS];
    size_t n_rows;
};

/* Counts characters: bytes that do not continue one of UTF-8. */
static ssize_t count_characters(void *cookie, const char *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        ((struct text_table *)cookie)->columns += ((unsigned char)data[i] & 0xc0) != 0x80;
    return (ssize_t)size;
}

static size_t cell_width(struct text_table *table, const struct cp_watch_row *row, enum column column)
{
    table->columns = 0;
    print_cell(table->measure, row, column);
    fflush(table->measure);
    return table->columns;
}

static int measure_row(void *context, const struct cp_watch_row *row)
{
    struct text_table *table = context;

    for (enum column c = WATCH; c < COLUMNS; c++) {
        const size_t width = cell_width(table, row, c);

        if (width > table->widths[c])
            table->widths[c] = width;
    }
    table->n_rows++;
    return 0;
}

/* Words stand on the left, and numbers on the right. A column in which no row has anything is left out. */
static void pad(const struct text_table *table, enum column column, size_t width, bool is_before)
{
    const bool is_word = column < COUNT;

    if (is_word != is_before)
        fprintf(table->out, "%*s", (int)(table->widths[column] - width), "");
    if (!is_before && column < MAX)
        fputs("  ", table->out);
}

static int print_text_row(void *context, const struct cp_watch_row *row)
{
    struct text_table *table = context;

    for (enum column c = WATCH; c < COLUMNS; c++) {
        const size_t width = cell_width(table, row, c);

        if (table->widths[c] == 0)
            continue;
        pad(table, c, width, true);
        print_cell(table->out, row, c);
        pad(table, c, width, false);
    }
    fputc('\n', table->out);
    return 0;
}

static void print_titles(struct text_table *table)
{
    for (enum column c = WATCH; c < COLUMNS; c++) {
        const size_t width = strlen(titles[c]);

        if (table->widths[c] == 0)
            continue;
        if (table->widths[c] < width)
            table->widths[c] = width;
        pad(table, c, width, true);
        fputs(titles[c], table->out);
        pad(table, c, width, false);
    }
    fputc('\n', table->out);
}

/* ---- What is in no distribution -------------------------------------------------------------- */

static void print_state_line(FILE *out, const struct cp__snapshot_watch *watch, uint64_t n, const char *noun,
                             const char *what)
{
    if (n == 0)
        return;
    print_plain(out, watch->name);
    fprintf(out, ": %" PRIu64 " %s%s %s.\n", n, noun, n == 1 ? " was" : "s were", what);
}

static void print_text_state(FILE *out, const struct cp__snapshot_watch *watch)
{
    const struct cp_watch_state *state = &watch->state;
    const char *noun = watch->is_keyed ? "key" : "round";

    print_state_line(out, watch, state->open, noun, "open at that moment");
    print_state_line(out, watch, state->partial, noun,
                     "partial, and are in the distribution of time alone: an event shared the processor's "
                     "counters with others, or the kernel switched the thread off its CPU");
    print_state_line(out, watch, state->refused, noun,
                     watch->is_keyed ? "refused: too many keys were open, or there was no memory"
                                     : "refused: the thread was not attached, an event could not be opened "
                                       "for it, or there was no memory");
    print_state_line(out, watch, state->lost, noun,
                     watch->is_keyed ? "lost: the same key was begun again before its end"
                                     : "lost: there was no memory for their values");
    print_state_line(out, watch, state->unknown, "call",
                     "ignored: the key to move or to end was not open, or there is no such stage");
    print_state_line(out, watch, state->dropped, noun, "dropped by the program");
    if (watch->n_series == 0 && !watch->is_continued) {
        print_plain(out, watch->name);
        fprintf(out, ": no %s has ended yet.\n", noun);
    }
}

int cp__watch_print_text(const struct cp_watch_snapshot *snapshot, FILE *out)
{
    struct text_table table = {.out = out};

    table.measure = fopencookie(&table, "w", (cookie_io_functions_t){.write = count_characters});
    if (table.measure == NULL)
        return -ENOMEM;
    cp_watch_each(snapshot, measure_row, &table);
    if (table.n_rows > 0) {
        print_titles(&table);
        cp_watch_each(snapshot, print_text_row, &table);
    }
    fclose(table.measure);
    if (snapshot->n == 0)
        fputs("There are no watches.\n", out);
    for (size_t i = 0; i < snapshot->n; i++)
        print_text_state(out, &snapshot->watches[i]);
    return 0;
}
