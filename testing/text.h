/* Texts of any length, of which only the beginning and the end are kept. */
#ifndef COUNTERPOINT_TESTING_TEXT_H
#define COUNTERPOINT_TESTING_TEXT_H

#include <stddef.h>

/*
 * Byte i of the whole text is at head[i] if i < part, and at tail[i % part] if i is one of the last "part"
 * bytes; the other bytes are gone. Initialise the struct with .part alone.
 */
struct cp__text {
    size_t part;          /* bytes kept of the beginning, and as many of the end; immutable */
    size_t size;          /* bytes of the whole text */
    size_t head_capacity; /* grows up to part */
    char *head, *tail;    /* NULL: not allocated yet */
};

/* Appends to the text. */
void cp__text_add(struct cp__text *text, const char *more);
/* Returns a copy of the bytes from "from" to before "end", in which a line says how many bytes are gone. The
 * caller frees the copy. */
char *cp__text_copy(const struct cp__text *text, size_t from, size_t end);
void cp__text_free(struct cp__text *text);

#endif
