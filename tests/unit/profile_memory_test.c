/* The memory of profiles: how much they take, and what happens if memory runs out. */
#include <limits.h>
#include <malloc.h>

#include "pprof/profile_data.h"
#include "tests/support/profile_tools.h"

/* ---- Memory ---------------------------------------------------------------------------------- */

static size_t in_use(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

/* A writer that notes the most memory that was in use. */
static size_t peak, written;

static ssize_t watch_memory(struct cp_writer *w, const void *data, size_t size)
{
    (void)w, (void)data;
    if (in_use() > peak)
        peak = in_use();
    written += size;
    return (ssize_t)size;
}

CP_TEST(memory_does_not_grow_with_the_file)
{
    static const struct cp_writer_ops ops = {.what = "test", .write = watch_memory};
    struct cp_writer w = {.ops = &ops};
    size_t n = 200000, before = in_use(), full;
    struct cp__profile *profile = new_profile();

    if (TEST_ASAN || TEST_TSAN)
        SKIP("A sanitizer's allocator does not tell how much is in use.");
    add_many(profile, (unsigned)n);
    full = in_use();
    add_many(profile, (unsigned)n); /* adds no new stack; the mappings may be noted again meanwhile */
    CHECKF(in_use() <= full + 16384, "%zu bytes more for known stacks", in_use() - full);
    /* 4 bytes a frame; 32 bytes and two hash slots of 8 for each stack and each root frame; arrays may be
     * half full */
    CHECKF((full - before) / n < 2 * (4 * MANY_DEPTH + 2 * 32 + 2 * 16), "%zu bytes a stack",
           (full - before) / n);

    CHECK_EQ(write_to(profile, &w, &cpu_meta, NULL), 0); /* looks addresses up, too */
    full = in_use();
    peak = written = 0;
    CHECK_EQ(write_to(profile, &w, &cpu_meta, NULL), 0);
    CHECKF(peak - full < 400000, "%zu bytes for a file of %zu", peak - full, written);
    CHECKF(written > 10 * (peak - full), "the file is too small to tell: %zu", written);
    CHECK(in_use() <= full + 4096); /* what the allocator caches for the thread counts as in use */
    cp__profile_free(profile);
    CHECKF(in_use() <= before + 65536, "%zu bytes were not freed", in_use() - before);
}

/* ---- Memory that runs out -------------------------------------------------------------------- */

#if TEST_ASAN || TEST_TSAN
CP_TEST(memory_ends_in_add)
{
    SKIP("A sanitizer has the allocator that this test takes the place of.");
}
#else
#include "tests/support/failing_memory.h"

static struct cp__profile *new_rich(void)
{
    struct cp__profile *profile;

    CHECK_EQ(cp__profile_new_with(&profile, &(const struct cp__value_type){"delay", "nanoseconds"}, 1), 0);
    return profile;
}

/* Adds a sample with everything that can come with it: new frames, labels, a named frame and a value. */
static int add_rich(struct cp__profile *profile, unsigned i, struct cp_labels *labels)
{
    uintptr_t frames[CP_MAX_FRAMES];
    struct cp_sample sample = {.weight = 1 + i,
                               .labels = labels,
                               .flags = i % 3 == 0 ? CP_SAMPLE_TRUNCATED : 0,
                               .depth = CP_MAX_FRAMES,
                               .frames = frames};

    for (unsigned j = 0; j < CP_MAX_FRAMES; j++)
        frames[j] = 0x100000 * (i + 1) + j;
    return cp__profile_add_values(profile, &sample, &(const uint64_t){10 + i});
}

static void check_add(struct cp__profile *profile, unsigned i, struct cp_labels *labels)
{
    struct cp_memory before = whole(profile, SIZE_MAX);
    uint64_t refs = labels->refs;
    unsigned n;
    int result = -ENOMEM;

    for (n = 1; result != 0; n++) {
        fail_calls(n, UINT_MAX);
        result = add_rich(profile, i, labels);
        CHECK_EQ(result, have_failed() ? -ENOMEM : 0);
        if (result == -ENOMEM)
            check_same(profile, &before, SIZE_MAX);
        CHECK(result == 0 || labels->refs <= refs + 1);
    }
    CHECK(n < 50);
    free(before.data);
}

CP_TEST(memory_ends_in_add)
{
    struct cp__profile *broken = new_rich(), *sound = new_rich();
    struct cp_labels *labels[6];
    struct cp_memory expected;
    char value[6][8];
    unsigned i;

    for (i = 0; i < 6; i++) {
        snprintf(value[i], sizeof value[i], "%u", i / 2);
        labels[i] = labels1("number", value[i]);
        expected = whole(sound, SIZE_MAX); /* looks names up as often as for the other profile */
        free(expected.data);
        CHECK_EQ(add_rich(sound, i, labels[i]), 0);
        check_add(broken, i, labels[i]);
    }
    expected = whole(sound, SIZE_MAX);
    check_same(broken, &expected, SIZE_MAX);
    free(expected.data);
    cp__profile_free(broken);
    cp__profile_free(sound);
    for (i = 0; i < 6; i++)
        CHECK_EQ(labels[i]->refs, 1);
}

/* Makes a profile while the call with number first fails, and also all later calls unless once is set.
 * Returns true if a call has failed. */
static bool new_without_memory(unsigned first, bool once, size_t n_mappings)
{
    struct cp__profile *profile;
    bool failed;
    int result, noted;

    fail_calls(first, once ? first : UINT_MAX);
    result = cp__profile_new(&profile);
    noted = result < 0 ? result : cp__profile_note_mappings(profile);
    failed = have_failed();
    CHECK(noted == 0 || (failed && noted == -ENOMEM));
    if (noted == 0)
        CHECK_EQ(profile->mappings.n, n_mappings); /* the library went on without it */
    if (result == 0)
        cp__profile_free(profile);
    return failed;
}

static bool write_without_memory(struct cp__profile *profile, unsigned first, bool once)
{
    struct cp_memory expected = whole(profile, SIZE_MAX);
    struct failing f = {.fails_at = SIZE_MAX, .chunk = SIZE_MAX};
    struct cp_writer w = {.ops = &failing_ops, .context = &f};
    bool failed;
    int result;

    CHECK_EQ(CP__RESERVE(f.got.data, f.got.capacity, expected.size), 0);
    fail_calls(first, once ? first : UINT_MAX);
    result = write_to(profile, &w, &cpu_meta, NULL);
    failed = have_failed();
    CHECK(result == 0 || (failed && result == -ENOMEM));
    CHECK(result != 0 ||
          (f.got.size == expected.size && memcmp(f.got.data, expected.data, expected.size) == 0));
    check_same(profile, &expected, SIZE_MAX);
    free(f.got.data);
    free(expected.data);
    return failed;
}

/* The addresses are in no mapping, because another library, which looks names up, does not survive without
 * memory. */
CP_TEST(memory_ends_in_new_and_write)
{
    struct cp__profile *profile = new_profile();
    unsigned n;

    add_many(profile, 1);
    for (int once = 0; once < 2; once++) {
        for (n = 1; new_without_memory(n, once, profile->mappings.n); n++)
            ;
        CHECK(n > 10);
        for (n = 1; write_without_memory(profile, n, once); n++)
            ;
        CHECK(n > 10);
    }
    cp__profile_free(profile);
}

/* Makes a profile with kernel frames, whose symbols are in a file of the test's. */
static struct cp__profile *new_with_kernel(void)
{
    static const uintptr_t frames[] = {0xffffffff81000010, 0xffffffffc0000011, 0x1000};
    const struct cp_sample sample = {.weight = 1, .depth = 3, .kernel_depth = 2, .frames = frames};
    struct cp__profile *profile = new_profile();
    static char path[256];
    FILE *file;

    snprintf(path, sizeof path, "%s/kallsyms", test_dir());
    file = fopen(path, "w");
    fputs("ffffffff81000000 T one\nffffffffc0000000 t two\t[module]\n", file);
    fclose(file);
    profile->kallsyms = path;
    CHECK_EQ(cp__profile_add(profile, &sample), 0);
    return profile;
}

static bool resolve_without_memory(unsigned first, bool once, const struct cp_memory *expected)
{
    struct cp__profile *profile = new_with_kernel();
    struct cp__profile_findings findings;
    struct cp_error err;
    bool failed;
    int result;

    fail_calls(first, once ? first : UINT_MAX);
    result = cp__profile_resolve(profile, &findings, &err);
    failed = have_failed();
    CHECK(result == 0 || (failed && result == -ENOMEM && strstr(err.message, "emory") != NULL));
    if (result == 0)
        CHECK_STR(findings.kernel, "");
    check_same(profile, expected, SIZE_MAX);
    cp__profile_free(profile);
    return failed;
}

CP_TEST(memory_ends_among_kernel_frames)
{
    struct cp__profile *profile = new_with_kernel();
    struct cp_memory expected = whole(profile, SIZE_MAX);
    unsigned n;

    CHECK_EQ(profile->n_functions, 2);
    for (int once = 0; once < 2; once++) {
        for (n = 1; resolve_without_memory(n, once, &expected); n++)
            ;
        CHECK(n > 10);
    }
    free(expected.data);
    cp__profile_free(profile);
}
#endif
