/* Texts that grow without end: their beginning and their end are kept. */
#ifndef COUNTERPOINT_TESTING_TEXT_H
#define COUNTERPOINT_TESTING_TEXT_H

#include <stddef.h>

/*
 * Byte i of all that was added is at head[i] if i < part, and else at tail[i % part] if i is one of the last
 * part bytes; others are gone. Initialise it with .part alone.
 */
struct cp__text {
    size_t part;          /* so many bytes are kept of the beginning, and so many of the end; immutable */
    size_t size;          /* of all that was added */
    size_t head_capacity; /* grows up to part */
    char *head, *tail;    /* NULL: nothing is there yet */
};

void cp__text_add(struct cp__text *text, const char *more);
/* What was added as bytes from to end, with a line in between that says how many are gone; free() it. */
char *cp__text_copy(const struct cp__text *text, size_t from, size_t end);
void cp__text_free(struct cp__text *text);

#endif
