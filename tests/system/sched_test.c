/* The scheduler: Gs that start, take turns and end, on any number of Ms. */
#include "tests/support/gs.h"
#include "tests/support/resources.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static void nothing(void *arg)
{
    (void)arg;
}

/* ---- Start and end --------------------------------------------------------------------------- */

static unsigned ended;

static void child(void *arg)
{
    for (int i = 0; i < 10; i++)
        cp_yield();
    cp_sleep(MS);
    add_one(arg);
}

static void parent_ends_first(void *arg)
{
    for (int i = 0; i < 50; i++)
        go(child, arg);
}

CP_TEST(run_returns_when_all_gs_have_ended)
{
    for (unsigned threads = 1; threads <= 4; threads++) {
        ended = 0;
        run(threads, parent_ends_first, &ended);
        CHECK_EQ(ended, 50);
    }
}

static void run_again(void *arg)
{
    struct cp_error err = {0};

    (void)arg;
    CHECK_EQ(cp_sched_run(NULL, nothing, NULL, &err), -EBUSY);
    CHECK_EQ(err.code, -EBUSY);
    CHECK_CONTAINS(err.message, "runs in this process already");
}

CP_TEST(a_second_scheduler_is_refused)
{
    run(2, run_again, NULL);
}

CP_TEST(bad_options_are_refused)
{
    struct cp_sched_options options = {.size = 1};
    struct cp_error err = {0};

    CHECK_EQ(cp_sched_run(&options, nothing, NULL, &err), -EINVAL);
    CHECK_CONTAINS(err.message, "size 1");
    options = (struct cp_sched_options){.size = sizeof options, .threads = CP_SCHED_THREADS_MAX + 1};
    CHECK_EQ(cp_sched_run(&options, nothing, NULL, &err), -EINVAL);
    CHECK_CONTAINS(err.message, "at most 1024 threads");
    options = (struct cp_sched_options){.size = sizeof options, .stack_size = CP_SCHED_STACK_MIN - 1};
    CHECK_EQ(cp_sched_run(&options, nothing, NULL, &err), -EINVAL);
    CHECK_CONTAINS(err.message, "too small");
    options.stack_size = SIZE_MAX - 5;
    CHECK_EQ(cp_sched_run(&options, nothing, NULL, &err), -EINVAL);
    CHECK_CONTAINS(err.message, "too large");
    run(1, nothing, NULL);
}

CP_TEST(calls_of_a_g_fail_elsewhere)
{
    CHECK_EQ(cp_go(nothing, NULL), -ESRCH);
    CHECK_EQ(cp_park(), -ESRCH);
    CHECK_EQ(cp_sleep(1), -ESRCH);
    CHECK_EQ(cp_wait_fd(0, 1, 0), -ESRCH);
    CHECK(cp_sched_self() == NULL);
    cp_yield();
    run(1, nothing, NULL);
    CHECK_EQ(cp_go(nothing, NULL), -ESRCH);
}

/* Returns the size of the address space. */
static long mapped_kib(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0;

    CHECK(file != NULL && fscanf(file, "%ld", &pages) == 1);
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

CP_TEST(a_run_leaves_nothing_behind)
{
    struct resources then = {0}, now;
    long mapped = 0;

    for (int i = 0; i < 110; i++) {
        if (i == 10) {
            then = resources_now();
            mapped = mapped_kib();
        }
        run(3, parent_ends_first, &ended);
    }
    now = resources_now();
    CHECK_EQ(now.fds, then.fds);
    CHECK_EQ(now.threads, then.threads);
    if (!TEST_ASAN && !TEST_TSAN)
        CHECKF(mapped_kib() <= mapped + 1024, "%ld KiB of mappings more", mapped_kib() - mapped);
}

CP_TEST(a_start_that_fails_says_why_and_undoes_itself)
{
    struct cp_sched_options options = {.size = sizeof options, .threads = 1000};
    struct rlimit files, memory, less = {.rlim_cur = 4ul << 30, .rlim_max = RLIM_INFINITY};
    struct cp_error err = {0};
    int threads = count_threads();

    getrlimit(RLIMIT_NOFILE, &files);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){.rlim_cur = 3, .rlim_max = files.rlim_max});
    CHECK_EQ(cp_sched_run(NULL, nothing, NULL, &err), -EMFILE);
    CHECK_CONTAINS(err.message, "ulimit -n");
    setrlimit(RLIMIT_NOFILE, &files);
    run(2, nothing, NULL);

    if (TEST_ASAN || TEST_TSAN)
        return; /* the sanitizers' shadow memory alone is larger */
    getrlimit(RLIMIT_AS, &memory);
    setrlimit(RLIMIT_AS, &less);
    CHECK_EQ(cp_sched_run(&options, nothing, NULL, &err), -EAGAIN);
    CHECK_CONTAINS(err.message, "of 1000 could not be started");
    setrlimit(RLIMIT_AS, &memory);
    CHECK_EQ(count_threads(), threads);
    run(2, nothing, NULL);
}

/* ---- What the profiler sees ------------------------------------------------------------------ */

static uint64_t first_id;

static void check_current(void)
{
    const struct cp_g *g = cp_m_self()->g;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);

    CHECK(g == cp_g_self());
    CHECK(here >= g->stack_lo && here < g->stack_hi);
    CHECK(g->stack_hi - g->stack_lo > CP_SCHED_STACK_SIZE - 4096);
}

static void child_of_first(void *arg)
{
    uint64_t id = cp_g_self()->id;

    (void)arg;
    CHECK_EQ(cp_g_self()->parent_id, first_id);
    CHECK(id != first_id);
    for (int i = 0; i < 100; i++) {
        check_current();
        cp_yield();
    }
    CHECK_EQ(cp_g_self()->id, id);
}

static void first_of_all(void *arg)
{
    (void)arg;
    CHECK_EQ(cp_g_self()->parent_id, 0);
    first_id = cp_g_self()->id;
    for (int i = 0; i < 10; i++)
        go(child_of_first, NULL);
}

CP_TEST(an_m_knows_its_g)
{
    struct cp_m *m;

    CHECK_EQ(cp_m_attach(&m, NULL), 0);
    run(1, first_of_all, NULL);
    CHECK(m->g == NULL);
    run(3, first_of_all, NULL);
    CHECK(cp_m_self() == m); /* the thread was an M before */
    cp_m_detach(m);
    run(2, nothing, NULL);
    CHECK(cp_m_self() == NULL); /* the thread was no M before */
}

static const char *label_of_this(void)
{
    const struct cp_labels *labels = cp_g_self()->labels;

    return cp_labels_count(labels) == 1 ? cp_labels_value(labels, 0) : NULL;
}

static void inherits(void *arg)
{
    CHECK_STR(label_of_this(), arg);
    CHECK_EQ(cp_label_set("key", "the child's own"), 0);
    cp_yield();
    CHECK_STR(label_of_this(), "the child's own");
}

static void labels_its_children(void *arg)
{
    static char first[] = "first", second[] = "second";

    CHECK_STR(label_of_this(), arg);
    go(inherits, arg);
    CHECK_EQ(cp_label_set("key", first), 0);
    go(inherits, first);
    CHECK_EQ(cp_label_set("key", second), 0);
    go(inherits, second);
    cp_yield();
    CHECK_STR(label_of_this(), second);
}

CP_TEST(gs_inherit_labels)
{
    static char outside[] = "the thread's";
    struct cp_m *m;

    run(2, labels_its_children, NULL);
    CHECK_EQ(cp_m_attach(&m, NULL), 0);
    CHECK_EQ(cp_label_set("key", outside), 0);
    run(2, labels_its_children, outside);
    CHECK_STR(label_of_this(), outside);
}

static struct cp_g *observed;
static uint32_t was_seen_asleep;

static void sleeps_then_parks(void *arg)
{
    (void)arg;
    cp_store_release(&observed, cp_sched_self());
    while (cp_load_acquire(&was_seen_asleep) == 0)
        cp_sleep(5 * MS);
    cp_park();
}

static int note_state(void *context, const struct cp_g_info *g)
{
    if (g->entry == sleeps_then_parks)
        *(const char **)context = g->state;
    return 0;
}

static const char *state_of_observed(void)
{
    const char *state = NULL;
    struct cp_error err;
    int result = cp_g_each(note_state, &state, &err);

    CHECKF(result == 0, "%s", err.message);
    return state;
}

static void wait_for_state(const char *state)
{
    while (strcmp(state_of_observed(), state) != 0)
        cp_sleep(MS);
}

static void observe(void *arg)
{
    (void)arg;
    go(sleeps_then_parks, NULL);
    while (cp_load_acquire(&observed) == NULL)
        cp_yield();
    wait_for_state("sleep");
    cp_store_release(&was_seen_asleep, 1u);
    wait_for_state("park");
    cp_ready(observed);
    CHECK_STR(state_of_observed(), "runnable");
}

CP_TEST(a_gs_state_has_a_name)
{
    run(1, observe, NULL);
}

/* ---- Turns ----------------------------------------------------------------------------------- */

static char turns[64];
static unsigned turn;

static void takes_turns(void *name)
{
    for (int i = 0; i < 10; i++) {
        turns[turn++] = *(const char *)name;
        cp_yield();
    }
}

static void start_three(void *arg)
{
    static char names[] = "abc";

    (void)arg;
    for (int i = 0; i < 3; i++)
        go(takes_turns, &names[i]);
}

CP_TEST(gs_on_one_m_take_turns)
{
    run(1, start_three, NULL);
    CHECK_STR(turns, "abcabcabcabcabcabcabcabcabcabc");
}

#define MEETINGS 500
static unsigned met;
static struct cp_wait_group *meeting;

/* Keeps the M busy until all Gs of the meeting have come, so each G needs an M of its own. */
static void meets(void *arg)
{
    unsigned all = *(unsigned *)arg;

    add_one(&met);
    while (cp_load_relaxed(&met) < all)
        sched_yield();
    cp_wait_group_done(meeting);
}

/* Holds one meeting after another, so that some Ms go to sleep after one while the next begins. */
static void holds_meetings(void *arg)
{
    unsigned n = *(unsigned *)arg;

    for (int i = 0; i < MEETINGS; i++) {
        cp_store_relaxed(&met, 0u);
        cp_wait_group_add(meeting, n);
        for (unsigned g = 0; g < n; g++)
            go(meets, arg);
        cp_wait_group_wait(meeting);
        CHECK_EQ(met, n);
    }
}

CP_TEST(every_m_gets_work)
{
    meeting = cp_wait_group_new();
    for (unsigned threads = 1; threads <= 8; threads *= 2)
        run(threads, holds_meetings, &threads);
    cp_wait_group_free(meeting);
}

static void sets(void *flag)
{
    cp_store_release((unsigned *)flag, 1u);
}

/* Starts Gs, each of which needs another M, because this G keeps its own M busy. The other M has just run the
 * G before, and is about to fall asleep or already asleep. */
static void starts_and_blocks_its_m(void *arg)
{
    unsigned seed = 1;

    (void)arg;
    for (int i = 0; i < 20000 / TEST_SLOWDOWN; i++) {
        unsigned flag = 0;

        for (volatile int delay = rand_r(&seed) % (1 << i % 12); delay > 0; delay--) {
        }
        go(sets, &flag);
        while (cp_load_acquire(&flag) == 0)
            sched_yield();
    }
}

CP_TEST(an_m_that_falls_asleep_looks_once_more)
{
    run(2, starts_and_blocks_its_m, NULL);
    run(3, starts_and_blocks_its_m, NULL);
}

static void sleeps_long(void *arg)
{
    (void)arg;
    cp_sleep(300 * MS);
}

CP_TEST(idle_ms_use_no_cpu)
{
    clock_t before = clock();

    run(8, sleeps_long, NULL);
    CHECKF(clock() - before < CLOCKS_PER_SEC / 8 * TEST_SLOWDOWN, "%ld us of CPU time in 300 ms",
           (long)(clock() - before));
}

#define MANY 10000
static unsigned visits[MANY];

static void yields_much(void *arg)
{
    for (int i = 0; i < 20; i++) {
        ++*(unsigned *)arg;
        cp_yield();
    }
}

static void start_many(void *arg)
{
    unsigned n = *(unsigned *)arg;

    for (unsigned i = 0; i < n; i++)
        go(yields_much, &visits[i]);
}

CP_TEST(sixty_four_ms_run_ten_thousand_gs)
{
    unsigned n = TEST_TSAN ? 2000 : MANY; /* ThreadSanitizer has room for about 8000 fibers */

    run(64, start_many, &n);
    for (unsigned i = 0; i < n; i++)
        CHECK_EQ(visits[i], 20);
}
