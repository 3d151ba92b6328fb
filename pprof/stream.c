#include "stream.h"

#include <stdlib.h>
#include <string.h>

#include "writer.h"

static void compress_gathered(struct cp__stream *s, int flush)
{
    size_t n;

    s->z.next_in = s->raw;
    s->z.avail_in = (uInt)s->gathered;
    s->gathered = 0;
    s->z.avail_out = 0;
    while (s->error == 0 && s->z.avail_out == 0) {
        s->z.next_out = s->packed;
        s->z.avail_out = sizeof s->packed;
        deflate(&s->z, flush); /* says nothing that avail_out does not */
        n = sizeof s->packed - s->z.avail_out;
        if (n > 0)
            s->error = cp__write_all(s->w, s->packed, n);
    }
}

static void gather(ProtobufCBuffer *buffer, size_t size, const uint8_t *data)
{
    struct cp__stream *s = (struct cp__stream *)buffer;
    size_t n;

    for (; size > 0 && s->error == 0; size -= n, data += n) {
        if (s->gathered == sizeof s->raw)
            compress_gathered(s, Z_NO_FLUSH);
        n = sizeof s->raw - s->gathered < size ? sizeof s->raw - s->gathered : size;
        memcpy(s->raw + s->gathered, data, n);
        s->gathered += n;
    }
}

struct cp__stream *cp__stream_new(struct cp_writer *w)
{
    const int gzip = 15 + 16, memory = 8; /* zlib's largest window in gzip's format, its default memory */
    struct cp__stream *s = calloc(1, sizeof *s);

    /* The default level takes a third more time for a file that is 2 to 6 % smaller. */
    if (s == NULL ||
        deflateInit2(&s->z, Z_BEST_SPEED, Z_DEFLATED, gzip, memory, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(s);
        return NULL;
    }
    s->base.append = gather;
    s->w = w;
    return s;
}

void cp__stream_put(struct cp__stream *s, const Cp__Proto__Profile *piece)
{
    cp__proto__profile__pack_to_buffer(piece, &s->base);
}

void cp__stream_put_string(struct cp__stream *s, const char *text)
{
    Cp__Proto__Profile piece = CP__PROTO__PROFILE__INIT;

    piece.n_string_table = 1;
    piece.string_table = &(char *){(char *)(uintptr_t)text}; /* packing it does not write to it */
    cp__stream_put(s, &piece);
}

int cp__stream_end(struct cp__stream *s)
{
    compress_gathered(s, Z_FINISH);
    return s->error;
}

void cp__stream_free(struct cp__stream *s)
{
    if (s != NULL)
        deflateEnd(&s->z);
    free(s);
}

/* The pointers stand before what they point to: all of them, and ids, have the alignment of the struct. */
struct cp__scratch *cp__scratch_new(size_t n_ids, size_t n_lines, size_t n_labels)
{
    struct cp__scratch *s = calloc(1, sizeof *s + n_ids * sizeof *s->ids +
                                          n_lines * (sizeof *s->lines + sizeof *s->line_pointers) +
                                          n_labels * (sizeof *s->labels + sizeof *s->label_pointers));

    if (s == NULL)
        return NULL;
    s->ids = (uint64_t *)(s + 1);
    s->line_pointers = (Cp__Proto__Line **)(s->ids + n_ids);
    s->label_pointers = (Cp__Proto__Label **)(s->line_pointers + n_lines);
    s->lines = (Cp__Proto__Line *)(s->label_pointers + n_labels);
    s->labels = (Cp__Proto__Label *)(s->lines + n_lines);
    for (size_t i = 0; i < n_lines; i++)
        s->line_pointers[i] = &s->lines[i];
    for (size_t i = 0; i < n_labels; i++)
        s->label_pointers[i] = &s->labels[i];
    return s;
}
