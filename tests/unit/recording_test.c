/* Recordings of waits: which waits they take, of whom, and what these add up to. */
#include "sched.h"
#include "tests/support/gs.h"
#include "tests/support/recordings.h"

static uintptr_t called_from; /* where the last call of park_once() returned to */

/* ---- Waits of Gs ----------------------------------------------------------------------------- */

static struct cp_g *parked;

__attribute__((noinline)) static void park_once(void)
{
    called_from = (uintptr_t)__builtin_return_address(0);
    cp_park();
    __asm__ volatile("");
}

static void parks(void *times)
{
    parked = cp_sched_self();
    for (volatile int i = 0; i < *(const int *)times; i++)
        park_once();
    parked = NULL;
}

static void park_and_ready(void *times)
{
    go(parks, times);
    for (cp_yield(); parked != NULL; cp_yield())
        cp_ready(parked); /* the only M has run the other G until it parks */
}

CP_TEST(each_wait_is_recorded_with_its_stack_and_reason)
{
    struct cp__recording *recording = start_recording(CP__WAIT_EVENT_WAIT, 1);
    struct sought all;
    int n = 5;

    run(1, park_and_ready, &n);
    cp__recording_stop(recording);
    all = seek_all(recording);
    CHECK_EQ(all.records, 1);
    CHECK_EQ(all.sampled, n);
    CHECK(all.waits == n);
    CHECK_EQ(all.flags, 0);
    CHECK_EQ(seek(recording, CP_WAIT_PARK, called_from, NULL).records, 1);
    cp__recording_free(recording);
}
