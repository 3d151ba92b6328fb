#include "samplebuf.h"

#include <errno.h>
#include <sys/mman.h>

#include "label.h"

int cp__samplebuf_make(struct cp__samplebuf *buf)
{
    void *words;

    if (buf->words != NULL)
        return 0;
    words = mmap(NULL, CP__SAMPLEBUF_WORDS * sizeof(uint64_t), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (words == MAP_FAILED)
        return -ENOMEM;
    cp_store_release(&buf->words, words); /* pairs with the acquire in cp__samplebuf_append_from_handler */
    return 0;
}

static void ignore(void *context, const struct cp_sample *sample)
{
    (void)context;
    (void)sample;
}

void cp__samplebuf_free(struct cp__samplebuf *buf)
{
    if (buf->words == NULL)
        return;
    cp__samplebuf_read(buf, 0, ignore, NULL); /* no config has the number 0: drops all samples */
    munmap(buf->words, CP__SAMPLEBUF_WORDS * sizeof(uint64_t));
    buf->words = NULL;
}

void cp__samplebuf_give_back(struct cp__samplebuf *buf)
{
    uint64_t head = cp_load_relaxed(&buf->head); /* relaxed: there is no producer */

    if (buf->words == NULL || head == buf->unused) /* no sample was appended since the last time */
        return;
    cp__samplebuf_read(buf, 0, ignore, NULL);
    madvise(buf->words, CP__SAMPLEBUF_WORDS * sizeof(uint64_t), MADV_DONTNEED);
    buf->unused = head;
}

static uint64_t *word(uint64_t *words, uint64_t i)
{
    return &words[i % CP__SAMPLEBUF_WORDS];
}

bool cp__samplebuf_append_from_handler(struct cp__samplebuf *buf, uint64_t seq,
                                       const struct cp_sample *sample, bool *half)
{
    uint64_t *words = cp_load_acquire(&buf->words);     /* pairs with the release in cp__samplebuf_make */
    uint64_t head = cp_load_relaxed(&buf->head);        /* relaxed: this M is the only writer */
    uint64_t used = head - cp_load_acquire(&buf->tail); /* pairs with the release in cp__samplebuf_read */
    uint64_t size = CP__SAMPLE_HEADER_WORDS + sample->depth;
    unsigned i;

    *half = used < CP__SAMPLEBUF_WORDS / 2 && used + size >= CP__SAMPLEBUF_WORDS / 2;
    if (words == NULL || size > CP__SAMPLEBUF_WORDS - used)
        return false;
    *word(words, head) =
        size << 48 | (uint64_t)sample->flags << 32 | (uint64_t)sample->kernel_depth << 16 | sample->depth;
    *word(words, head + 1) = seq;
    *word(words, head + 2) = sample->weight;
    *word(words, head + 3) = sample->g_id;
    /* the G may drop its set before the sample is read, so the sample has a reference of its own */
    *word(words, head + 4) = (uintptr_t)cp__labels_ref_from_handler(sample->labels);
    *word(words, head + 5) = sample->ip;
    *word(words, head + 6) = sample->addr;
    for (i = 0; i < sample->depth; i++)
        *word(words, head + CP__SAMPLE_HEADER_WORDS + i) = sample->frames[i];
    cp_store_release(&buf->head, head + size); /* pairs with the acquire in cp__samplebuf_read */
    return true;
}

bool cp__samplebuf_is_read_up(const struct cp__samplebuf *buf)
{
    /* acquire: pairs with the release in cp__samplebuf_read(); relaxed: the M's own */
    return cp_load_acquire(&buf->tail) == cp_load_relaxed(&buf->head);
}

int cp__samplebuf_read(struct cp__samplebuf *buf, uint64_t seq, cp_sample_fn *fn, void *context)
{
    uint64_t head =
        cp_load_acquire(&buf->head); /* pairs with the release in cp__samplebuf_append_from_handler */
    uint64_t tail = cp_load_relaxed(&buf->tail);    /* relaxed: the consumer is its only writer */
    uint64_t *words = cp_load_relaxed(&buf->words); /* relaxed: ordered by the acquire of head */
    uintptr_t frames[CP_MAX_FRAMES];
    int n = 0;

    while (tail != head) {
        uint64_t header = *word(words, tail);
        struct cp_sample sample = {.size = sizeof sample,
                                   .weight = *word(words, tail + 2),
                                   .g_id = *word(words, tail + 3),
                                   .labels = (struct cp_labels *)(uintptr_t)*word(words, tail + 4),
                                   .flags = header >> 32 & 0xffff,
                                   .depth = header & 0xffff,
                                   .kernel_depth = header >> 16 & 0xffff,
                                   .ip = *word(words, tail + 5),
                                   .addr = *word(words, tail + 6),
                                   .frames = frames};

        for (unsigned i = 0; i < sample.depth; i++)
            frames[i] = *word(words, tail + CP__SAMPLE_HEADER_WORDS + i);
        if (*word(words, tail + 1) == seq) {
            fn(context, &sample);
            n++;
        }
        tail += header >> 48;
        cp_store_release(&buf->tail, tail); /* pairs with the acquire in cp__samplebuf_append_from_handler */
        /* After the store of tail: a child of a fork releases the labels of samples from tail to head. */
        cp_labels_unref(sample.labels);
    }
    return n;
}
