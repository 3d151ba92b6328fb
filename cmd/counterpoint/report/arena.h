/* Memory that is freed as a whole. */
#ifndef COUNTERPOINT_CMD_REPORT_ARENA_H
#define COUNTERPOINT_CMD_REPORT_ARENA_H

#include <stddef.h>

/* Blocks of memory, each with a link to the one before. All zeros means empty. */
struct arena {
    struct arena_block *last;
    size_t used, size; /* of the last block */
};

/* Returns n elements of zeros, for as long as the arena lives. If there is no memory, the program ends with a
 * sentence: a command has nothing to put back. */
void *arena_array(struct arena *arena, size_t n, size_t element_size);
char *arena_copy(struct arena *arena, const char *text, size_t length);
/* Returns what printf() would print. */
char *arena_print(struct arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
void arena_free(struct arena *arena);

/* Returns array with room for one more element than n, moved if it had to grow. The program ends if there is
 * no memory. The caller frees the array. */
void *grow_array(void *array, size_t n, size_t *room, size_t element_size);

#endif
