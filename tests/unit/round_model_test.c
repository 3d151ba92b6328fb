/*
 * Rounds against a model of them. Threads that take turns begin, end and drop rounds of watches that share
 * events, switch between Gs, lose and get back events, and detach; what each round counts is known, because
 * the meters of this program are numbers.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

#include "runtime/watch/meter.h"
#include "tests/support/stopwatch.h"

enum { MS = 4, GS = 6, KINDS = 5, SLOTS = 16, WATCHES = 5 };

/* ---- Meters, in place of the system's ---------------------------------------------------------- */

static _Thread_local unsigned at; /* which M the calling thread is */

static struct {
    uint64_t counter[KINDS], missed[KINDS];
    bool fails[KINDS], is_open[KINDS];
} machine[MS];

int cp__meter_open(struct cp__meter_on_m *on_m, const struct cp__meter *meter)
{
    const size_t k = (size_t)(meter - cp__meters);

    if (on_m->seq == meter->seq)
        return 0;
    if (machine[at].fails[k])
        return -EMFILE;
    machine[at].is_open[k] = true;
    on_m->failures++;
    on_m->seq = meter->seq;
    return 0;
}

void cp__meter_close(struct cp__meter_on_m *on_m)
{
    on_m->seq = 0;
}

void cp__meter_forget(struct cp__meter_on_m *on_m, bool has_descriptors)
{
    (void)has_descriptors;
    on_m->seq = 0;
}

int cp__meter_try(const struct cp__meter *meter, struct cp_error *err)
{
    (void)meter;
    (void)err;
    return 0;
}

struct cp__reading cp__meter_read(struct cp__meter_on_m *on_m, const struct cp__meter *meter)
{
    const size_t k = (size_t)(meter - cp__meters);
    struct cp__reading reading = {.value = on_m->base.value};

    if (on_m->seq != meter->seq)
        on_m->failures++;
    else
        reading = (struct cp__reading){.value = machine[at].counter[k], .missed = machine[at].missed[k]};
    reading.missed += on_m->failures;
    return reading;
}

/* ---- The model --------------------------------------------------------------------------------- */

/* The last MS of them are the threads themselves. */
static struct model_g {
    struct cp_g g;
    bool runs;
    uint64_t count[KINDS], missed[KINDS];
    unsigned refs[KINDS];
} gs[GS + MS];

static const struct {
    const char *quantities;
    unsigned n, kinds[KINDS];
} lists[WATCHES] = {{NULL, 0, {0}},
                    {"cpuTime,pageFaults", 2, {0, 1}},
                    {"contextSwitches,pageFaults,cpuMigrations", 3, {2, 1, 3}},
                    {"pageFaults", 1, {1}},
                    {"minorFaults,cpuTime,contextSwitches,cpuMigrations,pageFaults", 5, {4, 0, 2, 3, 1}}};

static struct model_watch {
    struct cp_watch *watch;
    uint64_t begun, ended, partial, refused, dropped, exact;
    unsigned __int128 sums[KINDS];
} watches[WATCHES];

static struct slot {
    struct cp_watch_round round;
    bool is_open, is_partial;
    unsigned g, watch;
    uint64_t began[KINDS], missed[KINDS];
} slots[SLOTS];

static struct {
    struct cp_m *m;
    unsigned g; /* which G runs there */
} ms[MS];

static uint64_t random_state = 88172645463325252u;

static unsigned pick(unsigned n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state >> 33) % n;
}

static struct model_g *running(void)
{
    return &gs[ms[at].g];
}

/* An M opens what the G counts, if it can. */
static void arrive(unsigned g)
{
    ms[at].g = g;
    gs[g].runs = true;
    for (unsigned k = 0; k < KINDS; k++) {
        if (gs[g].refs[k] > 0 && !machine[at].is_open[k])
            gs[g].missed[k]++;
    }
}

static void run(unsigned g)
{
    running()->runs = false;
    cp_execute(ms[at].m, g < GS ? &gs[g].g : NULL);
    arrive(g);
}

static void switch_somewhere(void)
{
    const unsigned g = pick(GS + 1);

    if (g == GS)
        run(GS + at);
    else if (!gs[g].runs)
        run(g);
}

static void work(void)
{
    for (unsigned k = 0; k < KINDS; k++) {
        const uint64_t n = pick(1000000) << pick(20);

        machine[at].counter[k] += n;
        running()->count[k] += n;
    }
}

static void miss(unsigned k)
{
    machine[at].missed[k]++;
    running()->missed[k]++;
}

/* Whether the G that runs can have a round of the watch, which opens the events in order until one fails. */
static bool can_begin(unsigned w)
{
    for (unsigned i = 0; i < lists[w].n; i++) {
        const unsigned k = lists[w].kinds[i];

        if (running()->refs[k] == 0 && !machine[at].is_open[k] && machine[at].fails[k])
            return false;
    }
    return true;
}

static void begin(struct slot *slot)
{
    const unsigned w = pick(WATCHES);
    struct model_watch *watch = &watches[w];

    if (!can_begin(w)) {
        CHECK_EQ(cp_watch_begin(watch->watch, &slot->round), -EMFILE);
        watch->refused++;
        return;
    }
    CHECK_EQ(cp_watch_begin(watch->watch, &slot->round), 0);
    watch->begun++;
    slot->is_open = true;
    slot->is_partial = false;
    slot->g = ms[at].g;
    slot->watch = w;
    for (unsigned i = 0; i < lists[w].n; i++) {
        const unsigned k = lists[w].kinds[i];

        slot->is_partial = slot->is_partial || !machine[at].is_open[k];
        running()->refs[k]++;
        slot->began[k] = running()->count[k];
        slot->missed[k] = running()->missed[k];
    }
}

static void add_counts(struct model_watch *watch, const struct slot *slot)
{
    const struct model_g *g = &gs[slot->g];
    bool is_partial = slot->is_partial;

    for (unsigned i = 0; i < lists[slot->watch].n; i++) {
        const unsigned k = lists[slot->watch].kinds[i];

        is_partial = is_partial || g->missed[k] != slot->missed[k];
    }
    watch->partial += is_partial;
    watch->exact += !is_partial;
    for (unsigned i = 0; i < lists[slot->watch].n && !is_partial; i++) {
        const unsigned k = lists[slot->watch].kinds[i];

        watch->sums[k] += g->count[k] - slot->began[k];
    }
}

static void end(struct slot *slot)
{
    struct model_watch *watch = &watches[slot->watch];
    const bool drops = pick(8) == 0;

    if (slot->g != ms[at].g) {
        CHECK_EQ(cp_watch_end(&slot->round), -EPERM);
        return;
    }
    if (drops)
        cp_watch_drop(&slot->round);
    else
        CHECK_EQ(cp_watch_end(&slot->round), 0);
    watch->ended++;
    watch->dropped += drops;
    if (!drops)
        add_counts(watch, slot);
    for (unsigned i = 0; i < lists[slot->watch].n; i++)
        running()->refs[lists[slot->watch].kinds[i]]--;
    slot->is_open = false;
}

/* The rounds of a G that ends stay open for ever, and another G with its memory cannot end them. */
static void forget_g(unsigned g)
{
    for (unsigned i = 0; i < SLOTS; i++)
        slots[i].is_open = slots[i].is_open && slots[i].g != g;
    memset(gs[g].refs, 0, sizeof gs[g].refs);
}

static void renew_g(unsigned g)
{
    struct slot *slot = &slots[pick(SLOTS)];
    const bool is_stale = slot->is_open && slot->g == g;

    if (gs[g].runs)
        return;
    cp_g_fini(&gs[g].g);
    cp_g_init(&gs[g].g, NULL, NULL, NULL);
    forget_g(g);
    if (!is_stale)
        return;
    run(g);
    CHECK_EQ(cp_watch_end(&slot->round), -EPERM);
}

/* The G that ran on the M goes on on another one, or here. */
static void detach_and_attach(void)
{
    running()->runs = false;
    cp_m_detach(ms[at].m);
    forget_g(GS + at);
    memset(machine[at].is_open, 0, sizeof machine[at].is_open);
    ms[at].m = attach_m();
    arrive(GS + at);
}

static void step(void)
{
    struct slot *slot = &slots[pick(SLOTS)];
    const unsigned k = pick(KINDS);

    switch (pick(40)) {
    case 0:
        machine[at].fails[k] = pick(6) == 0;
        break;
    case 1:
        miss(k);
        break;
    case 2:
        renew_g(pick(GS));
        break;
    case 3:
        detach_and_attach();
        break;
    case 4 ... 12:
        switch_somewhere();
        break;
    case 13 ... 20:
        work();
        break;
    default:
        if (slot->is_open)
            end(slot);
        else
            begin(slot);
    }
}

/* ---- The threads ------------------------------------------------------------------------------- */

enum { STEPS = 30000, CHECKED = 997 };
static sem_t turns[MS], done;
static bool is_over;

static void *take_turns(void *arg)
{
    at = (unsigned)(uintptr_t)arg;
    ms[at].m = attach_m();
    arrive(GS + at);
    for (;;) {
        sem_post(&done);
        sem_wait(&turns[at]);
        if (is_over)
            break;
        step();
    }
    cp_execute(ms[at].m, NULL);
    cp_m_detach(ms[at].m);
    return NULL;
}

static void check_quantities(unsigned w)
{
    static const char *const names[KINDS] = {"cpuTime", "pageFaults", "contextSwitches", "cpuMigrations",
                                             "minorFaults"};

    for (unsigned i = 0; i < lists[w].n; i++) {
        const struct found found = find_row(watches[w].watch, names[lists[w].kinds[i]]);

        CHECK_EQ(found.count, watches[w].exact);
        CHECK(found.sum == (double)watches[w].sums[lists[w].kinds[i]]);
    }
}

static void check_watches(void)
{
    for (unsigned w = 0; w < WATCHES; w++) {
        const struct model_watch *watch = &watches[w];
        const struct cp_watch_state state = state_of_watch(watch->watch);

        CHECK_EQ(state.open, watch->begun - watch->ended);
        CHECK_EQ(state.partial, watch->partial);
        CHECK_EQ(state.refused, watch->refused);
        CHECK_EQ(state.dropped, watch->dropped);
        CHECK_EQ(find_row(watch->watch, "time").count, watch->ended - watch->dropped);
        check_quantities(w);
    }
}

static void open_all(void)
{
    static const char *const names[WATCHES] = {"time", "two", "three", "one", "all"};

    for (unsigned w = 0; w < WATCHES; w++)
        watches[w].watch = open_watch(names[w], lists[w].quantities);
    for (unsigned k = 0; k < KINDS; k++)
        CHECK(cp__meters[k].refs > 0);
    for (unsigned i = 0; i < MS; i++) {
        for (unsigned k = 0; k < KINDS; k++)
            machine[i].counter[k] = UINT64_MAX - pick(1000000); /* as if it were about to overflow */
    }
}

CP_TEST(rounds_count_what_the_model_says)
{
    pthread_t threads[MS];

    open_all();
    for (unsigned g = 0; g < GS; g++)
        cp_g_init(&gs[g].g, NULL, NULL, NULL);
    sem_init(&done, 0, 0);
    for (unsigned i = 0; i < MS; i++) {
        sem_init(&turns[i], 0, 0);
        CHECK_EQ(pthread_create(&threads[i], NULL, take_turns, (void *)(uintptr_t)i), 0);
        sem_wait(&done);
    }
    for (unsigned n = 0; n < STEPS; n++) {
        sem_post(&turns[pick(MS)]);
        sem_wait(&done);
        if (n % CHECKED == 0)
            check_watches();
    }
    is_over = true;
    for (unsigned i = 0; i < MS; i++) {
        sem_post(&turns[i]);
        pthread_join(threads[i], NULL);
    }
    check_watches();
    CHECKF(watches[WATCHES - 1].exact > 20 && watches[WATCHES - 1].partial > 20, "%llu exact, %llu partial",
           (unsigned long long)watches[WATCHES - 1].exact, (unsigned long long)watches[WATCHES - 1].partial);
    for (unsigned g = 0; g < GS; g++)
        cp_g_fini(&gs[g].g);
    for (unsigned w = 0; w < WATCHES; w++)
        cp_watch_close(watches[w].watch);
}
