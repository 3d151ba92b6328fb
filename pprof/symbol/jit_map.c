/*
 * Reads perf's map of a process, /tmp/perf-PID.map, which has a line for each function that was compiled:
 *
 *     3ef414c0 398 fibonacci
 *
 * The first two numbers, in hexadecimal digits, are the address and the size; the rest of the line is the
 * name. Nothing tells when the code was made, so the last line that has an address counts. A line that makes
 * no sense is passed over, because a compiler may be writing the last one.
 */
#include <stdlib.h>

#include "jit.h"

/* Reads a line, of which the text gets the beginning, without the end of the line. Returns how many bytes the
 * line has; 0: there is none. A line may have 0 bytes, of which fgets() does not tell. */
static uint64_t read_line(FILE *file, char *text, size_t size)
{
    size_t n = 0;
    uint64_t n_bytes = 0;
    int c;

    while ((c = getc_unlocked(file)) != EOF) {
        n_bytes++;
        if (c == '\n')
            break;
        if (n < size - 1)
            text[n++] = (char)c;
    }
    text[n] = '\0';
    return n_bytes;
}

/* Reads the numbers of a line. Returns where its name begins; NULL: the line has another form. */
static const char *parse_jit_line(const char *line, uint64_t *start, uint64_t *size)
{
    char *at;

    *start = strtoull(line, &at, 16);
    if (at == line || *at != ' ')
        return NULL;
    line = at;
    *size = strtoull(line, &at, 16);
    return at == line || *at != ' ' ? NULL : at + 1;
}

void cp__jit_map_scan(struct cp__jit_search *search)
{
    uint64_t at, next = 0, start, size;
    char line[64]; /* the numbers */
    size_t i, end;

    for (;;) {
        at = next;
        next += read_line(search->file, line, sizeof line);
        if (next == at)
            return;
        if (parse_jit_line(line, &start, &size) != NULL && cp__jit_find(search, start, size, &i, &end))
            for (; i < end; i++)
                search->hits[i] = (struct cp__jit_hit){.at = at + 1, .start = start, .origin = start};
    }
}

void cp__jit_map_answer(const struct cp__jit_search *search, size_t i, struct cp__jit_answer *answer)
{
    char line[CP__JIT_NAME];
    uint64_t start, size;
    const char *name;

    answer->name[0] = '\0';
    if (fseeko(search->file, (off_t)(search->hits[i].at - 1), SEEK_SET) != 0 ||
        read_line(search->file, line, sizeof line) == 0)
        return;
    name = parse_jit_line(line, &start, &size);
    if (name != NULL)
        snprintf(answer->name, sizeof answer->name, "%s", name);
}
