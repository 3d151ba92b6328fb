#include "label.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/lock.h"
#include "runtime/base/os.h"
#include "runtime/base/sanitizer.h"

size_t cp_labels_count(const struct cp_labels *labels)
{
    return labels == NULL ? 0 : labels->count;
}

const char *cp_labels_key(const struct cp_labels *labels, size_t i)
{
    return i < cp_labels_count(labels) ? labels->items[i].key : NULL;
}

const char *cp_labels_value(const struct cp_labels *labels, size_t i)
{
    return i < cp_labels_count(labels) ? labels->items[i].value : NULL;
}

struct cp_labels *cp_labels_ref(struct cp_labels *labels)
{
    return cp__labels_ref_from_handler(labels);
}

/*
 * A thread may read the labels of a G that runs and may drop its labels at any time. The G pays nothing for
 * that. The reader sets reads, makes every running thread pass a barrier, and then takes a reference. A
 * thread that frees a set has removed the set from its G before. So either the freeing thread sees reads and
 * waits, or the reader sees that the G does not have the set any more.
 */
static struct {
    struct cp__lock lock;
    uint32_t reads; /* atomic */
} reader = {.lock = CP__LOCK_INIT(CP__RANK_LABELS)};

static void let_finish(void)
{
    cp_fence_signal(); /* a barrier for the compiler; the reader's barrier is one for the processors */
    if (cp_load_acquire(&reader.reads) == 0) /* pairs with the release in cp_g_labels() */
        return;
    cp__lock(&reader.lock);
    cp__unlock(&reader.lock);
}

void cp_labels_unref(struct cp_labels *labels)
{
    /* acq_rel: pairs with itself. The thread that frees the set has seen the last use of every other
     * thread */
    if (labels == NULL)
        return;
    cp__sanitizer_release(labels);
    if (cp_fetch_sub_acq_rel(&labels->refs, 1u) == 1) {
        cp__sanitizer_acquire(labels);
        let_finish();
        free(labels);
    }
}

static struct cp_labels *ref_if_alive(struct cp_labels *labels)
{
    uint64_t refs;

    if (labels == NULL)
        return NULL;
    refs = cp_load_relaxed(&labels->refs); /* relaxed: checked by the exchange */
    do {
        if (refs == 0)
            return NULL;
    } while (!cp_compare_exchange(&labels->refs, &refs, refs + 1));
    return labels;
}

struct cp_labels *cp_g_labels(struct cp_g *g)
{
    struct cp_labels *seen, *labels;

    cp__lock(&reader.lock);
    cp_store_relaxed(&reader.reads, 1u); /* relaxed: ordered by the barrier */
    cp__os_barrier();
    /* acquire: pairs with the release in replace_labels(), g.c, and in cp_g_init(), g.c */
    while ((seen = cp_load_acquire(&g->labels)) != NULL && (labels = ref_if_alive(seen)) == NULL) {
        /* the G has replaced the set, so the next load sees another set or none */
    }
    cp_store_release(&reader.reads, 0u); /* pairs with the acquire in let_finish() */
    cp__unlock(&reader.lock);
    if (seen == NULL)
        return NULL;
    cp__sanitizer_acquire(labels);
    return labels;
}

void cp__labels_forget(void)
{
    cp__lock_reset(&reader.lock);
    cp_store_relaxed(&reader.reads, 0u); /* relaxed: this is the only thread */
}

static size_t strings_size(const struct cp_label *label)
{
    return strlen(label->key) + strlen(label->value) + 2;
}

static void append_label(struct cp_labels *to, char **strings, const struct cp_label *label)
{
    struct cp_label *item = &to->items[to->count++];
    size_t key_size = strlen(label->key) + 1;
    size_t value_size = strlen(label->value) + 1;

    item->key = memcpy(*strings, label->key, key_size);
    item->value = memcpy(*strings + key_size, label->value, value_size);
    *strings += key_size + value_size;
}

int cp__labels_with(const struct cp_labels *old, const char *key, const char *value, struct cp_labels **out)
{
    const struct cp_label added = {key, value};
    size_t n = cp_labels_count(old);
    size_t count = value != NULL;
    size_t bytes = value != NULL ? strings_size(&added) : 0;
    struct cp_labels *set;
    char *strings;
    size_t words, i;

    for (i = 0; i < n; i++) {
        if (strcmp(old->items[i].key, key) != 0) {
            bytes += strings_size(&old->items[i]);
            count++;
        }
    }
    *out = NULL;
    if (count == 0)
        return 0;
    words = (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t);
    set = malloc(sizeof *set + count * sizeof set->items[0] + words * sizeof(uint64_t));
    if (set == NULL)
        return -ENOMEM;
    set->refs = 1;
    set->count = 0;
    set->sum = NULL;
    set->words = words;
    strings = (char *)&set->items[count];
    ((uint64_t *)(void *)strings)[words - 1] = 0;
    for (i = 0; i < n && strcmp(old->items[i].key, key) < 0; i++)
        append_label(set, &strings, &old->items[i]);
    if (value != NULL)
        append_label(set, &strings, &added);
    for (; i < n; i++)
        if (strcmp(old->items[i].key, key) != 0)
            append_label(set, &strings, &old->items[i]);
    cp__sanitizer_release(set);
    *out = set;
    return 0;
}
