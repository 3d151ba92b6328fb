/* Other programs, and what they print. */
#ifndef COUNTERPOINT_CMD_REPORT_PROGRAM_H
#define COUNTERPOINT_CMD_REPORT_PROGRAM_H

#include <stddef.h>

enum { PROGRAM_IS_ABSENT = -1 };

/* What a program has printed; a zero byte follows the last one. */
struct printed {
    char *out, *err; /* the caller frees both */
    size_t out_size, err_size;
};

/* Runs a program, found by $PATH, to its end, with an empty input. Returns its exit status, 128 and more if a
 * signal has ended it, or PROGRAM_IS_ABSENT. */
int program_run(const char *const *arguments, struct printed *printed);
void program_free(struct printed *printed);

/* Returns the last line that is not empty, without its end, for sentences: at most 300 bytes, without control
 * characters. Changes the text. */
char *last_line(char *text);

#endif
