/* How a report reaches the user: as it is, or in a pager if it is longer than the terminal. */
#ifndef COUNTERPOINT_CMD_REPORT_OUTPUT_H
#define COUNTERPOINT_CMD_REPORT_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

struct terminal {
    int width, height; /* in characters; 0: the output is no terminal */
    bool has_colours;
};

/* Asks what stdout is. There are no colours if NO_COLOR is set. */
struct terminal terminal_of_stdout(void);

/* Writes text to stdout, or to $PAGER, or less, if the terminal has not as many lines. */
void output_text(const struct terminal *terminal, const char *text, size_t size);

/* Returns what turns the colour of a share of the total on, and off again; "" without colours. */
const char *colour_of(bool has_colours, double share);
const char *colour_end(bool has_colours);

#endif
