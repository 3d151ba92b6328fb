/* Parts of the handler that meet other threads, or each other, too rarely by chance: the tests make them
 * meet. */
#include "tests/support/burn.h"

#include <stdint.h>
#include <ucontext.h>

#include "runtime/base/os.h"
#include "runtime/handler.h"
#include "runtime/m.h"
#include "runtime/samplebuf.h"
#include "runtime/slot.h"

static int start_one(const struct cp_slot_request *made)
{
    struct cp_error err;
    int slot;

    CHECKF(cp_slots_start(made, 1, &slot, &err) == 0, "%s", err.message);
    return slot;
}

static void end_one(int slot)
{
    cp_slots_stop(&slot, 1);
    cp_slots_release(&slot, 1);
}

/* Sends a tick of the timer of the config seq to this thread, as the kernel would. */
static void send_tick(uint64_t seq)
{
    siginfo_t info;

    memset(&info, 0, sizeof info);
    info.si_code = SI_TIMER;
    info.si_value.sival_ptr = (void *)(uintptr_t)seq;
    CHECK_EQ(syscall(SYS_rt_tgsigqueueinfo, getpid(), cp__os_tid(), SIGPROF, &info), 0);
}

/* ---- Two timers ------------------------------------------------------------------------------ */

#define TICKS 100

/* No time passes, so the timers have no ticks of their own. */
SIM_TEST(each_timer_gets_its_own_ticks)
{
    struct cp_slot_request requests[] = {request("timer", 2000 * MS), request("timer", 1000 * MS)};
    struct profile profile = {.n = 0};
    struct worker worker = {.body = NULL};
    struct cp_slot_stats gone = {.size = sizeof gone};
    int late;

    attach(&worker);
    start_unread(&profile, requests, 2);
    late = start_one(&requests[1]);
    for (int i = 0; i < TICKS; i++) {
        send_tick(cp__slot_seq_from_handler(profile.slots[0]));
        send_tick(cp__slot_seq_from_handler(profile.slots[1]));
        send_tick(cp__slot_seq_from_handler(profile.slots[1]));
    }
    cp_slots_stats(late, &gone);
    CHECK_EQ(gone.samples, 0);
    end_one(late);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].samples, TICKS);
    CHECK_EQ(profile.stats[1].samples, 2 * TICKS);
    CHECK_EQ(profile.stats[0].foreign, 0);
    cp_m_detach(worker.m);
}

/* What the event in slot has counted. */
static uint64_t count_now(int slot)
{
    struct cp_slot_stats stats = {.size = sizeof stats};

    CHECK_EQ(cp_slots_stats(slot, &stats), 0);
    return stats.count;
}

/* Its first tick comes within its period, after the test or not. */
SIM_TEST(a_timer_counts_the_threads_time_before_its_ticks_and_until_its_end)
{
    struct cp_slot_request made = request("timer", 2000 * MS);
    struct worker worker = {.body = NULL};
    int slot;

    attach(&worker);
    burn_a(MS);
    slot = start_one(&made);
    CHECK_EQ(count_now(slot), 0);
    burn_a(2 * MS);
    CHECK_EQ(count_now(slot), 2 * MS);
    cp_slots_stop(&slot, 1);
    CHECK_EQ(count_now(slot), 2 * MS);
    burn_a(MS);
    CHECK_EQ(count_now(slot), 2 * MS);
    cp_slots_release(&slot, 1);
    cp_m_detach(worker.m);
}

/* ---- A config that changes while it is copied ------------------------------------------------ */

#define ROUNDS 100

static struct {
    int slot;
    uint32_t stop;
    uint32_t arrived;  /* how often the copying thread has been interrupted */
    uint32_t released; /* how often the copying thread may continue */
    uint64_t whole, refused, torn;
} copying;

/* The thread waits here until the slot has another config. */
static void stand_still(int signal)
{
    uint32_t round = cp_load_relaxed(&copying.arrived) + 1; /* relaxed: stored by this thread */

    (void)signal;
    cp_store_release(&copying.arrived, round);          /* pairs with the acquire in interrupt_copying() */
    while (cp_load_acquire(&copying.released) != round) /* pairs with the release there */
        sched_yield();
}

/* Writes the config's number into fields that the timer does not use. */
static void number(struct cp_slot_request *made, uint64_t n)
{
    made->config.period = n;
    made->config.raw_event = n;
    made->config.encoding.config2 = n;
}

static bool is_whole(const struct cp__slot_config *config, uint64_t first_seq)
{
    uint64_t n = config->seq - first_seq;

    return config->config.period == n && config->config.raw_event == n &&
           config->config.encoding.config2 == n;
}

static void *body_copies(void *arg)
{
    struct cp__slot_config config;

    while (cp_load_acquire(&copying.stop) == 0) { /* pairs with the release in the test */
        if (!cp__slot_config_from_handler(copying.slot, &config))
            copying.refused++;
        else if (is_whole(&config, *(const uint64_t *)arg))
            cp_add_single_writer(&copying.whole, 1);
        else
            copying.torn++;
    }
    return NULL;
}

static void interrupt_copying(pthread_t thread, struct cp_slot_request *made, uint32_t round)
{
    uint64_t whole = cp_load_relaxed(&copying.whole); /* relaxed: only the change of the number matters */

    while (cp_load_relaxed(&copying.whole) < whole + 100) /* relaxed: as above */
        sched_yield();
    CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
    while (cp_load_acquire(&copying.arrived) != round) /* pairs with the release in stand_still() */
        sched_yield();
    end_one(copying.slot);
    number(made, round);
    CHECK_EQ(start_one(made), copying.slot);
    cp_store_release(&copying.released, round); /* pairs with the acquire in stand_still() */
}

/* The thread does little except copying, so most of the interruptions come in the middle of a copy. */
CP_TEST(a_config_is_copied_whole_or_not_at_all)
{
    const struct sigaction action = {.sa_handler = stand_still};
    struct cp_slot_request made = request("timer", 1000 * MS);
    uint64_t first_seq;
    pthread_t thread;

    CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    number(&made, 0);
    copying.slot = start_one(&made);
    first_seq = cp__slot_seq_from_handler(copying.slot);
    CHECK_EQ(pthread_create(&thread, NULL, body_copies, &first_seq), 0);
    for (uint32_t round = 1; round <= ROUNDS; round++)
        interrupt_copying(thread, &made, round);
    cp_store_release(&copying.stop, 1); /* pairs with the acquire in body_copies() */
    CHECK_EQ(pthread_join(thread, NULL), 0);
    end_one(copying.slot);
    printf("%llu copies, %llu refused\n", (unsigned long long)copying.whole,
           (unsigned long long)copying.refused);
    CHECK_EQ(copying.torn, 0);
    CHECK(copying.refused > 0 && copying.refused <= ROUNDS);
}

/* ---- A buffer that fills --------------------------------------------------------------------- */

/* How many words the samples take in the buffer, and the last one of them. */
struct words {
    uint64_t all, last;
};

static void add_words(void *context, const struct cp_sample *sample)
{
    struct words *words = context;

    words->last = CP__SAMPLE_HEADER_WORDS + sample->depth;
    words->all += words->last;
}

SIM_TEST(a_buffer_that_is_half_full_wakes_its_reader)
{
    struct cp_slot_request made = request("timer", 1000 * MS);
    struct worker worker = {.body = NULL};
    struct cp_slot_stats stats = {.size = sizeof stats};
    struct words words = {.all = 0};
    uint32_t token = cp_slots_token();
    int slot;

    attach(&worker);
    slot = start_one(&made);
    while (cp_slots_token() == token && stats.dropped == 0) {
        send_tick(cp__slot_seq_from_handler(slot));
        cp_slots_stats(slot, &stats);
    }
    CHECK_EQ(stats.dropped, 0);
    cp_slots_read(slot, add_words, &words);
    CHECK(words.all >= CP__SAMPLEBUF_WORDS / 2 && words.all - words.last < CP__SAMPLEBUF_WORDS / 2);
    cp_slots_wait(token, 100000); /* otherwise the test takes too long */
    end_one(slot);
    cp_m_detach(worker.m);
}

/* ---- Time in the handler --------------------------------------------------------------------- */

#define RUNS 3200

/* The ticks are those of a timer that is gone. */
SIM_TEST(few_runs_of_the_handler_are_timed_and_stand_for_all)
{
    struct cp_slot_request made = request("timer", 1000 * MS);
    struct worker worker = {.body = NULL};
    uint64_t stand = 0, timed = 0, shortest = RUNS, longest = 0;
    siginfo_t info = {.si_code = SI_TIMER};
    ucontext_t context;
    struct cp__m *m;
    int slot = start_one(&made);

    info.si_value.sival_ptr = (void *)(uintptr_t)cp__slot_seq_from_handler(slot);
    end_one(slot);
    attach(&worker);
    m = (struct cp__m *)worker.m;
    m->random = 1;
    getcontext(&context);
    for (uint64_t run = 1; run <= RUNS; run++) {
        uint64_t before = m->handler_ns, for_all = 1 + m->timing.stood;
        bool is_timed = m->timing.left == 0;

        cp__on_signal_from_handler(SIGPROF, &info, &context);
        CHECK_EQ((m->handler_ns - before) % for_all, 0);
        CHECK(is_timed || m->handler_ns == before);
        if (!is_timed)
            continue;
        timed++;
        stand += for_all;
        CHECK_EQ(stand, run);
        shortest = for_all < shortest ? for_all : shortest;
        longest = for_all > longest ? for_all : longest;
    }
    CHECK(timed > RUNS / 32 && timed < RUNS / 8);
    CHECK(shortest == 1 && longest > 16); /* they do not follow a rhythm of the program's */
    CHECK(m->handler_ns > 0);
    CHECK_EQ(m->foreign, 0);
    cp_m_detach(worker.m);
}
