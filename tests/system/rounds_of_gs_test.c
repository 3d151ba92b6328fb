/* Watches: rounds of Gs and of threads, and that what is counted in a round belongs to its G. */
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "sched.h"
#include "tests/support/stopwatch.h"

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Computes for so long of the calling thread's CPU time, and returns how long it really was. */
static uint64_t burn_for(uint64_t ns)
{
    const uint64_t from = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    uint64_t now;

    do {
        for (volatile int i = 0; i < 1000; i++) {
        }
        now = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    } while (now - from < ns);
    return now - from;
}

static void run_gs(unsigned threads, void (*fn)(void *), void *arg)
{
    const struct cp_sched_options options = {.size = sizeof options, .threads = threads};
    struct cp_error err = {0};

    CHECKF(cp_sched_run(&options, fn, arg, &err) == 0, "%s", err.message);
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

CP_TEST(a_round_adds_its_time)
{
    struct cp_m *m = attach_m();
    struct cp_watch *watch = open_watch("round", NULL);
    uint64_t least = UINT64_MAX, most = 0;

    for (int i = 0; i < 100; i++) {
        struct cp_watch_round round;
        const uint64_t before = clock_ns(CLOCK_MONOTONIC);
        uint64_t inside, after;

        CHECK_EQ(cp_watch_begin(watch, &round), 0);
        inside = clock_ns(CLOCK_MONOTONIC);
        burn_for(10000);
        inside = clock_ns(CLOCK_MONOTONIC) - inside;
        CHECK_EQ(cp_watch_end(&round), 0);
        after = clock_ns(CLOCK_MONOTONIC) - before;
        least = inside < least ? inside : least;
        most = after > most ? after : most;
    }
    CHECK_EQ(find_row(watch, "time").count, 100);
    /* the clock of watches may differ from the kernel's by its rate, 1000 millionths, and by some readings */
    CHECK(find_row(watch, "time").min >= (double)least * 0.999 - 200);
    CHECK(find_row(watch, "time").max <= (double)most * 1.001 + 200);
    CHECK_EQ(state_of_watch(watch).open, 0);
    cp_watch_close(watch);
    cp_m_detach(m);
}

static int leave_early(struct cp_watch *watch, int how)
{
    CP_WATCH(watch)
    {
        if (how == 0)
            return 1;
        if (how == 1)
            break;
        if (how == 2)
            goto out;
    }
out:
    return 0;
}

CP_TEST(a_block_is_a_round_however_it_is_left)
{
    struct cp_m *m = attach_m();
    struct cp_watch *watch = open_watch("block", NULL);

    for (int how = 0; how < 4; how++)
        CHECK_EQ(leave_early(watch, how), how == 0);
    for (int i = 0; i < 3; i++) {
        CP_WATCH_SCOPE(watch);
        if (i == 1)
            continue;
    }
    CHECK_EQ(find_row(watch, "time").count, 7);
    CHECK_EQ(state_of_watch(watch).open, 0);
    CHECK_EQ(leave_early(NULL, 3), 0); /* a watch that could not be opened does nothing */
    cp_watch_close(watch);
    cp_m_detach(m);
}

CP_TEST(rounds_nest_and_overlap)
{
    enum { MANY = 20 }; /* more than samples tell of */
    struct cp_m *m = attach_m();
    struct cp_watch *watch = open_watch("overlap", "cpuTime");
    struct cp_watch_round rounds[MANY];

    for (int i = 0; i < MANY; i++)
        CHECK_EQ(cp_watch_begin(watch, &rounds[i]), 0);
    CHECK_EQ(state_of_watch(watch).open, MANY);
    for (int i = 0; i < MANY; i += 2)
        CHECK_EQ(cp_watch_end(&rounds[i]), 0);
    CHECK_EQ(state_of_watch(watch).open, MANY / 2);
    cp_watch_drop(&rounds[1]);
    for (int i = 3; i < MANY; i += 2)
        CHECK_EQ(cp_watch_end(&rounds[i]), 0);
    CHECK_EQ(cp_watch_end(&rounds[3]), 0); /* it has ended */
    CHECK_EQ(find_row(watch, "time").count, MANY - 1);
    CHECK_EQ(find_row(watch, "cpuTime").count, MANY - 1);
    CHECK_EQ(state_of_watch(watch).dropped, 1);
    CHECK_EQ(state_of_watch(watch).open, 0);
    cp_watch_close(watch);
    cp_m_detach(m);
}

CP_TEST(a_thread_that_is_no_m_is_refused)
{
    struct cp_watch *watch = open_watch("no m", NULL);
    struct cp_watch_round round;

    CHECK_EQ(cp_watch_begin(watch, &round), -ESRCH);
    CHECK_EQ(cp_watch_end(&round), 0);
    CHECK_EQ(state_of_watch(watch).refused, 1);
    CHECK_EQ(find_row(watch, "time").count, 0);
    cp_watch_close(watch);
}

struct passed {
    struct cp_watch *watch;
    struct cp_watch_round round;
    struct cp_wait_group *done;
};

static void end_for_another(void *arg)
{
    struct passed *passed = arg;

    CHECK_EQ(cp_watch_end(&passed->round), -EPERM);
    cp_wait_group_done(passed->done);
}

static void begin_and_pass(void *arg)
{
    struct passed *passed = arg;

    CHECK_EQ(cp_watch_begin(passed->watch, &passed->round), 0);
    cp_wait_group_add(passed->done, 1);
    CHECK_EQ(cp_go(end_for_another, passed), 0);
    cp_wait_group_wait(passed->done);
    CHECK_EQ(cp_watch_end(&passed->round), 0);
}

CP_TEST(another_g_cannot_end_a_round)
{
    struct passed passed = {.watch = open_watch("passed", NULL)};

    passed.done = cp_wait_group_new();
    CHECK(passed.done != NULL);
    run_gs(2, begin_and_pass, &passed);
    CHECK_EQ(find_row(passed.watch, "time").count, 1);
    cp_wait_group_free(passed.done);
    cp_watch_close(passed.watch);
}

static void begin_and_end_g(void *arg)
{
    struct passed *passed = arg;

    CHECK_EQ(cp_watch_begin(passed->watch, &passed->round), 0);
}

static void end_of_a_later_g(void *arg)
{
    struct passed *passed = arg;

    CP_WATCH(passed->watch)
    {
        CHECK_EQ(cp_watch_end(&passed->round), -EPERM);
    }
}

static void begin_in_one_and_end_in_many(void *arg)
{
    cp_go(begin_and_end_g, arg);
    cp_yield();
    for (int i = 0; i < 10; i++) { /* one of them gets the memory of the first */
        cp_go(end_of_a_later_g, arg);
        cp_yield();
    }
}

CP_TEST(a_later_g_cannot_end_a_round_of_an_ended_one)
{
    struct passed passed = {.watch = open_watch("ended", "cpuTime")};

    run_gs(1, begin_in_one_and_end_in_many, &passed);
    CHECK_EQ(find_row(passed.watch, "time").count, 10);
    CHECK_EQ(state_of_watch(passed.watch).open, 1);
    cp_watch_close(passed.watch);
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void check_refused(const struct cp_watch_options *options, int error, const char *sentence)
{
    struct cp_watch *watch = NULL;
    struct cp_error err = {0};

    CHECK_EQ(cp_watch_open(&watch, options, &err), error);
    CHECK_CONTAINS(err.message, sentence);
    CHECK(watch == NULL);
}

CP_TEST(bad_watches_are_refused)
{
    struct cp_watch *watch = open_watch("there", NULL);
    struct cp_watch_options o = {.size = sizeof o};

    check_refused(&o, -EINVAL, "a name of 1 to 63 bytes");
    o.name = "0123456789012345678901234567890123456789012345678901234567890123";
    check_refused(&o, -EINVAL, "of 64 or more");
    o.name = "a\nb";
    check_refused(&o, -EINVAL, "at its byte 1");
    o.name = "\xff";
    check_refused(&o, -EINVAL, "at its byte 0");
    o.name = "there";
    check_refused(&o, -EEXIST, "\"there\" already");
    o.name = "new";
    o.quantities = "cpuTime,noSuchEvent:y:z";
    check_refused(&o, -EINVAL, "noSuchEvent");
    o.quantities = "cpuTime, cpuTime";
    check_refused(&o, -EINVAL, "cpuTime stands there twice");
    o.quantities = "time";
    check_refused(&o, -EINVAL, "The time is always measured");
    o.quantities = "timer";
    check_refused(&o, -EINVAL, "cpuTime");
    o.quantities = "";
    check_refused(&o, -EINVAL, "The event has no name.");
    o.quantities = NULL;
    o.labels = "a,,b";
    check_refused(&o, -EINVAL, "a comma too many");
    o.labels = "a,b,a";
    check_refused(&o, -EINVAL, "The key a stands twice");
    o.labels = NULL;
    o.size = 0;
    check_refused(&o, -EINVAL, "struct cp_watch_options");
    cp_watch_close(watch);
    watch = open_watch("there", NULL); /* the name is free again */
    cp_watch_close(watch);
    cp_watch_close(NULL);
}

/* ---- Labels ---------------------------------------------------------------------------------- */

static void round_with_label(struct cp_watch *watch, const char *value)
{
    CP_LABEL_SCOPE("route", value);
    CP_WATCH(watch)
    {
    }
}

CP_TEST(rounds_are_told_apart_by_labels)
{
    struct cp_m *m = attach_m();
    const struct cp_watch_options options = {
        .size = sizeof options, .name = "labels", .labels = "route", .labels_max = 2};
    struct cp_watch *watch = open_watch_of(&options);

    for (int i = 0; i < 3; i++)
        round_with_label(watch, "/a");
    CP_WATCH(watch)
    {
    }
    for (int i = 0; i < 5; i++) {
        char value[8];

        snprintf(value, sizeof value, "/%d", i);
        round_with_label(watch, value);
    }
    round_with_label(watch, "/a");
    CHECK_EQ(find_row_of(watch, "time", "/a", CP_WATCH_UNFORKED).count, 4);
    CHECK_EQ(find_row_of(watch, "time", "", CP_WATCH_UNFORKED).count, 1);
    CHECK_EQ(find_row_of(watch, "time", CP_WATCH_OTHERS, CP_WATCH_UNFORKED).count, 5);
    CHECK(!find_row_of(watch, "time", "/0", CP_WATCH_UNFORKED).is_there);
    cp_watch_close(watch);
    cp_m_detach(m);
}

/* ---- What belongs to a G --------------------------------------------------------------------- */

/* ThreadSanitizer's own work at each switch, and the pages that it touches, are the G's. */
#define TOLERANCE (TEST_TSAN ? 0.05 : 0.01)
#define FURTHER_FAULTS (TEST_TSAN ? 2000 : 20)

/* A G that has not moved after so many slices goes on, up to LONGEST. */
enum { NEIGHBOURS = 100, SLICES = 60, LONGEST = 3000 };

struct crowd {
    struct cp_watch *watch;
    uint32_t is_done;    /* atomic */
    uint64_t burnt;      /* by the G with the round, in it */
    unsigned ms;         /* on how many Ms that G ran */
    uint64_t neighbours; /* what all others burnt; atomic */
    char *pages;
};

static bool is_new(pid_t *seen, unsigned n, pid_t tid)
{
    for (unsigned i = 0; i < n; i++) {
        if (seen[i] == tid)
            return false;
    }
    return true;
}

static void neighbour(void *arg)
{
    struct crowd *crowd = arg;
    char *own = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(own != MAP_FAILED);
    for (int i = 0; cp_load_relaxed(&crowd->is_done) == 0; i++) { /* relaxed: a flag of its own */
        own[i % 64 * 4096] = 1;
        cp_fetch_add_relaxed(&crowd->neighbours, burn_for(20000)); /* relaxed: a number of its own */
        cp_yield();
    }
    munmap(own, 64 * 4096);
}

/* What is done in the round: so much CPU time a slice, and one page that was not there. */
static void measured(void *arg)
{
    struct crowd *crowd = arg;
    struct cp_watch_round round;
    pid_t seen[SLICES];

    for (int i = 0; i < NEIGHBOURS; i++)
        CHECK_EQ(cp_go(neighbour, crowd), 0);
    cp_yield();
    CHECK_EQ(cp_watch_begin(crowd->watch, &round), 0);
    for (int i = 0; i < SLICES || (crowd->ms < 2 && i < LONGEST); i++) {
        const uint64_t from = clock_ns(CLOCK_THREAD_CPUTIME_ID);

        if (crowd->ms < SLICES && is_new(seen, crowd->ms, gettid()))
            seen[crowd->ms++] = gettid();
        crowd->pages[i % SLICES * 4096] = 1;
        burn_for(1000000);
        crowd->burnt += clock_ns(CLOCK_THREAD_CPUTIME_ID) - from;
        cp_yield();
    }
    CHECK_EQ(cp_watch_end(&round), 0);
    cp_store_relaxed(&crowd->is_done, 1u); /* relaxed: a flag of its own */
}

static struct crowd run_crowd(struct cp_watch *watch)
{
    struct crowd crowd = {.watch = watch};
    const size_t size = (size_t)SLICES * 4096;

    crowd.pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(crowd.pages != MAP_FAILED);
    madvise(crowd.pages, size, MADV_NOHUGEPAGE);
    run_gs(4, measured, &crowd);
    munmap(crowd.pages, size);
    /* many times the tolerance, however the scheduler has shared the Ms out */
    CHECKF(crowd.neighbours > crowd.burnt / 4, "%llu ns", (unsigned long long)crowd.neighbours);
    CHECKF(crowd.ms >= 2, "the G ran on %u Ms", crowd.ms);
    return crowd;
}

CP_TEST(cpu_time_is_that_of_the_g_alone)
{
    struct cp_watch *watch = open_watch("crowd", "cpuTime");
    const struct crowd crowd = run_crowd(watch);
    const struct found time = find_row(watch, "cpuTime");

    CHECK_EQ(time.count, 1);
    CHECKF(time.sum >= (double)crowd.burnt * (1 - TOLERANCE) &&
               time.sum <= (double)crowd.burnt * (1 + TOLERANCE),
           "%.0f ns, and the G has burnt %llu", time.sum, (unsigned long long)crowd.burnt);
    CHECK(find_row(watch, "time").sum > time.sum);
    cp_watch_close(watch);
}

CP_TEST(events_are_those_of_the_g_alone)
{
    struct cp_watch *watch;
    struct found faults;

    test_need_events();
    watch = open_watch("faults", "pageFaults");
    run_crowd(watch);
    faults = find_row(watch, "pageFaults");
    CHECK_EQ(faults.count, 1);
    /* its own stack, and what the library and a sanitizer touch the first time, are some pages more */
    CHECKF(faults.sum >= SLICES && faults.sum <= SLICES + FURTHER_FAULTS, "%.0f faults", faults.sum);
    cp_watch_close(watch);
}

CP_TEST(ratios_are_of_what_one_round_has_counted)
{
    static char memory[20 * 4096];
    volatile char *pages = memory;
    struct cp_m *m = attach_m();
    struct cp_watch *watch;
    struct found twice;

    test_need_events();
    watch = open_watch("ratios", "pageFaults, minorFaults per pageFaults, pageFaults per cpuTime");
    for (int i = 0; i < 20; i++) {
        CP_WATCH(watch)
        {
            pages[i * 4096] = 1;
        }
    }
    CP_WATCH(watch)
    {
    }
    twice = find_row(watch, "minorFaults per pageFaults");
    CHECK_EQ(twice.count, 20); /* nothing is a part of 0 faults */
    /* the sanitizers have faults of their own, between the readings of the two */
    CHECK(TEST_TSAN || TEST_ASAN || (twice.min == 1 && twice.max == 1));
    CHECK_EQ(find_row(watch, "pageFaults").count, 21);
    CHECK_EQ(find_row(watch, "pageFaults per cpuTime").count, 21);
    CHECK(find_row(watch, "pageFaults per cpuTime").max < 0.1); /* a fault takes more than 10 ns */
    cp_watch_close(watch);
    cp_m_detach(m);
}

/* A thread's own code stands still while its M runs Gs. */
static void burn_as_g(void *arg)
{
    *(uint64_t *)arg = burn_for(20000000);
}

CP_TEST(a_thread_is_not_its_gs)
{
    struct cp_m *m = attach_m();
    struct cp_watch *watch = open_watch("thread", "cpuTime");
    struct cp_watch_round round;
    uint64_t burnt;
    struct found time;

    CHECK_EQ(cp_watch_begin(watch, &round), 0);
    run_gs(1, burn_as_g, &burnt);
    CHECK_EQ(cp_watch_end(&round), 0);
    time = find_row(watch, "cpuTime");
    CHECKF(time.sum < (double)burnt / 2, "%.0f ns, and a G has burnt %llu", time.sum,
           (unsigned long long)burnt);
    cp_watch_close(watch);
    cp_m_detach(m);
}

/* ---- Many threads ---------------------------------------------------------------------------- */

enum { THREADS = 64, ROUNDS = 10000000 / TEST_SLOWDOWN / TEST_SLOWDOWN / THREADS };

static void *begin_and_end(void *arg)
{
    struct cp_watch *watch = arg;
    struct cp_m *m = attach_m();

    for (int i = 0; i < ROUNDS; i++)
        CP_WATCH(watch)
        {
        }
    cp_m_detach(m);
    return NULL;
}

CP_TEST(no_round_of_many_threads_is_lost)
{
    struct cp_watch *watch = open_watch("many", NULL);
    pthread_t threads[THREADS];
    struct found found;
    uint64_t last = 0;

    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, begin_and_end, watch), 0);
    for (int i = 0; i < 20; i++) { /* meanwhile, counts only grow */
        found = find_row(watch, "time");
        CHECK(found.count >= last);
        last = found.count;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(find_row(watch, "time").count, THREADS * ROUNDS);
    CHECK_EQ(state_of_watch(watch).open, 0);
    CHECK_EQ(state_of_watch(watch).lost, 0);
    cp_watch_close(watch);
}
