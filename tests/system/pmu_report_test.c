/* What users are told about hardware events: who may not use them, and what profiles say. */
#include <zlib.h>

#include "pprof.h"
#include "tests/support/pmu_tools.h"
#include "tests/support/refuse.h"

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

/* ---- What the profile tells ------------------------------------------------------------------ */

static struct cp_memory memory;

/* Unpacks the profile, whose comments are strings in it. */
static char *unpack(const struct cp_memory *packed, size_t *size)
{
    z_stream stream = {.next_in = packed->data, .avail_in = (unsigned)packed->size};
    size_t room = 100 * packed->size + 100000;
    char *data = malloc(room);

    CHECK(data != NULL);
    CHECK_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
    stream.next_out = (unsigned char *)data;
    stream.avail_out = (unsigned)room;
    CHECK_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
    *size = stream.total_out;
    inflateEnd(&stream);
    return data;
}

static bool profile_says(const char *text)
{
    size_t size;
    char *data = unpack(&memory, &size);
    bool found = memmem(data, size, text, strlen(text)) != NULL;

    free(data);
    return found;
}

/* Samples cycles and leaves the profile in memory. */
static void profile_to_memory(struct cp_slot_stats *stats, uint64_t period)
{
    struct cp_profiling_option option = cp_option_event(cp_writer_memory(&memory), "cycles", period);
    struct worker worker = {.body = NULL};
    struct cp_session *session;
    struct cp_error err = {0};

    attach(&worker);
    CHECKF(cp_session_start(&session, &option, 1, &err) == 0, "%s", err.message);
    burn_a(200 * MS);
    CHECKF(cp_session_stop(session, &err) == 0, "%s", err.message);
    CHECK_EQ(cp_session_stats(session, 0, stats), 0);
    cp_session_close(session);
    cp_m_detach(worker.m);
}

CP_TEST(a_profile_of_cycles_says_so)
{
    struct cp_slot_request requests[] = {request("cycles", PERIOD)};
    struct cp_slot_stats stats = {.size = sizeof stats};

    need(requests, 1);
    profile_to_memory(&stats, PERIOD);
    CHECK(profile_says("cycles"));
    CHECK(profile_says("modes: user # "));
    CHECK(profile_says("coverage: "));
    CHECK(!profile_says("multiplexed"));
}

CP_TEST(a_profile_whose_event_took_turns_says_so)
{
    struct cp_slot_request others[CP_EV_MAX - 1];
    struct profile profile = {.n = 0};
    struct cp_slot_stats stats = {.size = sizeof stats};

    for (size_t i = 0; i < CP_EV_MAX - 1; i++)
        others[i] = request(RAW_CYCLES, 10 * PERIOD + i);
    need(others, CP_EV_MAX - 1);
    start_profile(&profile, others, CP_EV_MAX - 1);
    profile_to_memory(&stats, PERIOD);
    stop_profile(&profile);
    if (stats.time_running == stats.time_enabled)
        SKIP("this PMU has a counter for each of %d events", CP_EV_MAX);
    CHECK(profile_says("multiplexed: "));
}

/* kernel.perf_event_max_sample_rate may be so low that events are throttled, as tests/vm sets it. */
CP_TEST(throttling_is_told)
{
    long rate = number_in("/proc/sys/kernel/perf_event_max_sample_rate", "");
    struct cp_slot_request requests[] = {request("cycles", 50000)};
    struct cp_slot_stats stats = {.size = sizeof stats};

    need(requests, 1);
    profile_to_memory(&stats, 50000);
    if (stats.throttled <= 10 && rate > 5000)
        SKIP("the kernel allows %ld samples a second, and throttles next to nothing", rate);
    printf("%llu samples, %llu times throttled\n", (unsigned long long)stats.samples,
           (unsigned long long)stats.throttled);
    CHECK(stats.throttled > 10);
    CHECK(profile_says("throttled: "));
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
