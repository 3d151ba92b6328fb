/*
 * Profiles of which a test knows all CPU time that the process has had: what a profile says of the part
 * that has samples, and of each part that has none. For tests on the simulated kernel.
 */
#ifndef COUNTERPOINT_TESTS_ACCOUNT_H
#define COUNTERPOINT_TESTS_ACCOUNT_H

#include <linux/futex.h>

#include "burn.h"
#include "pprof.h"

#define ACCOUNT_API __attribute__((unused)) static

struct account {
    struct cp_session *session;
    struct cp_memory memory;
    struct cp_slot_stats stats;
    uint64_t period;
    uint64_t cpu_ns; /* of the process, from the start to the stop */
    char *text;      /* the profile as text */
};

/* ---- The profile-writer thread --------------------------------------------------------------- */

/* A pass of the profile-writer thread looks for Ms that run and have no event yet. It makes one when it
 * begins, and others only if the test says so: otherwise chance would say when an M is armed. */
#define PASS_NS 50000000
static int passes;          /* atomic: how many have ended */
static uint64_t library_ns; /* atomic: the CPU time that the next pass takes */
static uint32_t waits_with; /* atomic: what the thread waits with: cp_slots_token() before its last pass */

ACCOUNT_API long wait_for_long(long number, const long a[6])
{
    const struct timespec *timeout = (const struct timespec *)a[3], for_long = {1000, 0};

    if (number != SYS_futex || a[1] != FUTEX_WAIT_PRIVATE || timeout == NULL || timeout->tv_sec != 0 ||
        timeout->tv_nsec != PASS_NS)
        return sim_hand_on(number, a);
    if (cp_load_acquire(&library_ns) != 0) { /* pairs with the release in the test */
        sim_happen((struct sim_run){SIM_TIME, library_ns, 0});
        library_ns = 0;
    }
    cp_store_release(&waits_with, (uint32_t)a[2]); /* pairs with the acquire in await_end_of_passes() */
    cp_fetch_add_relaxed(&passes, 1);              /* relaxed: await() needs nothing else */
    return sim_hand_on(number, (const long[6]){a[0], a[1], a[2], (long)&for_long, a[4], a[5]});
}

/* Waits until the profile-writer thread has begun and ended a pass since it was last woken. It makes no more
 * passes then: a later one might find a thread asleep that the test is about to hold. */
static void await_end_of_passes(void)
{
    /* acquire: pairs with the release in wait_for_long() */
    for (int naps = 0; cp_load_acquire(&waits_with) != cp_slots_token(); naps++) {
        CHECK(naps < ENOUGH_NAPS);
        usleep(NAP_US);
    }
}

/* Waits until the profile-writer thread has ended a pass that it begins now. */
ACCOUNT_API void pass(void)
{
    cp_slots_wake();
    await_end_of_passes();
}

/* ---- From the start to the stop -------------------------------------------------------------- */

ACCOUNT_API void open_account(struct account *account, const char *event, uint64_t period,
                              enum cp_engine engine)
{
    struct cp_profiling_option option;
    struct cp_error err = {0};

    *account = (struct account){.stats.size = sizeof account->stats, .period = period};
    option = cp_option_event(cp_writer_memory(&account->memory), event, period);
    option.engine = engine;
    cp_store_relaxed(&passes, 0); /* relaxed: a number of its own */
    sim_hook(wait_for_long);
    sim->clock_ns = sim->pmu.is_there ? 1000 : 0; /* the start tries whether an event counts */
    CHECKF(cp_session_start(&account->session, &option, 1, &err) == 0, "%s", err.message);
    sim->clock_ns = 0;
    await(&passes, 1);
    await_end_of_passes();
    account->cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* Returns the text of the session's profile; the caller frees it. */
ACCOUNT_API char *text_of_account(struct cp_session *session)
{
    struct cp_memory memory = {.size = 0};
    struct cp_error err;
    char *text;

    CHECKF(cp_session_write_text(session, 0, cp_writer_memory(&memory), &err) == 0, "%s", err.message);
    text = calloc(1, memory.size + 1);
    memcpy(text, memory.data, memory.size);
    free(memory.data);
    return text;
}

ACCOUNT_API void close_account(struct account *account)
{
    struct cp_error err = {0};

    account->cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - account->cpu_ns;
    CHECKF(cp_session_halt(account->session, &err) == 0, "%s", err.message);
    CHECK_EQ(cp_session_stats(account->session, 0, &account->stats), 0);
    account->text = text_of_account(account->session);
    printf("%.*s\n", (int)(strstr(account->text, "--- Memory map") - account->text), account->text);
    cp_session_close(account->session);
}

ACCOUNT_API void free_account(struct account *account)
{
    free(account->text);
    free(account->memory.data);
}

/* ---- What the profile says ------------------------------------------------------------------- */

/* Returns the number that a comment has; 0 if there is no such comment. */
ACCOUNT_API double said(const struct account *account, const char *key)
{
    char begin[80];
    const char *line;

    snprintf(begin, sizeof begin, "# %s: ", key);
    line = strstr(account->text, begin);
    return line != NULL ? strtod(line + strlen(begin), NULL) : 0;
}

/* Returns whether the profile lists the key among what is missing. */
ACCOUNT_API bool is_limit(const struct account *account, const char *key)
{
    const char *limits = strstr(account->text, "# limits: ");
    const char *found;

    CHECK(limits != NULL);
    limits += strlen("# limits: ");
    for (found = strstr(limits, key); found != NULL; found = strstr(found + 1, key)) {
        char before = found[-1], after = found[strlen(key)];

        if (found < limits + strcspn(limits, " ") && (before == ' ' || before == ',') &&
            (after == ' ' || after == ','))
            return true;
    }
    return false;
}

/* Returns how many periods the graph has in all stacks with a frame whose name begins so. */
ACCOUNT_API uint64_t weight_of(const struct account *account, const char *name)
{
    const char *end = strstr(account->text, "--- Memory map");
    uint64_t weight = 0;
    char frame[120];

    snprintf(frame, sizeof frame, "\t%s", name);
    for (const char *at = strstr(account->text, " profile: total"); at != NULL && at < end;) {
        const char *stack = strchr(at, '\n') + 1, *next = strstr(stack, "\n\n");
        const char *found = strstr(stack, frame);

        if (found != NULL && next != NULL && found < next && found < end)
            weight += strtoull(stack[0] == '#' ? stack + 2 : stack, NULL, 10);
        at = next != NULL ? next + 1 : NULL;
    }
    return weight;
}

/* Returns how many periods the graph has in all. */
ACCOUNT_API uint64_t whole(const struct account *account)
{
    const char *total = strstr(account->text, " profile: total ");

    CHECK(total != NULL);
    return strtoull(total + strlen(" profile: total "), NULL, 10);
}

/* Checks that a number is as expected, to a hundredth of the process's CPU time. */
#define CHECK_PERCENT(account_, ns_, expected_ns_)                                                           \
    do {                                                                                                     \
        const double found_ = (double)(ns_), wanted_ = (double)(expected_ns_);                               \
        const double off_ = found_ > wanted_ ? found_ - wanted_ : wanted_ - found_;                          \
        CHECKF(off_ * 100 <= (double)(account_)->cpu_ns, "%s is %.0f, and not %.0f", #ns_, found_, wanted_); \
    } while (0)

/* ---- By which ways ---------------------------------------------------------------------------- */

#define PERIOD MS

ACCOUNT_API const enum cp_engine engines[] = {CP_ENGINE_SIGNAL, CP_ENGINE_TRAP};

/* The event, and by what it is sampled. */
struct way {
    const char *event;
    uint64_t period;
    enum cp_engine engine;
};

ACCOUNT_API const struct way ways[] = {
    {"taskClock", PERIOD, CP_ENGINE_SIGNAL},
    {"taskClock", PERIOD, CP_ENGINE_TRAP},
    {"timer", PERIOD, CP_ENGINE_AUTO},
    {"cycles", PERIOD, CP_ENGINE_SIGNAL}, /* of which there is one each ns */
};

ACCOUNT_API void open_way(struct account *account, const struct way *way)
{
    printf("%s %s\n", way->event, way->engine == CP_ENGINE_TRAP ? "trap" : "signal");
    sim->pmu.is_there = true;
    open_account(account, way->event, way->period, way->engine);
}

/* ---- What each test checks ------------------------------------------------------------------- */

/* Whose time has no samples. */
struct missing {
    const char *frame;       /* what follows "[not sampled: " */
    const char *key;         /* of the time */
    size_t place;            /* of the same in struct cp_slot_stats */
    const char *threads_key; /* NULL: none */
    unsigned threads;
    bool is_fact; /* it is told, and is no limit of the profile */
};

#define MISSING(frame_, key_, ...)                                                                           \
    {                                                                                                        \
        .frame = (frame_), .key = #key_, .place = offsetof(struct cp_slot_stats, key_), __VA_ARGS__          \
    }
ACCOUNT_API const struct missing nothing = {.frame = NULL};
ACCOUNT_API const struct missing unarmed =
    MISSING("threads without an event]", unarmed_ns, .threads_key = "threads_unarmed", .threads = 1);
ACCOUNT_API const struct missing blocked =
    MISSING("signal blocked]", blocked_ns, .threads_key = "threads_blocked", .threads = 1);
ACCOUNT_API const struct missing unattached =
    MISSING("threads that never attached]", unattached_ns, .threads_key = "threads_unattached");
ACCOUNT_API const struct missing library =
    MISSING("the profiler's own threads]", library_ns, .is_fact = true);
ACCOUNT_API const struct missing disabled =
    MISSING("event disabled by the program]", disabled_ns, .threads = 0);
ACCOUNT_API const struct missing closed =
    MISSING("event closed by the program]", closed_ns, .threads_key = "threads_closed", .threads = 1);
ACCOUNT_API const struct missing throttled =
    MISSING("event throttled by the kernel]", throttled_ns, .threads = 0);

ACCOUNT_API void check_frame(const struct account *account, const char *frame, uint64_t ns)
{
    char name[80];

    snprintf(name, sizeof name, "[not sampled: %s", frame);
    CHECK_PERCENT(account, weight_of(account, name) * account->period, ns);
}

/* Checks that all time is in the graph, that so much of it is there without samples and told by its key, and
 * that nothing else is missing. */
ACCOUNT_API void check_missing(const struct account *account, const struct missing *missing, uint64_t ns)
{
    const double all = (double)account->cpu_ns;

    CHECK_PERCENT(account, said(account, "cpu_ns"), account->cpu_ns);
    CHECK_EQ(said(account, "cpu_ns"), account->stats.cpu_ns);
    CHECK_PERCENT(account, whole(account) * account->period, account->cpu_ns);
    CHECK_PERCENT(account, weight_of(account, "[not sampled:") * account->period, ns);
    CHECK_PERCENT(account, said(account, "coverage") / 100 * all, account->cpu_ns - ns);
    CHECK_EQ(weight_of(account, "[not sampled: reason unknown]"), 0);
    CHECK(is_limit(account, "none") == (missing->frame == NULL || missing->is_fact));
    if (missing->frame == NULL)
        return;
    check_frame(account, missing->frame, ns);
    CHECK_PERCENT(account, said(account, missing->key), ns);
    CHECK_EQ(said(account, missing->key),
             *(const uint64_t *)((const char *)&account->stats + missing->place));
    CHECK(is_limit(account, missing->key) == !missing->is_fact);
    if (missing->threads != 0)
        CHECK_EQ(said(account, missing->threads_key), missing->threads);
    if (missing->threads != 0)
        CHECK(is_limit(account, missing->threads_key));
}

ACCOUNT_API void end_account(struct account *account, const struct missing *missing, uint64_t ns)
{
    close_account(account);
    check_missing(account, missing, ns);
    free_account(account);
}

/* A thread that is no M. */
ACCOUNT_API void *burn_alone(void *arg)
{
    burn_b(*(const uint64_t *)arg);
    return NULL;
}

#endif
