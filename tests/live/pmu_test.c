/* Samples of hardware events: as many as the event counted, at their causes, and of the right Gs. */
#include <math.h>
#include <sys/wait.h>

#include "sched.h"
#include "tests/support/pmu_tools.h"
#include "tests/support/refuse.h"

/* Whether this is a virtual machine for which CP_TEST_PMU is not set. Only x86 tells. */
static bool is_virtual(void)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[8192];
    bool is = false;

    while (file != NULL && !is && fgets(line, sizeof line, file) != NULL)
        is = strncmp(line, "flags", 5) == 0 && strstr(line, " hypervisor") != NULL;
    if (file != NULL)
        fclose(file);
    return is && getenv("CP_TEST_PMU") == NULL;
}

/* The share of samples that one of several events must have. A virtual PMU may lose one counter's interrupts
 * for a while, and find that counter's overflow at the other's next interrupt (AMD Zen 3 under KVM: up to 30
 * %, without this library, too). */
static double least_of_several(void)
{
    return is_virtual() ? 0.6 : least_share();
}

static void check_share_of_several(const struct profile *profile, size_t i, uint64_t period)
{
    check_least(profile, i, period, least_of_several());
}

/* ---- One event ------------------------------------------------------------------------------- */

CP_TEST(cycles_are_sampled_once_a_period)
{
    struct cp_slot_request requests[] = {request("cycles", PERIOD)};
    struct profile profile = {.n = 0};

    need(requests, 1);
    run_profiled(&profile, requests, 1, body_a, 600 * MS);
    check_share(&profile, 0, PERIOD);
    CHECK_EQ(profile.stats[0].ms, 1);
    CHECK_EQ(profile.stats[0].overruns, 0); /* each period has a record of its own */
    CHECKF((double)profile.seen[0].leaf[IN_A] >= (is_rough() ? 0.7 : 0.95) * (double)profile.seen[0].weight,
           "%llu of %llu", (unsigned long long)profile.seen[0].leaf[IN_A],
           (unsigned long long)profile.seen[0].weight);
    CHECK_EQ(profile.seen[0].in[IN_B] + profile.seen[0].in[IN_C], 0);
}

static void body_a_then_b(struct worker *worker)
{
    burn_a(*(const uint64_t *)worker->arg);
    burn_b(3 * *(const uint64_t *)worker->arg);
}

CP_TEST(cycles_are_shared_by_functions_as_their_time_is)
{
    struct cp_slot_request requests[] = {request("cycles", PERIOD)};
    struct profile profile = {.n = 0};
    double share;

    need(requests, 1);
    run_profiled(&profile, requests, 1, body_a_then_b, 200 * MS);
    check_share(&profile, 0, PERIOD);
    share = (double)profile.seen[0].in[IN_A] / (double)profile.seen[0].weight;
    /* a host that takes the processor away lets CPU time pass without cycles */
    CHECKF(fabs(share - 0.25) < (is_rough() || is_virtual() ? 0.08 : 0.01), "%.4f", share);
}

CP_TEST(cycles_belong_to_the_thread_that_spent_them)
{
    struct cp_slot_request requests[] = {request("cycles", PERIOD)};
    struct profile profile = {.n = 0};
    struct worker workers[2];
    uint64_t ns = 200 * MS;

    need(requests, 1);
    start_profile(&profile, requests, 1);
    start_worker(&workers[0], body_a, &ns);
    start_worker(&workers[1], body_b, &ns);
    join_worker(&workers[0]);
    join_worker(&workers[1]);
    stop_profile(&profile);
    check_share(&profile, 0, PERIOD);
    CHECK_EQ(profile.stats[0].ms, 2);
    CHECK(profile.seen[0].in[IN_A] > (is_rough() ? 20 : 100));
    CHECK(profile.seen[0].in[IN_B] > (is_rough() ? 20 : 100));
}

/* ---- Several events -------------------------------------------------------------------------- */

CP_TEST(two_events_with_periods_that_do_not_meet_are_both_whole)
{
    struct cp_slot_request requests[] = {request("cycles", 1000004), request(RAW_CYCLES, 700002)};
    struct profile profile = {.n = 0};

    need(requests, 2);
    run_profiled(&profile, requests, 2, body_a, 1000 * MS);
    check_share_of_several(&profile, 0, 1000004);
    check_share_of_several(&profile, 1, 700002);
    CHECK((double)profile.seen[0].in[IN_A] >= 0.95 * (double)profile.seen[0].weight);
    CHECK((double)profile.seen[1].in[IN_A] >= 0.95 * (double)profile.seen[1].weight);
}

CP_TEST(cycles_and_instructions_are_both_whole)
{
    struct cp_slot_request requests[] = {request("cycles", 1000004), request("instructions", 350002)};
    struct profile profile = {.n = 0};

    if (is_rough())
        SKIP("an emulated machine counts instructions only where it is exact");
    need(requests, 2);
    run_profiled(&profile, requests, 2, body_a, 1000 * MS);
    check_share_of_several(&profile, 0, 1000004);
    check_share_of_several(&profile, 1, 350002);
}

/* The second counter overflows while the handler works for the first one. */
CP_TEST(two_events_of_one_period_are_both_whole)
{
    struct cp_slot_request requests[] = {request("cycles", PERIOD), request(RAW_CYCLES, PERIOD)};
    struct profile profile = {.n = 0};

    need(requests, 2);
    run_profiled(&profile, requests, 2, body_a, 400 * MS);
    check_share_of_several(&profile, 0, PERIOD);
    check_share_of_several(&profile, 1, PERIOD);
}

/* A counter of the emulated machine has 32 bits. If its kernel takes a counter away from an event while the
 * counter overflows, the event's count is sometimes too large by a whole round of it. */
#define OVERFLOW 4294967296.0

CP_TEST(more_events_than_counters_take_turns_and_say_so)
{
    struct cp_slot_request requests[CP_EV_MAX];
    struct profile profile = {.n = 0};
    double cycles = 0;
    unsigned shared = 0;

    for (size_t i = 0; i < CP_EV_MAX; i++)
        requests[i] = request(i == 0 ? "cycles" : RAW_CYCLES, PERIOD + 2 * i);
    need(requests, CP_EV_MAX);
    run_profiled(&profile, requests, CP_EV_MAX, body_a, 600 * MS);
    for (size_t i = 0; i < CP_EV_MAX; i++) {
        const struct cp_slot_stats *stats = &profile.stats[i];
        double running = (double)stats->time_running / (double)stats->time_enabled;
        double periods = periods_of(&profile, i, PERIOD + 2 * i);

        while (is_rough() && periods > OVERFLOW / (double)PERIOD)
            periods -= OVERFLOW / (double)(PERIOD + 2 * i);
        printf("event %zu ran for %.3f of the time: %.1f periods, %llu samples\n", i, running, periods,
               (unsigned long long)stats->samples);
        CHECK(running > 0.1 && running <= 1);
        shared += running < 0.98;
        cycles += periods * (double)(PERIOD + 2 * i) / running / CP_EV_MAX;
        CHECKF((double)stats->samples >= least_of_several() * periods - 1 &&
                   (double)stats->samples <= (is_rough() ? 1.1 : 1.005) * periods + 1,
               "%llu of %.1f", (unsigned long long)stats->samples, periods);
    }
    if (shared == 0)
        SKIP("this PMU has a counter for each of %d events", CP_EV_MAX);
    for (size_t i = 0; i < CP_EV_MAX && !is_rough(); i++) {
        const struct cp_slot_stats *stats = &profile.stats[i];
        double scaled = (double)stats->count * (double)stats->time_enabled / (double)stats->time_running;

        CHECKF(scaled > 0.9 * cycles && scaled < 1.1 * cycles, "%.0f and %.0f cycles", scaled, cycles);
    }
}

/* ---- What other events mean ------------------------------------------------------------------ */

#define STEPS 20000000
#define LARGE (64u << 20) /* bytes: more than a core's own caches hold */
#define SMALL (16u << 10) /* less than the first of them holds */

static uint8_t *memory_far;

/* Makes a random step through memory. All functions below make these steps; mask and what a function adds
 * decide whether its branches are predicted and its loads are cached. */
static inline __attribute__((always_inline)) uint64_t step(uint64_t random, uint64_t mask)
{
    random = random * 6364136223846793005u + 1442695040888963407u;
    cp_store_relaxed(&memory_far[random >> 32 & mask], (uint8_t)1); /* relaxed: nobody reads it */
    return random;
}

CODE(a) void step_easily(uint64_t random)
{
    for (unsigned i = 0; i < STEPS; i++)
        random = step(random, SMALL - 1);
}

CODE(b) void step_into_branches(uint64_t random)
{
    for (unsigned i = 0; i < STEPS; i++) {
        random = step(random, SMALL - 1);
        if ((random >> 63) != 0)
            __asm__ volatile("nop" ::: "memory");
    }
}

CODE(b) void step_far(uint64_t random)
{
    for (unsigned i = 0; i < STEPS; i++)
        random = step(random, LARGE - 1);
}

static void body_steps(struct worker *worker)
{
    step_easily(1);
    ((void (*)(uint64_t))worker->arg)(1);
}

/* Checks that nearly all samples of the event are in the function that causes it. */
static void check_cause(const char *event, void (*cause)(uint64_t))
{
    struct cp_slot_request requests[] = {request(event, 10000)};
    struct profile profile = {.n = 0};
    struct worker worker;
    struct cp_event_spec spec = {.size = sizeof spec};

    need_prompt_signals();
    CHECK_EQ(cp_event_parse(event, &spec, NULL), 0);
    if (cp_event_probe(&spec, NULL) != 0)
        SKIP("there is no %s here", event);
    memory_far = calloc(1, LARGE);
    CHECK(memory_far != NULL);
    memset(memory_far, 1, LARGE);
    start_profile(&profile, requests, 1);
    run_attached(&worker, body_steps, (void *)cause);
    stop_profile(&profile);
    free(memory_far);
    printf("%s: %.1f periods, %llu samples: %llu and %llu\n", event, periods_of(&profile, 0, 10000),
           (unsigned long long)profile.seen[0].weight, (unsigned long long)profile.seen[0].leaf[IN_A],
           (unsigned long long)profile.seen[0].leaf[IN_B]);
    CHECK(profile.seen[0].weight > 100);
    CHECK((double)profile.seen[0].leaf[IN_B] > 0.9 * (double)profile.seen[0].weight);
}

CP_TEST(branch_misses_are_where_branches_cannot_be_foreseen)
{
    check_cause("branchMisses", step_into_branches);
}

CP_TEST(cache_misses_are_where_memory_is_far)
{
    check_cause("cacheMisses", step_far);
}

/* ---- Signals --------------------------------------------------------------------------------- */

static void block_samples(int how)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    sigaddset(&set, SIGTRAP);
    pthread_sigmask(how, &set, NULL);
}

static void body_blocks_sometimes(struct worker *worker)
{
    for (int i = 0; i < 10; i++) {
        burn_a(*(const uint64_t *)worker->arg);
        block_samples(SIG_BLOCK);
        burn_b(*(const uint64_t *)worker->arg);
        block_samples(SIG_UNBLOCK);
    }
}

/* SIGPROF and SIGTRAP are blocked for 10 ms. The ring holds 51 records of an M without chains, which is
 * enough below 5 GHz. */
CP_TEST(one_signal_brings_all_records_that_waited)
{
    struct cp_slot_request requests[] = {request("cycles", PERIOD)};
    struct profile profile = {.n = 0};

    need(requests, 1);
    run_profiled(&profile, requests, 1, body_blocks_sometimes, 10 * MS);
    check_share(&profile, 0, PERIOD);
    CHECK(profile.stats[0].signals < profile.stats[0].samples / 3 * 2);
}

/* The next start may get the descriptors of the last one. A signal that is still coming must not be taken for
 * one of the new events, and not for somebody else's. */
CP_TEST(starts_and_stops_leave_no_signal_behind)
{
    struct cp_slot_request requests[] = {request("cycles", 20000), request(RAW_CYCLES, 30000)};
    struct worker worker;
    uint64_t samples = 0;

    need(requests, 2);
    start_worker(&worker, body_c, NULL);
    for (int i = 0; i < 30; i++) {
        struct profile profile = {.n = 0};

        start_profile(&profile, requests, 2);
        sleep_ms(10 + 7 * (unsigned)(i % 5));
        stop_profile(&profile);
        CHECK_EQ(profile.stats[0].foreign + profile.stats[1].foreign, 0);
        CHECK_EQ(profile.seen[0].weight, profile.stats[0].samples);
        CHECK_EQ(profile.seen[1].weight, profile.stats[1].samples);
        samples += profile.stats[0].samples;
    }
    stop_worker(&worker);
    CHECKF(samples > 100, "%llu", (unsigned long long)samples);
}

/* ---- Forks ----------------------------------------------------------------------------------- */

CP_TEST(a_childs_end_does_not_stop_its_parents_counters)
{
    struct cp_slot_request requests[] = {request("cycles", PERIOD)};
    struct profile profile = {.n = 0};
    struct worker worker = {.body = NULL};

    need(requests, 1);
    attach(&worker);
    start_profile(&profile, requests, 1);
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        int status;

        if (child == 0) {
            burn_b(5 * MS);
            _exit(cp_m_self() != NULL && cp_m_self() == worker.m);
        }
        burn_a(30 * MS);
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECKF(status == 0 || WIFEXITED(status), "%#x", (unsigned)status);
    }
    stop_profile(&profile);
    cp_m_detach(worker.m);
    check_share(&profile, 0, PERIOD);
    CHECK_EQ(profile.seen[0].in[IN_B], 0);
    CHECK((double)profile.seen[0].in[IN_A] >= 0.9 * (double)profile.seen[0].weight);
}

/* ---- What the kernel allows ------------------------------------------------------------------ */

/* Checks the kernel's answer to a request: 0 or code. With code, the message must have the reason. */
static void check_answer(const struct cp_slot_request *request, int code, const char *reason)
{
    struct cp_error err = {0};
    int slot;
    int result = cp_slots_start(request, 1, &slot, &err);

    CHECKF(result == code, "%s: %d instead of %d: %s", cp_event_name(request->event), result, code,
           err.message);
    if (result == 0) {
        cp_slots_stop(&slot, 1);
        cp_slots_release(&slot, 1);
    } else {
        CHECK_CONTAINS(err.message, reason);
    }
}

/* Samples cycles in user mode, which must find the function that runs. */
static void check_user_cycles(struct cp_slot_request *cycles)
{
    struct profile profile = {.n = 0};

    CHECK(!cycles->config.is_kernel_included);
    run_profiled(&profile, cycles, 1, body_a, 200 * MS);
    check_share(&profile, 0, PERIOD);
    CHECK(profile.seen[0].in[IN_A] > 100);
}

CP_TEST(what_nobody_may_depends_on_perf_event_paranoid)
{
    struct cp_slot_request cycles = request("cycles", PERIOD);
    struct cp_slot_request everywhere = cycles;
    struct cp_slot_request clock;
    long paranoid;

    need(&cycles, 1);
    everywhere.config.is_kernel_included = true;
    paranoid = become_nobody();
    clock = request("taskClock", 10 * MS);
    printf("kernel.perf_event_paranoid=%ld\n", paranoid);
    if (paranoid >= 3) {
        check_answer(&cycles, -EACCES, "kernel.perf_event_paranoid=3. Set it to 2 or lower with sysctl");
        check_answer(&clock, -EACCES, "use timer");
    } else if (paranoid == 2) {
        check_user_cycles(&cycles);
        check_answer(&everywhere, -EACCES, "leave the kernel out");
        check_answer(&clock, 0, "");
        CHECK(!clock.config.is_kernel_included);
        clock = request("contextSwitches", 1);
        check_answer(&clock, -EACCES, "kernel.perf_event_paranoid=1");
    } else {
        check_user_cycles(&cycles);
        check_answer(&everywhere, 0, "");
        CHECK(clock.config.is_kernel_included);
    }
    clock = request("timer", 10 * MS);
    check_answer(&clock, 0, "");
}

/* kernel.perf_event_max_sample_rate may be so low that events are throttled, as tests/vm sets it. */
CP_TEST(throttling_is_counted)
{
    long rate = number_in("/proc/sys/kernel/perf_event_max_sample_rate", "");
    struct cp_slot_request requests[] = {request("cycles", 50000)};
    struct profile profile = {.n = 0};

    need(requests, 1);
    run_profiled(&profile, requests, 1, body_a, 200 * MS);
    printf("%llu samples, %llu times throttled\n", (unsigned long long)profile.stats[0].samples,
           (unsigned long long)profile.stats[0].throttled);
    if (profile.stats[0].throttled <= 10 && rate > 5000)
        SKIP("the kernel allows %ld samples a second, and throttles next to nothing", rate);
    CHECK(profile.stats[0].throttled > 10);
}

CP_TEST(an_event_that_the_pmu_does_not_count_is_refused_in_words)
{
    struct cp_slot_request requests[] = {request("cycles", PERIOD)};
    struct cp_slot_request misses = request("cacheMisses", PERIOD);
    struct cp_error err = {0};
    int slot;

    need(requests, 1);
    if (cp_slots_start(&misses, 1, &slot, &err) == 0)
        SKIP("this PMU counts cacheMisses");
    CHECK_EQ(err.code, -ENOENT);
    CHECK_CONTAINS(err.message, "The event cacheMisses cannot run: this processor's PMU");
    CHECK_CONTAINS(err.message, "does not count it");
}

/* ---- Which G a sample belongs to ------------------------------------------------------------- */

#define GS 1000

/* Each G has a function of its own, so the program counter tells to which G a sample must belong. */
#if defined(__aarch64__)
#define COUNT_DOWN "subs x0, x0, #1\n\tb.ne 1b"
#elif defined(__x86_64__)
#define COUNT_DOWN "dec %rdi\n\tjnz 1b"
#else
#error "Say here how this processor counts its first argument down to 0."
#endif
#define SPINNER_SIZE 64
__asm__(".text\n\t.balign 64\nspinners:\n\t.rept 1000\n\t.balign 64\n1:\t" COUNT_DOWN "\n\tret\n\t.endr\n\t"
        ".balign 64");
extern const char spinners[] __attribute__((visibility("hidden")));

struct crowd {
    uint64_t id[GS];
    unsigned moves; /* how often a G went on with another M */
    unsigned next;
    uint64_t in_spinners;
    uint64_t elsewhere;
};

static struct crowd crowd;

static __attribute__((noinline)) void spin_as(unsigned i, uint64_t n)
{
    ((void (*)(uint64_t))(uintptr_t)(spinners + (uintptr_t)i * SPINNER_SIZE))(n);
}

static void member(void *unused)
{
    unsigned i = cp_fetch_add_relaxed(&crowd.next, 1u); /* relaxed: each call gets another number */
    struct cp_m *last = cp_m_self();
    char name[16];

    (void)unused;
    snprintf(name, sizeof name, "%u", i);
    CHECK_EQ(cp_label_set("member", name), 0);
    crowd.id[i] = cp_g_self()->id;
    for (int round = 0; round < 10; round++) {
        spin_as(i, 30000);
        cp_yield();
        if (cp_m_self() != last)
            cp_fetch_add_relaxed(&crowd.moves, 1u); /* relaxed: read after all Gs have ended */
        last = cp_m_self();
    }
}

static void start_crowd(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < GS; i++)
        CHECK_EQ(cp_go(member, NULL), 0);
}

static void check_owner(void *context, const struct cp_sample *sample)
{
    uintptr_t at = sample->frames[0] - (uintptr_t)spinners;
    char name[16];

    (void)context;
    if (at >= (uintptr_t)GS * SPINNER_SIZE) {
        crowd.elsewhere += sample->weight;
        return;
    }
    crowd.in_spinners += sample->weight;
    snprintf(name, sizeof name, "%u", (unsigned)(at / SPINNER_SIZE));
    CHECKF(cp_labels_count(sample->labels) == 1, "G %s has %zu labels", name,
           cp_labels_count(sample->labels));
    CHECK_STR(cp_labels_value(sample->labels, 0), name);
    CHECK_EQ(sample->g_id, crowd.id[at / SPINNER_SIZE]);
}

CP_TEST(every_sample_of_a_thousand_gs_is_of_the_one_that_ran)
{
    uint64_t period = is_rough() ? PERIOD : PERIOD / 10;
    struct cp_slot_request requests[] = {request("cycles", period)};
    struct cp_sched_options four = {.size = sizeof four, .threads = 4};
    struct profile profile = {.look = check_owner};
    struct cp_error err = {0};
    int result;

    need(requests, 1);
    start_profile(&profile, requests, 1);
    result = cp_sched_run(&four, start_crowd, NULL, &err);
    CHECKF(result == 0, "%s", err.message);
    stop_profile(&profile);
    printf("%llu samples in functions of one G, %llu elsewhere; %u moves\n",
           (unsigned long long)crowd.in_spinners, (unsigned long long)crowd.elsewhere, crowd.moves);
    if (!is_rough()) /* a rough machine loses more samples if threads change their CPU */
        check_share(&profile, 0, period);
    CHECK_EQ(crowd.next, GS);
    CHECK(crowd.in_spinners > (is_rough() ? 300 : 1000));
    CHECK(crowd.in_spinners > 2 * crowd.elsewhere);
    CHECKF(crowd.moves > 100, "%u moves", crowd.moves);
}
