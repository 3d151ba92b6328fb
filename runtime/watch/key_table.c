#include "key_table.h"

#include <stdlib.h>

#include "atomic.h"

/* A shard's first table has 512 bytes. */
#define FIRST_CAPACITY 16

struct cp__key_entry *cp__key_find(struct cp__key_table *table, uint64_t key)
{
    if (table == NULL)
        return NULL;
    for (size_t at = cp__key_hash(key);; at++) {
        struct cp__key_entry *entry = &table->entries[at & (table->capacity - 1)];

        if (entry->staged == 0)
            return NULL;
        if (entry->key == key)
            return entry;
    }
}

/* Returns the free entry in which the search for a key ends that the table does not have. */
static struct cp__key_entry *free_entry(struct cp__key_table *table, uint64_t key)
{
    size_t at = cp__key_hash(key);

    while (table->entries[at & (table->capacity - 1)].staged != 0)
        at++;
    return &table->entries[at & (table->capacity - 1)];
}

/* Returns an empty table; NULL: no memory. */
static struct cp__key_table *new_key_table(size_t capacity)
{
    struct cp__key_table *table = calloc(1, sizeof *table + capacity * sizeof table->entries[0]);

    if (table != NULL)
        table->capacity = capacity;
    return table;
}

/* Replaces *table by one of twice the capacity. Returns the new table; NULL: no memory. */
static struct cp__key_table *grow_key_table(struct cp__key_table **table)
{
    struct cp__key_table *old = *table;
    struct cp__key_table *grown = new_key_table(old != NULL ? 2 * old->capacity : FIRST_CAPACITY);

    if (grown == NULL)
        return NULL;
    for (size_t i = 0; old != NULL && i < old->capacity; i++) {
        if (old->entries[i].staged != 0)
            *free_entry(grown, old->entries[i].key) = old->entries[i];
    }
    grown->used = old != NULL ? old->used : 0;
    cp_store_release(table, grown); /* pairs with the acquire of the child of a fork */
    free(old);
    return grown;
}

struct cp__key_entry *cp__key_add(struct cp__key_table **table, uint64_t key)
{
    struct cp__key_table *with_room = *table;
    struct cp__key_entry *entry;

    if (with_room == NULL || 4 * (with_room->used + 1) > 3 * with_room->capacity)
        with_room = grow_key_table(table);
    if (with_room == NULL)
        return NULL;
    with_room->used++;
    entry = free_entry(with_room, key);
    entry->key = key;
    return entry;
}

void cp__key_remove(struct cp__key_table *table, struct cp__key_entry *entry)
{
    const size_t mask = table->capacity - 1;
    size_t gap = (size_t)(entry - table->entries);

    /* An entry may move up to the gap if its search begins there or before: it is at least as far from where
     * its search begins as from the gap. */
    for (size_t at = (gap + 1) & mask; table->entries[at].staged != 0; at = (at + 1) & mask) {
        size_t begins = cp__key_hash(table->entries[at].key) & mask;

        if (((at - begins) & mask) >= ((at - gap) & mask)) {
            table->entries[gap] = table->entries[at];
            gap = at;
        }
    }
    table->entries[gap].staged = 0;
    table->used--;
}
