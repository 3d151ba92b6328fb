/* What samples the records of a ring become. The test makes the ring and fills it as the kernel would. */
#include "runtime/configure.h"
#include "runtime/engine/periods_linux.h"
#include "runtime/engine/ring_linux.h"
#include "runtime/handler.h"
#include "tests/support/made_ring.h"
#include "tests/support/stub_syscall.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

CP_TEST(each_record_is_a_sample)
{
    struct ring *ring = new_ring(CP_EVENT_CLOCK);

    check_moment(ring, 0, 0);
    for (uint64_t i = 1; i <= 5; i++)
        put_sample(ring, ID, i * PERIOD + 900);
    put_sample(ring, ID + 1, 77); /* of an event that has been closed */
    check_moment(ring, 5, 0);
    CHECK_EQ(cp__m_count_from_handler(&ring->m.stats[SLOT]), 5 * PERIOD + 900);
    CHECK_EQ(ring->m.stats[SLOT].overruns, 0);
    check_moment(ring, 0, 0);
    free_ring(ring);
}

/* The test fills the ring many times, so that records continue at its beginning. */
CP_TEST(records_run_over_the_rings_end)
{
    struct ring *ring = new_ring(CP_EVENT_SOFTWARE);

    for (uint64_t i = 1; i <= 1000; i++) {
        put_sample(ring, ID, i);
        check_moment(ring, 1, 0);
    }
    free_ring(ring);
}

CP_TEST(a_late_record_stands_for_the_periods_it_missed)
{
    struct ring *ring = new_ring(CP_EVENT_CLOCK);

    put_sample(ring, ID, PERIOD);
    check_moment(ring, 1, 0);
    put_sample(ring, ID, 6 * PERIOD + PERIOD / 2); /* four periods were missed */
    check_moment(ring, 5, 0);
    put_sample(ring, ID, 7 * PERIOD); /* the next record is in time again */
    check_moment(ring, 1, 0);
    CHECK_EQ(ring->m.stats[SLOT].overruns, 4);
    free_ring(ring);
}

/* A record may come a few counts early or late, because reading takes time. That is neither a period more nor
 * one fewer. */
CP_TEST(noise_is_no_period)
{
    struct ring *ring = new_ring(CP_EVENT_CLOCK);

    put_sample(ring, ID, PERIOD - 500);
    put_sample(ring, ID, 2 * PERIOD + PERIOD / 2);
    put_sample(ring, ID, 3 * PERIOD - 500);
    put_sample(ring, ID, 4 * PERIOD);
    check_moment(ring, 4, 0);
    put_sample(ring, ID, 6 * PERIOD - 500); /* one period was missed */
    check_moment(ring, 2, 0);
    free_ring(ring);
}

/* The machine stood still for 30 ms. No function is charged for that time, but the statistics have it. */
CP_TEST(a_long_gap_is_no_functions_time)
{
    struct ring *ring = new_ring(CP_EVENT_CLOCK);

    put_sample(ring, ID, PERIOD);
    check_moment(ring, 1, 0);
    put_sample(ring, ID, 302 * PERIOD);
    check_moment(ring, 1, 300);
    put_sample(ring, ID, 303 * PERIOD);
    check_moment(ring, 1, 0);
    CHECK_EQ(ring->m.stats[SLOT].overruns, 300);
    free_ring(ring);
}

/* Events other than clocks have a record for each period, so their counts add no periods. */
CP_TEST(only_clocks_are_folded)
{
    struct ring *ring = new_ring(CP_EVENT_SOFTWARE);

    put_sample(ring, ID, 10 * PERIOD);
    put_sample(ring, ID, 500 * PERIOD);
    check_moment(ring, 2, 0);
    free_ring(ring);
}

CP_TEST(throttling_is_told)
{
    struct ring *ring = new_ring(CP_EVENT_CLOCK);

    put(ring, PERF_RECORD_THROTTLE, (const uint64_t[]){12345, ID, ID}, 3);
    put(ring, PERF_RECORD_THROTTLE, (const uint64_t[]){12345, ID + 1, ID + 1}, 3);
    put(ring, PERF_RECORD_UNTHROTTLE, (const uint64_t[]){12346, ID, ID}, 3);
    check_moment(ring, 0, 0);
    CHECK_EQ(ring->m.stats[SLOT].throttled, 1);
    free_ring(ring);
}

/* The made event is there, whatever else has its number. */
static long stub_syscall(long number, const long a[6])
{
    if (number != SYS_ioctl || a[0] != FD)
        return hand_on(number, a);
    if ((unsigned long)a[1] == PERF_EVENT_IOC_ID)
        *(uint64_t *)a[2] = ID;
    return 0;
}

static bool is_paused(struct ring *ring)
{
    cp__events_pause_from_handler(&ring->m);
    return ring->perf.paused == 1u << SLOT;
}

/* A throttled event counts nothing, and enabling it at the handler's end would end the throttling. */
CP_TEST(a_throttled_event_is_not_paused)
{
    struct ring *ring = new_ring(CP_EVENT_HARDWARE);

    ring->perf.pausing = 1u << SLOT;
    CHECK(is_paused(ring));
    put(ring, PERF_RECORD_THROTTLE, (const uint64_t[]){12345, ID + 1, ID + 1}, 3);
    CHECK(is_paused(ring));
    put(ring, PERF_RECORD_THROTTLE, (const uint64_t[]){12345, ID, ID}, 3);
    put_sample(ring, ID, PERIOD);
    CHECK(!is_paused(ring));
    read_ring(ring);
    CHECK(!is_paused(ring));
    put(ring, PERF_RECORD_UNTHROTTLE, (const uint64_t[]){12346, ID, ID}, 3);
    CHECK(is_paused(ring));
    read_ring(ring);
    CHECK(is_paused(ring));
    free_ring(ring);
}

/* The record that begins throttling may stand for several periods, as any late record. The first record after
 * the gap does not, because the program has gone on since. */
CP_TEST(what_passes_while_throttled_is_no_functions_time)
{
    struct ring *ring = new_ring(CP_EVENT_CLOCK);

    for (uint64_t i = 0; i < 2; i++) {
        uint64_t gap = i == 0 ? 10 : 100; /* periods: less than what a stall takes, and more */

        put(ring, PERF_RECORD_THROTTLE, (const uint64_t[]){12345, ID, ID}, 3);
        put_sample(ring, ID, (1000 * i + 3) * PERIOD);
        read_ring(ring);
        put(ring, PERF_RECORD_UNTHROTTLE, (const uint64_t[]){12346, ID, ID}, 3);
        put_sample(ring, ID, (1000 * i + 3 + gap) * PERIOD);
        check_moment(ring, 1, 0);
        put_sample(ring, ID, (1000 * i + 3 + gap + 2) * PERIOD);
        check_moment(ring, 2, 0);
    }
    free_ring(ring);
}

static void put_time(struct ring *ring, uint64_t count, uint64_t running)
{
    put(ring, PERF_RECORD_SAMPLE, (const uint64_t[]){ID, count, running, running, 0}, 5);
}

static void check_throttled(struct ring *ring, uint64_t ns)
{
    read_ring(ring);
    CHECK_EQ(ring->m.stats[SLOT].throttled_ns, ns);
}

/* First, 4 ms pass by the clock, in which the thread runs for 3: 3 ms are throttled. Then 4 ms pass, and the
 * thread runs for 5 until the next record: 4 ms are throttled. */
CP_TEST(the_time_of_throttling_is_told)
{
    struct ring *ring = new_ring(CP_EVENT_HARDWARE);
    const uint64_t start = 1000000000, ms = 1000000;

    for (uint64_t i = 0; i < 2; i++) {
        put_time(ring, 1, 100 * i * ms);
        put(ring, PERF_RECORD_THROTTLE, (const uint64_t[]){start + 100 * i * ms, ID, ID}, 3);
        put_time(ring, 2, (100 * i + 1) * ms);
        check_throttled(ring, 3 * i * ms);
        put(ring, PERF_RECORD_UNTHROTTLE, (const uint64_t[]){start + (100 * i + 4) * ms, ID, ID}, 3);
        check_throttled(ring, 3 * i * ms);
        put_time(ring, 3, (100 * i + (i == 0 ? 4 : 6)) * ms);
        check_throttled(ring, (3 + 4 * i) * ms);
        put_time(ring, 4, (100 * i + 50) * ms);
        check_throttled(ring, (3 + 4 * i) * ms);
    }
    free_ring(ring);
}

CP_TEST(throttling_is_told_once_if_a_record_is_in_vain)
{
    struct ring *ring = new_ring(CP_EVENT_HARDWARE);

    ring->perf.handles[SLOT].periods.phase = 1;
    put(ring, PERF_RECORD_UNTHROTTLE, (const uint64_t[]){1000000000, ID, ID}, 3);
    put_time(ring, 2, 5000);
    check_throttled(ring, 0);
    put_time(ring, PERIOD, 5000);
    check_throttled(ring, 5000);
    free_ring(ring);
}

/* The record is lost if the ring is full. */
CP_TEST(the_record_that_begins_throttling_may_be_lost)
{
    struct ring *ring = new_ring(CP_EVENT_HARDWARE);

    for (uint64_t i = 1; i <= 2; i++) {
        put_time(ring, 1, 100000 * i);
        put(ring, PERF_RECORD_UNTHROTTLE, (const uint64_t[]){1000000000, ID, ID}, 3);
        put_time(ring, 2, 100000 * i + 5000);
        check_throttled(ring, 5000 * i);
        CHECK_EQ(ring->m.stats[SLOT].throttled, i);
    }
    free_ring(ring);
}

CP_TEST(an_event_may_end_throttled)
{
    struct ring *ring = new_ring(CP_EVENT_HARDWARE);
    const struct cp__count last = {.time_running = 7000};

    put(ring, PERF_RECORD_THROTTLE, (const uint64_t[]){1, ID, ID}, 3);
    put_time(ring, 1, 5000);
    read_ring(ring);
    cp__periods_end_throttling_from_handler(&ring->m, SLOT, &last);
    CHECK_EQ(ring->m.stats[SLOT].throttled_ns, 2000);
    put(ring, PERF_RECORD_UNTHROTTLE, (const uint64_t[]){1501, ID, ID}, 3);
    read_ring(ring);
    cp__periods_end_throttling_from_handler(&ring->m, SLOT, &last);
    CHECK_EQ(ring->m.stats[SLOT].throttled_ns, 2000 + 1500);
    free_ring(ring);
}

/* The kernel's count of a clock that it throttles is not the time that passed. */
CP_TEST(a_clocks_count_is_the_time_that_it_ran)
{
    struct ring *ring = new_ring(CP_EVENT_CLOCK);

    put_time(ring, 3 * PERIOD, 2 * PERIOD);
    put_time(ring, 3 * PERIOD, 5 * PERIOD);
    read_ring(ring);
    CHECK_EQ(cp__m_count_from_handler(&ring->m.stats[SLOT]), 5 * PERIOD);
    free_ring(ring);
}

/* ---- Bytes that are no record ---------------------------------------------------------------- */

/* Only the program itself can write them: the ring is its memory. What comes later is read. */
CP_TEST(bytes_that_are_no_record_are_lost)
{
    struct ring *ring = new_ring(CP_EVENT_HARDWARE);

    put_sample(ring, ID, PERIOD);
    ring->page->data_head += 64; /* zeros */
    check_moment(ring, 1, 0);
    CHECK_EQ(ring->m.stats[SLOT].lost, 1);
    put_sample(ring, ID, 3 * PERIOD);
    check_moment(ring, 1, 0);
    CHECK_EQ(ring->m.stats[SLOT].lost, 1);
    free_ring(ring);
}

/* The slots that have a ring lose one each; one without a ring, and a timer, have lost nothing. */
CP_TEST(each_slot_of_the_ring_loses_one)
{
    struct ring *ring = new_ring(CP_EVENT_HARDWARE);

    ring->perf.handles[0] = ring->perf.handles[1] = ring->perf.handles[SLOT];
    ring->perf.handles[0].events[0].id = ID + 1;
    ring->perf.handles[1].events[0].id = ID + 2;
    ring->m.stats[1].ringless = 1;
    ring->m.handles[2] = (struct cp__handle){.seq = 1, .engine = &cp__engine_timer, .kind = CP_EVENT_TIMER};
    ring->m.armed = 1u << SLOT | 7;
    put(ring, PERF_RECORD_SAMPLE, NULL, 0); /* too short to name its event */
    read_ring(ring);
    CHECK_EQ(ring->m.stats[SLOT].lost, 1);
    CHECK_EQ(ring->m.stats[0].lost, 1);
    CHECK_EQ(ring->m.stats[1].lost, 0);
    CHECK_EQ(ring->m.stats[2].lost, 0);
    free_ring(ring);
}

CP_TEST(a_sample_of_another_length_is_lost)
{
    struct ring *ring = new_ring(CP_EVENT_HARDWARE);

    put(ring, PERF_RECORD_SAMPLE, (const uint64_t[]){ID, PERIOD, PERIOD, PERIOD, 0, 0}, 6);
    put_sample(ring, ID, 2 * PERIOD);
    check_moment(ring, 1, 0);
    CHECK_EQ(ring->m.stats[SLOT].lost, 1);
    free_ring(ring);
}

/* A program that writes over the page of control moves what has been written, or what has been read, by any
 * distance. The next reading is right again, because the kernel has its own copy of the first number. */
CP_TEST(positions_that_cannot_be_are_told)
{
    static const uint64_t moves[] = {1,         4, 9, 4096 + 8, 1ull << 40, (1ull << 40) + 3, UINT64_MAX - 7,
                                     UINT64_MAX};

    for (size_t i = 0; i < ARRAY_SIZE(moves); i++) {
        struct ring *ring = new_ring(CP_EVENT_HARDWARE);

        ring->page->data_head = moves[i];
        read_ring(ring);
        CHECK_EQ(ring->m.stats[SLOT].lost, 1);
        ring->page->data_head = 0;
        put_sample(ring, ID, PERIOD);
        read_ring(ring);
        CHECK_EQ(ring->m.stats[SLOT].lost + ring->m.stats[SLOT].interrupts, 2);
        put_sample(ring, ID, 2 * PERIOD);
        check_moment(ring, 1, 0);
        free_ring(ring);
    }
}

/* ---- Records with something of their own ----------------------------------------------------- */

struct last {
    unsigned n;
    struct cp_sample sample;
    uintptr_t frames[CP_MAX_FRAMES];
};

static void keep(void *context, const struct cp_sample *sample)
{
    struct last *last = context;

    last->n++;
    last->sample = *sample;
    memcpy(last->frames, sample->frames, sample->depth * sizeof last->frames[0]);
}

/* Puts one record with these words into the ring and returns the sample that the record becomes. */
static struct last sample_of(struct ring *ring, uint16_t misc, const uint64_t *words, size_t n)
{
    const struct cp__registers regs = {.pc = 0x4711}; /* without a stack, so that nothing is unwound */
    const siginfo_t info = {.si_code = POLL_IN};
    struct cp__moment moment;
    struct last last = {.n = 0};

    CHECK_EQ(cp__samplebuf_make(&ring->m.buffers[SLOT]), 0);
    put_misc(ring, PERF_RECORD_SAMPLE, misc, words, n);
    cp__moment_begin_from_handler(&moment, &regs, CP__SINCE_HERE);
    cp__events_on_signal_from_handler(&ring->m, &info, &moment);
    CHECK(!moment.any); /* the sample has been recorded */
    cp__samplebuf_read(&ring->m.buffers[SLOT], 1, keep, &last);
    CHECK_EQ(last.n, 1);
    return last;
}

CP_TEST(a_precise_address_is_the_programs)
{
    struct ring *ring = new_ring(CP_EVENT_HARDWARE);
    const uint64_t words[] = {ID, 0x5000, PERIOD, PERIOD, PERIOD, 0};
    struct last last;

    ring->perf.handles[SLOT].is_precise = true;
    ring->perf.handles[SLOT].layout = cp__record_layout_from_handler(SAMPLE_TYPE | PERF_SAMPLE_IP);
    last = sample_of(ring, PERF_RECORD_MISC_USER | PERF_RECORD_MISC_EXACT_IP, words, 6);
    CHECK_EQ(last.sample.ip, 0x5000);
    CHECK_EQ(last.sample.depth, 1);
    CHECK_EQ(last.frames[0], 0x4711);
    CHECK_EQ(cp__m_count_from_handler(&ring->m.stats[SLOT]), PERIOD);
    last = sample_of(ring, PERF_RECORD_MISC_KERNEL, words, 6);
    CHECK_EQ(last.sample.ip, 0);
    free_ring(ring);
}

/* A chain has the kernel's frames, then the program's if they are wanted. The records have all lengths, so
 * that they end at all places of the ring. */
CP_TEST(chains_are_taken_apart)
{
    struct ring *ring = new_ring(CP_EVENT_CLOCK);
    uint64_t words[160] = {ID, PERIOD, PERIOD, PERIOD, 0};

    ring->perf.handles[SLOT].layout = cp__record_layout_from_handler(SAMPLE_TYPE | PERF_SAMPLE_CALLCHAIN);
    for (unsigned i = 0; i < 2000; i++) {
        unsigned kernel = i % 7, user = i % 64, n = 6;
        bool wanted = i % 2 == 0;
        struct last last;

        words[n++] = (uint64_t)PERF_CONTEXT_HV;
        words[n++] = 0xdead;
        words[n++] = (uint64_t)PERF_CONTEXT_KERNEL;
        for (unsigned k = 0; k < kernel; k++)
            words[n++] = 0xffffffff81000000 + k;
        words[n++] = (uint64_t)PERF_CONTEXT_USER;
        for (unsigned u = 0; u < user; u++)
            words[n++] = 0x400000 + u;
        words[5] = n - 6;
        ring->perf.handles[SLOT].has_user_chain = wanted;
        last = sample_of(ring, PERF_RECORD_MISC_KERNEL, words, n);
        CHECK_EQ(last.sample.kernel_depth, kernel);
        CHECK_EQ(last.sample.depth, kernel + (wanted && user > 0 ? user : 1));
        CHECK_EQ(last.sample.ip, 0);
        for (unsigned k = 0; k < kernel; k++)
            CHECK_EQ(last.frames[k], 0xffffffff81000000 + k);
        for (unsigned u = 0; wanted && u < user; u++)
            CHECK_EQ(last.frames[kernel + u], 0x400000 + u);
        CHECK((wanted && user > 0) || last.frames[kernel] == 0x4711);
    }
    free_ring(ring);
}

/* A sysctl decides how long a chain may be. A longer chain than a sample's is cut, and the sample is
 * marked. */
CP_TEST(long_chains_are_cut)
{
    struct ring *ring = new_ring(CP_EVENT_CLOCK);
    uint64_t words[6 + 301] = {ID, PERIOD, PERIOD, PERIOD, 0, 301, (uint64_t)PERF_CONTEXT_KERNEL};
    struct last last;

    for (unsigned i = 7; i < ARRAY_SIZE(words); i++)
        words[i] = 0xffffffff81000000 + i;
    ring->perf.handles[SLOT].layout = cp__record_layout_from_handler(SAMPLE_TYPE | PERF_SAMPLE_CALLCHAIN);
    last = sample_of(ring, PERF_RECORD_MISC_KERNEL, words, ARRAY_SIZE(words));
    CHECK_EQ(last.sample.kernel_depth, CP_MAX_FRAMES);
    CHECK_EQ(last.sample.depth, CP_MAX_FRAMES);
    CHECK((last.sample.flags & CP_SAMPLE_TRUNCATED) != 0);
    free_ring(ring);
}

/* ---- Where records were made ----------------------------------------------------------------- */

#define PC 0x10000
#define SP 0x70000
#define SIGNAL_FRAME 0x90000

/* Puts a record that was made in user mode, with the program counter and stack pointer given. */
static void put_place(struct ring *ring, uintptr_t pc, uintptr_t sp)
{
    put(ring, PERF_RECORD_SAMPLE, (const uint64_t[]){ID, 0, 0, 0, 0, PERF_SAMPLE_REGS_ABI_64, sp, pc}, 8);
}

/* Returns how many samples are late if the program is now at PC and SP. */
static uint64_t count_late(struct ring *ring, enum cp__since since)
{
    const struct cp__registers regs = {.pc = PC, .sp = SP};
    const siginfo_t info = {.si_code = POLL_IN};
    uint64_t before = ring->m.stats[SLOT].late;
    struct cp__moment moment;

    cp__moment_begin_from_handler(&moment, &regs, since);
    moment.signal_frame = SIGNAL_FRAME;
    cp__events_on_signal_from_handler(&ring->m, &info, &moment);
    cp__moment_end_from_handler(&ring->m, &moment);
    return ring->m.stats[SLOT].late - before;
}

static void need_places(void)
{
    if (CP__PERF_REGS == 0)
        SKIP("what perf_event_open calls this processor's registers is not known");
}

static struct ring *ring_of_places(enum cp_event_kind kind)
{
    struct ring *ring = new_ring(kind);

    CHECK_EQ(cp__samplebuf_make(&ring->m.buffers[SLOT]), 0);
    ring->perf.handles[SLOT].layout = cp__record_layout_from_handler(SAMPLE_TYPE | PERF_SAMPLE_REGS_USER);
    ring->perf.ring.own_begin = UINT64_MAX;
    return ring;
}

CP_TEST(a_record_of_another_place_is_late)
{
    static const struct {
        uintptr_t pc, sp;
        bool is_late;
        bool is_late_in_pmu;
        bool is_late_if_precise;
    } cases[] = {
        {PC, SP, false, false, false},
        /* the signal interrupted a system call that will be restarted */
        {PC + CP__SYSCALL_SIZE, SP, false, false, false},
        {PC + 1, SP, true, false, false},
        {PC - CP__SYSCALL_SIZE, SP, true, false, false},
        {PC, SP - 8, true, false, false},
        {PC + 200, SP - 8, true, false, false},
        {PC + 300, SP - 8, true, true, false},
        {PC - 300, SP + 4096, true, true, false},
        {PC - 300, SP - 4104, true, true, true},
        {PC + 300, SIGNAL_FRAME, false, false, false}, /* the kernel is beginning or ending a handler */
        {PC + 300, SIGNAL_FRAME - 8, false, false, false},
        {PC + 300, SIGNAL_FRAME - 16, true, true, true},
        {PC + 300, SIGNAL_FRAME + 8, true, true, true},
        {(uintptr_t)cp__on_signal_from_handler, SP - 8, false, false, false},
        {(uintptr_t)cp__on_signal_from_handler + 100, SP + 1000, false, false, false},
    };

    need_places();
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct ring *software = ring_of_places(CP_EVENT_SOFTWARE), *pmu = ring_of_places(CP_EVENT_HARDWARE);

        put_place(software, cases[i].pc, cases[i].sp);
        CHECKF(count_late(software, CP__SINCE_SIGNAL) == cases[i].is_late, "case %zu", i);
        put_place(software, cases[i].pc, cases[i].sp);
        CHECKF(count_late(software, CP__SINCE_HERE) == 0, "case %zu", i);
        put_place(pmu, cases[i].pc, cases[i].sp);
        CHECKF(count_late(pmu, CP__SINCE_SIGNAL) == cases[i].is_late_in_pmu, "case %zu", i);
        pmu->perf.handles[SLOT].is_precise = true;
        put_place(pmu, cases[i].pc, cases[i].sp);
        CHECKF(count_late(pmu, CP__SINCE_SIGNAL) == cases[i].is_late_if_precise, "case %zu", i);
        free_ring(software);
        free_ring(pmu);
    }
}

/* SIGPROF was blocked by the library itself when the records were made. */
CP_TEST(records_made_in_the_library_are_not_late)
{
    struct ring *ring;

    need_places();
    ring = ring_of_places(CP_EVENT_SOFTWARE);
    put_place(ring, PC + 300, SP - 8);
    put_place(ring, PC + 400, SP - 8);
    cp__ring_own_ends_from_handler(&ring->perf.ring); /* an earlier handler ended here */
    put_place(ring, PC + 500, SP - 8);                /* the program goes on with SIGPROF blocked */
    cp__ring_own_begins_from_handler(&ring->perf.ring);
    put_place(ring, PC + 600, SP - 8);
    CHECK_EQ(count_late(ring, CP__SINCE_SIGNAL), 1);
    put_place(ring, PC + 700, SP - 8);
    cp__ring_own_ends_from_handler(&ring->perf.ring);
    put_place(ring, PC + 800, SP - 8);
    CHECK_EQ(count_late(ring, CP__SINCE_SIGNAL), 1);
    CHECK_EQ(ring->m.stats[SLOT].samples, 6);
    free_ring(ring);
}

static void take_late(void *context, const struct cp_sample *sample)
{
    uint64_t *found = context;

    CHECK_EQ(sample->flags, CP_SAMPLE_LATE);
    CHECK(sample->depth == 1 && sample->frames[0] == PC + 300);
    found[sample->g_id]++;
}

/* A late sample belongs to the running G only if its stack pointer is on that G's stack. */
CP_TEST(a_late_sample_is_its_own_address_and_gs)
{
    struct cp_g g = {.id = 1, .stack_lo = SP - 4096, .stack_hi = SP};
    uint64_t found[2] = {0};
    struct ring *ring;

    need_places();
    ring = ring_of_places(CP_EVENT_SOFTWARE);
    ring->m.head.g = &g;
    put_place(ring, PC + 300, SP - 8);
    put_place(ring, PC + 300, SP + 8);
    CHECK_EQ(count_late(ring, CP__SINCE_BLOCKED), 2);
    CHECK_EQ(cp__samplebuf_read(&ring->m.buffers[SLOT], 1, take_late, found), 2);
    CHECK(found[0] == 1 && found[1] == 1);
    free_ring(ring);
}
