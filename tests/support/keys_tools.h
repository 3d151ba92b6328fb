/* What the tests of watches for keys share: opening them, and what a snapshot says. */
#ifndef COUNTERPOINT_TESTS_KEYS_TOOLS_H
#define COUNTERPOINT_TESTS_KEYS_TOOLS_H

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "test.h"
#include "watch.h"

#define KEYS_API __attribute__((unused)) static

KEYS_API struct cp_watch_keys *open_keys(const char *name, const char *stages, size_t keys_max)
{
    const struct cp_watch_keys_options options = {
        .size = sizeof options, .name = name, .stages = stages, .keys_max = keys_max};
    struct cp_watch_keys *keys;
    struct cp_error err = {0};

    CHECKF(cp_watch_keys_open(&keys, &options, &err) == 0, "%s", err.message);
    CHECK(keys != NULL);
    return keys;
}

/* What a snapshot of one watch for keys says. */
struct taken {
    struct cp_watch_state state; /* its member watch is not valid */
    struct taken_row {
        char stage[CP_WATCH_NAME_MAX + 1];
        uint64_t count;
        double sum, min, max;
    } rows[1 + CP_WATCH_STAGES_MAX];
    size_t n;
};

KEYS_API int take_row(void *context, const struct cp_watch_row *row)
{
    struct taken *taken = context;
    struct taken_row *to = &taken->rows[taken->n++];

    CHECK_EQ(row->n_labels, 1);
    CHECK_STR(row->labels[0].key, "stage");
    CHECK_STR(row->quantity, "time");
    CHECK_STR(row->unit, "ns");
    CHECK_EQ(row->side, CP_WATCH_UNFORKED);
    *to = (struct taken_row){.count = row->count, .sum = row->sum, .min = row->min, .max = row->max};
    snprintf(to->stage, sizeof to->stage, "%s", row->labels[0].value);
    return 0;
}

KEYS_API int take_state(void *context, const struct cp_watch_state *state)
{
    ((struct taken *)context)->state = *state;
    return 0;
}

KEYS_API struct taken take(const struct cp_watch_keys *keys)
{
    struct taken taken = {.n = 0};
    struct cp_watch_snapshot *snapshot;
    struct cp_error err = {0};

    CHECKF(cp_watch_take_keys(&snapshot, keys, &err) == 0, "%s", err.message);
    CHECK_EQ(cp_watch_each(snapshot, take_row, &taken), 0);
    CHECK_EQ(cp_watch_states(snapshot, take_state, &taken), 0);
    cp_watch_snapshot_free(snapshot);
    return taken;
}

KEYS_API const struct taken_row *row_of(const struct taken *taken, const char *stage)
{
    for (size_t i = 0; i < taken->n; i++) {
        if (strcmp(taken->rows[i].stage, stage) == 0)
            return &taken->rows[i];
    }
    TEST_FAIL("there is no row for the stage \"%s\"", stage);
}

/* Returns the sum over all stages, in ns, which are whole numbers. */
KEYS_API double sum_of_stages(const struct taken *taken)
{
    double sum = 0;

    for (size_t i = 0; i < taken->n; i++)
        sum += taken->rows[i].stage[0] != '\0' ? taken->rows[i].sum : 0;
    return sum;
}

/* Checks what went wrong. */
KEYS_API void expect_state(const struct cp_watch_keys *keys, uint64_t open, uint64_t refused, uint64_t lost,
                           uint64_t unknown)
{
    const struct taken taken = take(keys);

    CHECK_EQ(taken.state.open, open);
    CHECK_EQ(taken.state.refused, refused);
    CHECK_EQ(taken.state.lost, lost);
    CHECK_EQ(taken.state.unknown, unknown);
    CHECK_EQ(taken.state.partial, 0);
    CHECK_EQ(taken.state.dropped, 0);
}

#endif
