/* How each field of a config changes the samples; runtime.h describes the fields.
 * tests/live/kernel_frames_test.c has those that ask for what happens in the kernel. */
#include "tests/support/burn.h"

#include <stdint.h>

/* ---- Chains ---------------------------------------------------------------------------------- */

#define RECURSION 200

CODE(b) void recurse_b(int depth)
{
    if (depth > 0)
        recurse_b(depth - 1);
    else
        burn_b(20 * MS);
    __asm__ volatile(""); /* keeps the call from being a tail call */
}

static void body_deep(struct worker *worker)
{
    (void)worker;
    recurse_b(RECURSION);
}

static void check_kernels_chain(void *context, const struct cp_sample *sample)
{
    (void)context;
    CHECK_EQ(sample->flags, 0);
    CHECK_EQ(sample->kernel_depth, 0);
    CHECK(sample->depth > 100 && sample->depth < 128);
    for (unsigned i = 0; i < sample->depth; i++)
        CHECK(is_in(IN_B, sample->frames[i]));
}

static void check_own_chain(void *context, const struct cp_sample *sample)
{
    (void)context;
    CHECK(sample->depth > RECURSION && sample->depth < CP_MAX_FRAMES);
}

/* The kernel walks the stack along its frame pointers, and no further than kernel.perf_event_max_stack says,
 * which is 127. It does not tell whether its chain is complete. */
SIM_TEST(the_records_own_chain_may_be_the_stack)
{
    struct cp_slot_request made = request("taskClock", MS);

    for (int is_user = 0; is_user < 2; is_user++) {
        struct profile profile = {.look = is_user ? check_kernels_chain : check_own_chain};
        struct worker worker;

        made.config.is_sample_callchain_included = true;
        made.config.is_callchain_user_included = is_user;
        start_profile(&profile, &made, 1);
        run_attached(&worker, body_deep, NULL);
        stop_profile(&profile);
        CHECK_EQ(profile.stats[0].samples, 20);
        CHECK_EQ(profile.stats[0].signals, 20);
        CHECK_EQ(profile.seen[0].leaf[IN_B], 20);
        CHECK_EQ(profile.stats[0].incomplete + profile.stats[0].truncated, 0);
    }
}

/* ---- Addresses ------------------------------------------------------------------------------- */

#define FAULTS 1000
#define PAGE(i) ((uintptr_t)0x7000 + 4096 * (i))

CODE(a) void fault_a(void)
{
    for (uintptr_t i = 0; i < FAULTS; i++)
        SIM_FAULT(PAGE(i));
}

static void body_faults(struct worker *worker)
{
    (void)worker;
    fault_a();
}

/* How many samples there have been, and with how many addresses. */
struct addresses {
    uint64_t samples, told;
};

/* Samples come in the order of the faults. */
static void look_at_address(void *context, const struct cp_sample *sample)
{
    struct addresses *addresses = context;

    if (sample->addr != 0)
        CHECK_EQ(sample->addr, PAGE(addresses->told++));
    addresses->samples += sample->weight;
}

static void check_addresses(const struct cp_slot_request *request, uint64_t told)
{
    struct addresses addresses = {0};
    struct profile profile = {.look = look_at_address, .context = &addresses};
    struct worker worker;

    start_profile(&profile, request, 1);
    run_attached(&worker, body_faults, NULL);
    stop_profile(&profile);
    CHECK_EQ(addresses.samples, FAULTS);
    CHECK_EQ(addresses.told, told);
    CHECK_EQ(profile.stats[0].signals, FAULTS);
    CHECK_EQ(profile.seen[0].leaf[IN_A], FAULTS);
}

SIM_TEST(a_page_faults_address_is_told)
{
    struct cp_slot_request made = request("pageFaults", 1);

    check_addresses(&made, 0);
    made.config.is_sample_addr_included = true;
    check_addresses(&made, FAULTS);
}

/* ---- All of them together -------------------------------------------------------------------- */

/* The place of a record's count depends on which fields stand before it. */
SIM_TEST(every_combination_is_read_aright)
{
    for (unsigned bits = 0; bits < 64; bits++) {
        struct cp_slot_request made = request("taskClock", 100000);
        struct profile profile = {.n = 0};
        struct worker worker;
        uint64_t ns = 10 * MS;

        made.config.is_sample_ip_included = (bits & 1) != 0;
        made.config.is_sample_addr_included = (bits & 2) != 0;
        made.config.is_sample_callchain_included = (bits & 4) != 0;
        made.config.is_callchain_kernel_included = made.config.is_kernel_included && (bits & 8) != 0;
        made.config.is_callchain_user_included = (bits & 16) != 0;
        made.config.is_idle_included = (bits & 32) != 0;
        start_profile(&profile, &made, 1);
        run_attached(&worker, body_a, &ns);
        stop_profile(&profile);
        CHECKF(profile.stats[0].count == ns && profile.stats[0].samples == 100 &&
                   profile.stats[0].signals == 100 && profile.seen[0].leaf[IN_A] == 100,
               "%u: %llu ns, %llu samples by %llu signals", bits, (unsigned long long)profile.stats[0].count,
               (unsigned long long)profile.stats[0].samples, (unsigned long long)profile.stats[0].signals);
        CHECK_EQ(profile.stats[0].late + profile.stats[0].lost, 0);
    }
}

CP_TEST(numbers_that_are_no_slots_are_refused)
{
    static const int bad[] = {-1, CP_EV_MAX};
    struct cp_slot_stats stats = {.size = sizeof stats};
    struct cp_slot_request timer = request("timer", MS);
    int slots[2];

    CHECK_EQ(cp_slots_start(&timer, 1, slots, NULL), 0);
    for (int i = 0; i < 2; i++) {
        slots[1] = bad[i];
        CHECK_EQ(cp_slots_stop(slots, 2), -EINVAL);
        CHECK_EQ(cp_slots_release(slots, 2), -EINVAL);
        CHECK_EQ(cp_slots_read(bad[i], NULL, NULL), -EINVAL);
        CHECK_EQ(cp_slots_stats(bad[i], &stats), -EINVAL);
    }
    CHECK_EQ(cp_slots_stop(slots, 1), 0);
    CHECK_EQ(cp_slots_release(slots, 1), 0);
}
