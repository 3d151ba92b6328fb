/* When the memory of an M whose thread has ended is given back. */
#include "tests/support/burn.h"

#include "runtime/m.h"

/* Counts the Ms that are registered, including those whose threads have ended. */
static int registered(void)
{
    int n = 0;

    cp__lock(&cp__runtime_lock);
    for (const struct cp__m *m = cp__ms; m != NULL; m = m->next)
        n++;
    cp__unlock(&cp__runtime_lock);
    return n;
}

/* Runs three threads, each of which leaves 20 samples. */
static void leave_samples(struct profile *profile)
{
    struct cp_slot_request requests[] = {request("taskClock", MS)};
    uint64_t ns = 20 * MS;

    start_unread(profile, requests, 1);
    for (int i = 0; i < 3; i++) {
        struct worker worker;

        run_attached(&worker, body_a, &ns);
    }
    CHECK_EQ(registered(), 3);
}

SIM_TEST(an_m_stays_until_its_samples_were_read)
{
    struct profile profile = {.n = 0};

    leave_samples(&profile);
    read_profile(&profile);
    CHECK_EQ(profile.seen[0].weight, 60);
    CHECK_EQ(registered(), 0);
    stop_profile(&profile);
}

SIM_TEST(an_m_goes_at_the_release_if_nobody_has_read_its_samples)
{
    struct profile profile = {.n = 0};

    leave_samples(&profile);
    cp_slots_stop(profile.slots, 1);
    CHECK_EQ(registered(), 3);
    cp_slots_release(profile.slots, 1);
    CHECK_EQ(registered(), 0);
}
