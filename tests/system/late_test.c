/* Samples that are taken after the program has gone on, because SIGPROF was blocked. */
#include "tests/support/burn.h"

#include <stdint.h>

static void need_prompt_signals(void)
{
    if (TEST_TSAN)
        SKIP("ThreadSanitizer delivers signals late: what they count means nothing");
}

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

static void body_blocks_in_turn(struct worker *worker)
{
    while (cp_load_acquire(&worker->stop) == 0) { /* pairs with the release in stop_worker() */
        block_sigprof(SIG_BLOCK);
        burn_b(2 * MS);
        block_sigprof(SIG_UNBLOCK);
        burn_a(2 * MS);
    }
}

/* One function runs with SIGPROF blocked and the other one without. Each gets its own samples. */
CP_TEST(samples_stay_with_the_function_that_ran_blocked)
{
    struct split split = {.all = {0}};
    struct cp_slot_request made = request("taskClock:u", 200000);
    struct profile profile = {.look = divide, .context = &split};
    struct worker worker;

    need_prompt_signals();
    start_worker(&worker, body_blocks_in_turn, NULL);
    start_unread(&profile, &made, 1);
    while (split.all[false] + split.all[true] < 400) {
        sleep_ms(10);
        read_profile(&profile);
    }
    stop_worker(&worker);
    stop_profile(&profile);
    printf("late: %llu, of them %llu in b and %llu in a; not late: %llu, of them %llu and %llu\n",
           (unsigned long long)split.all[true], (unsigned long long)split.in[IN_B][true],
           (unsigned long long)split.in[IN_A][true], (unsigned long long)split.all[false],
           (unsigned long long)split.in[IN_B][false], (unsigned long long)split.in[IN_A][false]);
    CHECK(split.all[true] > 100 && split.in[IN_A][false] > 100);
    /* the others were taken in the functions that it calls */
    CHECK(split.in[IN_B][true] > split.all[true] / 2);
    CHECK_EQ(split.in[IN_B][false], 0);
    CHECK(split.in[IN_A][true] <= split.all[false] / 50);
    CHECK_EQ(profile.stats[0].late, split.all[true]);
}

/* ---- What is not late ------------------------------------------------------------------------ */

static int ends[2];

static void body_reads(struct worker *worker)
{
    char c;

    do
        cp_execute(worker->m, NULL);
    while (read(ends[0], &c, 1) == 1);
}

/* The kernel sets the program counter back to the system call, to make the call again. */
CP_TEST(a_restarted_system_call_is_not_late)
{
    struct cp_slot_request made = kernel_request("contextSwitches", 1);
    struct profile profile = {.n = 0};
    struct worker worker;

    need_prompt_signals();
    CHECK_EQ(pipe(ends), 0);
    start_worker(&worker, body_reads, NULL);
    start_unread(&profile, &made, 1);
    while (profile.seen[0].samples < 50) {
        CHECK_EQ(write(ends[1], "x", 1), 1);
        sleep_ms(1);
        read_profile(&profile);
    }
    close(ends[1]);
    join_worker(&worker);
    stop_profile(&profile);
    printf("%llu of %llu\n", (unsigned long long)profile.stats[0].late,
           (unsigned long long)profile.stats[0].samples);
    CHECK(profile.stats[0].late <= profile.stats[0].samples / 10);
}
