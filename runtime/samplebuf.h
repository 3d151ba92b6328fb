/*
 * The buffer between an M and the thread that reads a slot's samples: one for each (M, slot).
 *
 * A ring of 64-bit words. head and tail count words since the buffer was made and never wrap (2^64 words);
 * word i stands at words[i mod CP__SAMPLEBUF_WORDS], so a sample may run over the end and go on at the start.
 * A sample is
 *
 *     [0] words in all << 48 | flags << 32 | number of kernel frames << 16 | number of frames
 *     [1] sequence number of the config it was taken under   [2] weight   [3] G id   [4] labels (a reference)
 *     [5] ip   [6] data address   [7...] frames
 *
 * The producer is the M (its handler, or its own code with SIGPROF blocked): it alone writes head and the
 * words from head to tail + CP__SAMPLEBUF_WORDS. The consumer is whoever holds the slot: it alone writes
 * tail. Both publish with release and read the other's with acquire. A sample that finds no room is counted
 * and dropped; nothing waits. Samples of an earlier config that a late M left behind are recognised by [1]
 * and thrown away by the consumer.
 *
 * Size: 2^15 words, 256 KiB of address space, resident as far as used; when the slot is free again the memory
 * is given back. At 10 000 samples a second of 25 frames, 32 words each, that is 102 ms; readers are woken
 * when half of it is full.
 */
#ifndef COUNTERPOINT_RUNTIME_SAMPLEBUF_H
#define COUNTERPOINT_RUNTIME_SAMPLEBUF_H

#include "runtime.h"

#define CP__SAMPLEBUF_WORDS ((uint64_t)1 << 15)
#define CP__SAMPLE_HEADER_WORDS 7

struct cp__samplebuf {
    uint64_t *words; /* shared: set once, under the runtime lock */
    uint64_t head;   /* shared: written by the M */
    uint64_t tail;   /* shared: written by the consumer */
    uint64_t unused; /* under the runtime lock: head when the memory was given back last */
};

/* Maps the words if they are not mapped yet; 0 or -ENOMEM. Under the runtime lock. */
int cp__samplebuf_make(struct cp__samplebuf *buf);
/* Releases the labels that unread samples hold, and the memory. No producer or consumer may be left. */
void cp__samplebuf_free(struct cp__samplebuf *buf);

/* Releases the same labels, and gives the memory back to the system; the words stay mapped, to be used
 * again. */
void cp__samplebuf_give_back(struct cp__samplebuf *buf);

/* Appends a sample, with a reference to its labels; false if there is no room. *half tells that the
 * buffer has just become half full. */
bool cp__samplebuf_append_from_handler(struct cp__samplebuf *buf, uint64_t seq,
                                       const struct cp_sample *sample, bool *half);

/* Whether nothing is left to read. On the M, or when it is gone. */
bool cp__samplebuf_is_read_up(const struct cp__samplebuf *buf);
/* Hands the samples of config seq to fn, the others to nobody; returns how many fn got. */
int cp__samplebuf_read(struct cp__samplebuf *buf, uint64_t seq, cp_sample_fn *fn, void *context);

#endif
