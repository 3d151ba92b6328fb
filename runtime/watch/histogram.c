/* Distributions: what writes and merges them. spread.c says what they are like. */
#include "histogram.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "atomic.h"
#include "buckets.h"

/* How often a reader tries before it asks the writer to write elsewhere, how often before it naps, and how
 * often at all: after 100 ms of naps. */
enum { TRIES_ALONE = 3, TRIES_AWAKE = 200, TRIES = 300, NAP_NS = 1000000 };

void cp__histogram_init(struct cp__histogram *h)
{
    *h = (struct cp__histogram){.min = UINT64_MAX};
}

void cp__histogram_fini(struct cp__histogram *h)
{
    for (unsigned b = 0; b < CP__HISTOGRAM_BLOCKS; b++)
        free(h->blocks[b]);
    if (h->aside != NULL)
        cp__histogram_fini(h->aside);
    free(h->aside);
    cp__histogram_init(h);
}

void cp__histogram_forget(struct cp__histogram *h)
{
    cp__histogram_init(h);
}

/* ---- The writer ------------------------------------------------------------------------------ */

/* All accesses of the writer to its own histogram are relaxed: it reads what it has written itself, and
 * begin_change() and end_change() order its stores. */

/* Makes `changes` odd. The fence pairs with the one at the end of try_copy(): a reader that sees a store of
 * the change sees the odd number, too. */
static inline uint64_t begin_change(struct cp__histogram *h)
{
    uint64_t changes = cp_load_relaxed(&h->changes);

    cp_store_relaxed(&h->changes, changes + 1);
    cp_fence_release();
    return changes;
}

/* The release pairs with the acquire at the beginning of try_copy(): who sees the even number sees the whole
 * change. */
static inline void end_change(struct cp__histogram *h, uint64_t changes)
{
    cp_store_release(&h->changes, changes + 2);
}

/* Adds to a sum, which stays at its maximum. */
static inline void add_wide(uint64_t sum[2], unsigned __int128 more)
{
    const unsigned __int128 old =
        (unsigned __int128)cp_load_relaxed(&sum[1]) << 64 | cp_load_relaxed(&sum[0]);
    unsigned __int128 result;

    if (__builtin_expect(__builtin_add_overflow(old, more, &result), 0))
        result = ~(unsigned __int128)0;
    cp_store_relaxed(&sum[0], (uint64_t)result);
    cp_store_relaxed(&sum[1], (uint64_t)(result >> 64));
}

static inline void add_count(uint64_t *count, uint64_t more)
{
    uint64_t result;

    cp_store_relaxed(count, __builtin_add_overflow(*count, more, &result) ? UINT64_MAX : result);
}

static inline void widen_range(struct cp__histogram *h, uint64_t min, uint64_t max)
{
    if (min < h->min)
        cp_store_relaxed(&h->min, min);
    if (max > h->max)
        cp_store_relaxed(&h->max, max);
}

/* Returns NULL: no memory. */
static __attribute__((noinline)) uint64_t *make_block(struct cp__histogram *h, unsigned block)
{
    uint64_t *counts = calloc(CP__HISTOGRAM_SUB, sizeof *counts);

    /* Pairs with the acquire in copy_blocks(): who sees the block sees zeros in it. */
    cp_store_release(&h->blocks[block], counts);
    return counts;
}

static inline int record_here(struct cp__histogram *h, uint64_t value)
{
    const unsigned bucket = cp__bucket_of(value);
    uint64_t *counts = h->blocks[bucket / CP__HISTOGRAM_SUB];
    uint64_t changes;

    if (__builtin_expect(counts == NULL, 0) && (counts = make_block(h, bucket / CP__HISTOGRAM_SUB)) == NULL)
        return -ENOMEM;
    changes = begin_change(h);
    cp_add_single_writer(&h->count, 1);
    add_wide(h->sum, value);
    add_wide(h->squares, (unsigned __int128)value * value);
    widen_range(h, value, value);
    cp_add_single_writer(&counts[bucket % CP__HISTOGRAM_SUB], 1);
    end_change(h, changes);
    return 0;
}

/* Returns where the writer adds a value while others read h. */
static __attribute__((noinline)) struct cp__histogram *unread_aside(struct cp__histogram *h)
{
    struct cp__histogram *aside;

    /* Relaxed: see cp__histogram_record(). */
    while (cp_load_relaxed(&h->readers) != 0) {
        aside = h->aside;
        if (aside == NULL) {
            aside = malloc(sizeof *aside);
            if (aside == NULL)
                return h; /* the readers try again, or take what is there */
            cp__histogram_init(aside);
            /* Pairs with the acquire in cp__histogram_merge(): who sees the histogram sees it empty. */
            cp_store_release(&h->aside, aside);
        }
        h = aside;
    }
    return h;
}

int cp__histogram_record(struct cp__histogram *h, uint64_t value)
{
    /* Relaxed: if the writer sees the number late, the reader tries again. */
    if (__builtin_expect(cp_load_relaxed(&h->readers) != 0, 0))
        h = unread_aside(h);
    return record_here(h, value);
}

/* ---- Readers --------------------------------------------------------------------------------- */

/* Copies the blocks. The copy keeps blocks that an earlier try has made. */
static int copy_blocks(struct cp__histogram *copy, const struct cp__histogram *from)
{
    for (unsigned b = 0; b < CP__HISTOGRAM_BLOCKS; b++) {
        /* The acquire pairs with the release in make_block(). */
        const uint64_t *counts = cp_load_acquire(&from->blocks[b]);

        if (counts == NULL)
            continue;
        if (copy->blocks[b] == NULL && (copy->blocks[b] = malloc(CP__HISTOGRAM_SUB * sizeof *counts)) == NULL)
            return -ENOMEM;
        for (unsigned i = 0; i < CP__HISTOGRAM_SUB; i++)
            copy->blocks[b][i] = cp_load_relaxed(&counts[i]); /* the fence of try_copy() orders it */
    }
    return 0;
}

/* Copies what `from` has at the moment. Returns 0, -ENOMEM, or -EAGAIN if the writer has changed it
 * meanwhile. */
static int try_copy(struct cp__histogram *copy, const struct cp__histogram *from)
{
    /* The acquire pairs with the release of end_change(). */
    const uint64_t changes = cp_load_acquire(&from->changes);
    int result;

    /* Relaxed, as are the blocks' counts: the fence below orders these loads before the second look. */
    copy->count = cp_load_relaxed(&from->count);
    for (unsigned i = 0; i < 2; i++) {
        copy->sum[i] = cp_load_relaxed(&from->sum[i]);
        copy->squares[i] = cp_load_relaxed(&from->squares[i]);
    }
    copy->min = cp_load_relaxed(&from->min);
    copy->max = cp_load_relaxed(&from->max);
    result = copy_blocks(copy, from);
    /* Pairs with the release fence of begin_change(). */
    cp_fence_acquire();
    if (result == 0 && (changes % 2 != 0 || cp_load_relaxed(&from->changes) != changes))
        result = -EAGAIN;
    return result;
}

/* A nap lets the writer run, which may be off its CPU in the middle of a change. */
static void before_try(unsigned n)
{
    if (n >= TRIES_AWAKE)
        nanosleep(&(const struct timespec){.tv_nsec = NAP_NS}, NULL);
}

/* Makes a copy that was taken between changes agree with itself as well as possible. */
static void settle_copy(struct cp__histogram *copy)
{
    copy->count = 0;
    for (unsigned b = 0; b < CP__HISTOGRAM_BLOCKS; b++) {
        for (unsigned i = 0; copy->blocks[b] != NULL && i < CP__HISTOGRAM_SUB; i++)
            add_count(&copy->count, copy->blocks[b][i]);
    }
}

/* Initializes the copy. Returns 0 or -ENOMEM; the caller calls cp__histogram_fini() in either case. */
static int copy_of(struct cp__histogram *copy, const struct cp__histogram *from)
{
    /* No histogram is const but for its readers, and this word is theirs. */
    uint32_t *readers = (uint32_t *)(uintptr_t)&from->readers;
    unsigned n;
    int result;

    cp__histogram_init(copy);
    for (n = 0; (result = try_copy(copy, from)) == -EAGAIN && n < TRIES; n++) {
        if (n == TRIES_ALONE)
            cp_fetch_add_relaxed(readers, 1); /* relaxed: nothing else is told by it */
        before_try(n);
    }
    if (n > TRIES_ALONE)
        cp_fetch_add_relaxed(readers, -1u); /* the same */
    if (result != -EAGAIN)
        return result;
    settle_copy(copy);
    return 0;
}

/* Adds a copy, and takes over its blocks if h has none of that number. */
static void add_copy(struct cp__histogram *h, struct cp__histogram *copy)
{
    uint64_t changes = begin_change(h);

    add_count(&h->count, copy->count);
    add_wide(h->sum, (unsigned __int128)copy->sum[1] << 64 | copy->sum[0]);
    add_wide(h->squares, (unsigned __int128)copy->squares[1] << 64 | copy->squares[0]);
    widen_range(h, copy->min, copy->max);
    for (unsigned b = 0; b < CP__HISTOGRAM_BLOCKS; b++) {
        if (h->blocks[b] == NULL) {
            /* Pairs with the acquire in copy_blocks(): who sees the block sees its counts, which belong to
             * this change. */
            cp_store_release(&h->blocks[b], copy->blocks[b]);
            copy->blocks[b] = NULL;
        }
        for (unsigned i = 0; copy->blocks[b] != NULL && i < CP__HISTOGRAM_SUB; i++)
            add_count(&h->blocks[b][i], copy->blocks[b][i]);
    }
    end_change(h, changes);
}

int cp__histogram_merge(struct cp__histogram *into, const struct cp__histogram *from)
{
    struct cp__histogram total, copy;
    int result = 0;

    cp__histogram_init(&total);
    /* A value that is written aside while h is copied is in what is copied after h. The acquire pairs with
     * the release in unread_aside(). */
    for (const struct cp__histogram *h = from; h != NULL && result == 0; h = cp_load_acquire(&h->aside)) {
        result = copy_of(&copy, h);
        if (result == 0)
            add_copy(&total, &copy);
        cp__histogram_fini(&copy);
    }
    if (result == 0)
        add_copy(into, &total);
    cp__histogram_fini(&total);
    return result;
}
