/* What the core calls: switches between Gs, the ends of Gs and of Ms, and forks. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "round.h"
#include "runtime/base/fork_gate.h"
#include "runtime/prepare.h"
#include "runtime/ticks.h"
#include "sampled.h"

static struct cp__watch_m *of_m(struct cp_m *m)
{
    return ((struct cp__m *)m)->watch;
}

/* ---- What a child forgets -------------------------------------------------------------------- */

static struct cp__watch_g *forking_g(const struct cp__m *m)
{
    const struct cp_g *g = m == NULL ? NULL : m->head.g != NULL ? m->head.g : &m->self;

    return g == NULL ? NULL : g->rounds;
}

static void forget_meters(struct cp__watch_m *own, bool have_descriptors)
{
    for (unsigned k = 0; own != NULL && k < CP__METERS; k++)
        cp__meter_forget(&own->meters[k], have_descriptors);
}

static void forget_all(struct cp__m *m, bool has_descriptors)
{
    struct cp__watch_g *of_g = forking_g(m);

    cp__registry_forget();
    cp__meters_forget();
    cp__sampled_forget();
    if (of_g != NULL)
        of_g->forks[1]++;
    if (m != NULL)
        forget_meters(m->watch, has_descriptors);
}

/* Returns what is counted for the G that runs here; NULL: nothing. In a program that was compiled when
 * switches did not tell of it, m->head.counts may be those of a G that has ended. */
static struct cp__watch_g *counts_here(const struct cp__m *m)
{
    return m == NULL ? NULL : m->head.g != NULL ? m->head.g->counts : m->self.counts;
}

/* counts are what was counted here at the fork; NULL: nothing was. What was counted since the last switch is
 * lost, so the G's rounds are partial. */
static void after_raw_fork(struct cp__watch_g *counts)
{
    struct cp__m *m = cp__m_current;

    if (!cp__fork_mark_take())
        return;
    forget_all(m, false);
    if (counts == NULL)
        return;
    cp__counting_stop(NULL, counts);
    cp__counting_start(m->watch, counts);
}

/* ---- For the core ---------------------------------------------------------------------------- */

static void stop(struct cp_m *m, void *counts)
{
    if (__builtin_expect(cp__is_raw_child_from_handler(), 0))
        after_raw_fork(counts);
    cp__counting_stop(of_m(m), counts);
}

/* A G may come to an M that has not counted anything yet. Without memory, the G's rounds are partial. */
static void start(struct cp_m *head, void *counts)
{
    struct cp__m *m = (struct cp__m *)head;

    if (m->watch == NULL) {
        cp__fork_delay(); /* because a child looks at it */
        m->watch = calloc(1, sizeof(struct cp__watch_m));
        cp__fork_allow();
    }
    if (__builtin_expect(cp__is_raw_child_from_handler(), 0))
        after_raw_fork(NULL);
    cp__counting_start(m->watch, counts);
}

static void end_g(struct cp_g *g)
{
    free(g->rounds);
    g->rounds = g->counts = NULL;
}

static void close_meters(struct cp__watch_m *own)
{
    for (unsigned k = 0; k < CP__METERS; k++)
        cp__meter_close(&own->meters[k]);
}

static void detach(struct cp_m *head)
{
    struct cp__m *m = (struct cp__m *)head;
    struct cp__watch_m *own = m->watch;
    struct cp__watch_g *counts = counts_here(m);
    void *rounds = m->self.rounds;

    if (__builtin_expect(cp__is_raw_child_from_handler(), 0))
        after_raw_fork(counts); /* the parent's events must not be closed */
    if (counts != NULL)
        cp__counting_stop(own, counts); /* the G may go on elsewhere */
    m->head.counts = m->head.own_counts = m->self.counts = NULL;
    cp_store_relaxed(&m->self.rounds, NULL); /* relaxed: this thread's handler alone reads */
    cp_fence_signal();
    cp__fork_delay(); /* a child must not free what is freed here */
    free(rounds);
    m->watch = NULL;
    if (own != NULL) {
        cp__shards_leave(own);
        close_meters(own);
    }
    free(own);
    cp__fork_allow();
}

/* In a child of a fork, the meters are forgotten. The shards are the watches'. */
static void free_m(struct cp_m *head)
{
    struct cp__m *m = (struct cp__m *)head;
    struct cp__watch_m *own = m->watch;

    free(m->self.rounds);
    if (own != NULL) {
        close_meters(own);
        free(own->shards);
    }
    free(own);
}

/* ---- Forks ----------------------------------------------------------------------------------- */

/* What the G has counted so far is the parent's work, and the child's counts go on from there. */
static void rounds_before_fork(void)
{
    struct cp__m *m = cp__m_current;
    struct cp__watch_g *counts = counts_here(m);

    if (counts != NULL)
        stop(&m->head, counts);
}

static void rounds_of_parent(void)
{
    struct cp__m *m = cp__m_current;
    struct cp__watch_g *of_g = forking_g(m);

    if (of_g != NULL)
        of_g->forks[0]++;
    if (counts_here(m) != NULL)
        cp__counting_start(m->watch, counts_here(m));
}

static void rounds_of_child(void)
{
    struct cp__m *m = cp__m_current;

    forget_all(m, true);
    /* acquire, both: pair with the releases in cp__m_link() and cp__m_free_if_done() */
    for (struct cp__m *other = cp_load_acquire(&cp__ms); other != NULL;
         other = cp_load_acquire(&other->next)) {
        if (other != m)
            forget_meters(other->watch, true);
    }
    if (counts_here(m) != NULL)
        cp__counting_start(m->watch, counts_here(m));
}

void cp__rounds_after_raw_fork(void)
{
    after_raw_fork(counts_here(cp__m_current));
}

/* ---- Once in a process ----------------------------------------------------------------------- */

static const struct cp__watch_calls calls = {.stop = stop,
                                             .start = start,
                                             .end_g = end_g,
                                             .detach = detach,
                                             .free_m = free_m,
                                             .before_fork = rounds_before_fork,
                                             .after_fork_in_parent = rounds_of_parent,
                                             .after_fork_in_child = rounds_of_child};

static void prepare_rounds(void)
{
    cp__prepare();
    cp__ticks_measure();
    cp__watch_calls_set(&calls);
}

void cp__rounds_prepare(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, prepare_rounds);
}
