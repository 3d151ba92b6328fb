/* The blocks that `counterpoint block` measures, and what came of them. */
#ifndef COUNTERPOINT_CMD_BLOCK_LIST_H
#define COUNTERPOINT_CMD_BLOCK_LIST_H

#include <stdio.h>

#include "block/block.h"
#include "cmd/counterpoint/commands.h"

struct block_row {
    char *hex; /* as it was given */
    uint8_t *bytes;
    size_t size;
    double model; /* the cycles that a model says; 0: none */
    bool is_done;
    struct cp_block_result result; /* its size is 0 if an earlier run has measured it */
};

struct block_list {
    struct block_row *rows;
    size_t n, room;
};

/* Adds a block that is given as hexadecimal digits. where says where they stand, for people. */
enum status block_list_add(struct block_list *list, const char *hex, size_t length, const char *where);
/* Adds the blocks of a file, one a line: hexadecimal digits, which a comma and anything may follow, as in the
 * sets of blocks that are published. Empty lines are passed over. "-" is stdin. */
enum status block_list_read(struct block_list *list, const char *path);
/* Adds a block that is given as assembly, in the syntax of Intel, or of AT&T if there is a '%'. */
enum status block_list_assemble(struct block_list *list, const char *text);
/* Adds the blocks of a function of an object file, FILE:FUNCTION, or the one that begins at an address as the
 * file's symbols have it, FILE:0xADDRESS. */
enum status block_list_decode(struct block_list *list, const char *argument);
void block_list_free(struct block_list *list);

/* Asks llvm-mca for the cycles of all rows that are not done. */
enum status block_list_model(struct block_list *list);

/* ---- Measuring ------------------------------------------------------------------------------- */

/* Measures all rows that are not done, on so many cores at once; 0: on all that this process may use. Calls
 * done for each of them, in the order of the list. */
typedef enum status block_done_fn(void *context, const struct block_row *row);
enum status block_list_measure(struct block_list *list, unsigned cores, block_done_fn *done, void *context);

/* ---- Output ---------------------------------------------------------------------------------- */

enum block_format { BLOCK_TABLE, BLOCK_CSV, BLOCK_JSON };

/* What has been written. */
struct block_output {
    FILE *file;
    enum block_format format;
    bool has_model;
    size_t written, measured;
    size_t of_status[CP_BLOCK_STATUSES];
    size_t modelled; /* blocks that were measured and have a model's cycles */
    double errors;   /* by how much these are off, as parts of what was measured, together */
};
void block_output_begin(struct block_output *output);
void block_output_row(struct block_output *output, const struct block_row *row);
void block_output_end(struct block_output *output);

/* Marks the rows as done that a CSV file of an earlier run has, which must be a part of this one from its
 * first block on. Stores where the next row is to be written. */
enum status block_output_go_on(struct block_list *list, struct block_output *output, const char *path);

#endif
