#include "samplebuf.h"

#include <errno.h>
#include <string.h>

#include "chunk.h"
#include "label.h"
#include "runtime/base/sanitizer.h"

_Static_assert(sizeof(uintptr_t) == sizeof(uint64_t), "a frame is a word");

/* ---- Chunks ---------------------------------------------------------------------------------- */

/* The last word of a chunk is kept for the 0 that leads to the next chunk. */
static uint64_t *last_word(struct cp__chunk *chunk)
{
    return cp__chunk_end(chunk) - 1;
}

int cp__samplebuf_make(struct cp__samplebuf *buf)
{
    struct cp__chunk *chunk;

    /* relaxed: an M that is late may be appending samples of an earlier config */
    if (cp_load_relaxed(&buf->write) != NULL)
        return 0;
    chunk = cp__chunk_new();
    if (chunk == NULL)
        return -ENOMEM;
    buf->write_end = last_word(chunk);
    cp_store_release(&buf->read, chunk->words);  /* pairs with the acquire in cp__samplebuf_is_read_up() */
    cp_store_release(&buf->write, chunk->words); /* pairs with the acquires of who appends or reads */
    return 0;
}

static void ignore(void *context, const struct cp_sample *sample)
{
    (void)context;
    (void)sample;
}

/* In the child of a fork, an M that was another thread's may have linked a chunk that has no sample yet. If
 * another thread forks here, the child's M has either the buffer with all its chunks, or no buffer: the
 * chunks go back, perhaps to the system, when nothing leads to them. */
void cp__samplebuf_free(struct cp__samplebuf *buf)
{
    struct cp__chunk *chunk, *next;
    bool is_unused;

    if (buf->write == NULL)
        return;
    cp__samplebuf_read(buf, 0, ignore, NULL); /* no config has the number 0: drops all samples */
    chunk = cp__chunk_of(buf->read);
    is_unused = buf->write == chunk->words; /* the M of a thread that slept; so there is no other chunk */
    cp_store_release(&buf->write, NULL);    /* pairs with the acquire of who appends in the child of a fork */
    cp_store_release(&buf->read, NULL);     /* pairs with the acquire in cp__samplebuf_is_read_up(), there */
    if (is_unused) {
        cp__chunk_give_unused(chunk);
        return;
    }
    for (; chunk != NULL; chunk = next) {
        next = chunk->next;
        cp__chunk_give(chunk);
    }
}

/* ---- The producer ---------------------------------------------------------------------------- */

/* Links one more chunk to that of write, and returns where its samples begin; NULL if the pool is empty. */
static uint64_t *go_on_from_handler(struct cp__samplebuf *buf, uint64_t *write, bool *wake)
{
    bool low;
    struct cp__chunk *chunk = cp__chunk_take_from_handler(&low);

    if (chunk == NULL)
        return NULL;
    *wake |= low;
    chunk->next = NULL;
    *write = 0;
    cp__chunk_of(write)->next = chunk;
    buf->write_end = last_word(chunk);
    return chunk->words;
}

/* Returns where a sample of so many words goes; NULL if there is no room. */
static uint64_t *make_room_from_handler(struct cp__samplebuf *buf, uint64_t size, bool *wake)
{
    /* acquire: pairs with the release in cp__samplebuf_make(). After that this M is the only writer. */
    uint64_t *write = cp_load_acquire(&buf->write);
    uint64_t head = cp_load_relaxed(&buf->head);        /* relaxed: this M is the only writer */
    uint64_t used = head - cp_load_acquire(&buf->tail); /* pairs with the release in cp__samplebuf_read() */

    *wake = used < CP__SAMPLEBUF_WORDS / 2 && used + size >= CP__SAMPLEBUF_WORDS / 2;
    if (write == NULL || size > CP__SAMPLEBUF_WORDS - used)
        return NULL;
    if (size > (uint64_t)(buf->write_end - write))
        return go_on_from_handler(buf, write, wake);
    return write;
}

bool cp__samplebuf_append_from_handler(struct cp__samplebuf *buf, uint64_t seq,
                                       const struct cp_sample *sample, bool *wake)
{
    uint64_t size = CP__SAMPLE_HEADER_WORDS + sample->depth + sample->n_rounds;
    uint64_t *words = make_room_from_handler(buf, size, wake);

    if (words == NULL)
        return false;
    words[0] =
        size << 48 | (uint64_t)sample->flags << 32 | (uint64_t)sample->kernel_depth << 16 | sample->depth;
    words[1] = seq;
    words[2] = sample->weight;
    words[3] = sample->g_id;
    /* the G may drop its set before the sample is read, so the sample has a reference of its own */
    words[4] = (uintptr_t)cp__labels_ref_from_handler(sample->labels);
    words[5] = sample->ip;
    words[6] = sample->addr;
    words[7] = sample->loads;
    for (unsigned i = 0; i < sample->depth; i++)
        words[CP__SAMPLE_HEADER_WORDS + i] = sample->frames[i];
    for (unsigned i = 0; i < sample->n_rounds; i++)
        words[CP__SAMPLE_HEADER_WORDS + sample->depth + i] = sample->rounds[i];
    cp_store_relaxed(&buf->head, buf->head + size); /* relaxed: told together with write */
    cp_store_release(&buf->write, words + size);    /* pairs with the acquire in cp__samplebuf_read() */
    return true;
}

/* ---- The consumer ---------------------------------------------------------------------------- */

bool cp__samplebuf_is_read_up(const struct cp__samplebuf *buf)
{
    const uint64_t *write = cp_load_relaxed(&buf->write); /* relaxed: the M's own */

    /* acquire: pairs with the release in cp__samplebuf_read() */
    return write == NULL || cp_load_acquire(&buf->read) == write;
}

static struct cp_sample sample_at(const uint64_t *words)
{
    const unsigned depth = words[0] & 0xffff;
    const uint64_t *frames = &words[CP__SAMPLE_HEADER_WORDS];

    return (struct cp_sample){.size = sizeof(struct cp_sample),
                              .weight = words[2],
                              .g_id = words[3],
                              .labels = (struct cp_labels *)(uintptr_t)words[4],
                              .flags = words[0] >> 32 & 0xffff,
                              .depth = depth,
                              .kernel_depth = words[0] >> 16 & 0xffff,
                              .ip = words[5],
                              .addr = words[6],
                              .loads = words[7],
                              .frames = (const uintptr_t *)frames,
                              .n_rounds = (unsigned)(words[0] >> 48) - CP__SAMPLE_HEADER_WORDS - depth,
                              .rounds = frames + depth};
}

/* Leaves the chunk of read behind, whose samples have all been read. */
static uint64_t *next_chunk(struct cp__samplebuf *buf, uint64_t *read)
{
    struct cp__chunk *chunk = cp__chunk_of(read);

    read = chunk->next->words;
    /* release: pairs with the acquire in cp__samplebuf_is_read_up(). In the child of a fork, the chunk is
     * either still in the buffer, or nobody's. */
    cp_store_release(&buf->read, read);
    cp__chunk_give(chunk);
    return read;
}

int cp__samplebuf_read(struct cp__samplebuf *buf, uint64_t seq, cp_sample_fn *fn, void *context)
{
    /* acquire: pairs with the release in cp__samplebuf_append_from_handler() */
    const uint64_t *end = cp_load_acquire(&buf->write);
    uint64_t *read = cp_load_relaxed(&buf->read); /* relaxed, both: the consumer is the only writer */
    uint64_t tail = cp_load_relaxed(&buf->tail);
    int n = 0;

    if (end == NULL) /* in the child of a fork, read may be of a buffer that was just made, or given back */
        return 0;
    while (read != end) {
        struct cp_sample sample;
        uint64_t size;

        if (*read == 0) {
            read = next_chunk(buf, read);
            continue;
        }
        sample = sample_at(read);
        if (read[1] == seq) {
            if (sample.labels != NULL)
                cp__sanitizer_acquire(sample.labels);
            fn(context, &sample);
            n++;
        }
        size = read[0] >> 48;
        read += size;
        tail += size;
        cp_store_release(&buf->read, read); /* pairs with the acquire in cp__samplebuf_is_read_up() */
        cp_store_release(&buf->tail, tail); /* pairs with the acquire in make_room_from_handler() */
        /* After the store of read: a child of a fork releases the labels of samples from read to write. */
        cp_labels_unref(sample.labels);
    }
    return n;
}
