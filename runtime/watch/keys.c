/*
 * Watches for keys: how long things stay in queues.
 *
 * A watch for keys has SHARDS shards. A key's hash chooses the shard, so that threads with different keys
 * seldom meet. A shard has a lock, a table of its open keys, a distribution for the time from begin to end
 * and one for each stage, and the numbers of what went wrong. All of these are changed under the shard's
 * lock alone, and a snapshot merges one shard after the other under its lock. So a snapshot has each move and
 * each end either with all of its values or not at all.
 *
 * Times: a call reads the clock before it waits for the lock, so that the time in a stage is that between the
 * calls. If two calls for one key meet, the later one may have the earlier time; it then counts as made at
 * the moment of the other one. So the values of a key's stages add up to the value of the whole.
 *
 * The limit: `left` is how many keys may still begin, in all shards. All threads would meet at that one word,
 * so a shard takes several places at once, and keeps those of ended keys: its `spare` places. If a begin
 * finds none, the shards give all their places back and take each from `left` alone from then on: they are
 * exact, for as long as the watch lives. So a begin is refused only if as many keys are open as may be, and a
 * program that never reaches the limit never pays for that.
 *
 * Forks: the child has its parent's watches, and no open keys. Other threads may have been in the middle of
 * any call, so the child makes the locks anew, and relies on nothing that stands under them but on single
 * stores: a shard's table is one block, which one store replaces. The handler must not call the allocator, so
 * the child keeps that block as `inherited`, and frees the block when it next uses the shard. If another
 * thread was just replacing the block, the block is lost to the child.
 */
#include "keys.h"

#include <errno.h>
#include <stdlib.h>

#include "atomic.h"
#include "key_table.h"
#include "registry.h"
#include "round.h"
#include "runtime/base/fail.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/lock.h"
#include "runtime/base/sized.h"
#include "runtime/ticks.h"
#include "stages.h"

#define SHARD_BITS 6
#define SHARDS (1u << SHARD_BITS)
#define KEYS_MAX_DEFAULT 1048576
#define CACHE_LINE 64
/* How many places a shard takes at once, and keeps half of when it has twice as many. */
#define PLACES 64

/* All members are under the lock. */
struct keys_shard {
    struct cp__lock lock;
    struct cp__key_table *table; /* NULL: there was no key yet */
    struct cp__histogram *times; /* of the whole, then of each stage that is told apart */
    uint64_t spare;              /* places that the shard has for keys */
    uint64_t refused, lost, unknown;
    bool is_exact; /* spare stays 0 */
    /* A table of the parent's. Then `table` is NULL, because no key has begun in this process. */
    struct cp__key_table *inherited;
} __attribute__((aligned(CACHE_LINE)));

struct cp_watch_keys {
    /* These do not change while the watch is open. */
    struct cp__watch_entry entry;
    struct keys_shard *shards;
    char *times; /* the shards' distributions */
    struct cp__stages stages;
    uint64_t keys_max;
    /* All threads change these. */
    uint64_t left __attribute__((aligned(CACHE_LINE))); /* places that no shard has */
    bool is_exact;                                      /* all shards are */
};

static struct keys_shard *shard_of(const struct cp_watch_keys *keys, uint64_t key)
{
    return &keys->shards[cp__key_hash(key) >> (64 - SHARD_BITS)];
}

/* Returns how many distributions a shard has. */
static size_t count_times(const struct cp_watch_keys *keys)
{
    return 1 + keys->stages.n;
}

/* Returns how many numbers of stages are valid. */
static unsigned count_stages(const struct cp_watch_keys *keys)
{
    return keys->stages.n > 0 ? keys->stages.n : 1;
}

/* Frees a table of the parent's, if there is one. Called with the lock held. */
static void free_inherited(struct keys_shard *shard)
{
    struct cp__key_table *inherited = shard->inherited;

    if (inherited == NULL)
        return;
    /* Pairs with the load in forget_key_shard(): a child's child does not see the table after it is freed. */
    cp_store_release(&shard->inherited, NULL);
    free(inherited);
}

/* Locks a shard, and returns it. */
static struct keys_shard *lock_shard(struct keys_shard *shard)
{
    cp__lock(&shard->lock);
    free_inherited(shard);
    return shard;
}

/* Forgets what the parent has measured if no fork handler has done so, because this process was made by
 * _Fork() or a raw clone(2). */
static void look_for_raw_fork(void)
{
    if (__builtin_expect(cp__is_raw_child_from_handler(), 0))
        cp__rounds_after_raw_fork();
}

static struct keys_shard *lock_shard_of(const struct cp_watch_keys *keys, uint64_t key)
{
    look_for_raw_fork();
    return lock_shard(shard_of(keys, key));
}

/* ---- Opening and closing --------------------------------------------------------------------- */

/* Makes the shards, each with its distributions on cache lines of its own. */
static int make_shards(struct cp_watch_keys *keys)
{
    size_t size = count_times(keys) * sizeof(struct cp__histogram);

    size = (size + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    keys->shards = aligned_alloc(CACHE_LINE, SHARDS * sizeof *keys->shards);
    keys->times = aligned_alloc(CACHE_LINE, SHARDS * size);
    if (keys->shards == NULL || keys->times == NULL)
        return -ENOMEM;
    for (unsigned i = 0; i < SHARDS; i++) {
        struct cp__histogram *times = (void *)(keys->times + i * size);

        keys->shards[i] = (struct keys_shard){.lock = CP__LOCK_INIT(CP__RANK_WATCH_KEYS), .times = times};
        for (size_t j = 0; j < count_times(keys); j++)
            cp__histogram_init(&times[j]);
    }
    return 0;
}

/* Frees a watch that the registry does not have, whatever of it is made. */
static void free_keys(struct cp_watch_keys *keys)
{
    for (unsigned i = 0; i < SHARDS && keys->shards != NULL && keys->times != NULL; i++) {
        for (size_t j = 0; j < count_times(keys); j++)
            cp__histogram_fini(&keys->shards[i].times[j]);
        free(keys->shards[i].table);
        free(keys->shards[i].inherited);
    }
    free(keys->shards);
    free(keys->times);
    cp__stages_free(&keys->stages);
    free(keys);
}

/* Makes a watch that the registry does not have yet. */
static int make_keys(struct cp_watch_keys **made, const struct cp_watch_keys_options *options,
                     struct cp_error *err)
{
    struct cp_watch_keys *keys = aligned_alloc(CACHE_LINE, sizeof *keys);
    int result;

    if (keys == NULL)
        return cp__error(err, -ENOMEM, "There is no memory for a watch.");
    *keys = (struct cp_watch_keys){.entry = {.name = options->name,
                                             .fill = cp__watch_keys_fill,
                                             .forget = cp__watch_keys_forget,
                                             .watch = keys},
                                   .keys_max = options->keys_max != 0 ? options->keys_max : KEYS_MAX_DEFAULT};
    keys->left = keys->keys_max;
    result = cp__stages_parse(&keys->stages, options->stages, err);
    if (result == 0 && make_shards(keys) < 0)
        result = cp__error(err, -ENOMEM, "There is no memory for the watch's %u stages.", count_stages(keys));
    if (result < 0)
        free_keys(keys);
    else
        *made = keys;
    return result;
}

int cp_watch_keys_open(struct cp_watch_keys **keys, const struct cp_watch_keys_options *options,
                       struct cp_error *err)
{
    struct cp_watch_keys_options read;
    struct cp_watch_keys *made = NULL;
    int result = CP__TAKE(cp_watch_keys_options, &read, options, err);

    *keys = NULL;
    if (result == 0)
        result = make_keys(&made, &read, err);
    if (result < 0)
        return result;
    cp__rounds_prepare(); /* the clock, and what the child of a fork forgets */
    result = cp__registry_add(&made->entry, err);
    if (result < 0)
        free_keys(made);
    else
        *keys = made;
    return result;
}

void cp_watch_keys_close(struct cp_watch_keys *keys)
{
    if (keys == NULL)
        return;
    cp__registry_remove(&keys->entry);
    free_keys(keys);
}

/* ---- The limit ------------------------------------------------------------------------------- */

static void give_places(struct cp_watch_keys *keys, uint64_t n)
{
    cp_fetch_add_relaxed(&keys->left, n); /* relaxed: a number that nothing else depends on */
}

/* Takes up to n places, and returns how many. */
static uint64_t take_places(struct cp_watch_keys *keys, uint64_t n)
{
    uint64_t left = cp_load_relaxed(&keys->left); /* relaxed: the exchange checks what was loaded */
    uint64_t taken;

    do
        taken = left < n ? left : n;
    while (taken > 0 && !cp_compare_exchange(&keys->left, &left, left - taken));
    return taken;
}

/* Takes the place for a key. Returns false if the shard finds none. Called with the shard's lock held. */
static bool take_place(struct cp_watch_keys *keys, struct keys_shard *shard)
{
    if (shard->spare == 0)
        shard->spare = take_places(keys, shard->is_exact ? 1 : PLACES);
    if (shard->spare == 0)
        return false;
    shard->spare--;
    return true;
}

/* Gives the place of a key back. Called with the shard's lock held. */
static void give_place(struct cp_watch_keys *keys, struct keys_shard *shard)
{
    uint64_t too_many;

    shard->spare++;
    too_many = shard->is_exact ? 1 : shard->spare < 2 * PLACES ? 0 : PLACES;
    if (too_many > 0)
        give_places(keys, too_many);
    shard->spare -= too_many;
}

/* Makes all shards exact, so that `left` is all that is left. Called without a lock. */
static void make_exact(struct cp_watch_keys *keys)
{
    for (unsigned i = 0; i < SHARDS; i++) {
        struct keys_shard *shard = lock_shard(&keys->shards[i]);

        shard->is_exact = true;
        give_places(keys, shard->spare);
        shard->spare = 0;
        cp__unlock(&shard->lock);
    }
    cp_store_release(&keys->is_exact, true); /* pairs with the load in cp_watch_key_begin() */
}

/* ---- Keys ------------------------------------------------------------------------------------ */

/* Begins a key that is not open. Returns -ENOSPC if the shard finds no place. Called with the lock held. */
static int add_open_key(struct cp_watch_keys *keys, struct keys_shard *shard, uint64_t key,
                        struct cp__key_entry **entry)
{
    if (!take_place(keys, shard))
        return -ENOSPC;
    *entry = cp__key_add(&shard->table, key);
    if (*entry != NULL)
        return 0;
    give_place(keys, shard);
    return -ENOMEM;
}

/* Begins a key. is_exact is whether all shards were exact before; if they were not, -EAGAIN stands for
 * -ENOSPC, and nothing has been counted. */
static int begin_key(struct cp_watch_keys *keys, uint64_t key, unsigned stage, bool is_exact)
{
    uint64_t now = cp__stamp_now_ns();
    struct keys_shard *shard = lock_shard_of(keys, key);
    struct cp__key_entry *entry = cp__key_find(shard->table, key);
    int result = -EINVAL;

    if (stage < count_stages(keys))
        result = entry != NULL ? -EEXIST : add_open_key(keys, shard, key, &entry);
    if (result == -ENOSPC && !is_exact)
        result = -EAGAIN;
    else if (result == -EEXIST)
        shard->lost++;
    else if (result < 0)
        shard->refused++;
    if (result == 0 || result == -EEXIST) {
        entry->began = entry->since = now;
        entry->staged = stage + 1;
    }
    cp__unlock(&shard->lock);
    return result;
}

int cp_watch_key_begin(struct cp_watch_keys *keys, uint64_t key, unsigned stage)
{
    bool is_exact;
    int result;

    if (keys == NULL)
        return 0;
    /* Pairs with the store in make_exact(): after it, no shard has a place that is not in `left`. */
    is_exact = cp_load_acquire(&keys->is_exact);
    result = begin_key(keys, key, stage, is_exact);
    if (result != -EAGAIN)
        return result;
    make_exact(keys);
    return begin_key(keys, key, stage, true);
}

/* Finds an open key for a move or an end, and counts a key that is not open as unknown. *now becomes the
 * moment of the call, which is never before the key's last one. Called with the lock held. */
static struct cp__key_entry *find_open(struct keys_shard *shard, uint64_t key, uint64_t *now)
{
    struct cp__key_entry *entry = cp__key_find(shard->table, key);

    if (entry == NULL)
        shard->unknown++;
    else if (*now < entry->since)
        *now = entry->since;
    return entry;
}

/* Adds to the distribution of the entry's stage, if that is told apart. Called with the lock held. */
static int end_stage(const struct cp_watch_keys *keys, struct keys_shard *shard,
                     const struct cp__key_entry *entry, uint64_t now)
{
    if (keys->stages.n == 0)
        return 0;
    return cp__histogram_record(&shard->times[entry->staged], now - entry->since);
}

/* Moves an open key to a stage that there is. */
static int move_key(const struct cp_watch_keys *keys, struct keys_shard *shard, struct cp__key_entry *entry,
                    unsigned stage, uint64_t now)
{
    int result = end_stage(keys, shard, entry, now);

    if (result < 0)
        shard->lost++;
    entry->since = now;
    entry->staged = stage + 1;
    return result;
}

int cp_watch_key_move(struct cp_watch_keys *keys, uint64_t key, unsigned stage)
{
    uint64_t now;
    struct keys_shard *shard;
    struct cp__key_entry *entry;
    int result;

    if (keys == NULL)
        return 0;
    now = cp__stamp_now_ns();
    shard = lock_shard_of(keys, key);
    if (stage < count_stages(keys)) {
        entry = find_open(shard, key, &now);
        result = entry != NULL ? move_key(keys, shard, entry, stage, now) : -ENOENT;
    } else {
        shard->unknown++;
        result = -EINVAL;
    }
    cp__unlock(&shard->lock);
    return result;
}

/* Ends an open key. */
static int end_key(struct cp_watch_keys *keys, struct keys_shard *shard, struct cp__key_entry *entry,
                   uint64_t now)
{
    int result = end_stage(keys, shard, entry, now);
    int whole = cp__histogram_record(&shard->times[0], now - entry->began);

    if (result == 0)
        result = whole;
    if (result < 0)
        shard->lost++;
    cp__key_remove(shard->table, entry);
    give_place(keys, shard);
    return result;
}

int cp_watch_key_end(struct cp_watch_keys *keys, uint64_t key)
{
    uint64_t now;
    struct keys_shard *shard;
    struct cp__key_entry *entry;
    int result;

    if (keys == NULL)
        return 0;
    now = cp__stamp_now_ns();
    shard = lock_shard_of(keys, key);
    entry = find_open(shard, key, &now);
    result = entry != NULL ? end_key(keys, shard, entry, now) : -ENOENT;
    cp__unlock(&shard->lock);
    return result;
}

/* ---- Snapshots ------------------------------------------------------------------------------- */

/* Adds what a shard has to the watch's series, which are in the order of the shard's distributions. */
static int fill_from(struct cp__snapshot_watch *watch, struct keys_shard *shard)
{
    int result = 0;

    lock_shard(shard);
    for (size_t i = 0; i < watch->n_series && result == 0; i++)
        result = cp__histogram_merge(&watch->series[i].histograms[0], &shard->times[i]);
    watch->state.open += shard->table != NULL ? shard->table->used : 0;
    watch->state.refused += shard->refused;
    watch->state.lost += shard->lost;
    watch->state.unknown += shard->unknown;
    cp__unlock(&shard->lock);
    return result;
}

int cp__watch_keys_fill(const void *watch_for_keys, struct cp_watch_snapshot *snapshot)
{
    const struct cp_watch_keys *keys = watch_for_keys;
    const char *label = "stage", *whole = "";
    struct cp__snapshot_watch *watch = cp__snapshot_add_watch(snapshot, keys->entry.name, &label, 1);
    int result = 0;

    if (watch == NULL)
        return -ENOMEM;
    watch->is_keyed = true;
    watch->n_quantities = 1;
    watch->quantities[0] = (struct cp__watch_quantity){.name = "time", .unit = "ns", .scale = 1};
    for (size_t i = 0; i < count_times(keys); i++) {
        const char *value = i == 0 ? whole : keys->stages.names[i - 1];

        if (cp__snapshot_series_of(watch, &value, CP_WATCH_UNFORKED) == NULL)
            return -ENOMEM;
    }
    for (unsigned i = 0; i < SHARDS && result == 0; i++)
        result = fill_from(watch, &keys->shards[i]);
    return result;
}

int cp_watch_take_keys(struct cp_watch_snapshot **snapshot, const struct cp_watch_keys *keys,
                       struct cp_error *err)
{
    look_for_raw_fork();
    if (keys != NULL)
        return cp__registry_take(snapshot, &keys->entry, err);
    *snapshot = cp__snapshot_new();
    return *snapshot != NULL ? 0 : cp__error(err, -ENOMEM, "There is no memory for an empty snapshot.");
}

/* ---- In the child of a fork ------------------------------------------------------------------ */

/* Makes a shard's lock anew, and the shard empty. */
static void forget_key_shard(struct keys_shard *shard, size_t n_times)
{
    /* Pairs with the release in grow_key_table() of key_table.c. */
    struct cp__key_table *table = cp_load_acquire(&shard->table);

    cp__lock_reset(&shard->lock);
    if (table != NULL && cp_load_acquire(&shard->inherited) == NULL) /* pairs with free_inherited() */
        shard->inherited = table;
    for (size_t i = 0; i < n_times; i++)
        cp__histogram_forget(&shard->times[i]);
    shard->table = NULL;
    shard->spare = shard->refused = shard->lost = shard->unknown = 0;
    shard->is_exact = false;
}

void cp__watch_keys_forget(void *watch_for_keys)
{
    struct cp_watch_keys *keys = watch_for_keys;

    for (unsigned i = 0; i < SHARDS; i++)
        forget_key_shard(&keys->shards[i], count_times(keys));
    keys->left = keys->keys_max;
    keys->is_exact = false;
}
