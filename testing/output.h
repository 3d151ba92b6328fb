/*
 * The output of a test on its way to the runner: a pipe, which the runner empties while the test runs.
 *
 * Output and events (event.h), which take separate ways, must be shown in the order in which they were made.
 * So each event says how many bytes had been printed before the event: the bytes that the runner has read, a
 * number that the runner shares with the test's processes, plus the bytes that are still in the pipe. The
 * test reads both numbers between two turns of the runner, so that they belong together:
 *
 *     runner                                test
 *     makes "turns" odd                     waits until "turns" is even
 *     reads from the pipe                   loads "taken"
 *     adds the number of bytes to "taken"   asks the kernel how much is in the pipe
 *     makes "turns" even                    checks that "turns" is the same
 *
 * The runner reads from the pipe before it receives events. If a thread prints, sends an event, and prints
 * again, the runner has therefore not shown the second print when the event arrives: the event was sent
 * before the second print was made.
 */
#ifndef COUNTERPOINT_TESTING_OUTPUT_H
#define COUNTERPOINT_TESTING_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Shared with the test's processes by atomic operations; only the runner writes. */
struct cp__output_counts {
    uint64_t turns; /* odd while the runner reads from the pipe */
    uint64_t taken; /* bytes that the runner has read */
};

/* The runner's side, which only the runner uses. */
struct cp__output {
    int pipe; /* the runner's end, non-blocking */
    struct cp__output_counts *counts;
    size_t shown;   /* bytes that have been shown, of everything that was printed */
    bool is_closed; /* all writing ends are closed, so no more output can come */
    size_t filled;  /* bytes in the buffer; the last of them is byte number counts->taken of the output */
    char buffer[64 << 10];
};

/* Opens the pipe; *end is the test's end. Returns 0 or a negative errno value. */
int cp__output_open(struct cp__output *output, int *end);
void cp__output_close(struct cp__output *output);
/* Reads from the pipe if everything that was read before has been shown; else does nothing. */
void cp__output_fill(struct cp__output *output);
/* Shows the output up to the byte with the number end, or as much of that as has arrived. */
void cp__output_show(struct cp__output *output, size_t end);
/* Shows everything that has been read. */
void cp__output_show_read(struct cp__output *output);
/* Shows everything that has been printed so far, whether it has been read or not. */
void cp__output_show_all(struct cp__output *output);

/* The test's side: returns how many bytes have been printed to the pipe so far. The result may be a little
 * too small while other threads print without end. */
size_t cp__output_size_from_handler(int end, const struct cp__output_counts *counts);

#endif
