/* What tests of watches share: opening a watch, and looking for a row of it. */
#ifndef COUNTERPOINT_TESTS_STOPWATCH_H
#define COUNTERPOINT_TESTS_STOPWATCH_H

#include <string.h>

#include "test.h"
#include "watch.h"

/* Opens a watch of the quantities, or skips the test if the machine refuses an event. */
static inline struct cp_watch *open_watch_of(const struct cp_watch_options *options)
{
    struct cp_watch *watch = NULL;
    struct cp_error err = {0};

    CHECKF(cp_watch_open(&watch, options, &err) == 0, "%s", err.message);
    return watch;
}

static inline struct cp_watch *open_watch(const char *name, const char *quantities)
{
    const struct cp_watch_options options = {.size = sizeof options, .name = name, .quantities = quantities};

    return open_watch_of(&options);
}

/* Makes the calling thread an M. */
static inline struct cp_m *attach_m(void)
{
    struct cp_error err = {0};
    struct cp_m *m;

    CHECKF(cp_m_attach(&m, &err) == 0, "%s", err.message);
    return m;
}

/* A row that is looked for, and what it says. */
struct found {
    const char *quantity;
    const char *value; /* of the first label; NULL: any */
    enum cp_watch_side side;
    bool is_there;
    uint64_t count;
    double sum, min, max;
};

static inline int look_at_row(void *context, const struct cp_watch_row *row)
{
    struct found *found = context;

    if (strcmp(row->quantity, found->quantity) != 0 || row->side != found->side ||
        (found->value != NULL && strcmp(row->labels[0].value, found->value) != 0))
        return 0;
    CHECK(!found->is_there);
    found->is_there = true;
    found->count = row->count;
    found->sum = row->sum;
    found->min = row->min;
    found->max = row->max;
    return 0;
}

static inline struct found find_row_of(const struct cp_watch *watch, const char *quantity, const char *value,
                                       enum cp_watch_side side)
{
    struct found found = {.quantity = quantity, .value = value, .side = side};
    struct cp_watch_snapshot *snapshot;
    struct cp_error err = {0};

    CHECKF(cp_watch_take(&snapshot, watch, &err) == 0, "%s", err.message);
    CHECK_EQ(cp_watch_each(snapshot, look_at_row, &found), 0);
    cp_watch_snapshot_free(snapshot);
    return found;
}

static inline struct found find_row(const struct cp_watch *watch, const char *quantity)
{
    return find_row_of(watch, quantity, NULL, CP_WATCH_UNFORKED);
}

static inline int copy_state(void *context, const struct cp_watch_state *state)
{
    *(struct cp_watch_state *)context = *state;
    return 0;
}

static inline struct cp_watch_state state_of_watch(const struct cp_watch *watch)
{
    struct cp_watch_state state = {.size = 0};
    struct cp_watch_snapshot *snapshot;
    struct cp_error err = {0};

    CHECKF(cp_watch_take(&snapshot, watch, &err) == 0, "%s", err.message);
    CHECK_EQ(cp_watch_states(snapshot, copy_state, &state), 0);
    cp_watch_snapshot_free(snapshot);
    CHECK(state.size != 0);
    return state;
}

#endif
