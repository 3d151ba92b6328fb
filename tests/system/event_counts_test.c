/* An event that opens and counts nothing is refused. */
#include <errno.h>
#include <linux/hw_breakpoint.h>

#include "counter.h"
#include "pprof.h"
#include "tests/support/burn.h"
#include "tests/support/inside.h"
#include "tests/support/resources.h"

/* ---- Debug registers ------------------------------------------------------------------------- */

static struct {
    bool are_silent;
    bool are_full; /* no debug register is free */
    int fd;        /* of the last watchpoint that was tried */
    struct perf_event_attr tried;
    uint64_t before; /* the value of the watched word before */
} registers = {.fd = -1};

static uint64_t word_at(uint64_t address)
{
    return *(volatile const uint64_t *)(uintptr_t)address;
}

/* Opens an event that never happens in place of the watchpoint; read_event() makes up its count. */
static long open_watchpoint(const long a[6])
{
    const struct perf_event_attr *asked = (const struct perf_event_attr *)a[0];
    struct perf_event_attr attr = *asked;

    if (registers.are_full) {
        errno = ENOSPC;
        return -1;
    }
    attr.type = PERF_TYPE_SOFTWARE;
    attr.config = PERF_COUNT_SW_EMULATION_FAULTS;
    attr.bp_type = 0;
    attr.bp_addr = attr.bp_len = 0;
    long fd = sim_hand_on(SYS_perf_event_open, (const long[6]){(long)&attr, a[1], a[2], a[3], a[4]});

    if (asked->sample_period == 0 && !asked->inherit) { /* a trial's: sessions sample, and counters inherit */
        registers.fd = (int)fd;
        registers.tried = *asked;
        registers.before = asked->bp_type == HW_BREAKPOINT_X ? 0 : word_at(asked->bp_addr);
    }
    return fd;
}

static bool was_accessed(void)
{
    return registers.tried.bp_type == HW_BREAKPOINT_X || word_at(registers.tried.bp_addr) != registers.before;
}

static long read_event(const long a[6])
{
    long got = sim_hand_on(SYS_read, a);
    uint64_t *words = (uint64_t *)a[1];

    /* a read of a count, the time enabled and the time running */
    if (got == 3 * sizeof *words && (int)a[0] == registers.fd)
        words[0] = !registers.are_silent && was_accessed();
    return got;
}

static long play_registers(long number, const long a[6])
{
    if (number == SYS_perf_event_open && ((const struct perf_event_attr *)a[0])->type == PERF_TYPE_BREAKPOINT)
        return open_watchpoint(a);
    return number == SYS_read ? read_event(a) : sim_hand_on(number, a);
}

/* ---- Asking ---------------------------------------------------------------------------------- */

/* Lets CPU time pass while the library tries whether an event counts. */
static void begin_trials(void)
{
    sim->pmu.is_there = true;
    sim->pmu.most_precise = 3;
    sim->clock_ns = 10000;
}

static struct cp_event_spec spec_of(const char *event)
{
    struct cp_event_spec spec = {.size = sizeof spec};
    struct cp_error err = {0};

    CHECKF(cp_event_parse(event, &spec, &err) == 0, "%s", err.message);
    return spec;
}

static void check_counts(const char *event)
{
    struct cp_event_spec spec = spec_of(event);
    struct cp_counter *counter;
    struct cp_error err = {0};

    CHECKF(cp_event_probe(&spec, &err) == 0, "%s: %s", event, err.message);
    CHECKF(cp_counter_open(&counter, &spec, &err) == 0, "%s: %s", event, err.message);
    cp_counter_close(counter);
}

static void check_error(const char *event, int result, const struct cp_error *err, const char *word)
{
    CHECKF(result == -ENODATA && err->code == result, "%s: %d: %s", event, result, err->message);
    CHECK_STR(err->reason, "opens, but does not count here");
    CHECK_CONTAINS(err->message, event);
    CHECK_CONTAINS(err->message, word);
}

/* Checks that a probe, a start, a session and a counter all refuse the event, and that nothing stays open. */
static void check_silent(const char *event, const char *word)
{
    struct cp_slot_request requests[] = {request("timer", 10 * MS), request(event, 100000)};
    struct cp_memory memory = {0};
    struct cp_profiling_option option = cp_option_event(cp_writer_memory(&memory), event, 100000);
    struct cp_event_spec spec = spec_of(event);
    struct resources before, after;
    struct cp_session *session;
    struct cp_counter *counter;
    struct cp_error err = {0};
    int slots[2];

    requests[1].name = event;
    cp_slots_start(requests, 2, slots, &err); /* maps what the first start maps for all later ones */
    before = resources_now();
    check_error(event, cp_event_probe(&spec, &err), &err, word);
    check_error(event, cp_slots_start(requests, 2, slots, &err), &err, word);
    check_error(event, cp_session_start(&session, &option, 1, &err), &err, word);
    check_error(event, cp_counter_open(&counter, &spec, &err), &err, word);
    after = resources_now();
    check_resources(&after, &before, 1);
    CHECK(sigprof_is(SIG_DFL));
}

/* ---- PMUs ------------------------------------------------------------------------------------ */

static const char *const of_a_pmu[] = {"cycles", "instructions",    "branches",  "cacheMisses", "refCycles",
                                       "r1c2",   "LLC-load-misses", "cycles:pp", "busCycles"};

SIM_TEST(a_pmu_that_counts_is_used)
{
    begin_trials();
    for (size_t i = 0; i < ARRAY_SIZE(of_a_pmu); i++)
        check_counts(of_a_pmu[i]);
}

SIM_TEST(a_pmu_that_stays_at_0_is_refused)
{
    begin_trials();
    sim->pmu.is_silent = true;
    for (size_t i = 0; i < ARRAY_SIZE(of_a_pmu); i++)
        check_silent(of_a_pmu[i], "the PMU stays at 0 while the processor works");
    check_counts("taskClock"); /* is no event of the PMU */
}

/* The trial counts system calls if the event is to count in the kernel only. Not every user may count in the
 * kernel. */
SIM_TEST(cycles_of_the_kernel_are_tried_there)
{
    struct cp_event_spec spec = spec_of("cycles:k");
    struct perf_event_attr last;

    begin_trials();
    CHECK_EQ(cp_event_probe(&spec, NULL), 0);
    CHECK_EQ(sim_opened_pmu(&last), 2); /* the trial's and the one that samples */
    CHECK(last.exclude_user && !last.exclude_kernel);
    sim->pmu.is_silent = true;
    CHECK_EQ(cp_event_probe(&spec, NULL), -ENODATA);
    sim_opened_pmu(&last);
    CHECK(last.exclude_user && !last.exclude_kernel);
    sim->paranoid = 2;
    CHECK_EQ(cp_event_probe(&spec, NULL), -EACCES);
}

/* An event that may not have happened is accepted if its PMU counts cycles. An event that must have happened
 * is not accepted without a count of its own. */
SIM_TEST(rare_events_are_not_refused_for_not_happening)
{
    begin_trials();
    sim->pmu.only_cycles_happen = true;
    check_counts("cacheMisses");
    check_counts("LLC-load-misses");
    check_counts("r1c2");
    check_silent("instructions", "Use taskClock");
}

/* If an event shares the counters with others, it may have had no counter yet. */
SIM_TEST(an_event_that_has_had_no_counter_is_not_refused)
{
    begin_trials();
    sim->pmu.is_taken = true;
    check_counts("cycles");
    sim->pmu.is_silent = true;
    check_counts("cycles");
}

/* The thread runs on a core of one kind. The PMU of the other kind counts nothing then. */
SIM_TEST(one_kind_of_cores_that_counts_is_enough)
{
    begin_trials();
    sim->pmu.kinds = 2;
    play_two_kinds_of_cores(SIM_PMU_TYPE + 1, SIM_PMU_TYPE + 2);
    check_counts("cycles");
    check_counts("LLC-load-misses");
    sim->pmu.refuses_kind = 1; /* the other kind's PMU has no chance to count */
    check_counts("cycles");
    sim->pmu.runs_on = 2;
    check_counts("cycles");
    sim->pmu.is_silent = true;
    check_silent("cycles", "stays at 0");
}

/* Without a PMU an event is refused, whatever its name, and the events that should start with it do not
 * start. */
SIM_TEST(no_pmu_is_another_answer)
{
    static const char *const names[] = {"cycles", "r1c2", "LLC-load-misses"};
    struct resources before = {0}, after;

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        struct cp_slot_request requests[] = {request("taskClock", 100000), request("timer", MS),
                                             request("cpuClock", 100000), request(names[i], 0)};
        struct cp_error err;
        int slots[4];

        requests[3].name = names[i];
        for (size_t first = 0; first < 4; first += 3) {
            CHECK_EQ(cp_slots_start(&requests[first], 4 - first, slots, &err), -ENOENT);
            CHECK_EQ(err.code, -ENOENT);
            CHECK_CONTAINS(err.message, names[i]);
            CHECK_CONTAINS(err.message, "taskClock");
            CHECK(strstr(err.reason, "opens") == NULL);
        }
        if (i == 0) /* the first start maps what all later ones use */
            before = resources_now();
    }
    after = resources_now();
    check_resources(&after, &before, 1);
    CHECK(sigprof_is(SIG_DFL));
}

/* ---- Watchpoints ----------------------------------------------------------------------------- */

static uint64_t watched[2];

static void name_watch(char *event, size_t size, const void *address, const char *rest)
{
    snprintf(event, size, "mem:%p%s", address, rest);
}

/* Calls check() with watchpoints of all kinds, at a variable and at an address where this program has no
 * memory. The probe must not access either address. */
static void for_each_watchpoint(void (*check)(const char *event))
{
    static const char *const kinds[] = {"/8:w", "/8:rw", "/4:w", "/2:rw", "/1:w", ":x", "/8:w:k", "/8:rw:uk"};
    const void *const addresses[] = {&watched[1], (const void *)8};
    char event[64];

    begin_trials();
    sim_hook(play_registers);
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        for (size_t k = 0; k < ARRAY_SIZE(addresses); k++) {
            struct cp_event_spec spec = {.size = sizeof spec};

            name_watch(event, sizeof event, addresses[k], kinds[i]);
            spec = spec_of(event);
            check(spec.name);
            CHECK(registers.tried.bp_addr != (uintptr_t)addresses[k]);
            CHECK(registers.tried.bp_type == spec.encoding.bp_type);
            CHECK(registers.tried.bp_len == spec.encoding.config2);
        }
    }
    CHECK(watched[0] == 0 && watched[1] == 0);
}

SIM_TEST(debug_registers_that_notice_are_used)
{
    for_each_watchpoint(check_counts);
}

static void check_silent_watchpoint(const char *event)
{
    check_silent(event, "debug registers notice no access");
}

SIM_TEST(debug_registers_that_notice_nothing_are_refused)
{
    registers.are_silent = true;
    for_each_watchpoint(check_silent_watchpoint);
}

SIM_TEST(no_debug_register_left_is_another_answer)
{
    char event[64];
    struct cp_event_spec spec = {.size = sizeof spec};
    struct cp_error err;

    sim_hook(play_registers);
    registers.are_silent = registers.are_full = true;
    name_watch(event, sizeof event, watched, "/8:w");
    spec = spec_of(event);
    CHECK_EQ(cp_event_probe(&spec, &err), -ENOSPC);
    CHECK_STR(err.reason, "all debug registers are in use");
}

/* ---- Threads that are cancelled -------------------------------------------------------------- */

static const char *volatile reached; /* the last call from which the cancelled thread returned */

static void *ask_cancelled(void *arg)
{
    const struct cp_event_spec *spec = arg;
    struct cp_counter_value value = {.size = sizeof value};
    struct cp_counter *counter;

    reached = "nothing";
    pthread_cancel(pthread_self());
    if (cp_event_probe(spec, NULL) < 0)
        return NULL;
    reached = "probe";
    if (cp_counter_open(&counter, spec, NULL) < 0)
        return NULL;
    reached = "open";
    cp_counters_start(&counter, 1);
    cp_counters_stop(&counter, 1);
    cp_counter_reset(counter);
    cp_counter_read(counter, &value, NULL);
    reached = "read";
    cp_counter_close(counter);
    reached = "close";
    pthread_testcancel();
    return NULL;
}

/* If the thread ended in the middle of a call, it would leave open what it has opened and allocated. */
SIM_TEST(asking_for_events_is_no_cancellation_point)
{
    static const char *const names[] = {"taskClock", "cycles", "cycles:pp"};
    pthread_t thread;
    void *result;

    if (TEST_ASAN)
        SKIP("AddressSanitizer takes the stack of a cancelled thread for another function's");
    begin_trials();
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        struct cp_event_spec spec = spec_of(names[i]);

        CHECK_EQ(pthread_create(&thread, NULL, ask_cancelled, &spec), 0);
        CHECK_EQ(pthread_join(thread, &result), 0);
        CHECKF(strcmp(reached, "close") == 0, "%s: came as far as %s", names[i], reached);
        CHECK(result == PTHREAD_CANCELED);
        CHECK_EQ(resources_now().perf_fds, 0);
    }
}
