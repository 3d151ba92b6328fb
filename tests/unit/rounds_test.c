/* The rounds of watches in samples: which samples have them, and the ids that rounds get. */
#include "runtime/chunk.h"
#include "runtime/m.h"
#include "runtime/rounds.h"
#include "runtime/samplebuf.h"
#include "sched.h"
#include "tests/support/burn.h"

#define PERIOD (100 * MS / 1000)

/* A round of each watch: how many samples have it, and its id. */
enum { WATCHES = 40 };
static struct {
    uint64_t samples, id;
} in[WATCHES];
static uint64_t in_none, late, stalled;

/* Counts the sample for each of its rounds, of which a watch has one only. */
static void count_rounds(void *context, const struct cp_sample *sample)
{
    (void)context;
    CHECK(sample->n_rounds <= CP__ROUNDS);
    for (unsigned i = 0; i < sample->n_rounds; i++) {
        const unsigned watch = cp__round_watch(sample->rounds[i]);
        const uint64_t id = sample->rounds[i] & (((uint64_t)1 << CP__ROUND_ID_BITS) - 1);

        CHECK(watch < WATCHES && id != 0 && (in[watch].id == 0 || in[watch].id == id));
        in[watch].id = id;
        in[watch].samples += sample->weight;
    }
    in_none += sample->n_rounds == 0 ? sample->weight : 0;
    late += (sample->flags & CP_SAMPLE_LATE) != 0 && sample->n_rounds == 0 ? sample->weight : 0;
    stalled += (sample->flags & CP_SAMPLE_STALLED) != 0 && sample->n_rounds == 0 ? sample->weight : 0;
}

/* Runs body on a thread that is an M while an event is sampled. */
static void run_sampled(void (*body)(struct worker *))
{
    struct cp_slot_request clock = request("taskClock", PERIOD);
    struct profile profile = {.look = count_rounds};
    struct worker worker;

    start_profile(&profile, &clock, 1);
    run_attached(&worker, body, NULL);
    stop_profile(&profile);
}

/* ---- The thread itself ----------------------------------------------------------------------- */

static void nest_rounds(struct worker *worker)
{
    struct cp__rounds rounds = {.watches = {[2] = 7, [5] = 8}};
    struct cp_g *self = &((struct cp__m *)worker->m)->self;

    burn_a(2 * PERIOD);
    self->rounds = &rounds;
    burn_a(3 * PERIOD);
    rounds.open = 1u << 2;
    burn_a(5 * PERIOD);
    rounds.open |= 1u << 5;
    burn_a(7 * PERIOD);
    rounds.open = 1u << 5;
    burn_a(11 * PERIOD);
    rounds.open = 0;
    CHECK(rounds.ids[2] == in[7].id || in[7].id == 0); /* the reader may have seen nothing yet */
    for (unsigned i = 0; i < CP__ROUNDS; i++)
        CHECK_EQ(rounds.ids[i] != 0, i == 2 || i == 5);
    CHECK(rounds.ids[2] != rounds.ids[5]);
    self->rounds = NULL;
}

SIM_TEST(samples_have_the_rounds_that_are_open)
{
    run_sampled(nest_rounds);
    CHECK_EQ(in[7].samples, 5 + 7);
    CHECK_EQ(in[8].samples, 7 + 11);
    CHECK_EQ(in_none, 2 + 3);
    CHECK(in[7].id != in[8].id);
}

/* Each entry holds another round when the next begins, and all are open in the end. */
static void fill_entries(struct worker *worker)
{
    struct cp__rounds rounds = {.open = 0};
    struct cp_g *self = &((struct cp__m *)worker->m)->self;

    self->rounds = &rounds;
    for (unsigned i = 0; i < CP__ROUNDS; i++) {
        rounds.watches[i] = (uint16_t)(i + 1);
        rounds.open |= 1u << i;
        burn_a(PERIOD);
    }
    self->rounds = NULL;
}

SIM_TEST(a_sample_has_as_many_rounds_as_there_are_entries)
{
    run_sampled(fill_entries);
    for (unsigned i = 0; i < CP__ROUNDS; i++)
        CHECK_EQ(in[i + 1].samples, CP__ROUNDS - i);
    CHECK_EQ(in_none, 0);
}

/* ---- Gs -------------------------------------------------------------------------------------- */

enum { GS = 20, TURNS = 10 };

static void run_in_round(void *arg)
{
    struct cp__rounds rounds = {.watches = {(uint16_t)(intptr_t)arg}, .open = 1};

    cp_g_self()->rounds = &rounds;
    for (int i = 0; i < TURNS; i++) {
        burn_a(PERIOD);
        cp_yield();
    }
    cp_g_self()->rounds = NULL;
}

static void run_gs(void *arg)
{
    (void)arg;
    for (intptr_t i = 0; i < GS; i++)
        CHECK_EQ(cp_go(run_in_round, (void *)(i + 1)), 0);
}

SIM_TEST(rounds_are_those_of_the_g_wherever_it_runs)
{
    struct cp_sched_options options = {.size = sizeof options, .threads = 3};
    struct cp_slot_request clock = request("taskClock", PERIOD);
    struct profile profile = {.look = count_rounds};
    struct cp_error err = {0};

    start_profile(&profile, &clock, 1);
    CHECKF(cp_sched_run(&options, run_gs, NULL, &err) == 0, "%s", err.message);
    stop_profile(&profile);
    for (unsigned i = 0; i < GS; i++)
        CHECK_EQ(in[i + 1].samples, TURNS);
}

/* The current G is another one, but the stack is the thread's own. */
static void run_scheduler_code(struct worker *worker)
{
    static char stack[256];
    struct cp__rounds of_g = {.watches = {1}, .open = 1}, of_thread = {.watches = {2}, .open = 1};
    struct cp_g *self = &((struct cp__m *)worker->m)->self, g;

    cp_g_init(&g, stack, stack + sizeof stack, NULL);
    g.rounds = &of_g;
    self->rounds = &of_thread;
    cp_execute(worker->m, &g);
    burn_a(10 * PERIOD);
    cp_execute(worker->m, NULL);
    g.rounds = self->rounds = NULL;
    cp_g_fini(&g);
}

SIM_TEST(rounds_are_those_of_the_g_that_the_stack_tells)
{
    run_sampled(run_scheduler_code);
    CHECK_EQ(in[1].samples, 0);
    CHECK_EQ(in[2].samples, 10);
}

/* ---- Samples of no round --------------------------------------------------------------------- */

static void block_and_stall(struct worker *worker)
{
    struct cp__rounds rounds = {.watches = {9}, .open = 1};
    struct cp_g *self = &((struct cp__m *)worker->m)->self;
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGPROF);
    sigaddset(&signals, SIGTRAP);
    self->rounds = &rounds;
    burn_a(2 * PERIOD);
    SIM_STALL_FOR(50 * PERIOD);
    burn_a(PERIOD);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    burn_a(4 * PERIOD);
    pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
    self->rounds = NULL;
}

SIM_TEST(late_and_stalled_samples_are_in_no_round)
{
    run_sampled(block_and_stall);
    CHECK(late >= 3 && stalled >= 48);
    CHECK_EQ(in_none, late + stalled);
    CHECK(in[9].samples >= 3 && in[9].samples <= 5);
}

/* ---- The buffer ------------------------------------------------------------------------------ */

static void look_at_rounds(void *context, const struct cp_sample *sample)
{
    const unsigned *n = context;

    CHECK_EQ(sample->n_rounds, *n);
    CHECK_EQ(sample->depth, 3);
    CHECK(sample->frames[2] == 33);
    for (unsigned i = 0; i < *n; i++)
        CHECK_EQ(sample->rounds[i], 100 + i);
}

CP_TEST(a_round_is_a_word_of_the_buffer)
{
    const uint64_t rounds[CP__ROUNDS] = {100, 101, 102, 103, 104, 105, 106, 107};
    struct cp__samplebuf buf = {0};
    bool wake;

    CHECK_EQ(cp__pool_resize(1), 0);
    CHECK_EQ(cp__samplebuf_make(&buf), 0);
    for (unsigned n = 0; n <= CP__ROUNDS; n++) {
        const struct cp_sample sample = {.weight = 1,
                                         .depth = 3,
                                         .frames = (const uintptr_t[]){11, 22, 33},
                                         .n_rounds = n,
                                         .rounds = rounds};

        CHECK(cp__samplebuf_append_from_handler(&buf, 1, &sample, &wake));
        CHECK_EQ(buf.head - buf.tail, CP__SAMPLE_HEADER_WORDS + 3 + n);
        CHECK_EQ(cp__samplebuf_read(&buf, 1, look_at_rounds, &n), 1);
    }
    cp__samplebuf_free(&buf);
}
