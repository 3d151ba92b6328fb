/* The kernel's frames, of the machine's kernel. tests/system/fields_test.c has the other fields of a
 * config. */
#include "tests/support/burn.h"

#include <stdint.h>
#include <sys/mman.h>

/* ---- What samples hold ----------------------------------------------------------------------- */

struct held {
    uint64_t samples;
    uint64_t with_kernel;   /* samples with kernel frames at their beginning */
    uint64_t kernel_from_a; /* samples with kernel frames below a frame of IN_A */
    uint64_t b_alone;       /* samples whose innermost frame is of IN_B */
    uint64_t badly_split;   /* samples whose kernel_depth is not the number of kernel addresses */
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
    if (sample->depth > 0 && is_in(IN_B, sample->frames[0]))
        held->b_alone += sample->weight;
    held->badly_split += kernel != sample->kernel_depth ? sample->weight : 0;
}

static struct held sample_by(const struct cp_slot_request *request, void (*body)(struct worker *),
                             struct profile *profile)
{
    struct held held = {.samples = 0};
    struct worker worker;

    *profile = (struct profile){.look = look, .context = &held};
    profile->wanted = 300;
    start_profile(profile, request, 1);
    run_attached(&worker, body, profile);
    stop_profile(profile);
    CHECK_EQ(held.samples, profile->stats[0].samples);
    CHECK(held.samples > 0 || request->config.is_user_excluded);
    CHECK_EQ(held.badly_split, 0);
    return held;
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

static void body_in_b_for_100_ms(struct worker *worker)
{
    (void)worker;
    burn_b(100 * MS);
}

/* Maps the pages. Skips the test if what signals count means nothing. */
static void need_pages(void)
{
    if (TEST_TSAN)
        SKIP("ThreadSanitizer delivers signals late: what they count means nothing");
    pages_size = 256 * 4096;
    pages = mmap(NULL, pages_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    madvise(pages, pages_size, MADV_NOHUGEPAGE);
}

static struct cp_slot_request with_chain(bool kernel, bool user)
{
    struct cp_slot_request made = kernel_request("taskClock", test_period(200000, 1));

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

    need_pages();
    held = sample_by(&made, body_fault, &profile);
    /* The machine decides how the time is divided between the faults and fault() itself. */
    CHECKF(held.with_kernel > 20 && held.kernel_from_a > 10, "%llu and %llu of %llu",
           (unsigned long long)held.with_kernel, (unsigned long long)held.kernel_from_a,
           (unsigned long long)held.samples);
}

CP_TEST(without_them_the_programs_stand_alone)
{
    struct cp_slot_request plain = kernel_request("taskClock", test_period(200000, 1));
    struct cp_slot_request user_chain = with_chain(false, true);
    struct profile profile;

    need_pages();
    CHECK_EQ(sample_by(&plain, body_fault, &profile).with_kernel, 0);
    CHECK_EQ(sample_by(&user_chain, body_fault, &profile).with_kernel, 0);
}

static void body_fault_and_b(struct worker *worker)
{
    fault(worker->arg);
    burn_b(100 * MS);
}

/* What docs/events.md advises people to do: kernel frames on those of the program that called the kernel,
 * and the program's own time as well. */
CP_TEST(the_suffix_uk_has_the_program_and_the_kernel)
{
    struct cp_slot_request made = kernel_request("taskClock:uk", test_period(200000, 1));
    struct profile profile;
    struct held held;

    need_pages();
    held = sample_by(&made, body_fault_and_b, &profile);
    CHECKF(held.kernel_from_a > 10 && held.b_alone > 10, "%llu and %llu of %llu",
           (unsigned long long)held.kernel_from_a, (unsigned long long)held.b_alone,
           (unsigned long long)held.samples);
}

/* ---- Modes ----------------------------------------------------------------------------------- */

CP_TEST(user_mode_may_be_excluded)
{
    struct cp_slot_request made = with_chain(true, false);
    struct profile profile;
    struct held held;

    need_pages();
    made.config.is_user_excluded = true;
    held = sample_by(&made, body_fault, &profile);
    CHECK(held.samples > 0);
    CHECK_EQ(held.with_kernel, held.samples);
    /* the kernel may take its own time for the program's */
    held = sample_by(&made, body_in_b_for_100_ms, &profile);
    CHECKF(held.samples * made.config.period < 50 * MS, "%llu samples", (unsigned long long)held.samples);
}
