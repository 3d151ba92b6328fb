/* A thread that attaches is known to others before it has looked at the slots itself. */
#include "tests/support/burn.h"
#include "tests/support/stub_syscall.h"

#include "runtime/m.h"
#include "runtime/slot.h"

static int
    is_known; /* atomic: 1: the thread is about to look at the slots, 2: another thread has the claim */

static bool is_listed(void)
{
    bool is = false;

    cp__lock(&cp__runtime_lock);
    is = cp__ms != NULL && cp__ms == cp__m_current;
    cp__unlock(&cp__runtime_lock);
    return is;
}

/* The first call of an attach that comes when its M is listed is that which blocks signals, to look at the
 * slots. */
static long stub_syscall(long number, const long a[6])
{
    if (number == SYS_rt_sigprocmask && cp__m_current != NULL && cp_load_relaxed(&is_known) == 0 &&
        is_listed()) {
        cp_store_release(&is_known, 1); /* pairs with the acquire in await(), burn.h */
        await(&is_known, 2);
    }
    return hand_on(number, a);
}

static void body_runs(struct worker *worker)
{
    const struct cp__m *m = (struct cp__m *)worker->m;

    CHECK_EQ(m->armed, 1u << *(const int *)worker->arg);
    burn_a(5 * MS);
}

/* Another thread has the claim when the attach looks at the slots, and gives it back a little later. What the
 * thread does after its attach is counted from the first instruction on. */
SIM_TEST(an_attach_waits_for_whoever_has_its_claim)
{
    const struct cp_slot_request clock = request("taskClock", MS);
    struct profile profile = {.n = 0};
    struct worker worker = {.body = body_runs, .arg = &profile.slots[0]};

    start_unread(&profile, &clock, 1);
    CHECK_EQ(pthread_create(&worker.thread, NULL, run_worker, &worker), 0);
    await(&is_known, 1);
    cp__lock(&cp__runtime_lock);
    CHECK(cp__m_claim_from_handler(cp__ms, CP__CLAIM_OUTSIDE));
    cp_store_release(&is_known, 2); /* pairs with the acquire in await(), burn.h */
    sleep_ms(20);
    cp__m_unclaim_from_handler(cp__ms);
    cp__unlock(&cp__runtime_lock);
    join_worker(&worker);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].count, 5 * MS);
    CHECK_EQ(profile.stats[0].samples, 5);
    CHECK_EQ(profile.stats[0].unarmed_ns, 0);
}
