/* Signals of the machine's own clocks come at any instruction of begins and ends: each sample in the code of
 * a round has that round, and no other one. */
#include "sched.h"
#include "tests/support/burn.h"
#include "tests/support/stopwatch.h"

enum { TURNS = 400, GS = 8, THREADS = 2 };

static struct cp_watch *outer, *in_a, *in_b;
static uint64_t seen_in_a, seen_in_b;

static bool has_round(const struct cp_sample *sample, const char *watch)
{
    for (unsigned i = 0; i < sample->n_rounds; i++)
        if (strcmp(cp_watch_round_name(sample->rounds[i]), watch) == 0)
            return true;
    return false;
}

/* Checks a sample whose innermost function is known to run in rounds of these watches alone. */
static void look_at_sample(void *context, const struct cp_sample *sample)
{
    const uintptr_t pc = sample->depth > sample->kernel_depth ? sample->frames[sample->kernel_depth] : 0;
    const bool is_in_a = is_in(IN_A, pc), is_in_b = is_in(IN_B, pc);

    (void)context;
    if ((sample->flags & (CP_SAMPLE_LATE | CP_SAMPLE_STALLED)) != 0)
        return;
    for (unsigned i = 0; i < sample->n_rounds; i++)
        CHECK(cp_watch_round_name(sample->rounds[i]) != NULL);
    if (is_in_a || is_in_b) {
        CHECK_EQ(sample->n_rounds, 2);
        CHECK(has_round(sample, "outer") && has_round(sample, is_in_a ? "in a" : "in b"));
    }
    seen_in_a += is_in_a;
    seen_in_b += is_in_b;
}

/* Begins and ends rounds much more often than it works in them, so that signals find them half begun. */
static void pass_many(void)
{
    struct cp_watch_round round;

    for (int i = 0; i < 200; i++) {
        CHECK_EQ(cp_watch_begin(i % 2 == 0 ? in_a : in_b, &round), 0);
        CHECK_EQ(cp_watch_end(&round), 0);
    }
}

static void pass_turns(void *arg)
{
    (void)arg;
    for (int i = 0; i < TURNS / GS; i++) {
        CP_WATCH_SCOPE(outer);
        pass_many();
        CP_WATCH(in_a) burn_a(MS / 4);
        cp_yield();
        CP_WATCH(in_b) burn_b(MS / 4);
    }
}

static void pass_turns_of_gs(void *arg)
{
    (void)arg;
    for (int i = 0; i < GS; i++)
        CHECK_EQ(cp_go(pass_turns, NULL), 0);
}

CP_TEST(samples_have_the_rounds_of_their_code)
{
    struct cp_sched_options options = {.size = sizeof options, .threads = THREADS};
    struct cp_slot_request clock = request("taskClock", test_period(200000, 1));
    struct profile profile = {.look = look_at_sample, .may_be_throttled = true};
    struct cp_error err = {0};

    outer = open_watch("outer", NULL);
    in_a = open_watch("in a", NULL);
    in_b = open_watch("in b", NULL);
    start_profile(&profile, &clock, 1);
    CHECKF(cp_sched_run(&options, pass_turns_of_gs, NULL, &err) == 0, "%s", err.message);
    stop_profile(&profile);
    printf("%llu samples in a, %llu in b\n", (unsigned long long)seen_in_a, (unsigned long long)seen_in_b);
    CHECK(seen_in_a > 0 && seen_in_b > 0);
    cp_watch_close(outer);
    cp_watch_close(in_a);
    cp_watch_close(in_b);
}
