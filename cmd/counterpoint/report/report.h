/* The forms of "counterpoint report". Each form prints one profile; report.c has the table of them. */
#ifndef COUNTERPOINT_CMD_REPORT_REPORT_H
#define COUNTERPOINT_CMD_REPORT_REPORT_H

#include <stdio.h>

#include "filter.h"
#include "load.h"

/* What the user wants to see. */
struct view {
    const struct profile *profile;
    size_t type;                  /* the index of the sample type */
    int64_t total;                /* of all samples, also those that filters have left out */
    const char *argument;         /* of the form's option: F of --callers F; NULL: none */
    long node_count;              /* the most rows; -1: the form's own number */
    struct filters filters;       /* which samples the profile has still */
    bool by_cum;                  /* sorts by cumulative values */
    const struct source *sources; /* what the profile was made of */
    size_t n_sources;
    int width;        /* columns of the terminal; 0: the output is none */
    bool has_colours; /* the terminal shows colours, and the user has nothing against them */
};

/* Prints the profile to `out`, which the front brings to stdout, or to the pager. */
typedef enum status print_form(const struct view *view, FILE *out);

print_form print_top, print_tree, print_callers, print_collapsed, print_merged, print_diff, print_markdown;
print_form print_html;
print_form print_lines;

#endif
