#include "arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/counterpoint/commands.h"

#define BLOCK ((size_t)64 << 10)

struct arena_block {
    struct arena_block *before;
    alignas(max_align_t) unsigned char bytes[];
};

static void *or_end(void *memory)
{
    if (memory == NULL)
        exit(complain(STATUS_FAILURE, "There is not enough memory for the report."));
    return memory;
}

void *arena_array(struct arena *arena, size_t n, size_t element_size)
{
    size_t size, wanted;
    struct arena_block *block;

    if (__builtin_mul_overflow(n, element_size, &size) || size > SIZE_MAX / 2)
        or_end(NULL);
    size = (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    if (arena->last == NULL || arena->size - arena->used < size) {
        wanted = size > BLOCK ? size : BLOCK;
        block = or_end(calloc(1, sizeof *block + wanted));
        block->before = arena->last;
        *arena = (struct arena){.last = block, .size = wanted};
    }
    arena->used += size;
    return arena->last->bytes + arena->used - size;
}

char *arena_copy(struct arena *arena, const char *text, size_t length)
{
    char *copied = arena_array(arena, length + 1, 1);

    memcpy(copied, text, length);
    return copied;
}

char *arena_print(struct arena *arena, const char *format, ...)
{
    va_list arguments, again;
    char *text;
    int length;

    va_start(arguments, format);
    va_copy(again, arguments);
    length = vsnprintf(NULL, 0, format, arguments);
    text = arena_array(arena, length < 0 ? 1 : (size_t)length + 1, 1);
    if (length > 0)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    va_end(arguments);
    return text;
}

void arena_free(struct arena *arena)
{
    while (arena->last != NULL) {
        struct arena_block *before = arena->last->before;

        free(arena->last);
        arena->last = before;
    }
    *arena = (struct arena){0};
}

void *grow_array(void *array, size_t n, size_t *room, size_t element_size)
{
    if (n < *room)
        return array;
    *room = *room * 2 + 16;
    return or_end(reallocarray(array, *room, element_size));
}
