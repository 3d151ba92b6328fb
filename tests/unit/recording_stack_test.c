/* The stacks of waits, against what libunwind finds in the waiting function: in each way to wait, through
 * code without frame pointers (see the Makefile), on the M that the G comes to next. */
#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#include "sched.h"
#include "tests/support/gs.h"
#include "tests/support/recordings.h"
#include "tests/support/stopwatch.h"

/* The callers of the function that waits, innermost first. */
static struct {
    unsigned n;
    uintptr_t frames[CP_MAX_FRAMES];
    uintptr_t waits_in; /* an address in that function */
} expected;

static __attribute__((always_inline)) inline void note_callers(void)
{
    unw_context_t context;
    unw_cursor_t cursor;
    unw_word_t pc;

    unw_getcontext(&context);
    unw_init_local(&cursor, &context);
    unw_get_reg(&cursor, UNW_REG_IP, &pc);
    expected.waits_in = (uintptr_t)pc;
    for (expected.n = 0; expected.n < CP_MAX_FRAMES && unw_step(&cursor) > 0; expected.n++) {
        unw_get_reg(&cursor, UNW_REG_IP, &pc);
        if (pc == 0)
            break;
        expected.frames[expected.n] = (uintptr_t)pc;
    }
}

/* ---- Ways to wait ---------------------------------------------------------------------------- */

static struct cp_g *waiting;
static struct cp_chan *chan;
static sem_t may_go_on;

__attribute__((noinline)) static void by_park(void)
{
    note_callers();
    cp_park();
    __asm__ volatile("");
}

__attribute__((noinline)) static void by_channel(void)
{
    int value;

    note_callers();
    CHECK_EQ(cp_chan_recv(chan, &value), 0);
}

__attribute__((noinline)) static void by_sleep(void)
{
    note_callers();
    cp_sleep(MS);
    __asm__ volatile("");
}

__attribute__((noinline)) static void by_yield(void)
{
    note_callers();
    cp_yield();
    __asm__ volatile("");
}

__attribute__((noinline)) static void in_place(void)
{
    note_callers();
    cp_wait_begin(CP_WAIT_IO, NULL);
    sem_wait(&may_go_on);
    cp_wait_end();
}

__attribute__((noinline)) static void releases(void)
{
    note_callers();
    cp_ready(waiting);
    __asm__ volatile("");
}

/* ---- Callers --------------------------------------------------------------------------------- */

/* Frames of which each has another form: with arguments on the stack, of unknown size, aligned, called by
 * code of the C library. */
__attribute__((noinline)) static int many(int a, int b, int c, int d, int e, int f, int g, int h,
                                          void (*way)(void))
{
    way();
    __asm__ volatile("");
    return a + b + c + d + e + f + g + h;
}

__attribute__((noinline)) static void of_unknown_size(int n, void (*way)(void))
{
    volatile char *bytes = __builtin_alloca((size_t)n);

    bytes[0] = (char)many(1, 2, 3, 4, 5, 6, 7, 8, way);
    bytes[n - 1] = bytes[0];
}

__attribute__((noinline)) static void aligned(void (*way)(void))
{
    volatile char bytes[64] __attribute__((aligned(64)));

    bytes[1] = 100;
    of_unknown_size(bytes[1], way);
    bytes[0] = bytes[1];
}

static void (*way_now)(void);

static int compare(const void *a, const void *b)
{
    if (way_now != NULL) {
        void (*way)(void) = way_now;

        way_now = NULL;
        aligned(way);
    }
    return *(const int *)a - *(const int *)b;
}

__attribute__((noinline)) static void wait_by(void (*way)(void))
{
    int numbers[2] = {2, 1};

    way_now = way;
    qsort(numbers, 2, sizeof numbers[0], compare);
    CHECK_EQ(numbers[0], 1);
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static int check_stack(void *context, const struct cp__waits *waits)
{
    const unsigned place = place_of_frame(waits, expected.frames[0]);
    unsigned same = 0;

    if (waits->reason != *(const enum cp_wait_reason *)context || waits->depth == 0) /* before its begin */
        return 0;
    CHECK_EQ(waits->flags, 0);
    CHECK(place > 0 && place < 6 && place < waits->depth);
    CHECKF(waits->frames[place - 1] - expected.waits_in < 1024, "%#lx is not behind %#lx",
           (long)waits->frames[place - 1], (long)expected.waits_in);
    while (same < expected.n && place + same < waits->depth &&
           waits->frames[place + same] == expected.frames[same])
        same++;
    CHECKF(place + same == waits->depth, "%u of %u frames, %u of libunwind's", same, waits->depth,
           expected.n);
    CHECKF(same >= 7, "%u", same);
    return 1;
}

static void check_recorded(struct cp__recording *recording, enum cp_wait_reason reason)
{
    struct cp__recording_stats stats;

    CHECK_EQ(cp__recording_each(recording, &stats, check_stack, &reason), 1);
    cp__recording_free(recording);
}

/* ---- Gs -------------------------------------------------------------------------------------- */

static void waits(void *way)
{
    waiting = cp_sched_self();
    wait_by((void (*)(void))(uintptr_t)way);
    waiting = NULL;
}

static void wait_and_wake(void *way)
{
    const int value = 1;

    go(waits, way);
    cp_yield();
    if (way == (void *)(uintptr_t)by_park)
        cp_ready(waiting);
    else if (way == (void *)(uintptr_t)by_channel)
        cp_chan_send(chan, &value);
}

static void check_way(void (*way)(void), enum cp_wait_reason reason)
{
    struct cp__recording *recording = start_recording(CP__WAIT_EVENT_WAIT, 1);

    run(1, wait_and_wake, (void *)(uintptr_t)way);
    check_recorded(recording, reason);
}

CP_TEST(stacks_of_parked_gs_are_exact)
{
    check_way(by_park, CP_WAIT_PARK);
}

CP_TEST(stacks_of_gs_that_wait_for_channels_are_exact)
{
    chan = cp_chan_new(sizeof(int), 0);
    check_way(by_channel, CP_WAIT_CHANNEL_RECEIVE);
    cp_chan_free(chan);
}

CP_TEST(stacks_of_sleeping_gs_are_exact)
{
    check_way(by_sleep, CP_WAIT_SLEEP);
}

CP_TEST(stacks_of_runnable_gs_are_exact)
{
    struct cp__recording *recording = start_recording(CP__WAIT_EVENT_RUNNABLE, 1);

    run(1, wait_and_wake, (void *)(uintptr_t)by_park);
    check_recorded(recording, CP_WAIT_PARK);
}

static void yields(void *way)
{
    static unsigned others;

    go(add_one, &others); /* runs meanwhile: otherwise the G would not be without its M */
    wait_by((void (*)(void))(uintptr_t)way);
}

CP_TEST(stacks_of_gs_that_yield_are_exact)
{
    struct cp__recording *recording = start_recording(CP__WAIT_EVENT_RUNNABLE, 1);

    run(1, yields, (void *)(uintptr_t)by_yield);
    check_recorded(recording, CP_WAIT_OTHER);
}

/* ---- Those that end waits -------------------------------------------------------------------- */

/* Runs on the M that the other G has left, so that whoever is told of that G ends its wait: before, the M
 * itself would end it. */
static void tell_of(void *g)
{
    cp_store_release(&waiting, g); /* pairs with the acquire in release_as_nobody() */
}

static void parks(void *arg)
{
    (void)arg;
    go(tell_of, cp_sched_self());
    cp_park();
}

static void park_and_release(void *arg)
{
    go(parks, arg);
    while (waiting == NULL)
        cp_yield();
    wait_by(releases);
}

CP_TEST(stacks_of_gs_that_end_waits_are_exact)
{
    struct cp__recording *recording = start_recording(CP__WAIT_EVENT_LOCK, 1);

    run(1, park_and_release, NULL);
    check_recorded(recording, CP_WAIT_PARK);
}

static void *release_as_nobody(void *arg)
{
    while (cp_load_acquire(&waiting) == NULL) /* pairs with the release in tell_of() */
        sched_yield();
    wait_by(releases);
    return arg;
}

CP_TEST(stacks_of_plain_threads_that_end_waits_are_exact)
{
    struct cp__recording *recording = start_recording(CP__WAIT_EVENT_LOCK, 1);
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, release_as_nobody, NULL), 0);
    run(1, parks, NULL);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    check_recorded(recording, CP_WAIT_PARK);
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void *wait_as_m(void *arg)
{
    attach_m();
    wait_by(in_place);
    return arg;
}

CP_TEST(stacks_of_waiting_threads_are_exact)
{
    struct cp__recording *recording = start_recording(CP__WAIT_EVENT_WAIT, 1);
    pthread_t thread;

    CHECK_EQ(sem_init(&may_go_on, 0, 1), 0);
    CHECK_EQ(pthread_create(&thread, NULL, wait_as_m, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    check_recorded(recording, CP_WAIT_IO);
}

CP_TEST(stacks_of_the_first_thread_are_exact)
{
    struct cp__recording *recording = start_recording(CP__WAIT_EVENT_WAIT, 1);
    struct cp_m *m = attach_m();

    CHECK_EQ(sem_init(&may_go_on, 0, 1), 0);
    wait_by(in_place);
    check_recorded(recording, CP_WAIT_IO);
    cp_m_detach(m);
}

/* ---- Stacks that are copied ------------------------------------------------------------------ */

static struct cp__recording *looks;

/* Waits for a sample of a G that waits, or is runnable, with a whole stack. check_stack() checks it. */
static void wait_for_look(enum cp_wait_reason reason)
{
    struct cp__recording_stats stats;

    while (cp__recording_each(looks, &stats, check_stack, &reason) == 0)
        sched_yield();
}

static void wait_until_seen(void *way)
{
    const int value = 1;

    go(waits, way);
    cp_yield();
    looks = start_recording(CP__WAIT_EVENT_WALL, MS);
    wait_for_look(way == (void *)(uintptr_t)by_park      ? CP_WAIT_PARK
                  : way == (void *)(uintptr_t)by_channel ? CP_WAIT_CHANNEL_RECEIVE
                                                         : CP_WAIT_OTHER);
    cp__recording_free(looks);
    if (way == (void *)(uintptr_t)by_park)
        cp_ready(waiting);
    else if (way == (void *)(uintptr_t)by_channel)
        cp_chan_send(chan, &value);
}

CP_TEST(copied_stacks_of_waiting_gs_are_exact)
{
    chan = cp_chan_new(sizeof(int), 0);
    run(1, wait_until_seen, (void *)(uintptr_t)by_park);
    run(1, wait_until_seen, (void *)(uintptr_t)by_channel);
    cp_chan_free(chan);
}

static int check_if_runnable(void *context, const struct cp__waits *waits)
{
    enum cp_wait_reason any = CP_WAIT_OTHER;

    (void)context;
    return waits->state == CP__WALL_RUNNABLE ? check_stack(&any, waits) : 0;
}

static void yield_until_seen(void *way)
{
    struct cp__recording_stats stats;

    go(waits, way);
    cp_yield();
    looks = start_recording(CP__WAIT_EVENT_WALL, MS);
    while (cp__recording_each(looks, &stats, check_if_runnable, NULL) == 0)
        sched_yield();
    cp__recording_free(looks);
}

CP_TEST(copied_stacks_of_runnable_gs_are_exact)
{
    run(1, yield_until_seen, (void *)(uintptr_t)by_yield);
}

CP_TEST(copied_stacks_of_waiting_threads_are_exact)
{
    pthread_t thread;

    CHECK_EQ(sem_init(&may_go_on, 0, 0), 0);
    looks = start_recording(CP__WAIT_EVENT_WALL, MS);
    CHECK_EQ(pthread_create(&thread, NULL, wait_as_m, NULL), 0);
    wait_for_look(CP_WAIT_IO);
    sem_post(&may_go_on);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    cp__recording_free(looks);
}

/* ---- Gs that move ---------------------------------------------------------------------------- */

static struct cp_g moving;
static sem_t has_parked;

/* The G's stack is the thread's, which stands still until another M has taken the G. */
__attribute__((noinline)) static void until_taken(void)
{
    note_callers();
    cp_g_park(&moving, CP_WAIT_CONDITION, &moving);
    cp_execute(cp_m_self(), NULL);
    sem_post(&has_parked);
    sem_wait(&may_go_on);
}

static void *park_here(void *arg)
{
    struct cp_m *m = attach_m();

    cp_g_init(&moving, (void *)cp_g_self()->stack_lo, (void *)cp_g_self()->stack_hi, NULL);
    cp_execute(m, &moving);
    wait_by(until_taken);
    return arg;
}

CP_TEST(the_m_that_runs_a_g_next_finds_where_it_waited)
{
    struct cp__recording *recording = start_recording(CP__WAIT_EVENT_WAIT, 1);
    struct cp_m *m = attach_m();
    pthread_t thread;

    CHECK_EQ(sem_init(&may_go_on, 0, 0), 0);
    CHECK_EQ(sem_init(&has_parked, 0, 0), 0);
    CHECK_EQ(pthread_create(&thread, NULL, park_here, NULL), 0);
    CHECK_EQ(sem_wait(&has_parked), 0);
    cp_g_ready(&moving);
    cp_execute(m, &moving);
    cp_execute(m, NULL);
    sem_post(&may_go_on);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    cp_g_fini(&moving);
    check_recorded(recording, CP_WAIT_CONDITION);
    cp_m_detach(m);
}
