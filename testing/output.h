/*
 * What a test prints, on its way to the runner: a pipe, which the runner empties while the test runs.
 *
 * What is printed and what is told over the socket (event.h) must stand in the order in which it came about.
 * So each event says how many bytes had been printed before it: those that the runner has read, a number
 * that it shares with the test's processes, and those that are in the pipe still. The two are looked at
 * together, between two turns of the runner:
 *
 *     runner                                test
 *     turns is odd                          turns is even
 *     reads from the pipe                   looks at taken
 *     adds that to taken                    asks the kernel how much is in the pipe
 *     turns is even                         turns is the same
 *
 * The runner reads from the pipe before it receives events, so that of a thread that prints, tells and
 * prints, it has not shown the second print when the event comes: the event was sent before that was
 * printed.
 */
#ifndef COUNTERPOINT_TESTING_OUTPUT_H
#define COUNTERPOINT_TESTING_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Shared, atomic; the runner alone writes. */
struct cp__output_counts {
    uint64_t turns; /* odd while the runner reads from the pipe */
    uint64_t taken; /* bytes that it has read */
};

/* The runner's side; its own. */
struct cp__output {
    int pipe; /* the runner's end, which does not wait */
    struct cp__output_counts *counts;
    size_t shown;   /* bytes of all that was printed */
    bool is_closed; /* nobody can print any more */
    size_t filled;  /* of the buffer, of which the last byte is that with the number counts->taken */
    char buffer[64 << 10];
};

/* Opens the pipe; *end is the test's. 0 or a negative errno value. */
int cp__output_open(struct cp__output *output, int *end);
void cp__output_close(struct cp__output *output);
/* Reads from the pipe, unless not all is shown that was read before. */
void cp__output_fill(struct cp__output *output);
/* Shows what was printed up to byte end of all; less if that is not there. */
void cp__output_show(struct cp__output *output, size_t end);
/* Shows all that was read. */
void cp__output_show_read(struct cp__output *output);
/* Shows all that has been printed by now. */
void cp__output_show_all(struct cp__output *output);

/* The test's side: how many bytes have been printed to the pipe by now. While others print without end it
 * may be a little less. */
size_t cp__output_size_from_handler(int end, const struct cp__output_counts *counts);

#endif
