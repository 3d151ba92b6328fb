/* The labels of samples that are taken while labels change. */
#include "runtime/label.h"
#include "sched.h"
#include "tests/support/burn.h"
#include "tests/support/step.h"

#define PERIOD (100 * MS / 1000)

static void set(const char *key, const char *value)
{
    CHECK_EQ(cp_label_set(key, value), 0);
}

static void set_number(const char *key, long number)
{
    char value[24];

    snprintf(value, sizeof value, "%ld", number);
    set(key, value);
}

/* ---- Between two changes --------------------------------------------------------------------- */

enum { THREADS = 3, GS = 20, CHANGES = 30, APART = 1000 };

/* How many samples there are of each state of change_labels(), of each who. */
static struct {
    uint64_t a_ahead, equal, scoped;
} counted[GS];

static long number_of(const struct cp_labels *labels, const char *key)
{
    for (size_t i = 0; i < cp_labels_count(labels); i++)
        if (strcmp(cp_labels_key(labels, i), key) == 0)
            return strtol(cp_labels_value(labels, i), NULL, 10);
    return -1;
}

/* Counts the sample by its labels, which must be a set that change_labels() had at some time: "b" is as old
 * as "a" or one older, and the scope belongs to both. */
static void count_set(void *context, const struct cp_sample *sample)
{
    long a = number_of(sample->labels, "a");
    long b = number_of(sample->labels, "b");
    long scope = number_of(sample->labels, "scope");
    long who = a / APART;

    (void)context;
    CHECKF(a >= 0 && who < GS && (b == a || b == a - 1), "a=%ld b=%ld", a, b);
    CHECKF(scope == -1 || (scope == a && scope == b), "a=%ld b=%ld scope=%ld", a, b, scope);
    CHECK_EQ(cp_labels_count(sample->labels), scope == -1 ? 2 : 3);
    counted[who].a_ahead += b != a;
    counted[who].equal += b == a && scope == -1;
    counted[who].scoped += scope != -1;
}

/* Sets "a" and then "b" to the next number, and opens and closes a scope, over and over. Each of these states
 * lasts for one period; another G runs meanwhile. */
static void change_labels(long who, void (*pause)(void))
{
    set_number("b", who * APART);
    for (long i = 1; i <= CHANGES; i++) {
        char number[24];

        snprintf(number, sizeof number, "%ld", who * APART + i);
        set("a", number);
        pause();
        burn_a(PERIOD);
        set("b", number);
        pause();
        burn_a(PERIOD);
        CP_LABEL_SCOPE("scope", number);
        pause();
        burn_a(PERIOD);
    }
}

/* Checks that each state of each of n has as many samples as periods. */
static void check_counted(const struct profile *profile, int n)
{
    for (int who = 0; who < n; who++) {
        CHECK_EQ(counted[who].a_ahead, CHANGES);
        CHECK_EQ(counted[who].equal, CHANGES);
        CHECK_EQ(counted[who].scoped, CHANGES);
    }
    CHECK_EQ(profile->seen[0].samples, 3 * CHANGES * n);
    CHECK_EQ(profile->seen[0].leaf[IN_A], 3 * CHANGES * n);
    check_told(profile, 0, PERIOD);
}

static void do_nothing(void)
{
}

static void change_on_thread(struct worker *worker)
{
    change_labels(*(const long *)worker->arg, do_nothing);
}

SIM_TEST(samples_have_a_set_of_their_time)
{
    static const long numbers[THREADS] = {0, 1, 2};
    struct cp_slot_request clock = request("taskClock", PERIOD);
    struct profile profile = {.look = count_set};
    struct worker workers[THREADS];

    start_profile(&profile, &clock, 1);
    for (int i = 0; i < THREADS; i++)
        start_worker(&workers[i], change_on_thread, (void *)(uintptr_t)&numbers[i]);
    for (int i = 0; i < THREADS; i++)
        join_worker(&workers[i]);
    stop_profile(&profile);
    check_counted(&profile, THREADS);
}

static void change_on_g(void *arg)
{
    change_labels((long)(intptr_t)arg, cp_yield);
}

static void run_gs(void *arg)
{
    (void)arg;
    for (long i = 0; i < GS; i++)
        CHECK_EQ(cp_go(change_on_g, (void *)(intptr_t)i), 0);
}

SIM_TEST(samples_of_gs_have_a_set_of_their_time)
{
    struct cp_sched_options options = {.size = sizeof options, .threads = THREADS};
    struct cp_slot_request clock = request("taskClock", PERIOD);
    struct profile profile = {.look = count_set};
    struct cp_error err = {0};

    start_profile(&profile, &clock, 1);
    CHECKF(cp_sched_run(&options, run_gs, NULL, &err) == 0, "%s", err.message);
    stop_profile(&profile);
    check_counted(&profile, GS);
}

/* ---- At each instruction of a change --------------------------------------------------------- */

static uint64_t steps, only_step; /* only_step 0: each step has a sample */

/* A sample is taken here, before the instruction that is next. */
static void on_step(int signo, siginfo_t *info, void *ucontext)
{
    (void)signo, (void)info;
    if (!step_arrive(ucontext))
        return;
    steps++;
    if (only_step == 0 || steps == only_step)
        SIM_RUN(PERIOD);
    step_on(ucontext);
}

/* A set as text. */
struct text {
    char text[200];
};

static struct text text_of(const struct cp_labels *labels)
{
    struct text text = {""};
    size_t n = 0;

    CHECK(cp_labels_count(labels) <= 3);
    for (size_t i = 0; i < cp_labels_count(labels); i++)
        n += (size_t)snprintf(text.text + n, sizeof text.text - n, "%s=%s ", cp_labels_key(labels, i),
                              cp_labels_value(labels, i));
    return text;
}

/* How many samples of a change had the labels from before, and how many those from after. */
struct change {
    struct text before, after;
    uint64_t earlier, later;
};

static void see_change(void *context, const struct cp_sample *sample)
{
    struct change *change = context;
    struct text text = text_of(sample->labels);

    if (change->later == 0 && strcmp(text.text, change->before.text) == 0)
        change->earlier++;
    else if (strcmp(text.text, change->after.text) == 0)
        change->later++;
    else
        TEST_FAIL("\"%s\" between \"%s\" and \"%s\"", text.text, change->before.text, change->after.text);
}

static struct cp_label_scope scope;

static void set_first(void)
{
    set("a", "one");
}

static void set_second(void)
{
    set("b", "two");
}

static void replace(void)
{
    set("a", "another value, which is longer");
}

static void begin_scope(void)
{
    scope = cp_label_begin("c", "three");
}

static void end_scope(void)
{
    cp_label_end(&scope);
}

static void remove_first(void)
{
    set("a", NULL);
}

static void remove_last(void)
{
    set("b", NULL);
}

/* Lets the change happen step by step, and counts its samples. */
static struct change change_and_see(const struct profile *profile, void (*does)(void))
{
    struct change change = {.before = text_of(cp_g_self()->labels)};

    steps = 0;
    step_from_here();
    does();
    step_to_here();
    change.after = text_of(cp_g_self()->labels);
    cp_slots_read(profile->slots[0], see_change, &change);
    return change;
}

/* Begins to sample the calling thread, which begins to be an M, step by step. */
static void begin_steps(struct profile *profile, struct worker *worker)
{
    const struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    struct cp_slot_request clock = signal_request("taskClock", PERIOD); /* SIGTRAP is for the steps */

    if (!STEP_IS_KNOWN)
        SKIP("how to run one instruction at a time is not known here");
    if (TEST_ASAN || TEST_TSAN)
        SKIP("a sanitizer's own code takes too many steps");
    start_unread(profile, &clock, 1);
    attach(worker);
    step_prepare();
    CHECK_EQ(sigaction(SIGTRAP, &action, NULL), 0);
}

SIM_TEST(a_change_happens_between_two_instructions)
{
    static void (*const changes[])(void) = {set_first, set_second,   replace,    begin_scope,
                                            end_scope, remove_first, remove_last};
    struct profile profile = {.n = 0};
    struct worker worker = {.body = NULL};

    begin_steps(&profile, &worker);
    for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
        struct change change = change_and_see(&profile, changes[i]);

        CHECK(change.earlier > 0 && change.later > 0);
        CHECK_EQ(change.earlier + change.later, steps);
    }
    stop_profile(&profile);
    cp_m_detach(worker.m);
}

static void change_value(void)
{
    static unsigned turn;

    set("a", turn++ % 2 == 0 ? "this" : "that");
}

/* No earlier sample has a reference to the set, so the set is freed when the G drops it. */
SIM_TEST(a_sample_has_no_set_that_has_been_freed)
{
    enum { BEFORE = 50 };
    struct profile profile = {.n = 0};
    struct worker worker = {.body = NULL};
    uint64_t first;

    begin_steps(&profile, &worker);
    change_value();
    first = change_and_see(&profile, change_value).earlier; /* where the G gets its new set */
    CHECK(first > BEFORE);
    first -= BEFORE; /* not each change takes as many steps */
    for (only_step = first; only_step == first || only_step <= steps; only_step++) {
        struct change change = change_and_see(&profile, change_value);

        CHECK_EQ(change.earlier + change.later, only_step <= steps);
    }
    stop_profile(&profile);
    cp_m_detach(worker.m);
}
