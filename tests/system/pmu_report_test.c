/* What profiles of hardware events say. */
#include <zlib.h>

#include "pprof.h"
#include "tests/support/burn.h"

/* In cycles, of which a simulated PMU counts one each ns. */
#define PERIOD 1000000
#define BURNT (320 * MS)

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

/* Samples cycles for BURNT and leaves the profile in memory. */
static void profile_to_memory(struct cp_slot_stats *stats, uint64_t period)
{
    struct cp_profiling_option option = cp_option_event(cp_writer_memory(&memory), "cycles", period);
    struct worker worker = {.body = NULL};
    struct cp_session *session;
    struct cp_error err = {0};

    attach(&worker);
    sim->clock_ns = 1000; /* for the start's trial */
    CHECKF(cp_session_start(&session, &option, 1, &err) == 0, "%s", err.message);
    sim->clock_ns = 0;
    burn_a(BURNT);
    CHECKF(cp_session_stop(session, &err) == 0, "%s", err.message);
    CHECK_EQ(cp_session_stats(session, 0, stats), 0);
    cp_session_close(session);
    cp_m_detach(worker.m);
}

SIM_TEST(a_profile_of_cycles_says_so)
{
    struct cp_slot_stats stats = {.size = sizeof stats};

    sim->pmu.is_there = true;
    profile_to_memory(&stats, PERIOD);
    CHECK_EQ(stats.samples, BURNT / PERIOD);
    CHECK_EQ(stats.count, BURNT);
    CHECK(profile_says("cycles"));
    CHECK(profile_says("modes: user # "));
    CHECK(profile_says("samples: 320 # "));
    CHECK(profile_says("interval: 1000000.0 # "));
    CHECK(profile_says("coverage: 100.00 # "));
    CHECK(profile_says("limits: none"));
    CHECK(!profile_says("multiplexed"));
}

/* Eight events share two counters: each has a counter in two of eight ticks. */
SIM_TEST(a_profile_whose_event_took_turns_says_so)
{
    struct cp_slot_request others[7];
    struct profile profile = {.n = 0};
    struct cp_slot_stats stats = {.size = sizeof stats};

    sim->pmu.is_there = true;
    sim->pmu.counters = 2;
    sim->clock_ns = 1000; /* for the start's trial */
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        others[i] = request("instructions", 10 * PERIOD + i);
    start_profile(&profile, others, ARRAY_SIZE(others));
    profile_to_memory(&stats, PERIOD);
    stop_profile(&profile);
    CHECK_EQ(stats.time_enabled, BURNT);
    CHECK_EQ(stats.time_running, BURNT / 4);
    CHECK_EQ(stats.count, BURNT / 4);
    CHECK_EQ(stats.samples, BURNT / 4 / PERIOD);
    CHECK(profile_says("multiplexed: 25.0 # "));
    CHECK(profile_says("limits: multiplexed"));
}

SIM_TEST(a_profile_whose_event_never_had_a_counter_says_so)
{
    struct cp_slot_stats stats = {.size = sizeof stats};

    sim->pmu.is_there = sim->pmu.is_taken = true;
    profile_to_memory(&stats, PERIOD);
    CHECK_EQ(stats.samples, 0);
    CHECK(profile_says("multiplexed: 0.0 # the event never had a counter"));
}

/* Of 80 samples in a tick of 4 ms, 4 may be, and one more is what throttles. From then on
 * 3.75 ms pass until the next tick. */
SIM_TEST(throttling_is_told)
{
    const uint64_t ticks = BURNT / (4 * MS);
    struct cp_slot_stats stats = {.size = sizeof stats};
    char text[64];

    sim->pmu.is_there = true;
    sim->max_rate = 1000;
    profile_to_memory(&stats, 50000);
    printf("throttled for %llu ns\n", (unsigned long long)stats.throttled_ns);
    CHECK_EQ(stats.throttled, ticks);
    CHECK_EQ(stats.samples, 5 * ticks);
    CHECK_EQ(stats.count / 50000, 5 * ticks);          /* and what comes after the last tick */
    CHECK_EQ(stats.throttled_ns, BURNT - stats.count); /* a PMU does not count meanwhile */
    snprintf(text, sizeof text, "throttled: %llu # ", (unsigned long long)ticks);
    CHECK(profile_says(text));
    CHECK(profile_says("came to 20000 a second, and the kernel stops at 1000 (kernel.perf_event_max"));
    CHECK(profile_says("limits: coverage,warning,throttled,throttled_ns # "));
}
