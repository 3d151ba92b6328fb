/*
 * Counters with this machine's kernel and its PMU. tests/vm runs these tests in an emulated machine that has
 * a PMU; CP_TEST_CPI is then the number of cycles that an instruction takes, and an event that does not open
 * is a failure.
 */
#include "sched.h"
#include "tests/support/burn.h"
#include "tests/support/counter_tools.h"
#include "tests/support/instructions.h"
#include "tests/support/refuse.h"
#include "tests/support/resources.h"

#include <sys/mman.h>

/* Opens a counter of an event of the PMU, or skips the test if the PMU's events cannot be opened. */
static struct cp_counter *opened_pmu(const char *name)
{
    struct cp_event_spec spec = spec_of(name);
    struct cp_counter *counter;
    struct cp_error err = {0};

    if (cp_counter_open(&counter, &spec, &err) == 0)
        return counter;
    CHECKF(getenv("CP_TEST_CPI") == NULL, "%s", err.message);
    SKIP("there is no PMU to be used (%s)", err.reason);
}

/* ---- The kernel's events --------------------------------------------------------------------- */

#define PAGES ((uint64_t)1000)

/* Causes one page fault for each of PAGES pages. */
static void touch_pages(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = PAGES * page;
    volatile char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(memory != MAP_FAILED);
    madvise((void *)(uintptr_t)memory, size, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < size; i += page)
        memory[i] = 1;
    munmap((void *)(uintptr_t)memory, size);
}

static void *run_touch(void *unused)
{
    touch_pages();
    return unused;
}

/* The start and end of a thread add some page faults to those that are looked for. A sanitizer has shadow
 * pages for the program's pages. */
CP_TEST(page_faults_of_threads_are_counted_between_start_and_stop)
{
    struct cp_counter *counter = opened("pageFaults");
    struct cp_counter_value value = {.size = sizeof value};
    pthread_t thread;

    touch_pages();
    CHECK_EQ(value_of(counter).count, 0);
    start(counter);
    touch_pages();
    CHECK_EQ(pthread_create(&thread, NULL, run_touch, NULL), 0);
    pthread_join(thread, NULL);
    stop(counter);
    value = value_of(counter);
    CHECK(value.count >= 2 * PAGES && (TEST_ASAN || TEST_TSAN || value.count < 2 * PAGES + PAGES / 2));
    CHECK(!value.is_scaled && value.count == value.raw && value.running_ns == value.enabled_ns);
    touch_pages();
    CHECK_EQ(value_of(counter).count, value.count);
    cp_counter_close(counter);
}

/* ---- Refused --------------------------------------------------------------------------------- */

/* Checks that an event is refused, that nothing stays open. */
static void check_refused(const char *name, int code, const char *reason, const char *words)
{
    struct cp_event_spec spec = spec_of(name);
    struct resources before, after;
    struct cp_counter *counter = NULL;
    struct cp_error err = {0};
    int result = cp_counter_open(&counter, &spec, &err);

    printf("%d (%s): %s\n", result, err.reason, err.message);
    CHECK_EQ(result, code);
    CHECK_EQ(err.code, code);
    CHECK(counter == NULL);
    CHECK_STR(err.reason, reason);
    CHECK_CONTAINS(err.message, name);
    CHECK_CONTAINS(err.message, words);
    before = resources_now(); /* after the library has allocated what it allocates once */
    CHECK_EQ(cp_counter_open(&counter, &spec, NULL), code);
    after = resources_now();
    check_resources(&after, &before, 1);
}

/* The PMU cannot exclude modes, so the event must name all of them. */
CP_TEST(a_pmu_that_does_not_tell_modes_apart_says_so)
{
    if (access("/sys/bus/event_source/devices/msr/events/tsc", R_OK) < 0 || geteuid() != 0)
        SKIP("no such PMU here, or no right to count the kernel");
    cp_counter_close(opened("taskClock")); /* allocates what the process allocates once */
    check_refused("msr/tsc/", -EINVAL, "counts all modes only", "suffix ukh");
    cp_counter_close(opened("msr/tsc/ukh"));
}

CP_TEST(nobody_counts_what_the_kernel_does)
{
    long paranoid = become_nobody();

    if (paranoid != 2)
        SKIP("kernel.perf_event_paranoid is %ld and not 2", paranoid);
    cp_counter_close(opened("pageFaults"));
    check_refused("contextSwitches", -EACCES, "kernel mode: paranoid level 2", "or use taskClock.");
    check_refused("pageFaults:k", -EACCES, "kernel mode: paranoid level 2",
                  "or leave the kernel out (suffix u)");
}

/* ---- The PMU's events ------------------------------------------------------------------------ */

/* Counts cycles and instructions together, as a benchmark does. */
struct pair {
    struct cp_counter *counters[2];
    uint64_t cycles;
    uint64_t instructions;
};

static struct pair open_pair(void)
{
    struct pair pair;

    pair.counters[0] = opened_pmu("cycles");
    pair.counters[1] = opened_pmu("instructions");
    return pair;
}

static void read_pair(struct pair *pair)
{
    pair->cycles = value_of(pair->counters[0]).count;
    pair->instructions = value_of(pair->counters[1]).count;
}

static void close_pair(const struct pair *pair)
{
    cp_counter_close(pair->counters[0]);
    cp_counter_close(pair->counters[1]);
}

/* Checks the cycles for each instruction if CP_TEST_CPI says how many the machine takes. */
static void check_cpi(const struct pair *pair)
{
    const char *cpi = getenv("CP_TEST_CPI");

    if (cpi != NULL)
        CHECK_NEAR(pair->cycles, strtod(cpi, NULL) * (double)pair->instructions, 0.005);
}

CP_TEST(instructions_are_counted)
{
    struct pair pair = open_pair();

    for (uint64_t n = TEST_ASAN || TEST_TSAN ? 2000000 : 200000; n <= 20000000; n *= 10) {
        CHECK_EQ(cp_counter_reset(pair.counters[0]), 0);
        CHECK_EQ(cp_counter_reset(pair.counters[1]), 0);
        CHECK_EQ(cp_counters_start(pair.counters, 2), 0);
        run_instructions(n);
        CHECK_EQ(cp_counters_stop(pair.counters, 2), 0);
        read_pair(&pair);
        CHECK_NEAR(pair.instructions, n, 0.005);
        check_cpi(&pair);
    }
    close_pair(&pair);
}

/* The calls that start and stop counters count few instructions of their own, and those of the test's way
 * to the kernel, sim_hand_on(). */
CP_TEST(little_else_is_counted)
{
    struct cp_counter *counters[3] = {opened_pmu("instructions"), opened_pmu("instructions"),
                                      opened_pmu("instructions")};

    for (size_t n = 1; n <= 3; n++) {
        for (size_t i = 0; i < n; i++)
            CHECK_EQ(cp_counter_reset(counters[i]), 0);
        CHECK_EQ(cp_counters_start(counters, n), 0);
        CHECK_EQ(cp_counters_stop(counters, n), 0);
        for (size_t i = 0; i < n; i++)
            CHECK(value_of(counters[i]).count < (TEST_ASAN || TEST_TSAN ? 10000 : 300) * n);
    }
    for (size_t i = 0; i < 3; i++)
        cp_counter_close(counters[i]);
}

#define GS 4
#define ROUNDS 10
#define INSTRUCTIONS_OF_G ((uint64_t)50000000)

static void count_down(void *unused)
{
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        run_instructions(INSTRUCTIONS_OF_G / ROUNDS);
        cp_yield();
    }
}

struct crowd {
    struct pair pair;
    struct cp_wait_group *group;
};

static void count_down_in_group(void *arg)
{
    struct crowd *crowd = arg;

    count_down(NULL);
    cp_wait_group_done(crowd->group);
}

static void run_crowd(void *arg)
{
    struct crowd *crowd = arg;

    cp_wait_group_add(crowd->group, GS);
    CHECK_EQ(cp_counters_start(crowd->pair.counters, 2), 0);
    for (int i = 0; i < GS; i++)
        CHECK_EQ(cp_go(count_down_in_group, crowd), 0);
    cp_wait_group_wait(crowd->group);
    CHECK_EQ(cp_counters_stop(crowd->pair.counters, 2), 0);
}

CP_TEST(instructions_of_gs_are_counted_on_all_ms)
{
    const struct cp_sched_options two = {.size = sizeof two, .threads = 2};
    struct crowd crowd = {.pair = open_pair(), .group = cp_wait_group_new()};
    struct cp_error err = {0};

    CHECKF(cp_sched_run(&two, run_crowd, &crowd, &err) == 0, "%s", err.message);
    read_pair(&crowd.pair);
    /* ThreadSanitizer adds many instructions to the scheduler's. */
    CHECK_NEAR(crowd.pair.instructions, GS * INSTRUCTIONS_OF_G, TEST_TSAN ? 0.1 : 0.005);
    check_cpi(&crowd.pair);
    close_pair(&crowd.pair);
    cp_wait_group_free(crowd.group);
}

/* More events than any PMU has counters. */
#define MANY 24

CP_TEST(events_that_take_turns_are_scaled)
{
    struct cp_counter *counters[MANY];
    uint64_t scaled = 0;

    for (size_t i = 0; i < MANY; i++)
        counters[i] = opened_pmu("instructions");
    CHECK_EQ(cp_counters_start(counters, MANY), 0);
    for (int i = 0; i < 25; i++)
        run_instructions(INSTRUCTIONS_OF_G);
    CHECK_EQ(cp_counters_stop(counters, MANY), 0);
    for (size_t i = 0; i < MANY; i++) {
        struct cp_counter_value value = value_of(counters[i]);

        CHECK_EQ(value.is_scaled, value.running_ns < value.enabled_ns);
        CHECK_NEAR(value.count, (double)value.raw * (double)value.enabled_ns / (double)value.running_ns,
                   1e-6);
        if (getenv("CP_TEST_CPI") != NULL) /* other machines do not always run equally fast */
            CHECK_NEAR(value.count, 25 * INSTRUCTIONS_OF_G, 0.01);
        scaled += value.is_scaled;
        cp_counter_close(counters[i]);
    }
    CHECK(scaled > 0);
}
