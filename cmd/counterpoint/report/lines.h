/* What --lines shows: lines.c has the functions and their source lines, instructions.c their instructions. */
#ifndef COUNTERPOINT_CMD_REPORT_LINES_H
#define COUNTERPOINT_CMD_REPORT_LINES_H

#include "code.h"
#include "report.h"

struct line_values {
    int64_t line;
    int64_t flat, cum;
    size_t seen; /* the last sample that was counted, from 1 */
};

/* A function whose name matches. Functions of one name in several files are several routines. */
struct routine {
    const struct profile_function *function;
    int64_t flat, cum;
    size_t seen;
    struct line_values *lines;
    size_t n_lines, lines_room;
};

/* The file of a mapping. */
struct opened {
    bool is_tried, is_shared; /* is_shared: an earlier mapping has opened it */
    struct code *code;        /* NULL: err says why */
    struct cp_error err;
};

struct listing {
    const struct view *view;
    FILE *out;
    struct routine *routines;
    size_t n_routines;
    const struct routine **order; /* of those that samples have, as they are shown */
    size_t n_order;
    struct routine **routine_of; /* of each function, by its index in the profile; NULL: it does not match */
    struct opened *opened;       /* of each mapping, by its index in the profile */
    struct arena arena;
};

/* Prints the instructions of a routine with their values, or why there are none to show. */
void print_instructions(struct listing *listing, const struct routine *routine);

/* Prints the beginning of a row: both values, "." for 0. */
void print_values(const struct listing *listing, int64_t flat, int64_t cum);
/* Prints "what NAME in FILE" and the sums. */
void print_routine_title(const struct listing *listing, const char *what, const char *name, const char *file,
                         int64_t flat, int64_t cum);

#endif
