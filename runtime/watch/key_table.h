/*
 * The open keys of one shard of a watch for keys: a hash table with open addressing, whose owner locks it.
 *
 * A key is searched from the place that its hash names, place by place, up to the first free one. A removal
 * leaves no mark: entries behind the free place move up, as far as their own hashes allow. So a table that
 * has the same number of keys for years does not become slower, and needs no memory. It doubles if it would
 * be more than three quarters full, and does not shrink.
 *
 * A table is one block of memory, and a pointer leads to it. Growing replaces the pointer by one store, after
 * the new table is complete and before the old one is freed, so that the child of a fork finds one of the
 * two.
 */
#ifndef COUNTERPOINT_RUNTIME_WATCH_KEY_TABLE_H
#define COUNTERPOINT_RUNTIME_WATCH_KEY_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/table.h"

/* An open key. All keys are valid, 0 as well, so the stage says whether the entry is used. */
struct cp__key_entry {
    uint64_t key;
    uint64_t began;  /* when the key began, in ns */
    uint64_t since;  /* when it came into the stage in which it is */
    uint32_t staged; /* the stage's number plus 1; 0: the entry is free */
};

struct cp__key_table {
    size_t capacity; /* a power of 2 */
    size_t used;
    struct cp__key_entry entries[];
};

/* Mixes a key, so that keys which are multiples of a page or count up are spread over all shards and places.
 * The upper bits choose the shard, and the lower ones the place in its table. */
static inline uint64_t cp__key_hash(uint64_t key)
{
    return cp__hash_add(cp__hash_add(0, key), 1);
}

/* Returns the key's entry; NULL: the table, which may be NULL, does not have the key. */
struct cp__key_entry *cp__key_find(struct cp__key_table *table, uint64_t key);
/* Adds a key that *table does not have. The caller sets the entry's other members, staged above all. Makes
 * the table, or a larger one, if need be; NULL: no memory. Pointers to entries are valid until the next call.
 */
struct cp__key_entry *cp__key_add(struct cp__key_table **table, uint64_t key);
/* Removes an entry of the table. */
void cp__key_remove(struct cp__key_table *table, struct cp__key_entry *entry);

#endif
