/* What the server's routes do: work that takes CPU time, in functions whose names a profile shows. */
#ifndef COUNTERPOINT_EXAMPLES_SERVER_WORK_H
#define COUNTERPOINT_EXAMPLES_SERVER_WORK_H

#include <stddef.h>
#include <stdint.h>

#define WORK_TEXT 65536
#define WORK_NUMBERS 16384
#define WORK_ITEMS 1000 /* an item takes less than 64 bytes of text */

/* An answer, and the memory in which the answer is computed. Too large for the stack of a green thread. */
struct work {
    const char *type; /* Content-Type: text/plain, unless the work sets another one */
    size_t size;      /* the length of text; 0 at first */
    char text[WORK_TEXT];
    uint32_t numbers[WORK_NUMBERS];
};

/* Each function computes the answer to one request, on a green thread. */
void work_hash(struct work *w, unsigned n); /* the checksum of n bytes */
void work_sort(struct work *w, unsigned n); /* the median of n numbers, at most WORK_NUMBERS */
void work_json(struct work *w, unsigned n); /* a list of n items, at most WORK_ITEMS */

#endif
