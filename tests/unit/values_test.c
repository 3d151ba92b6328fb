/* Profiles whose stacks have values beside their weight. */
#include <stdint.h>

#include "pprof/profile_data.h"
#include "tests/support/profile_tools.h"

/* Addresses that are in no mapping. */
static const uintptr_t stack_a[] = {0x1000, 0x2001, 0x3001};
static const uintptr_t stack_b[] = {0x1000, 0x2001, 0x4001};

static const struct cp__value_type further[] = {{"delay", "nanoseconds"}, {"cycles", "count"}};
static const struct cp__profile_meta waits_meta = {
    .is_count = true, .sample_type = "contentions", .sample_unit = "count", .period = 1};

static struct cp__profile *new_with_values(void)
{
    struct cp__profile *profile;

    CHECK_EQ(cp__profile_new_with(&profile, further, 2), 0);
    return profile;
}

static struct cp_sample sample_of(const uintptr_t *frames, uint64_t weight)
{
    return (struct cp_sample){.weight = weight, .depth = 3, .frames = frames};
}

static void add_values(struct cp__profile *profile, const uintptr_t *frames, uint64_t weight, uint64_t delay,
                       uint64_t cycles)
{
    const struct cp_sample sample = sample_of(frames, weight);

    CHECK_EQ(cp__profile_add_values(profile, &sample, (const uint64_t[]){delay, cycles}), 0);
}

/* A profile of waits: how often, for how long, and one more value. */
static struct cp__profile *new_waits(void)
{
    struct cp__profile *profile = new_with_values();

    add_values(profile, stack_a, 1, 100, 5);
    add_values(profile, stack_b, 10, 1000, 50);
    add_values(profile, stack_a, 2, 200, 6);
    add_values(profile, stack_b, 20, 2000, 60);
    return profile;
}

/* ---- The file -------------------------------------------------------------------------------- */

CP_TEST(three_values_are_in_the_file)
{
    struct cp__profile *profile = new_waits();
    const char *path = write_profile(profile, &waits_meta, "waits");
    char *text = pprof("-raw", path);

    CHECK_CONTAINS(text, "PeriodType: contentions count\n");
    CHECK_CONTAINS(text, "contentions/count[dflt] delay/nanoseconds cycles/count\n"
                         "          3        300         11: 1 2 3 \n"
                         "         30       3000        110: 1 2 4 \n");
    free(text);
    text = pprof("-top -sample_index=delay", path);
    CHECK_CONTAINS(text, "of 3.30us total");
    free(text);
    text = decode(path);
    CHECK_EQ(count_lines(text, "sample_type {"), 3);
    CHECK_EQ(count_lines(text, "  value: "), 6);
    CHECK_CONTAINS(text, "  value: 30\n  value: 3000\n  value: 110\n");
    free(text);
    cp__profile_free(profile);
}

/* No value is a product with such a period, because it counts what the further value does. */
CP_TEST(a_period_has_a_type_of_its_own)
{
    const struct cp__profile_meta meta = {.is_count = true,
                                          .shows_further = true,
                                          .sample_type = "waits",
                                          .sample_unit = "count",
                                          .period = 10000,
                                          .period_type = &further[0]};
    struct cp__profile *profile = new_waits();
    char *text;

    CHECK_EQ(cp__profile_add_named_values(profile, "[dropped: x]", 7, (const uint64_t[]){70, 0}), 0);
    text = pprof("-raw", write_profile(profile, &meta, "own"));
    CHECK_CONTAINS(text, "PeriodType: delay nanoseconds\nPeriod: 10000\n");
    CHECK_CONTAINS(text, "waits/count delay/nanoseconds[dflt] cycles/count\n"
                         "          3        300         11: 1 2 3 \n"
                         "         30       3000        110: 1 2 4 \n"
                         "          7         70          0: 5 \n");
    free(text);
    cp__profile_free(profile);
}

CP_TEST(values_stand_behind_those_of_a_clock)
{
    struct cp__profile *profile = new_waits();
    char *text;

    CHECK_EQ(cp__profile_add_named(profile, "[lost: perf ring full]", 4), 0);
    text = pprof("-raw", write_profile(profile, &cpu_meta, "clock"));
    CHECK_CONTAINS(text, "samples/count cpu/nanoseconds[dflt] delay/nanoseconds cycles/count\n"
                         "          3    3000000        300         11: 1 2 3 \n"
                         "         30   30000000       3000        110: 1 2 4 \n"
                         "          4    4000000          0          0: 5 \n");
    free(text);
    cp__profile_free(profile);
}

CP_TEST(merging_adds_each_value)
{
    struct cp__profile *profile = new_waits();
    struct cp_merge *merge = cp_merge_new();
    struct cp_error err = {0};
    struct failing f = {.fails_at = SIZE_MAX, .chunk = SIZE_MAX};
    struct cp_writer w = {.ops = &failing_ops, .context = &f};
    char path[256], *text;

    CHECK_EQ(write_to(profile, &w, &waits_meta, NULL), 0);
    for (int i = 0; i < 2; i++)
        CHECKF(cp_merge_add(merge, f.got.data, f.got.size, &err) == 0, "%s", err.message);
    snprintf(path, sizeof path, "%s/merged.pb.gz", test_dir());
    CHECKF(cp_merge_write(merge, cp_writer_path(path), &err) == 0, "%s", err.message);
    text = pprof("-raw", path);
    CHECK_CONTAINS(text, "contentions/count[dflt] delay/nanoseconds cycles/count\n"
                         "          6        600         22: 1 2 3 \n"
                         "         60       6000        220: 1 2 4 \n");
    free(text);
    free(f.got.data);
    cp_merge_free(merge);
    cp__profile_free(profile);
}

CP_TEST(values_are_in_the_text)
{
    struct cp__profile *profile = new_waits();
    char *text = text_of(profile, &waits_meta);

    CHECK_CONTAINS(text, "contentions profile: total 33\n"
                         "30 @ 0x1001 0x2001 0x4001\n"
                         "# values: 3000 delay/nanoseconds, 110 cycles/count\n");
    CHECK_CONTAINS(text, "3 @ 0x1001 0x2001 0x3001\n"
                         "# values: 300 delay/nanoseconds, 11 cycles/count\n");
    free(text);
    cp__profile_free(profile);
}

/* ---- Folding --------------------------------------------------------------------------------- */

CP_TEST(many_stacks_keep_their_values)
{
    enum { STACKS = 3000 };
    struct cp__profile *profile = new_with_values();
    uintptr_t frames[3] = {0x1000, 0x2001};

    for (unsigned i = 0; i < 2 * STACKS; i++) {
        frames[2] = 0x10001 + i % STACKS;
        add_values(profile, frames, 1, i % STACKS, 7 * (i % STACKS));
    }
    CHECK_EQ(profile->n_stacks, STACKS);
    for (size_t i = 0; i < STACKS; i++) {
        CHECK_EQ(profile->stacks[i].weight, 2);
        CHECK_EQ(cp__stack_values(profile, i)[0], 2 * i);
        CHECK_EQ(cp__stack_values(profile, i)[1], 14 * i);
    }
    cp__profile_free(profile);
}

/* Values that nobody has are no memory. */
CP_TEST(without_values_there_is_no_memory_for_them)
{
    struct cp__profile *profile = new_profile();

    add(profile, stack_a, 3, 1, 0, NULL);
    CHECK_EQ(profile->n_further, 0);
    CHECK(profile->values == NULL);
    cp__profile_free(profile);
}

CP_TEST(staged_samples_keep_their_values)
{
    struct cp__profile *profile = new_with_values();
    struct cp_sample sample;

    CHECK_EQ(cp__profile_note_mappings(profile), 0);
    for (unsigned i = 0; i < 2000; i++) { /* more than there is room for */
        sample = sample_of(i % 2 == 0 ? stack_a : stack_b, 1);
        CHECK_EQ(cp__profile_stage_values(profile, &sample, (const uint64_t[]){3 + i % 2, 5 + i % 2}), 0);
    }
    sample = sample_of(stack_a, 1);
    CHECK_EQ(cp__profile_stage(profile, &sample), 0);
    CHECK_EQ(cp__profile_settle(profile), 0);
    CHECK_EQ(profile->n_stacks, 2);
    CHECK_EQ(profile->stacks[0].weight, 1001);
    CHECK_EQ(cp__stack_values(profile, 0)[0], 3000);
    CHECK_EQ(cp__stack_values(profile, 0)[1], 5000);
    CHECK_EQ(profile->stacks[1].weight, 1000);
    CHECK_EQ(cp__stack_values(profile, 1)[0], 4000);
    CHECK_EQ(cp__stack_values(profile, 1)[1], 6000);
    cp__profile_free(profile);
}
