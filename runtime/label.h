/* What the signal handler may do with labels. */
#ifndef COUNTERPOINT_RUNTIME_LABEL_H
#define COUNTERPOINT_RUNTIME_LABEL_H

#include "runtime.h"

/* A set holds a reference for each G and each unread sample that names it. */
struct cp_labels {
    uint64_t refs;
    size_t count;
    struct cp_label items[]; /* in order of key; the strings follow */
};

/* Takes one more reference, in the handler of an M whose current G holds one: so the number of references
 * cannot become 0 meanwhile. */
static inline struct cp_labels *cp__labels_ref_from_handler(struct cp_labels *labels)
{
    if (labels != NULL)
        cp_fetch_add_relaxed(&labels->refs, 1u); /* relaxed: the reference it is taken from orders it */
    return labels;
}

/* Makes a set like old, with key set to value, or without key if value is NULL; the empty set is NULL. 0 or
 * -ENOMEM. */
int cp__labels_with(const struct cp_labels *old, const char *key, const char *value, struct cp_labels **out);

/* In the child of a fork: nobody reads. */
void cp__labels_forget(void);

#endif
