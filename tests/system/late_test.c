/* Samples that are taken after the program has gone on, because SIGPROF was blocked. */
#include "tests/support/burn.h"

#include <stdint.h>

static void block_sigprof(int how)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    pthread_sigmask(how, &set, NULL);
}

/* The weights of samples with a frame in each code, of samples that are late and of others. */
struct split {
    uint64_t in[CODES][2];
    uint64_t all[2];
};

static void divide(void *context, const struct cp_sample *sample)
{
    struct split *split = context;
    bool is_late = (sample->flags & CP_SAMPLE_LATE) != 0;

    if ((sample->flags & CP_SAMPLE_STALLED) != 0)
        return;
    CHECK(!is_late || sample->depth == sample->kernel_depth + 1);
    split->all[is_late] += sample->weight;
    for (unsigned i = 0; i < sample->depth; i++)
        for (enum code code = 0; code < CODES; code++)
            split->in[code][is_late] += is_in(code, sample->frames[i]) ? sample->weight : 0;
}

/* ---- Which function -------------------------------------------------------------------------- */

#define PERIOD 200000
#define TURNS 50
#define EACH (TURNS * 2 * MS / PERIOD)

static void body_blocks_in_turn(struct worker *worker)
{
    (void)worker;
    for (int turn = 0; turn < TURNS; turn++) {
        block_sigprof(SIG_BLOCK);
        burn_b(2 * MS);
        block_sigprof(SIG_UNBLOCK);
        burn_a(2 * MS);
    }
}

/* One function runs with SIGPROF blocked and the other one without. Each gets its own samples. One signal
 * brings all the late samples of a turn. */
SIM_TEST(samples_stay_with_the_function_that_ran_blocked)
{
    struct split split = {.all = {0}};
    struct cp_slot_request made = signal_request("taskClock", PERIOD);
    struct profile profile = {.look = divide, .context = &split};
    struct worker worker;

    start_profile(&profile, &made, 1);
    run_attached(&worker, body_blocks_in_turn, NULL);
    stop_profile(&profile);
    check_told(&profile, 0, PERIOD);
    CHECK_EQ(profile.stats[0].late, EACH);
    CHECK_EQ(profile.stats[0].signals, TURNS + EACH);
    CHECK_EQ(split.all[true], EACH);
    CHECK_EQ(split.in[IN_B][true], EACH);
    CHECK_EQ(split.in[IN_A][true], 0);
    CHECK_EQ(split.all[false], EACH);
    CHECK_EQ(split.in[IN_A][false], EACH);
    CHECK_EQ(split.in[IN_B][false], 0);
}

static void body_blocks_across_functions(struct worker *worker)
{
    (void)worker;
    for (int turn = 0; turn < TURNS; turn++) {
        burn_a(PERIOD / 2);
        block_sigprof(SIG_BLOCK);
        burn_b(PERIOD);
        burn_a(PERIOD);
        block_sigprof(SIG_UNBLOCK);
        burn_b(PERIOD / 2);
    }
}

/* Every third sample is in time: the one after SIGPROF was unblocked. */
SIM_TEST(each_late_sample_has_its_own_place)
{
    struct split split = {.all = {0}};
    struct cp_slot_request made = signal_request("taskClock", PERIOD);
    struct profile profile = {.look = divide, .context = &split};
    struct worker worker;

    start_profile(&profile, &made, 1);
    run_attached(&worker, body_blocks_across_functions, NULL);
    stop_profile(&profile);
    check_told(&profile, 0, PERIOD);
    CHECK_EQ(profile.stats[0].late, 2 * TURNS);
    CHECK_EQ(split.in[IN_B][true], TURNS);
    CHECK_EQ(split.in[IN_A][true], TURNS);
    CHECK_EQ(split.all[false], TURNS);
    CHECK_EQ(split.in[IN_B][false], TURNS);
}
