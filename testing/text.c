/* See text.h. */
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void *must_grow(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

/* ---- Adding ---------------------------------------------------------------------------------- */

/* Adds to the head, and returns how many bytes the head took. */
static size_t add_to_head(struct cp__text *text, const char *more, size_t n)
{
    size_t begin = least(text->size, text->part), taken = least(n, text->part - begin);
    if (begin + taken > text->head_capacity) {
        while (text->head_capacity < begin + taken)
            text->head_capacity = text->head_capacity ? 2 * text->head_capacity : 64;
        text->head = must_grow(realloc(text->head, text->head_capacity));
    }
    if (taken > 0)
        memcpy(text->head + begin, more, taken);
    return taken;
}

/* Adds n bytes to the ring of the tail, of which only the last "part" bytes can matter. */
static void add_to_tail(struct cp__text *text, const char *more, size_t n)
{
    size_t begin = text->size;
    if (n > 0 && !text->tail)
        text->tail = must_grow(malloc(text->part));
    if (n > text->part) {
        begin += n - text->part;
        more += n - text->part;
        n = text->part;
    }
    while (n > 0) {
        size_t at = begin % text->part, taken = least(n, text->part - at);
        memcpy(text->tail + at, more, taken);
        begin += taken;
        more += taken;
        n -= taken;
    }
}

void cp__text_add(struct cp__text *text, const char *more)
{
    size_t n = strlen(more), taken = add_to_head(text, more, n);
    text->size += taken;
    add_to_tail(text, more + taken, n - taken);
    text->size += n - taken;
}

/* ---- Copying --------------------------------------------------------------------------------- */

/* Returns the offset at which the kept end of the text begins. */
static size_t tail_begin(const struct cp__text *text)
{
    return text->size > 2 * text->part ? text->size - text->part : least(text->size, text->part);
}

static void copy_head(FILE *to, const struct cp__text *text, size_t from, size_t end)
{
    end = least(end, text->part);
    if (from < end)
        fwrite(text->head + from, 1, end - from, to);
}

/* Writes the line that stands for the missing bytes, which all lie between the head and the tail. */
static void copy_gap(FILE *to, const struct cp__text *text, size_t from, size_t end)
{
    size_t gone = tail_begin(text) - least(text->size, text->part);
    if (gone > 0 && from < tail_begin(text) && end > text->part)
        fprintf(to, "\n... %zu bytes are left out here ...\n", gone);
}

static void copy_tail(FILE *to, const struct cp__text *text, size_t from, size_t end)
{
    if (from < tail_begin(text))
        from = tail_begin(text);
    for (; from < end; from++)
        putc(text->tail[from % text->part], to);
}

char *cp__text_copy(const struct cp__text *text, size_t from, size_t end)
{
    char *copy = NULL;
    size_t size;
    FILE *stream = must_grow(open_memstream(&copy, &size));
    end = least(end, text->size);
    copy_head(stream, text, from, end);
    copy_gap(stream, text, from, end);
    copy_tail(stream, text, from, end);
    fclose(stream);
    return must_grow(copy);
}

void cp__text_free(struct cp__text *text)
{
    free(text->head);
    free(text->tail);
    *text = (struct cp__text){.part = text->part};
}
