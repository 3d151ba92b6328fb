/*
 * The buffer between an M and the thread that reads a slot's samples: one buffer for each M and slot.
 *
 * The buffer is a ring of 64-bit words. head and tail count words since the buffer was made and never wrap
 * (2^64 words). Word i is words[i mod CP__SAMPLEBUF_WORDS], so a sample may begin at the end of the memory
 * and continue at its start. A sample is
 *
 *     [0] words in all << 48 | flags << 32 | number of kernel frames << 16 | number of frames
 *     [1] sequence number of the config it was taken under   [2] weight   [3] G id   [4] labels (a reference)
 *     [5] ip   [6] data address   [7...] frames
 *
 * The producer is the M: its handler, or its own code with SIGPROF blocked. Only the producer writes head and
 * the words from head to tail + CP__SAMPLEBUF_WORDS. The consumer is the thread that reads the slot. Only the
 * consumer writes tail. Both publish with release and read the other's position with acquire. A sample that
 * finds no room is counted as dropped; nothing waits. A late M may leave samples of an earlier config behind:
 * the consumer recognises such samples by [1] and drops them.
 *
 * A buffer has 2^15 words, 256 KiB of address space, of which only used pages are resident. When the slot is
 * free again, the memory is given back. At 10 000 samples a second, of 25 frames or 32 words each, a buffer
 * lasts 102 ms. Readers are woken when half of it is full.
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
/* Releases the labels that unread samples hold, and frees the memory. No producer and no consumer may
 * remain. */
void cp__samplebuf_free(struct cp__samplebuf *buf);

/* Releases the same labels, and gives the memory back to the system. The words stay mapped for further
 * use. */
void cp__samplebuf_give_back(struct cp__samplebuf *buf);

/* Appends a sample and takes a reference to its labels; returns false if there is no room. *half becomes true
 * if this sample makes the buffer half full. */
bool cp__samplebuf_append_from_handler(struct cp__samplebuf *buf, uint64_t seq,
                                       const struct cp_sample *sample, bool *half);

/* Returns whether all samples have been read. The caller is the M, or the M is gone. */
bool cp__samplebuf_is_read_up(const struct cp__samplebuf *buf);
/* Passes the samples of config seq to fn, and drops samples of other configs. Returns how many samples fn
 * received. */
int cp__samplebuf_read(struct cp__samplebuf *buf, uint64_t seq, cp_sample_fn *fn, void *context);

#endif
