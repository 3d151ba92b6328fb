/*
 * The open rounds of a G, as the core knows them: what a sample that is taken now is inside of.
 *
 * struct cp__rounds belongs to a G, from the first round of a watch that the G begins (runtime/watch/) until
 * cp_g_fini(). The thread that runs the G owns it, and its signal handler reads it: `open` has a bit for each
 * entry that holds a round. An entry is filled before its bit is set, and its bit is cleared before the entry
 * is filled again. Rounds beyond CP__ROUNDS are counted as any others, and samples do not tell of them.
 *
 * The handler gives a round an id when the first sample is taken in it. So only rounds with samples have ids.
 * The end of a round clears the bit first and loads the id then, so that no sample is missed.
 */
#ifndef COUNTERPOINT_RUNTIME_ROUNDS_H
#define COUNTERPOINT_RUNTIME_ROUNDS_H

#include "atomic.h"
#include "runtime.h"

#define CP__ROUNDS CP_SAMPLE_ROUNDS

struct cp__rounds {
    uint32_t open;
    uint16_t watches[CP__ROUNDS]; /* the number of each round's watch, from 1 */
    uint64_t ids[CP__ROUNDS];     /* 0: no sample was taken in the round yet; the handler writes it */
};

/* A round in a sample: the watch's number in the upper 16 bits, and the round's id. */
#define CP__ROUND_ID_BITS 48
static inline unsigned cp__round_watch(uint64_t round)
{
    return (unsigned)(round >> CP__ROUND_ID_BITS);
}

unsigned cp__rounds_list_from_handler(struct cp__rounds *of_g, uint64_t rounds[CP__ROUNDS]);
/* Stores the rounds that are open in g, in the order of their entries, and returns their number. g is what
 * the calling M runs, or stands for the M itself. */
static inline unsigned cp__rounds_open_from_handler(const struct cp_g *g, uint64_t rounds[CP__ROUNDS])
{
    struct cp__rounds *of_g = cp_load_relaxed(&g->rounds); /* relaxed: stored by this thread */

    return of_g == NULL ? 0 : cp__rounds_list_from_handler(of_g, rounds);
}

/* What the core calls of runtime/watch/, which is above it. Set before any G has rounds. */
struct cp__watch_calls {
    /* The G that has the counts leaves m, the calling thread's, or is about to run there. */
    void (*stop)(struct cp_m *m, void *counts);
    void (*start)(struct cp_m *m, void *counts);
    /* Frees what g has. No M runs g any more. */
    void (*end_g)(struct cp_g *g);
    /* m, the calling thread's, is about to stop being an M. */
    void (*detach)(struct cp_m *m);
    /* Frees what m has, whose thread is gone: it has ended without a detach, or is the parent's. */
    void (*free_m)(struct cp_m *m);
    /* The fork handlers of the core call these: last before the fork, first in the parent, and in the child
     * when Ms have forgotten what they held. */
    void (*before_fork)(void);
    void (*after_fork_in_parent)(void);
    void (*after_fork_in_child)(void);
};
/* NULL: no watch was ever opened. */
extern const struct cp__watch_calls *cp__watch_calls;
/* Returns them. The acquire pairs with the release of cp__watch_calls_set(). */
static inline const struct cp__watch_calls *cp__watch_calls_get(void)
{
    return cp_load_acquire(&cp__watch_calls);
}
void cp__watch_calls_set(const struct cp__watch_calls *calls);

#endif
