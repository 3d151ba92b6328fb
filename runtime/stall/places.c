#include "places.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/lock.h"

#define BUCKETS 256u

struct cp__place {
    struct cp__place *next; /* of the same bucket */
    uint64_t hash;
    struct cp_stall stall; /* frames are those below */
    uintptr_t frames[];
};

/* All of it is under the lock. */
static struct {
    struct cp__lock lock;
    struct cp__place *buckets[BUCKETS];
    struct cp_stalls_stats sums;
} places = {.lock = CP__LOCK_INIT(CP__RANK_STALLS)};

static void free_place(struct cp__place *place)
{
    cp_labels_unref(place->stall.labels);
    free(place);
}

void cp__places_clear(void)
{
    cp__lock(&places.lock);
    for (unsigned i = 0; i < BUCKETS; i++) {
        while (places.buckets[i] != NULL) {
            struct cp__place *place = places.buckets[i];

            places.buckets[i] = place->next;
            free_place(place);
        }
    }
    places.sums = (struct cp_stalls_stats){.size = sizeof places.sums, .search = places.sums.search + 1};
    cp__unlock(&places.lock);
}

/* ---- Which place ----------------------------------------------------------------------------- */

/* Returns the index of the first frame that tells the place. What has computed was interrupted anywhere in a
 * function: the calls tell which one it is. */
static unsigned first_telling(const struct cp_stall *stall)
{
    return stall->kind == CP_STALL_COMPUTED && stall->depth > 1;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15) ^ hash >> 29;
}

static uint64_t hash_stall(const struct cp_stall *stall)
{
    uint64_t hash = mix((uint64_t)stall->kind, (uint64_t)stall->reason);

    for (unsigned i = first_telling(stall); i < stall->depth; i++)
        hash = mix(hash, stall->frames[i]);
    return hash;
}

static bool is_same_place(const struct cp_stall *a, const struct cp_stall *b)
{
    const unsigned first = first_telling(a);

    return a->kind == b->kind && a->reason == b->reason && a->depth == b->depth &&
           first == first_telling(b) &&
           (a->depth == first || /* there may be no frames */
            memcmp(a->frames + first, b->frames + first, (a->depth - first) * sizeof *a->frames) == 0);
}

static struct cp__place **find_stalled(const struct cp_stall *stall, uint64_t hash)
{
    struct cp__place **link = &places.buckets[hash % BUCKETS];

    while (*link != NULL && ((*link)->hash != hash || !is_same_place(&(*link)->stall, stall)))
        link = &(*link)->next;
    return link;
}

static struct cp__place *new_place(const struct cp_stall *stall, uint64_t hash)
{
    struct cp__place *place;

    if (places.sums.places >= CP_STALL_PLACES_MAX)
        return NULL;
    place = malloc(sizeof *place + stall->depth * sizeof *place->frames);
    if (place == NULL)
        return NULL;
    *place = (struct cp__place){.hash = hash, .stall = *stall};
    if (stall->depth > 0)
        memcpy(place->frames, stall->frames, stall->depth * sizeof *place->frames);
    place->stall.frames = place->frames;
    place->stall.labels = NULL;
    place->stall.count = place->stall.total_ns = place->stall.longest_ns = 0;
    places.sums.places++;
    return place;
}

/* ---- Adding ---------------------------------------------------------------------------------- */

/* The place shows the G of its longest stall. */
static void add_to(struct cp__place *place, const struct cp_stall *stall)
{
    place->stall.count++;
    place->stall.total_ns += stall->longest_ns;
    if (stall->longest_ns <= place->stall.longest_ns)
        return;
    place->stall.longest_ns = stall->longest_ns;
    place->stall.g_id = stall->g_id;
    place->stall.tid = stall->tid;
    place->stall.object = stall->object;
    place->stall.call = stall->call;
    cp_labels_unref(place->stall.labels);
    place->stall.labels = cp_labels_ref(stall->labels);
}

static void note_longest(uint64_t ns)
{
    if (ns > places.sums.longest_ns)
        places.sums.longest_ns = ns;
}

struct cp__place *cp__places_add(const struct cp_stall *stall, bool *is_new)
{
    const uint64_t hash = hash_stall(stall);
    struct cp__place **link, *place;

    cp__lock(&places.lock);
    link = find_stalled(stall, hash);
    *is_new = *link == NULL;
    if (*link == NULL)
        *link = new_place(stall, hash);
    place = *link;
    places.sums.stalls[stall->kind]++;
    places.sums.ns[stall->kind] += stall->longest_ns;
    places.sums.without_place += place == NULL;
    note_longest(stall->longest_ns);
    if (place != NULL)
        add_to(place, stall);
    cp__unlock(&places.lock);
    return place;
}

void cp__places_go_on(struct cp__place *place, enum cp_stall_kind kind, uint64_t told_ns, uint64_t ns)
{
    if (ns <= told_ns)
        return;
    cp__lock(&places.lock);
    places.sums.ns[kind] += ns - told_ns;
    note_longest(ns);
    if (place != NULL) {
        place->stall.total_ns += ns - told_ns;
        if (ns > place->stall.longest_ns)
            place->stall.longest_ns = ns;
    }
    cp__unlock(&places.lock);
}

void cp__places_note_report(bool is_suppressed)
{
    cp__lock(&places.lock);
    places.sums.reports += !is_suppressed;
    places.sums.suppressed += is_suppressed;
    cp__unlock(&places.lock);
}

/* ---- Reading --------------------------------------------------------------------------------- */

void cp__places_sum(struct cp_stalls_stats *stats)
{
    const uint64_t threshold_ns = stats->threshold_ns, is_running = stats->is_running;

    cp__lock(&places.lock);
    *stats = places.sums;
    cp__unlock(&places.lock);
    stats->size = sizeof *stats;
    stats->threshold_ns = threshold_ns;
    stats->is_running = is_running;
}

/* A copy of all places, so that what reads them may take its time, and any locks. */
struct copied {
    struct cp_stall *stalls;
    size_t n;
    uintptr_t *frames;
};

static size_t count_frames(void)
{
    size_t n = 0;

    for (unsigned i = 0; i < BUCKETS; i++)
        for (const struct cp__place *place = places.buckets[i]; place != NULL; place = place->next)
            n += place->stall.depth;
    return n;
}

static void copy_place(struct copied *copied, const struct cp__place *place, uintptr_t **frames)
{
    struct cp_stall *stall = &copied->stalls[copied->n++];

    *stall = place->stall;
    stall->frames = *frames;
    if (stall->depth > 0)
        memcpy(*frames, place->frames, stall->depth * sizeof **frames);
    *frames += stall->depth;
    cp_labels_ref(stall->labels);
}

/* Under the lock. */
static int copy_all(struct copied *copied)
{
    uintptr_t *frames;

    *copied = (struct copied){.n = 0};
    copied->stalls = calloc(places.sums.places + 1, sizeof *copied->stalls);
    copied->frames = frames = calloc(count_frames() + 1, sizeof *copied->frames);
    if (copied->stalls == NULL || frames == NULL)
        return -ENOMEM;
    for (unsigned i = 0; i < BUCKETS; i++)
        for (const struct cp__place *place = places.buckets[i]; place != NULL; place = place->next)
            copy_place(copied, place, &frames);
    return 0;
}

int cp_stalls_each(cp_stalls_each_fn *fn, void *context)
{
    struct copied copied;
    int result;

    cp__lock(&places.lock);
    result = copy_all(&copied);
    cp__unlock(&places.lock);
    for (size_t i = 0; i < copied.n && result == 0; i++)
        result = fn(context, &copied.stalls[i]);
    for (size_t i = 0; i < copied.n; i++)
        cp_labels_unref(copied.stalls[i].labels);
    free(copied.stalls);
    free(copied.frames);
    return result;
}

/* Another thread may have been changing them. */
void cp__places_forget(void)
{
    cp__lock_reset(&places.lock);
    memset(places.buckets, 0, sizeof places.buckets);
    places.sums = (struct cp_stalls_stats){.size = sizeof places.sums};
}
