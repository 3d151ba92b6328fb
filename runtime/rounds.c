/* What samples tell of rounds of watches, and where the core calls those who count for these rounds. */
#include "rounds.h"

/* ---- Samples --------------------------------------------------------------------------------- */

static uint64_t last_round; /* shared, atomic: the id that a round got last */

/* Returns the id of the round in entry i, which gets an id if it has none. An id of 48 bits lasts for 89
 * years of 100 000 rounds a second, all of them sampled. */
static uint64_t id_from_handler(struct cp__rounds *rounds, unsigned i)
{
    uint64_t id = cp_load_relaxed(&rounds->ids[i]); /* relaxed: only this thread loads and stores it */

    if (id != 0)
        return id;
    /* relaxed: an id says nothing of other memory */
    id = (cp_fetch_add_relaxed(&last_round, (uint64_t)1) + 1) & (((uint64_t)1 << CP__ROUND_ID_BITS) - 1);
    cp_store_relaxed(&rounds->ids[i], id);
    return id;
}

unsigned cp__rounds_list_from_handler(struct cp__rounds *of_g, uint64_t rounds[CP__ROUNDS])
{
    uint32_t open = cp_load_relaxed(&of_g->open); /* relaxed: stored by this thread */
    unsigned n = 0;

    for (; open != 0; open &= open - 1) {
        const unsigned i = (unsigned)__builtin_ctz(open);
        const uint64_t watch = cp_load_relaxed(&of_g->watches[i]); /* relaxed: the same */

        rounds[n++] = watch << CP__ROUND_ID_BITS | id_from_handler(of_g, i);
    }
    return n;
}

/* ---- Switches -------------------------------------------------------------------------------- */

/* Counts as little as possible of the switch itself: stops first, and starts last. */
void cp_execute_counted(struct cp_m *m, struct cp_g *g)
{
    const struct cp__watch_calls *calls = cp__watch_calls_get();
    void *to = g != NULL ? g->counts : m->own_counts;

    if (m->counts != NULL)
        calls->stop(m, m->counts);
    m->counts = NULL;
    if (cp_load_relaxed(&cp_accounting) != 0) /* relaxed: as in cp_execute() */
        cp_execute_accounted(m, g);
    else
        cp_execute_uncounted(m, g);
    m->counts = to;
    if (to != NULL)
        calls->start(m, to);
}
