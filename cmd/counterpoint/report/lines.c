/* Source lines with their values, as go tool pprof -list prints them, and the instructions below. */
#include "lines.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "measure.h"
#include "names.h"
#include "output.h"
#include "pprof/symbol/part.h"

/* So many routines are shown if the user does not say how many. */
#define DEFAULT_ROUTINES 10
/* So many lines stand below the last line that has values, and above the first one if it is not known where
 * the function begins. */
#define MARGIN 5

/* ---- Which functions ------------------------------------------------------------------------- */

/* The file of a function is a part of what it is: static functions of several files may have one name. */
static int compare_functions(const void *a, const void *b)
{
    const struct profile_function *const *first = a, *const *second = b;
    int order = strcmp((*first)->name, (*second)->name);

    return order != 0 ? order : strcmp((*first)->file, (*second)->file);
}

/* Makes a routine of each function that matches. */
static void find_routines(struct listing *listing, const regex_t *expression)
{
    const struct profile *profile = listing->view->profile;
    const struct profile_function **found = arena_array(&listing->arena, profile->n_functions, sizeof *found);
    struct routine *routine = NULL;
    size_t n = 0;

    for (size_t i = 0; i < profile->n_functions; i++) {
        if (expression_matches(expression, profile->functions[i].name))
            found[n++] = &profile->functions[i];
    }
    qsort(found, n, sizeof *found, compare_functions);
    listing->routines = arena_array(&listing->arena, n, sizeof *listing->routines);
    listing->routine_of = arena_array(&listing->arena, profile->n_functions, sizeof *listing->routine_of);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || compare_functions(&found[i - 1], &found[i]) != 0) {
            routine = &listing->routines[listing->n_routines++];
            routine->function = found[i];
        }
        listing->routine_of[found[i] - profile->functions] = routine;
    }
}

/* ---- Values ---------------------------------------------------------------------------------- */

static struct line_values *values_of_line(struct routine *routine, int64_t line)
{
    for (size_t i = 0; i < routine->n_lines; i++) {
        if (routine->lines[i].line == line)
            return &routine->lines[i];
    }
    routine->lines =
        grow_array(routine->lines, routine->n_lines, &routine->lines_room, sizeof *routine->lines);
    routine->lines[routine->n_lines] = (struct line_values){.line = line};
    return &routine->lines[routine->n_lines++];
}

/* Adds a sample's value. A function, or a line, that is in a stack several times counts once. */
static void add_line_value(struct routine *routine, int64_t line, int64_t value, bool is_leaf, size_t sample)
{
    struct line_values *values = values_of_line(routine, line);

    if (is_leaf) {
        routine->flat += value;
        values->flat += value;
    }
    if (values->seen != sample)
        values->cum += value;
    if (routine->seen != sample)
        routine->cum += value;
    values->seen = routine->seen = sample;
}

static void count_lines_of(struct listing *listing, size_t i)
{
    const struct profile *profile = listing->view->profile;
    const struct profile_sample *sample = &profile->samples[i];
    int64_t value = sample->values[listing->view->type];

    for (size_t j = 0; j < sample->n_locations; j++) {
        const struct profile_location *location = sample->locations[j];

        for (size_t k = 0; k < location->n_lines; k++) {
            const struct profile_line *line = &location->lines[k];
            struct routine *routine = listing->routine_of[line->function - profile->functions];

            if (routine != NULL)
                add_line_value(routine, line->line, value, j == 0 && k == 0, i + 1);
        }
    }
}

static int compare_lines(const void *a, const void *b)
{
    const struct line_values *first = a, *second = b;

    return (first->line > second->line) - (first->line < second->line);
}

static int compare_sizes(int64_t a, int64_t b)
{
    return (measure_abs(a) < measure_abs(b)) - (measure_abs(a) > measure_abs(b));
}

static int compare_flat(const void *a, const void *b)
{
    const struct routine *const *first = a, *const *second = b;
    int order = compare_sizes((*first)->flat, (*second)->flat);

    return order != 0 ? order : compare_sizes((*first)->cum, (*second)->cum);
}

static int compare_cum(const void *a, const void *b)
{
    const struct routine *const *first = a, *const *second = b;
    int order = compare_sizes((*first)->cum, (*second)->cum);

    return order != 0 ? order : compare_sizes((*first)->flat, (*second)->flat);
}

/* Counts all samples, leaves out routines that are in none, and sorts. */
static void count_routines(struct listing *listing)
{
    for (size_t i = 0; i < listing->view->profile->n_samples; i++)
        count_lines_of(listing, i);
    listing->order = arena_array(&listing->arena, listing->n_routines, sizeof *listing->order);
    for (size_t i = 0; i < listing->n_routines; i++) {
        struct routine *routine = &listing->routines[i];

        if (routine->n_lines == 0)
            continue;
        qsort(routine->lines, routine->n_lines, sizeof *routine->lines, compare_lines);
        listing->order[listing->n_order++] = routine;
    }
    qsort(listing->order, listing->n_order, sizeof *listing->order,
          listing->view->by_cum ? compare_cum : compare_flat);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

void print_values(const struct listing *listing, int64_t flat, int64_t cum)
{
    const char *unit = listing->view->profile->types[listing->view->type].unit;
    const bool has_colours = listing->view->has_colours;
    const double share = listing->view->total != 0 ? (double)flat / (double)listing->view->total : 0;
    char texts[2][MEASURE_SIZE];

    fprintf(listing->out, "%s%10s %10s%s ", colour_of(has_colours, share),
            flat != 0 ? measure_label(texts[0], flat, unit, "minimum") : ".",
            cum != 0 ? measure_label(texts[1], cum, unit, "minimum") : ".", colour_end(has_colours));
}

void print_routine_title(const struct listing *listing, const char *what, const char *name, const char *file,
                         int64_t flat, int64_t cum)
{
    const char *unit = listing->view->profile->types[listing->view->type].unit;
    char texts[3][MEASURE_SIZE];

    fprintf(listing->out, "%s %.*s %s in %s\n", what, (int)(31 - strlen(what)),
            "==============================", name, file);
    fprintf(listing->out, "%10s %10s (flat, cum) %s of Total\n",
            measure_label(texts[0], flat, unit, "minimum"), measure_label(texts[1], cum, unit, "minimum"),
            measure_percentage(texts[2], cum, listing->view->total));
}

/* ---- Source lines ---------------------------------------------------------------------------- */

/* Tells what may be wrong with the text of a source file. */
static void print_doubt(const struct listing *listing, FILE *source, const char *file)
{
    const int64_t time_ns = listing->view->profile->time_ns;
    struct stat found;

    if (time_ns != 0 && fstat(fileno(source), &found) == 0 && found.st_mtim.tv_sec > time_ns / 1000000000)
        fprintf(listing->out, " %s has changed since the profile was taken: lines may have moved.\n", file);
}

static void print_source_row(const struct listing *listing, const struct line_values *values, int64_t line,
                             const char *text)
{
    if (values != NULL && values->line == line)
        print_values(listing, values->flat, values->cum);
    else
        print_values(listing, 0, 0);
    fprintf(listing->out, "%6" PRId64 ":", line);
    for (; *text != '\0' && *text != '\n'; text++)
        fputc((unsigned char)*text >= ' ' || *text == '\t' ? *text : '?', listing->out);
    fputc('\n', listing->out);
}

/* Returns the first line to show. */
static int64_t first_line(const struct routine *routine)
{
    int64_t first = routine->lines[0].line, start = routine->function->start_line;

    if (start > 0 && start <= first)
        return start;
    return first > MARGIN ? first - MARGIN : 1;
}

static void print_source(const struct listing *listing, const struct routine *routine, FILE *source)
{
    const int64_t last = routine->lines[routine->n_lines - 1].line;
    const struct line_values *values = routine->lines, *end = values + routine->n_lines;
    char *text = NULL;
    size_t size = 0;
    int64_t line = 1;

    for (; line - MARGIN <= last && getline(&text, &size, source) > 0; line++) {
        while (values < end && values->line < line)
            values++;
        if (line >= first_line(routine))
            print_source_row(listing, values < end ? values : NULL, line, text);
    }
    if (line <= last)
        fprintf(listing->out, " %s has %" PRId64 " lines only: it is not what was compiled.\n",
                routine->function->file, line - 1);
    free(text);
}

/* Prints the lines that have values, without their text. */
static void print_bare_lines(const struct listing *listing, const struct routine *routine)
{
    for (size_t i = 0; i < routine->n_lines; i++)
        print_source_row(listing, &routine->lines[i], routine->lines[i].line, "");
}

static void print_lines_of(struct listing *listing, const struct routine *routine)
{
    const char *file = routine->function->file;
    const int fd = file[0] != '\0' ? cp__open_regular(file) : -ENOENT;
    FILE *source = fd >= 0 ? fdopen(fd, "r") : NULL;

    print_routine_title(listing, "ROUTINE", routine->function->name,
                        file[0] != '\0' ? file : "an unknown file", routine->flat, routine->cum);
    if (routine->lines[routine->n_lines - 1].line <= 0)
        fputs(" The profile has no lines of this function.\n", listing->out);
    else if (source != NULL) {
        print_doubt(listing, source, file);
        print_source(listing, routine, source);
    } else {
        if (file[0] != '\0')
            fprintf(listing->out, " %s cannot be read: %s. Only the lines with values stand here.\n", file,
                    fd == -ENOEXEC ? "it is no regular file" : strerror(fd < 0 ? -fd : errno));
        print_bare_lines(listing, routine);
    }
    if (source != NULL)
        fclose(source);
}

/* ---- All of it ------------------------------------------------------------------------------- */

static void print_routines(struct listing *listing)
{
    const struct view *view = listing->view;
    size_t limit = view->node_count > 0 ? (size_t)view->node_count : DEFAULT_ROUTINES;
    char text[MEASURE_SIZE];

    fprintf(listing->out, "Total: %s\n",
            measure_label(text, view->total, view->profile->types[view->type].unit, "minimum"));
    for (size_t i = 0; i < listing->n_order && i < limit; i++) {
        print_lines_of(listing, listing->order[i]);
        print_instructions(listing, listing->order[i]);
    }
    if (listing->n_order > limit)
        fprintf(listing->out, "%zu more functions match; -n %zu shows them all.\n", listing->n_order - limit,
                listing->n_order);
}

static void listing_free(struct listing *listing)
{
    for (size_t i = 0; i < listing->view->profile->n_mappings; i++) {
        if (!listing->opened[i].is_shared)
            code_close(listing->opened[i].code);
    }
    for (size_t i = 0; i < listing->n_routines; i++)
        free(listing->routines[i].lines);
    arena_free(&listing->arena);
}

enum status print_lines(const struct view *view, FILE *out)
{
    struct listing listing = {.view = view, .out = out};
    regex_t expression;
    enum status status = expression_read(&expression, view->argument);

    if (status != STATUS_OK)
        return status;
    listing.opened = arena_array(&listing.arena, view->profile->n_mappings, sizeof *listing.opened);
    find_routines(&listing, &expression);
    regfree(&expression);
    count_routines(&listing);
    if (listing.n_order > 0)
        print_routines(&listing);
    else
        status = complain(STATUS_NO, "No function in the profile matches \"%s\"%s.", view->argument,
                          view->profile->n_functions == 0 ? ": it has addresses, and no names" : "");
    listing_free(&listing);
    return status;
}
