/*
 * What llvm-mca says of blocks, beside what they were measured to take. One run of it takes many blocks, each
 * between two comments. If there is an instruction that it does not know, it says nothing of any block, so
 * half of them are tried at a time then.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "block/code.h"
#include "block_list.h"
#include "cmd/counterpoint/report/program.h"

#define ITERATIONS 200
#define AT_ONCE 256

/* Blocks that cannot be decoded have an empty region. */
static bool write_regions(FILE *file, struct block_row *const *rows, size_t n)
{
    fputs(".intel_syntax noprefix\n", file);
    for (size_t i = 0; i < n; i++) {
        fprintf(file, "# LLVM-MCA-BEGIN %zu\n", i);
        cp__code_print(file, rows[i]->bytes, rows[i]->size);
        fputs("# LLVM-MCA-END\n", file);
    }
    return fflush(file) == 0;
}

/* Reads "[1] Code Region - 1" and, further on, "Total Cycles: 103". */
static void read_regions(char *text, struct block_row *const *rows, size_t n)
{
    struct block_row *row = NULL;

    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        size_t region;
        double cycles;

        if (sscanf(line, "[%*u] Code Region - %zu", &region) == 1)
            row = region < n ? rows[region] : NULL;
        else if (row != NULL && sscanf(line, "Total Cycles: %lf", &cycles) == 1)
            row->model = cycles / ITERATIONS;
    }
}

/* Returns the exit status of llvm-mca, or PROGRAM_IS_ABSENT. */
static int run_mca(const char *path, struct block_row *const *rows, size_t n)
{
    const char *const arguments[] = {"llvm-mca",
                                     "-mcpu=native",
                                     "-iterations=200",
                                     "-instruction-info=false",
                                     "-resource-pressure=false",
                                     path,
                                     NULL};
    struct printed printed;
    const int result = program_run(arguments, &printed);

    if (result == 0)
        read_regions(printed.out, rows, n);
    program_free(&printed);
    return result;
}

static int ask_model(struct block_row *const *rows, size_t n)
{
    char path[] = "/tmp/counterpoint-XXXXXX";
    const int file = mkstemp(path);
    FILE *out = file < 0 ? NULL : fdopen(file, "w");
    int result;

    if (out == NULL || !write_regions(out, rows, n))
        result = -errno;
    else
        result = run_mca(path, rows, n);
    if (out != NULL)
        fclose(out);
    if (file >= 0)
        unlink(path);
    if (result > 0 && n > 1) {
        ask_model(rows, n / 2);
        return ask_model(rows + n / 2, n - n / 2);
    }
    return result > 0 ? 0 : result;
}

enum status block_list_model(struct block_list *list)
{
    struct block_row *asked[AT_ONCE];
    size_t n_asked = 0;
    int result = 0;

    for (size_t i = 0; i < list->n && result == 0; i++) {
        if (!list->rows[i].is_done)
            asked[n_asked++] = &list->rows[i];
        if (n_asked == AT_ONCE || (i + 1 == list->n && n_asked > 0)) {
            result = ask_model(asked, n_asked);
            n_asked = 0;
        }
    }
    if (result == PROGRAM_IS_ABSENT)
        return complain(STATUS_USAGE,
                        "There is no llvm-mca: install the package llvm, or leave --model out.");
    return result < 0 ? complain(STATUS_FAILURE, "The blocks cannot be written for llvm-mca.") : STATUS_OK;
}
