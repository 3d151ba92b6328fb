/*
 * The buffer between an M and the thread that reads a slot's samples: one buffer for each M and slot.
 *
 * The buffer is a list of chunks (chunk.h). The M appends samples to the last chunk, and the reader takes
 * them off the first one. A sample is in one chunk as a whole:
 *
 *     [0] words in all << 48 | flags << 32 | number of kernel frames << 16 | number of frames
 *     [1] sequence number of the config it was taken under   [2] weight   [3] G id   [4] labels (a reference)
 *     [5] ip   [6] data address   [7] what was loaded   [8...] frames   then the rounds of watches
 *
 * The words after the frames are the rounds, so their number has no place of its own, and a sample without
 * rounds has no word for them. Time, thread and process, which nobody tells, have no words.
 *
 * The last word of a chunk is never a sample's. If a sample does not fit into the words before it, the M
 * takes a chunk out of the pool, stores 0 where the sample would have begun, links the new chunk to the old
 * one, and appends the sample there. The reader that finds the 0 goes on to the next chunk and gives the old
 * one to the pool. So the memory of a buffer is what is unread, and at least one chunk, which the start of a
 * slot provides.
 *
 * The producer is the M (its handler, or its own code with the signals blocked): it alone writes write,
 * head, the words from write on and the link of the last chunk. The consumer is whoever holds the slot: it
 * alone writes read and tail. write and read point to words. What is from read to write belongs to the
 * reader. Both are published with release and read with acquire. head and tail count the words of samples
 * since the buffer was made and never wrap (2^64 words).
 *
 * A sample that finds no room is counted and dropped; nothing waits. There is no room if
 * CP__SAMPLEBUF_WORDS words are unread, or the pool is empty. Samples of an earlier config that a late M left
 * behind are recognised by [1] and thrown away by the consumer.
 *
 * Size: 2^15 words, 256 KiB. At 10 000 samples a second of 25 frames, 33 words each, that is 99 ms; readers
 * are woken when half of it is full.
 */
#ifndef COUNTERPOINT_RUNTIME_SAMPLEBUF_H
#define COUNTERPOINT_RUNTIME_SAMPLEBUF_H

#include "runtime.h"

#define CP__SAMPLEBUF_WORDS ((uint64_t)1 << 15)
#define CP__SAMPLE_HEADER_WORDS 8

struct cp__samplebuf {
    uint64_t *write;     /* shared: written by the M; NULL: no memory */
    uint64_t *write_end; /* the M's: the last word of write's chunk */
    uint64_t head;       /* shared: written by the M */
    uint64_t *read;      /* shared: written by the consumer */
    uint64_t tail;       /* shared: written by the consumer */
};

/* Provides the first chunk if there is none yet; 0 or -ENOMEM. Under the runtime lock. */
int cp__samplebuf_make(struct cp__samplebuf *buf);
/* Releases the labels that unread samples hold, and the chunks. No producer and no consumer may remain. */
void cp__samplebuf_free(struct cp__samplebuf *buf);

/* Appends a sample and takes a reference to its labels; returns false if there is no room. *wake becomes true
 * if the sample makes the buffer half full, or the pool half empty. */
bool cp__samplebuf_append_from_handler(struct cp__samplebuf *buf, uint64_t seq,
                                       const struct cp_sample *sample, bool *wake);

/* Returns whether all samples have been read. The caller is the M, or the M is gone. */
bool cp__samplebuf_is_read_up(const struct cp__samplebuf *buf);
/* Passes the samples of config seq to fn, and drops samples of other configs. Returns how many samples fn
 * received. */
int cp__samplebuf_read(struct cp__samplebuf *buf, uint64_t seq, cp_sample_fn *fn, void *context);

#endif
