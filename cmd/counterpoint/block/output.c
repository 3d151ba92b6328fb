/* What `counterpoint block` prints: a table for people, CSV and JSON for programs. */
#include "block_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/text.h"

#define CSV_HEADER                                                                                           \
    "block,status,cycles,spread,model,instructions,bytes,branch,copies,alike,runs,pages,switches,clock,"     \
    "physical,traced,accesses,unaligned,crossings,may_alias,other_cycles,subnormal,subnormal_cycles,"        \
    "detail\n"

static bool has_cycles(const struct cp_block_result *result)
{
    return result->status == CP_BLOCK_MEASURED ||
           (result->status == CP_BLOCK_NOT_REPRODUCIBLE && result->cycles > 0);
}

/* ---- The formats ----------------------------------------------------------------------------- */

/* Returns letters for what may falsify a result. */
static const char *marks_of(const struct cp_block_result *result, char marks[5])
{
    snprintf(marks, 5, "%s%s%s%s", result->may_alias ? "A" : "", result->crossings > 0 ? "C" : "",
             result->unaligned > 0 ? "U" : "", result->subnormal ? "S" : "");
    return marks[0] != '\0' ? marks : "-";
}

static void print_table_row(const struct block_output *output, const struct block_row *row)
{
    const struct cp_block_result *result = &row->result;
    FILE *file = output->file;
    char marks[5];

    if (has_cycles(result))
        fprintf(file, "%10.2f %6.1f%%", result->cycles, result->spread * 100);
    else
        fprintf(file, "%10s %7s", "-", "-");
    if (output->has_model && row->model > 0)
        fprintf(file, " %8.2f", row->model);
    else if (output->has_model)
        fprintf(file, " %8s", "-");
    fprintf(file, " %6u %6u %6u  %-5s  %-20s %.48s%s%s%s\n", result->instructions, result->length,
            result->pages, marks_of(result, marks), cp_block_status_name(result->status), row->hex,
            strlen(row->hex) > 48 ? "..." : "", result->detail[0] != '\0' ? "  # " : "", result->detail);
}

/* What is not known is empty. */
static void print_csv_number(FILE *file, double number, bool is_known)
{
    if (is_known)
        fprintf(file, "%.4f", number);
    putc(',', file);
}

/* A detail has commas, and no quotation mark. */
static void print_csv_row(FILE *file, const struct block_row *row)
{
    const struct cp_block_result *result = &row->result;

    fprintf(file, "%s,%s,", row->hex, cp_block_status_name(result->status));
    print_csv_number(file, result->cycles, has_cycles(result));
    print_csv_number(file, result->spread, has_cycles(result));
    print_csv_number(file, row->model, row->model > 0);
    fprintf(file, "%u,%u,%d,%u,%u,%u,%u,%u,%s,", result->instructions, result->length, result->has_branch,
            result->copies[1], result->alike[0] < result->alike[1] ? result->alike[0] : result->alike[1],
            result->runs, result->pages, result->switches, cp_block_clock_name(result->clock));
    fprintf(file, "%u,%u,%u,%u,%u,%d,", result->physical, result->traced, result->accesses, result->unaligned,
            result->crossings, result->may_alias);
    print_csv_number(file, result->other_cycles, result->other_cycles > 0);
    fprintf(file, "%d,", result->subnormal);
    print_csv_number(file, result->subnormal_cycles, result->subnormal_cycles > 0);
    fprintf(file, "\"%s\"\n", result->detail);
}

static const char *json_bool(bool is_true)
{
    return is_true ? "true" : "false";
}

static void print_json_falsity(FILE *file, const struct cp_block_result *result)
{
    fprintf(file,
            "\"physical\": %u, \"traced\": %u, \"accesses\": %u, \"unaligned\": %u, \"crossings\": %u, "
            "\"may_alias\": %s, \"subnormal\": %s, ",
            result->physical, result->traced, result->accesses, result->unaligned, result->crossings,
            json_bool(result->may_alias), json_bool(result->subnormal));
    if (result->other_cycles > 0)
        fprintf(file, "\"other_cycles\": %.4f, ", result->other_cycles);
    if (result->subnormal_cycles > 0)
        fprintf(file, "\"subnormal_cycles\": %.4f, ", result->subnormal_cycles);
}

static void print_json_block(FILE *file, const struct block_row *row)
{
    const struct cp_block_result *result = &row->result;

    fprintf(file, "{\"block\": \"%s\", \"status\": \"%s\", ", row->hex, cp_block_status_name(result->status));
    if (has_cycles(result))
        fprintf(file, "\"cycles\": %.4f, \"spread\": %.4f, ", result->cycles, result->spread);
    if (row->model > 0)
        fprintf(file, "\"model\": %.4f, ", row->model);
    fprintf(file,
            "\"instructions\": %u, \"bytes\": %u, \"branch\": %s, \"copies\": %u, \"alike\": [%u, %u], "
            "\"runs\": %u, "
            "\"pages\": %u, \"switches\": %u, \"clock\": \"%s\", ",
            result->instructions, result->length, json_bool(result->has_branch), result->copies[1],
            result->alike[0], result->alike[1], result->runs, result->pages, result->switches,
            cp_block_clock_name(result->clock));
    print_json_falsity(file, result);
    fputs("\"detail\": ", file);
    cp__json_string(file, result->detail);
    putc('}', file);
}

/* ---- All ------------------------------------------------------------------------------------- */

void block_output_begin(struct block_output *output)
{
    if (output->format == BLOCK_TABLE)
        fprintf(output->file,
                "    CYCLES  SPREAD%s  INSTR  BYTES  PAGES  MARKS  STATUS               BLOCK\n",
                output->has_model ? "    MODEL" : "");
    else
        fputs(output->format == BLOCK_CSV ? CSV_HEADER : "[", output->file);
}

static void add_error(struct block_output *output, const struct block_row *row)
{
    const double off = row->model - row->result.cycles;

    if (row->result.status != CP_BLOCK_MEASURED || row->model == 0)
        return;
    output->modelled++;
    output->errors += (off < 0 ? -off : off) / row->result.cycles;
}

void block_output_row(struct block_output *output, const struct block_row *row)
{
    if (output->format == BLOCK_TABLE) {
        print_table_row(output, row);
    } else if (output->format == BLOCK_CSV) {
        print_csv_row(output->file, row);
    } else {
        fputs(output->written == 0 ? "\n" : ",\n", output->file);
        print_json_block(output->file, row);
    }
    output->written++;
    output->measured += row->result.status == CP_BLOCK_MEASURED;
    output->of_status[row->result.status]++;
    add_error(output, row);
}

static void print_sums(const struct block_output *output)
{
    fprintf(output->file, "\n%zu blocks:", output->written);
    for (int i = 0; i < CP_BLOCK_STATUSES; i++)
        if (output->of_status[i] > 0)
            fprintf(output->file, " %zu %s (%.2f %%)", output->of_status[i],
                    cp_block_status_name((enum cp_block_status)i),
                    100 * (double)output->of_status[i] / (double)output->written);
    putc('\n', output->file);
    if (output->modelled > 0)
        fprintf(output->file, "llvm-mca is off by %.1f %% in the mean of %zu blocks.\n",
                100 * output->errors / (double)output->modelled, output->modelled);
}

void block_output_end(struct block_output *output)
{
    if (output->format == BLOCK_JSON)
        fputs("\n]\n", output->file);
    else if (output->format == BLOCK_TABLE && output->written > 1)
        print_sums(output);
}

/* ---- Going on -------------------------------------------------------------------------------- */

static bool is_whole(const char *line)
{
    return strchr(line, '\n') != NULL;
}

static bool is_about(const char *line, const struct block_row *row)
{
    const size_t length = strlen(row->hex);

    return strncmp(line, row->hex, length) == 0 && line[length] == ',';
}

/* Stores where the whole lines end. Returns false if there are others than this run would write. */
static bool read_rows(struct block_list *list, FILE *file, off_t *end)
{
    char *line = NULL;
    size_t room = 0, n = 0;
    bool is_ours = getline(&line, &room, file) >= 0 && strcmp(line, CSV_HEADER) == 0;

    *end = ftello(file);
    while (is_ours && getline(&line, &room, file) >= 0 && is_whole(line)) {
        is_ours = n < list->n && is_about(line, &list->rows[n]);
        if (is_ours)
            list->rows[n++].is_done = true;
        *end = ftello(file);
    }
    free(line);
    return is_ours;
}

/* A line that an interruption has cut off is written anew. */
static enum status mark_done(struct block_list *list, FILE *file, const char *path)
{
    off_t end;

    if (!read_rows(list, file, &end))
        return complain(STATUS_USAGE,
                        "%s is there already, and does not begin as the output for these blocks would. Name "
                        "another file.",
                        path);
    if (fseeko(file, end, SEEK_SET) < 0 || ftruncate(fileno(file), end) < 0)
        return complain(STATUS_FAILURE, "%s cannot be written: %s.", path, strerror(errno));
    return STATUS_OK;
}

enum status block_output_go_on(struct block_list *list, struct block_output *output, const char *path)
{
    output->file = fopen(path, "r+e");
    if (output->file != NULL)
        return mark_done(list, output->file, path);
    output->file = fopen(path, "we");
    if (output->file == NULL)
        return complain(STATUS_USAGE, "%s cannot be written: %s.", path, strerror(errno));
    block_output_begin(output);
    return STATUS_OK;
}
