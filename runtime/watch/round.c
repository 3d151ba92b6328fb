/*
 * The hot path: a round's begin and end.
 *
 * Begin reads the watch's meters, then the time; end reads the time, then the meters in the same order. So
 * each quantity counts as little as possible of the two calls, and each meter counts equally much of the
 * readings of the others.
 */
#include "round.h"

#include <errno.h>
#include <stdlib.h>

#include "runtime/base/fork_gate.h"
#include "runtime/ticks.h"
#include "sampled.h"

/* ---- What is counted for a G ----------------------------------------------------------------- */

/* Makes the places known that say whether something is counted for g, which runs on m. */
static void set_counts(struct cp__m *m, struct cp_g *g, struct cp__watch_g *of_g)
{
    void *counts = of_g->used != 0 ? of_g : NULL;

    g->counts = counts;
    m->head.counts = counts;
    if (g == &m->self)
        m->head.own_counts = counts;
}

/* Begins to read a meter on the M for a G that runs there. If the M cannot open the meter, each reading says
 * that something is missed. */
static void start_meter(struct cp__watch_m *own, unsigned k)
{
    struct cp__meter_on_m *on_m = &own->meters[k];

    (void)cp__meter_open(on_m, &cp__meters[k]);
    on_m->base = cp__meter_read(on_m, &cp__meters[k]);
}

void cp__counting_start(struct cp__watch_m *own, struct cp__watch_g *counts)
{
    for (uint32_t used = counts->used; used != 0 && own != NULL; used &= used - 1)
        start_meter(own, (unsigned)__builtin_ctz(used));
}

/* An M without memory of its own has counted nothing. */
static void miss_all(struct cp__watch_g *counts)
{
    for (uint32_t used = counts->used; used != 0; used &= used - 1)
        counts->total[__builtin_ctz(used)].missed++;
}

void cp__counting_stop(struct cp__watch_m *own, struct cp__watch_g *counts)
{
    if (own == NULL) {
        miss_all(counts);
        return;
    }
    for (uint32_t used = counts->used; used != 0; used &= used - 1) {
        const unsigned k = (unsigned)__builtin_ctz(used);
        struct cp__meter_on_m *on_m = &own->meters[k];
        const struct cp__reading now = cp__meter_read(on_m, &cp__meters[k]);

        counts->total[k].value += now.value - on_m->base.value;
        counts->total[k].missed += now.missed - on_m->base.missed;
        on_m->base = now; /* fork handlers may begin and end rounds before what is counted starts again */
    }
}

/* Returns what a meter has counted for the G that runs here, and adds what it missed. */
static uint64_t count_of(struct cp__watch_m *own, const struct cp__watch_g *of_g, unsigned k,
                         uint64_t *missed)
{
    struct cp__meter_on_m *on_m;
    struct cp__reading now;

    if (__builtin_expect(own == NULL, 0)) {
        *missed += of_g->total[k].missed + 1;
        return of_g->total[k].value;
    }
    on_m = &own->meters[k];
    now = cp__meter_read(on_m, &cp__meters[k]);
    *missed += of_g->total[k].missed + now.missed - on_m->base.missed;
    return of_g->total[k].value + now.value - on_m->base.value;
}

static void let_go_meters(struct cp__m *m, struct cp_g *g, struct cp__watch_g *of_g,
                          const struct cp_watch *watch, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        const unsigned k = watch->meters[i];

        if (--of_g->refs[k] == 0)
            of_g->used &= ~(1u << k);
    }
    set_counts(m, g, of_g);
}

/* Forgets what rounds that nobody can end any more, because longjmp() has left them, hold of a watch that was
 * closed: its meters' places may have others now. */
static void forget_closed(struct cp__watch_g *of_g, const struct cp_watch *watch)
{
    for (unsigned i = 0; i < watch->n_meters; i++) {
        const unsigned k = watch->meters[i];

        if (__builtin_expect(of_g->seqs[k] == cp__meters[k].seq, 1))
            continue;
        of_g->seqs[k] = cp__meters[k].seq;
        of_g->refs[k] = 0;
        of_g->used &= ~(1u << k);
    }
}

/* Opens the watch's meters for a G that runs here. Returns those that nothing was counted of until now, which
 * have no base yet, or the error of the first that cannot be opened, and then holds none. */
static int hold_meters(struct cp__m *m, struct cp_g *g, struct cp__watch_g *of_g,
                       const struct cp_watch *watch)
{
    struct cp__watch_m *own = m->watch;
    uint32_t used;

    forget_closed(of_g, watch);
    used = of_g->used;
    for (unsigned i = 0; i < watch->n_meters; i++) {
        const unsigned k = watch->meters[i];
        int result = of_g->refs[k] == 0 ? cp__meter_open(&own->meters[k], &cp__meters[k]) : 0;

        if (result < 0) {
            let_go_meters(m, g, of_g, watch, i);
            return result;
        }
        of_g->refs[k]++;
        of_g->used |= 1u << k;
    }
    set_counts(m, g, of_g);
    return (int)(of_g->used & ~used);
}

/* Returns what a meter has counted for the G until now. What a meter without a base reads is its base, so
 * that no meter is read twice. */
static uint64_t count_at_begin(struct cp__watch_m *own, const struct cp__watch_g *of_g, unsigned k,
                               bool has_base, uint64_t *missed)
{
    struct cp__meter_on_m *on_m = &own->meters[k];

    if (has_base)
        return count_of(own, of_g, k, missed);
    on_m->base = cp__meter_read(on_m, &cp__meters[k]);
    *missed += of_g->total[k].missed;
    return of_g->total[k].value;
}

/* ---- Rounds of a G --------------------------------------------------------------------------- */

static struct cp_g *running_g(struct cp__m *m)
{
    return m->head.g != NULL ? m->head.g : &m->self;
}

static __attribute__((noinline)) struct cp__watch_g *make_state(struct cp_g *g)
{
    static uint64_t serials; /* shared, atomic */
    struct cp__watch_g *made = calloc(1, sizeof *made);

    if (made != NULL)
        made->serial = cp_fetch_add_relaxed(&serials, 1u) + 1; /* relaxed: only uniqueness counts */
    cp_fence_signal();
    cp_store_relaxed(&g->rounds, made); /* relaxed: this thread's handler alone reads */
    return made;
}

static struct cp__watch_g *rounds_of_g(struct cp_g *g)
{
    return __builtin_expect(g->rounds != NULL, 1) ? g->rounds : make_state(g);
}

/* Lets samples know of the round. Returns its place; CP__ROUNDS: there is none. */
static uint32_t show_round(struct cp__rounds *rounds, unsigned watch)
{
    const uint32_t open =
        cp_load_relaxed(&rounds->open); /* relaxed, all: this thread's handler alone reads */
    const uint32_t place = (uint32_t)__builtin_ctz(~open);

    if (place >= CP__ROUNDS)
        return CP__ROUNDS;
    cp_store_relaxed(&rounds->watches[place], (uint16_t)watch);
    cp_store_relaxed(&rounds->ids[place], 0u);
    cp_fence_signal();
    cp_store_relaxed(&rounds->open, open | 1u << place);
    return place;
}

/* Returns the id of the round; 0: no sample was taken in it. */
static uint64_t hide_round(struct cp__rounds *rounds, uint32_t place)
{
    if (place >= CP__ROUNDS)
        return 0;
    cp_store_relaxed(&rounds->open, cp_load_relaxed(&rounds->open) & ~(1u << place)); /* relaxed: as above */
    cp_fence_signal();
    return cp_load_relaxed(&rounds->ids[place]);
}

static int refuse(struct cp_watch *watch, struct cp__shard *shard, int error)
{
    if (shard != NULL)
        cp_add_single_writer(&shard->refused, 1);
    else
        cp_fetch_add_relaxed(&watch->refused, 1u); /* relaxed: a number of its own */
    return error;
}

/* Begins a round of a G for which everything is there. without_base has a bit for each such meter. */
static void start_round(struct cp__m *m, struct cp__watch_g *of_g, struct cp__shard *shard,
                        struct cp_watch_round *round, const struct cp__registers *here, uint32_t without_base)
{
    struct cp_watch *watch = round->watch;

    cp_add_single_writer(&shard->begun, 1);
    round->row = cp__series_of(watch, shard, round->g->labels);
    round->stack = watch->has_stacks ? cp__begins_find(&shard->stacks, m, here, round->row) : NULL;
    round->serial = of_g->serial;
    round->forks[0] = of_g->forks[0];
    round->forks[1] = of_g->forks[1];
    round->missed = 0;
    round->place = show_round(&of_g->rounds, watch->entry.number);
    for (unsigned i = 0; i < watch->n_meters; i++) {
        const bool has_base = (without_base >> watch->meters[i] & 1) == 0;

        round->began[1 + i] = count_at_begin(m->watch, of_g, watch->meters[i], has_base, &round->missed);
    }
    round->began[0] = cp__stamp_now_ns_early();
}

__attribute__((noinline)) int cp_watch_begin(struct cp_watch *watch, struct cp_watch_round *round)
{
    struct cp__registers here = {.pc = 0};
    struct cp__m *m = cp__m_current;
    struct cp__shard *shard;
    struct cp__watch_g *of_g;
    int result = 0;

    round->watch = NULL;
    if (watch == NULL)
        return 0;
    if (m == NULL)
        return refuse(watch, NULL, -ESRCH);
    if (__builtin_expect(cp__is_raw_child_from_handler(), 0))
        cp__rounds_after_raw_fork();
    shard = cp__shard_of(m, watch);
    round->g = running_g(m);
    of_g = rounds_of_g(round->g);
    if (shard == NULL || of_g == NULL)
        return refuse(watch, shard, -ENOMEM);
    if (watch->n_meters > 0) {
        result = hold_meters(m, round->g, of_g, watch);
        if (result < 0)
            return refuse(watch, shard, result);
    }
    if (watch->has_stacks)
        here = cp__registers_here();
    round->watch = watch;
    start_round(m, of_g, shard, round, &here, (uint32_t)result);
    return 0;
}

/* ---- The end of a round ---------------------------------------------------------------------- */

/* The G's forks since the begin tell the side. A G that was forked, and has forked since, is a child. */
static enum cp_watch_side side_of(const struct cp_watch_round *round, const struct cp__watch_g *of_g)
{
    if (round->forks[1] != of_g->forks[1])
        return CP_WATCH_CHILD;
    return round->forks[0] != of_g->forks[0] ? CP_WATCH_PARENT : CP_WATCH_UNFORKED;
}

/* A child has forgotten the begins of the rounds that it has from its parent. shard is NULL if there is no
 * memory for it. */
static void count_end(struct cp_watch *watch, struct cp__shard *shard, enum cp_watch_side side)
{
    if (side == CP_WATCH_CHILD)
        return;
    if (shard != NULL)
        cp_add_single_writer(&shard->ended, 1);
    else
        cp_fetch_add_relaxed(&watch->ended, 1u); /* relaxed: a number of its own */
}

/* Makes the value of a quantity of what the meters have counted; counted[0] is the time. Returns false if
 * there is none. */
static bool value_of_measure(const struct cp__measure *measure, const uint64_t *counted, uint64_t *value)
{
    uint64_t over, under;

    if (measure->kind == CP__MEASURE_TIME) {
        *value = counted[0];
        return true;
    }
    over = counted[1 + measure->meter];
    if (measure->kind == CP__MEASURE_METER) {
        *value = over;
        return true;
    }
    under = counted[1 + measure->per];
    if (under != 0)
        *value = (uint64_t)(((unsigned __int128)over * 1000000u + under / 2) / under);
    return under != 0;
}

/* Adds the round's values to the distributions. Returns 0 or -ENOMEM. */
static int record_values(struct cp__shard *shard, const struct cp_watch_round *round, enum cp_watch_side side,
                         const uint64_t *counted, bool is_partial)
{
    const struct cp_watch *watch = round->watch;
    struct cp__record *row = cp__record_of(watch, shard, round->row * CP__WATCH_SIDES + side);
    uint64_t values[CP_WATCH_QUANTITIES] = {0};
    const unsigned n = is_partial ? 1 : watch->n_quantities;
    int result = row == NULL ? -ENOMEM : 0;

    for (unsigned i = 0; i < n && row != NULL; i++) {
        if (value_of_measure(&watch->measures[i], counted, &values[i]) &&
            cp__histogram_record(&row->histograms[i], values[i]) < 0)
            result = -ENOMEM;
    }
    if (round->stack != NULL)
        cp__stack_add(round->stack, side, values, n);
    return result;
}

/* Does what the end of a round and its drop have in common. */
static struct cp__shard *leave_round(struct cp__m *m, struct cp__watch_g *of_g, struct cp_watch_round *round,
                                     uint64_t *id)
{
    const struct cp_watch *watch = round->watch;
    struct cp__shard *shard = cp__shard_of(m, round->watch);

    *id = hide_round(&of_g->rounds, round->place);
    if (watch->n_meters > 0)
        let_go_meters(m, round->g, of_g, watch, watch->n_meters);
    round->watch = NULL;
    return shard;
}

/* Returns the M on which the round can end; NULL, and why: there is none. The G that began the round may have
 * ended, and another one have its memory. */
static struct cp__m *m_to_end_on(const struct cp_watch_round *round, int *why)
{
    struct cp__m *m = cp__m_current;
    const struct cp__watch_g *of_g;

    *why = -ESRCH;
    if (m == NULL)
        return NULL;
    *why = -EPERM;
    if (running_g(m) != round->g)
        return NULL;
    of_g = round->g->rounds;
    return of_g != NULL && of_g->serial == round->serial ? m : NULL;
}

/* Records a round that began in the G, and of which everything is known. */
static int finish(struct cp__m *m, struct cp_watch_round *round, const uint64_t *counted, bool is_partial)
{
    struct cp__watch_g *of_g = round->g->rounds;
    const struct cp_watch_round ended = *round;
    const enum cp_watch_side side = side_of(round, of_g);
    uint64_t id;
    struct cp__shard *shard = leave_round(m, of_g, round, &id);
    int result;

    count_end(ended.watch, shard, side);
    if (shard == NULL) {
        cp_fetch_add_relaxed(&ended.watch->lost, 1u); /* relaxed: a number of its own */
        return -ENOMEM;
    }
    if (is_partial)
        cp_add_single_writer(&shard->partial, 1);
    result = record_values(shard, &ended, side, counted, is_partial);
    if (result < 0)
        cp_add_single_writer(&shard->lost, 1);
    if (__builtin_expect(id != 0, 0))
        cp__sampled_ended((uint64_t)ended.watch->entry.number << CP__ROUND_ID_BITS | id, counted[0]);
    return result;
}

int cp_watch_end(struct cp_watch_round *round)
{
    const struct cp_watch *watch = round->watch;
    uint64_t counted[CP_WATCH_QUANTITIES], missed = 0;
    struct cp__m *m;
    int why;

    if (watch == NULL)
        return 0;
    counted[0] = cp__stamp_now_ns();
    counted[0] = counted[0] > round->began[0] ? counted[0] - round->began[0] : 0;
    m = m_to_end_on(round, &why);
    if (m == NULL)
        return why;
    if (__builtin_expect(cp__is_raw_child_from_handler(), 0))
        cp__rounds_after_raw_fork();
    for (unsigned i = 0; i < watch->n_meters; i++)
        counted[1 + i] =
            count_of(m->watch, round->g->rounds, watch->meters[i], &missed) - round->began[1 + i];
    return finish(m, round, counted, missed != round->missed);
}

void cp_watch_drop(struct cp_watch_round *round)
{
    struct cp_watch *watch;
    struct cp__shard *shard;
    struct cp__m *m;
    uint64_t id;
    int why;

    if (round->watch == NULL)
        return;
    m = m_to_end_on(round, &why);
    if (m == NULL)
        return;
    if (__builtin_expect(cp__is_raw_child_from_handler(), 0))
        cp__rounds_after_raw_fork();
    watch = round->watch;
    shard = leave_round(m, round->g->rounds, round, &id);
    count_end(watch, shard, side_of(round, round->g->rounds));
    if (shard != NULL)
        cp_add_single_writer(&shard->dropped, 1);
    else
        cp_fetch_add_relaxed(&watch->dropped, 1u); /* relaxed: a number of its own */
}
