/* What a signal handler may do with labels. */
#ifndef COUNTERPOINT_RUNTIME_LABEL_H
#define COUNTERPOINT_RUNTIME_LABEL_H

#include <string.h>

#include "runtime.h"
#include "runtime/base/table.h"

/* A set has one reference for each G, and for each unread sample, that names the set. */
struct cp_labels {
    uint64_t refs;
    size_t count;
    size_t words; /* the size of the strings in words of 8 bytes, the last filled up with zeros */
    struct cp__label_sum *sum; /* atomic; NULL: cp__label_sum_of() has not looked for it */
    struct cp_label items[];   /* in order of key; the strings follow: equal sets have equal words */
};

static inline const uint64_t *cp__labels_strings(const struct cp_labels *labels)
{
    return (const uint64_t *)(const void *)&labels->items[labels->count];
}

/* Whether two sets have the same keys and values. */
static inline bool cp__labels_are_same(const struct cp_labels *a, const struct cp_labels *b)
{
    return a->count == b->count && a->words == b->words &&
           memcmp(cp__labels_strings(a), cp__labels_strings(b), a->words * sizeof(uint64_t)) == 0;
}

static inline uint32_t cp__labels_hash(const struct cp_labels *labels)
{
    const uint64_t *words = cp__labels_strings(labels);
    uint64_t hash = 0;

    for (size_t i = 0; i < labels->words; i++)
        hash = cp__hash_add(hash, words[i]);
    return cp__hash_end(hash);
}

/* Takes one more reference in the handler of an M whose current G has one, so the number of references cannot
 * become 0 meanwhile. */
static inline struct cp_labels *cp__labels_ref_from_handler(struct cp_labels *labels)
{
    if (labels != NULL)
        cp_fetch_add_relaxed(&labels->refs, 1u); /* relaxed: the reference it is taken from orders it */
    return labels;
}

/* Makes a copy of old with key set to value, or without key if value is NULL. The empty set is NULL. Returns
 * 0 or -ENOMEM. */
int cp__labels_with(const struct cp_labels *old, const char *key, const char *value, struct cp_labels **out);

/* In the child of a fork: no thread reads. */
void cp__labels_forget(void);

#endif
