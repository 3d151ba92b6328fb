/*
 * Judges the accesses to memory that a block makes, one after the other: which are slow, and which could wait
 * for others only because all pages of a block share few physical ones.
 *
 * A load may alias if a store before it, which is still on its way to the cache, has bytes of the same
 * physical place (apart.h) and none of the same address: a processor that compares physical addresses makes
 * the load wait, and where the block comes from it would not have waited.
 */
#ifndef COUNTERPOINT_BLOCK_ACCESSES_H
#define COUNTERPOINT_BLOCK_ACCESSES_H

#include "apart.h"

/* An access of an instruction. */
struct cp__access {
    uint64_t address;
    uint64_t size; /* in bytes */
    uint32_t unit; /* bytes that are accessed at once: fewer than size if a string is */
    bool is_load;  /* both: the load comes first */
    bool is_store;
};

/* So many stores are on their way to the cache, at most. */
#define CP__JUDGE_STORES 64u

struct cp__judge {
    struct cp__apart *apart;
    unsigned accesses;
    unsigned unaligned; /* at no multiple of their size */
    unsigned crossings; /* from one line of the cache into the next */
    bool may_alias;
    unsigned n_stores; /* all: the last ones are kept */
    struct cp__access stores[CP__JUDGE_STORES];
};

/* Begins without accesses to pages that are mapped so. Adds to *apart which of them should not share a
 * physical one. */
void cp__judge_begin(struct cp__judge *judge, struct cp__apart *apart);
/* Adds the next access. One of no bytes is none. */
void cp__judge_add(struct cp__judge *judge, const struct cp__access *access);

#endif
