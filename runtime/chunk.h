/*
 * The memory of sample buffers: chunks, each a page of the system, and the pool of chunks from which handlers
 * take.
 *
 * Handlers allocate nothing, so a pool has chunks ready for them. The pool is an array of CP__POOL_CHUNKS
 * places. taken and provided count the chunks that have left the pool and that have come into it since the
 * process began. They never wrap (2^64 chunks). Chunk number i is at place i modulo CP__POOL_CHUNKS.
 *
 *   provided   is written under the pool's lock, by readers and by whoever starts or stops a slot: such a
 *              thread stores the chunk into the place of number provided, then adds 1, with release. It does
 *              so only if provided - taken is below CP__POOL_CHUNKS.
 *   taken      is moved by handlers, without a lock: a handler loads taken, sees by provided that there is
 *              a chunk of that number, loads the chunk, and exchanges taken for taken + 1. If the exchange
 *              succeeds, nobody else has taken that chunk. The place was not written again before, because
 *              that takes a taken that is larger. taken never comes back to an old value, so there is no ABA.
 *
 * The pool is to hold CP__POOL_BYTES for each slot in use and CPU. As many Ms as there are CPUs can be
 * sampled at the same time, and each of them can fill its buffer (CP__SAMPLEBUF_WORDS) while no reader comes,
 * even if the deepest stacks leave half of each chunk unused. Chunks that have been read go back to the pool,
 * or to the system if the pool has enough. Each pass of a reader fills the pool up; a handler that finds the
 * pool half empty wakes the readers.
 */
#ifndef COUNTERPOINT_RUNTIME_CHUNK_H
#define COUNTERPOINT_RUNTIME_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CP__POOL_CHUNKS 4096
/* What the pool has for each slot in use and CPU. */
#define CP__POOL_BYTES ((size_t)512 << 10)

struct cp__chunk {
    struct cp__chunk *next; /* see samplebuf.h */
    uint64_t words[];
};

/* The size of a chunk: that of a page. 0 before the first chunk is made. */
extern size_t cp__chunk_size;

/* The chunk that a word is in, and the end of a chunk. */
static inline struct cp__chunk *cp__chunk_of(const uint64_t *word)
{
    return (struct cp__chunk *)((uintptr_t)word & -cp__chunk_size);
}
static inline uint64_t *cp__chunk_end(struct cp__chunk *chunk)
{
    return (uint64_t *)((uintptr_t)chunk + cp__chunk_size);
}

/* Makes a chunk, whose words are 0; NULL if there is no memory. */
struct cp__chunk *cp__chunk_new(void);
/* Takes back a chunk that nobody uses any more. */
void cp__chunk_give(struct cp__chunk *chunk);
/* The same for a chunk of cp__chunk_new() that nobody has touched. So the system has not given it memory. */
void cp__chunk_give_unused(struct cp__chunk *chunk);

/* Takes a chunk out of the pool; NULL if the pool is empty. Its words may have any value. *low tells that the
 * pool has just become half empty. */
struct cp__chunk *cp__chunk_take_from_handler(bool *low);

/* Says how many slots are in use, and fills the pool up or empties it; 0 or -ENOMEM. */
int cp__pool_resize(unsigned slots);
/* Fills the pool up to what it should hold, as far as there is memory. */
void cp__pool_fill(void);
/* How many chunks the pool has, and how many it should have. */
size_t cp__pool_level(void);
size_t cp__pool_target(void);

/* In the child of a fork: nobody holds the pool's lock. The chunks stay. */
void cp__pool_forget(void);

#endif
