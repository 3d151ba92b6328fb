/* Where the core calls those who count for rounds of watches. */
#include "rounds.h"

const struct cp__watch_calls *cp__watch_calls;

void cp__watch_calls_set(const struct cp__watch_calls *calls)
{
    cp_store_release(&cp__watch_calls, calls); /* pairs with the acquire in cp__watch_calls_get() */
}

/* Counts as little as possible of the switch itself: stops first, and starts last. */
void cp_execute_counted(struct cp_m *m, struct cp_g *g)
{
    const struct cp__watch_calls *calls = cp__watch_calls_get();
    void *to = g != NULL ? g->counts : m->own_counts;

    if (m->counts != NULL)
        calls->stop(m, m->counts);
    m->counts = NULL;
    cp_execute_uncounted(m, g);
    m->counts = to;
    if (to != NULL)
        calls->start(m, to);
}
