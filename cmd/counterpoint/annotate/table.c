/* The table of blocks, for people, and the values, for programs. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "annotation.h"
#include "pprof/symbol/part.h"

#define MARGIN "             "

/* ---- Source lines ---------------------------------------------------------------------------- */

/* The lines of a block that are of one file: the one of its hottest instruction. */
struct block_lines {
    const char *file; /* NULL: unknown */
    int first, last;
    int hottest;
};

static size_t hottest_step(const struct hot_function *hot, const struct basic_block *block)
{
    size_t hottest = block->first;

    for (size_t i = block->first; i < block->first + block->n; i++)
        if (hot_value(hot, i, hot->type) > hot_value(hot, hottest, hot->type))
            hottest = i;
    return hottest;
}

static struct block_lines lines_of_block(const struct hot_function *hot, const struct basic_block *block)
{
    struct block_lines lines = {0};

    lines.file = code_line(hot->code, hot->steps[hottest_step(hot, block)].address, &lines.hottest);
    lines.first = lines.last = lines.hottest;
    for (size_t i = block->first; i < block->first + block->n && lines.file != NULL; i++) {
        int line = 0;
        const char *file = code_line(hot->code, hot->steps[i].address, &line);

        if (file == NULL || strcmp(file, lines.file) != 0)
            continue;
        lines.first = line < lines.first ? line : lines.first;
        lines.last = line > lines.last ? line : lines.last;
    }
    return lines;
}

static void print_place(const struct block_lines *lines, FILE *out)
{
    const char *slash = lines->file != NULL ? strrchr(lines->file, '/') : NULL;

    if (lines->file == NULL)
        return;
    fprintf(out, "%s:%d", slash != NULL ? slash + 1 : lines->file, lines->first);
    if (lines->last != lines->first)
        fprintf(out, "-%d", lines->last);
}

/* Prints a line of the source, without what it is indented by, if there is the file. */
static void print_source_of(const struct block_lines *lines, FILE *out)
{
    const int fd = lines->file != NULL ? cp__open_regular(lines->file) : -1;
    FILE *source = fd >= 0 ? fdopen(fd, "r") : NULL;
    char *text = NULL;
    size_t size = 0;
    int line = 0;

    while (source != NULL && line < lines->hottest && getline(&text, &size, source) > 0)
        line++;
    if (source != NULL && line == lines->hottest) {
        fprintf(out, MARGIN "%d: ", line);
        for (const char *c = text + strspn(text, " \t"); *c != '\0' && *c != '\n'; c++)
            fputc((unsigned char)*c >= ' ' || *c == '\t' ? *c : '?', out);
        fputc('\n', out);
    }
    free(text);
    if (source != NULL)
        fclose(source);
}

/* ---- The table ------------------------------------------------------------------------------- */

static double highest_frequency(const struct annotation *annotation)
{
    double highest = 0;

    for (size_t i = 0; i < annotation->graph.n; i++)
        if (annotation->frequencies[i].frequency > highest)
            highest = annotation->frequencies[i].frequency;
    return highest;
}

/* Instructions that were counted, or cycles in samples by those of an execution, are executions; of a clock's
 * samples nobody knows how many cycles they are. */
static double frequency_unit(const struct annotation *annotation)
{
    if (annotation->has_count)
        return annotation->per_count;
    if (annotation->has_cycles)
        return annotation->per_sample;
    return highest_frequency(annotation) > 0 ? 1 / highest_frequency(annotation) : 0;
}

static void print_number(FILE *out, int width, int digits, double number, bool is_known)
{
    if (is_known)
        fprintf(out, " %*.*f", width, digits, number);
    else
        fprintf(out, " %*s", width, "-");
}

static void print_block_row(const struct annotation *annotation, size_t i, FILE *out)
{
    const struct basic_block *block = &annotation->graph.blocks[i];
    const struct block_note *note = &annotation->notes[i];
    const struct block_lines lines = lines_of_block(&annotation->hot, block);

    fprintf(out, "%8.0f %6.2f%%", note->samples, 100 * note->facts.share);
    print_number(out, 12, annotation->has_cycles ? 0 : 4,
                 annotation->frequencies[i].frequency * frequency_unit(annotation), true);
    print_number(out, 8, 2, note->cycles, note->cycles > 0);
    print_number(out, 8, 2, note->facts.result.cycles, block_has_best(&note->facts));
    print_number(out, 6, 1, note->facts.ratio, note->facts.ratio > 0);
    fprintf(out, " %6zu  %" PRIx64 "-%" PRIx64 "  ", block->n, block->start, block->end);
    print_place(&lines, out);
    fputc('\n', out);
    print_source_of(&lines, out);
    judge_block(out, MARGIN, &note->facts);
}

static void print_function_head(const struct annotation *annotation, FILE *out)
{
    const struct hot_function *hot = &annotation->hot;

    fprintf(out, "%s in %s\n%.0f samples (%s), %.2f%% of all; %zu blocks\n", hot->name, code_file(hot->code),
            annotation->samples, hot->profile->types[hot->type].name,
            hot->total != 0 ? 100 * (double)hot->inside / (double)hot->total : 0, annotation->graph.n);
    if (strcmp(hot->name, hot->symbol.name) != 0)
        fprintf(out, "The code is %s.\n", hot->symbol.name);
    if (hot->unnamed > hot->inside)
        fprintf(out, "%.2f%% of all samples are in code of which no function is known: it has no symbols.\n",
                100 * (double)hot->unnamed / (double)hot->total);
    if (hot->elsewhere > 0)
        fputs("Samples in other parts of the function, as its cold one, are left out.\n", out);
    if (!code_is_sure(hot->code))
        fputs("The profile or the file has no build id: nobody can tell whether this is what ran.\n", out);
    if (annotation->has_count)
        fputs("FREQUENCY is executions, by the instructions that the profile has, too.\n", out);
    else
        fprintf(out,
                "FREQUENCY and CYCLES suppose that blocks which wait for nothing run at their best. %s\n"
                "A ratio is at most so high: a short block that hides behind another one has few samples.\n",
                annotation->has_cycles ? "FREQUENCY is executions."
                                       : "FREQUENCY is a part of the most frequent block's.");
}

void annotation_print(const struct annotation *annotation, size_t n, FILE *out)
{
    print_function_head(annotation, out);
    fputs(" SAMPLES   SHARE    FREQUENCY   CYCLES     BEST  RATIO  INSTR  BLOCK  LINES\n", out);
    for (size_t i = 0; i < annotation->graph.n && i < n; i++)
        if (annotation->notes[annotation->order[i]].samples > 0)
            print_block_row(annotation, annotation->order[i], out);
}

/* ---- Values ---------------------------------------------------------------------------------- */

void annotation_print_csv(const struct annotation *annotation, FILE *out)
{
    fputs("start,end,instructions,samples,frequency,cycles,best,ratio,status\n", out);
    for (size_t i = 0; i < annotation->graph.n; i++) {
        const struct basic_block *block = &annotation->graph.blocks[i];
        const struct block_note *note = &annotation->notes[i];
        const char *status = note->facts.result.size != 0 ? cp_block_status_name(note->facts.result.status)
                             : note->facts.has_call       ? "call"
                                                          : "few samples";

        fprintf(out, "0x%" PRIx64 ",0x%" PRIx64 ",%zu,%.0f,%.6g,%.6g,%.6g,%.6g,%s\n", block->start,
                block->end, block->n, note->samples,
                annotation->frequencies[i].frequency * frequency_unit(annotation), note->cycles,
                block_has_best(&note->facts) ? note->facts.result.cycles : 0, note->facts.ratio, status);
    }
}
