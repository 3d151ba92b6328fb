/* Where the profiler keeps the samples of the calling thread, which is an M: see inside.h. */
#ifndef COUNTERPOINT_TESTS_MEMORY_INSIDE_H
#define COUNTERPOINT_TESTS_MEMORY_INSIDE_H

#include "runtime/chunk.h"
#include "runtime/engine/perf_m_linux.h"
#include "runtime/m.h"

/* The M's ring and stack for signals, and the chunks of its buffer for a slot. */
struct own_memory {
    struct {
        uintptr_t lo, hi;
    } parts[2 + CP__POOL_CHUNKS];
    size_t n;
};

static inline void add_own(struct own_memory *own, const void *at, size_t size)
{
    own->parts[own->n].lo = (uintptr_t)at;
    own->parts[own->n++].hi = (uintptr_t)at + size;
}

/* Finds the memory. Returns how many chunks there are. */
static inline size_t find_own_memory(struct own_memory *own, int slot)
{
    const struct cp__m *m = cp__m_current;

    own->n = 0;
    add_own(own, m->altstack, 128 << 10);
    if (cp__perf_of(m) != NULL)
        add_own(own, cp__perf_of(m)->ring.page, 64 << 10);
    for (const struct cp__chunk *chunk = cp__chunk_of(m->buffers[slot].read); chunk != NULL;
         chunk = chunk->next)
        add_own(own, chunk, cp__chunk_size);
    return own->n - 2;
}

static inline bool is_own_memory(const struct own_memory *own, uintptr_t address)
{
    bool is = false;

    for (size_t i = 0; i < own->n; i++)
        is = is || (address >= own->parts[i].lo && address < own->parts[i].hi);
    return is;
}

#endif
