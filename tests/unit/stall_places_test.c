/* Which stalls are of one place, and what a place adds up to. */
#include "runtime/stall/places.h"
#include "tests/support/test.h"

#define MS UINT64_C(1000000)

static uintptr_t frames[] = {100, 200, 300};

static struct cp_stall stall_of(enum cp_stall_kind kind, uintptr_t leaf, uintptr_t caller, uint64_t ns)
{
    frames[0] = leaf;
    frames[1] = caller;
    return (struct cp_stall){
        .kind = kind, .frames = frames, .depth = 3, .count = 1, .longest_ns = ns, .g_id = ns};
}

static struct cp__place *added(struct cp_stall stall, bool *is_new)
{
    return cp__places_add(&stall, is_new);
}

CP_TEST(what_computes_is_anywhere_in_its_function)
{
    struct cp__place *first;
    bool is_new;

    cp__places_clear();
    first = added(stall_of(CP_STALL_COMPUTED, 100, 200, 11 * MS), &is_new);
    CHECK(first != NULL && is_new);
    CHECK(added(stall_of(CP_STALL_COMPUTED, 104, 200, 12 * MS), &is_new) == first && !is_new);
    CHECK(added(stall_of(CP_STALL_COMPUTED, 100, 204, 12 * MS), &is_new) != first && is_new);
    CHECK(added(stall_of(CP_STALL_WAITED, 100, 200, 12 * MS), &is_new) != first && is_new);
    CHECK(added(stall_of(CP_STALL_WAITED, 104, 200, 12 * MS), &is_new) != first && is_new);
}

static int take_first(void *context, const struct cp_stall *stall)
{
    *(struct cp_stall *)context = *stall;
    return 1;
}

CP_TEST(a_place_shows_its_longest_stall_and_sums)
{
    struct cp_stalls_stats stats = {.threshold_ns = 7, .is_running = 1};
    struct cp_stall stall;
    struct cp__place *place;
    bool is_new;

    cp__places_clear();
    added(stall_of(CP_STALL_COMPUTED, 100, 200, 20 * MS), &is_new);
    place = added(stall_of(CP_STALL_COMPUTED, 100, 200, 11 * MS), &is_new);
    cp__places_go_on(place, CP_STALL_COMPUTED, 11 * MS, 15 * MS);
    cp__places_go_on(place, CP_STALL_COMPUTED, 15 * MS, 15 * MS);
    CHECK_EQ(cp_stalls_each(take_first, &stall), 1);
    CHECK_EQ(stall.count, 2);
    CHECK_EQ(stall.g_id, 20 * MS);
    CHECK_EQ(stall.longest_ns, 20 * MS);
    CHECK_EQ(stall.total_ns, 35 * MS);
    cp__places_sum(&stats);
    CHECK_EQ(stats.stalls[CP_STALL_COMPUTED], 2);
    CHECK_EQ(stats.ns[CP_STALL_COMPUTED], 35 * MS);
    CHECK_EQ(stats.longest_ns, 20 * MS);
    CHECK_EQ(stats.places, 1);
    CHECK_EQ(stats.threshold_ns, 7);
}

/* A program that stalls everywhere takes no more memory. */
CP_TEST(there_are_so_many_places)
{
    struct cp_stalls_stats stats = {.size = sizeof stats};
    bool is_new;

    cp__places_clear();
    for (unsigned i = 0; i < CP_STALL_PLACES_MAX; i++)
        CHECK(added(stall_of(CP_STALL_WAITED, 100, 1000 + i, 11 * MS), &is_new) != NULL && is_new);
    CHECK(added(stall_of(CP_STALL_WAITED, 100, 1, 11 * MS), &is_new) == NULL);
    CHECK(added(stall_of(CP_STALL_WAITED, 100, 1000, 11 * MS), &is_new) != NULL && !is_new);
    cp__places_go_on(NULL, CP_STALL_WAITED, 11 * MS, 12 * MS);
    cp__places_sum(&stats);
    CHECK_EQ(stats.places, CP_STALL_PLACES_MAX);
    CHECK_EQ(stats.without_place, 1);
    CHECK_EQ(stats.stalls[CP_STALL_WAITED], CP_STALL_PLACES_MAX + 2);
    CHECK_EQ(stats.ns[CP_STALL_WAITED], (CP_STALL_PLACES_MAX + 2) * 11 * MS + MS);
}
