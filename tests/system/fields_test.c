/* How each field of a config changes the samples; runtime.h describes the fields. */
#include "tests/support/burn.h"

#include <stdint.h>
#include <sys/mman.h>

/* ---- What samples hold ----------------------------------------------------------------------- */

struct held {
    uint64_t samples;
    uint64_t with_kernel;   /* samples with kernel frames at their beginning */
    uint64_t kernel_from_a; /* samples with kernel frames below a frame of IN_A */
    uint64_t badly_split;   /* samples whose kernel_depth is not the number of kernel addresses */
    uint64_t with_ip;
    uint64_t with_addr;
    uint64_t addr_in_pages;
    uint64_t user_leaf_in[CODES];
};

static char *pages; /* the pages that a test touches for the first time */
static size_t pages_size;

static bool is_kernel(uintptr_t pc)
{
    return (intptr_t)pc < 0;
}

static void look(void *context, const struct cp_sample *sample)
{
    struct held *held = context;
    unsigned kernel = 0;

    while (kernel < sample->depth && is_kernel(sample->frames[kernel]))
        kernel++;
    held->samples += sample->weight;
    held->with_kernel += kernel > 0 ? sample->weight : 0;
    if (kernel > 0 && kernel < sample->depth && is_in(IN_A, sample->frames[kernel]))
        held->kernel_from_a += sample->weight;
    held->badly_split += kernel != sample->kernel_depth ? sample->weight : 0;
    held->with_ip += sample->ip != 0 ? sample->weight : 0;
    held->with_addr += sample->addr != 0 ? sample->weight : 0;
    if (sample->addr >= (uintptr_t)pages && sample->addr < (uintptr_t)pages + pages_size)
        held->addr_in_pages += sample->weight;
    for (enum code code = 0; code < CODES && kernel < sample->depth; code++)
        held->user_leaf_in[code] += is_in(code, sample->frames[kernel]) ? sample->weight : 0;
}

static struct held sample_by(const struct cp_slot_request *request, void (*body)(struct worker *),
                             struct profile *profile)
{
    struct held held = {.samples = 0};
    struct worker worker;

    *profile = (struct profile){.look = look, .context = &held};
    profile->wanted = request->event == CP_CPUPROF_SW_PAGE_FAULTS ? 5000 : 300;
    start_profile(profile, request, 1);
    run_attached(&worker, body, profile);
    stop_profile(profile);
    CHECK_EQ(held.samples, profile->stats[0].samples);
    CHECK(held.samples > 0 || request->config.is_user_excluded);
    CHECK_EQ(held.badly_split, 0);
    return held;
}

static void need_prompt_signals(void)
{
    if (TEST_TSAN)
        SKIP("ThreadSanitizer delivers signals late: what they count means nothing");
}

/* ---- Chains ---------------------------------------------------------------------------------- */

/* Touches pages for the first time, over and over, until there are enough samples. */
CODE(a) void fault(const struct profile *profile)
{
    while (sampled(profile->slots[0]) < profile->wanted) {
        madvise(pages, pages_size, MADV_DONTNEED);
        for (size_t i = 0; i < pages_size; i += 4096)
            ((volatile char *)pages)[i] = 1;
    }
}

static void body_fault(struct worker *worker)
{
    fault(worker->arg);
}

static void body_in_b(struct worker *worker)
{
    const struct profile *profile = worker->arg;

    while (sampled(profile->slots[0]) < profile->wanted)
        burn_b(MS);
}

static void body_in_b_for_100_ms(struct worker *worker)
{
    (void)worker;
    burn_b(100 * MS);
}

static void map_pages(void)
{
    pages_size = 256 * 4096;
    pages = mmap(NULL, pages_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    madvise(pages, pages_size, MADV_NOHUGEPAGE);
}

static struct cp_slot_request with_chain(bool kernel, bool user)
{
    struct cp_slot_request made = kernel_request("taskClock", 200000);

    made.config.is_sample_callchain_included = true;
    made.config.is_callchain_kernel_included = kernel;
    made.config.is_callchain_user_included = user;
    return made;
}

CP_TEST(kernel_frames_stand_before_the_programs)
{
    struct cp_slot_request made = with_chain(true, false);
    struct profile profile;
    struct held held;

    need_prompt_signals();
    map_pages();
    held = sample_by(&made, body_fault, &profile);
    /* The machine decides how the time is divided between the faults and fault() itself. */
    CHECKF(held.with_kernel > 20 && held.kernel_from_a > 10, "%llu and %llu of %llu",
           (unsigned long long)held.with_kernel, (unsigned long long)held.kernel_from_a,
           (unsigned long long)held.samples);
}

CP_TEST(without_them_the_programs_stand_alone)
{
    struct cp_slot_request plain = kernel_request("taskClock", 200000);
    struct cp_slot_request user_chain = with_chain(false, true);
    struct profile profile;

    need_prompt_signals();
    map_pages();
    CHECK_EQ(sample_by(&plain, body_fault, &profile).with_kernel, 0);
    CHECK_EQ(sample_by(&user_chain, body_fault, &profile).with_kernel, 0);
}

/* The kernel walks the stack along its frame pointers. */
CP_TEST(the_records_own_chain_may_be_the_stack)
{
    struct cp_slot_request made = with_chain(false, true);
    struct profile profile;
    struct held held;

    need_prompt_signals();
    held = sample_by(&made, body_in_b, &profile);
    CHECK(10 * profile.seen[0].in[IN_B] > 9 * held.samples);
    CHECK(10 * held.user_leaf_in[IN_B] > 8 * held.samples);
    CHECK_EQ(profile.stats[0].incomplete, 0); /* the kernel does not tell whether its chain is complete */
}

/* ---- Modes ----------------------------------------------------------------------------------- */

CP_TEST(user_mode_may_be_excluded)
{
    struct cp_slot_request made = kernel_request("taskClock", 200000);
    struct profile profile;
    struct held held;

    need_prompt_signals();
    made.config.is_user_excluded = true;
    made.config.is_sample_callchain_included = made.config.is_callchain_kernel_included = true;
    map_pages();
    held = sample_by(&made, body_fault, &profile);
    CHECK(held.samples > 0);
    CHECK_EQ(held.with_kernel, held.samples);
    held = sample_by(&made, body_in_b_for_100_ms,
                     &profile); /* the kernel may take its own time for the program's */
    CHECKF(held.samples * made.config.period < 50 * MS, "%llu samples", (unsigned long long)held.samples);
}

/* ---- Addresses ------------------------------------------------------------------------------- */

CP_TEST(a_page_faults_address_is_told)
{
    struct cp_slot_request made = kernel_request("pageFaults", 1);
    struct profile profile;
    struct held held;

    need_prompt_signals();
    map_pages();
    held = sample_by(&made, body_fault, &profile);
    CHECK_EQ(held.with_addr, 0);
    made.config.is_sample_addr_included = true;
    held = sample_by(&made, body_fault, &profile);
    CHECKF(100 * held.addr_in_pages > 95 * held.samples, "%llu of %llu",
           (unsigned long long)held.addr_in_pages, (unsigned long long)held.samples);
}

/* ---- All of them together -------------------------------------------------------------------- */

/* The place of a record's count depends on which fields stand before it. */
CP_TEST(every_combination_is_read_aright)
{
    need_prompt_signals();
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
        CHECKF(profile.stats[0].count >= ns / 100 * 98 && profile.stats[0].count < 100 * ns, "%u: %llu ns",
               bits, (unsigned long long)profile.stats[0].count);
        if (made.config.is_kernel_included)
            check_told(&profile, 0, 100000);
        CHECKF((double)profile.stats[0].samples <= periods_of(&profile, 0, 100000) + 2,
               "%u: %llu samples of %.1f periods", bits, (unsigned long long)profile.stats[0].samples,
               periods_of(&profile, 0, 100000));
        CHECK(profile.seen[0].leaf[IN_B] == 0);
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
