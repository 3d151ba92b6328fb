/* Profiles: which samples fold together, what the file says, and what happens if writing it fails. */
#include <stdint.h>

#include "pprof/profile_data.h"
#include "tests/support/profile_tools.h"

/* Addresses that are in no mapping. */
static const uintptr_t stack_a[] = {0x1000, 0x2001, 0x3001};
static const uintptr_t stack_b[] = {0x1000, 0x2001, 0x4001};

/* ---- Folding --------------------------------------------------------------------------------- */

CP_TEST(equal_samples_fold)
{
    struct cp__profile *profile = new_profile();
    char *raw;

    add(profile, stack_a, 3, 1, 0, NULL);
    add(profile, stack_b, 3, 10, 0, NULL);
    add(profile, stack_a, 3, 2, 0, NULL);
    add(profile, stack_a, 2, 100, 0, NULL);
    add(profile, stack_a, 3, 4, 0, NULL);
    /* its leaf is an interrupted address, not a return address */
    add(profile, stack_b + 1, 2, 1000, 0, NULL);
    raw = pprof("-raw", write_profile(profile, &cpu_meta, "folded"));
    CHECK_CONTAINS(raw, "samples/count cpu/nanoseconds[dflt]\n"
                        "          7    7000000: 1 2 3 \n"
                        "         10   10000000: 1 2 4 \n"
                        "        100  100000000: 1 2 \n"
                        "       1000 1000000000: 5 4 \n"
                        "Locations\n"
                        "     1: 0x1000 \n"
                        "     2: 0x2000 \n"
                        "     3: 0x3000 \n"
                        "     4: 0x4000 \n"
                        "     5: 0x2001 \n"
                        "Mappings\n");
    free(raw);
    cp__profile_free(profile);
}

CP_TEST(labels_fold_by_content)
{
    struct cp__profile *profile = new_profile();
    struct cp_labels *red = labels1("colour", "red"), *also_red = labels1("colour", "red");
    struct cp_labels *blue = labels1("colour", "blue");
    struct cp_labels *both = labels2("colour", "red", "shape", "round \"\xff\xc3\xa9\"");
    struct cp_labels *again;
    const char *path;
    char *text;

    add(profile, stack_a, 3, 1, 0, red);
    add(profile, stack_a, 3, 2, 0, also_red);
    add(profile, stack_a, 3, 4, 0, blue);
    add(profile, stack_a, 3, 8, 0, NULL);
    add(profile, stack_a, 3, 16, 0, both);
    cp_labels_unref(also_red);
    again = labels1("colour", "blue"); /* may get the address that also_red had */
    add(profile, stack_a, 3, 32, 0, again);
    path = write_profile(profile, &cpu_meta, "labels");
    text = pprof("-raw", path);
    CHECK_CONTAINS(text, "          3    3000000: 1 2 3 \n                colour:[red]\n");
    CHECK_CONTAINS(text, "         36   36000000: 1 2 3 \n                colour:[blue]\n");
    CHECK_CONTAINS(text, "          8    8000000: 1 2 3 \n");
    CHECK_CONTAINS(
        text, "         16   16000000: 1 2 3 \n                colour:[red] shape:[round \"?\xc3\xa9\"]\n");
    free(text);
    text = pprof("-tags", path);
    CHECK_CONTAINS(text, "colour: Total 55");
    CHECK_CONTAINS(text, "36.0ms (65.45%): blue");
    CHECK_CONTAINS(text, "19.0ms (34.55%): red");
    free(text);
    text = decode(path);
    CHECK_EQ(count_lines(text, "sample {"), 4);
    CHECK_EQ(count_lines(text, "  label {"), 4);
    free(text);
    CHECK_EQ(red->refs, 2);
    cp__profile_free(profile);
    CHECK_EQ(red->refs, 1);
    CHECK_EQ(again->refs, 1);
    cp_labels_unref(red), cp_labels_unref(blue), cp_labels_unref(both), cp_labels_unref(again);
}

static void add_address(struct cp__profile *profile, uint64_t address, uint64_t weight,
                        struct cp_labels *labels)
{
    const struct cp_sample sample = {
        .weight = weight, .labels = labels, .depth = 3, .frames = stack_a, .addr = address};

    CHECK_EQ(cp__profile_add(profile, &sample), 0);
}

CP_TEST(addresses_of_data_are_labels)
{
    struct cp__profile *profile = new_profile();
    struct cp_labels *red = labels1("colour", "red");
    struct cp_memory first;
    const char *path;
    char *text;

    add_address(profile, 0x7f0012345678, 1, NULL);
    add_address(profile, 0x7f0012345678, 2, red);
    add_address(profile, UINT64_MAX, 4, red);
    add_address(profile, 0, 8, red);
    add_address(profile, 0x7f0012345678, 16, NULL);
    add_address(profile, UINT64_MAX, 32, red);
    path = write_profile(profile, &cpu_meta, "addresses");
    text = decode(path);
    CHECK_EQ(count_lines(text, "sample {"), 4);
    CHECK_EQ(count_lines(text, "  label {"), 6);
    free(text);
    text = pprof("-raw", path);
    CHECK_CONTAINS(text, "         17   17000000: 1 2 3 \n                data_addr:[0x7f0012345678]\n");
    CHECK_CONTAINS(
        text, "          2    2000000: 1 2 3 \n                colour:[red] data_addr:[0x7f0012345678]\n");
    CHECK_CONTAINS(
        text,
        "         36   36000000: 1 2 3 \n                colour:[red] data_addr:[0xffffffffffffffff]\n");
    CHECK_CONTAINS(text, "          8    8000000: 1 2 3 \n                colour:[red]\n");
    free(text);
    text = pprof("-tags", path);
    CHECK_CONTAINS(text, "data_addr: Total 55");
    CHECK_CONTAINS(text, "36.0ms (65.45%): 0xffffffffffffffff");
    CHECK_CONTAINS(text, "19.0ms (34.55%): 0x7f0012345678");
    free(text);
    first = whole(profile, SIZE_MAX);
    check_same(profile, &first, SIZE_MAX);
    free(first.data);
    cp__profile_free(profile);
    cp_labels_unref(red);
}

CP_TEST(flags_become_outermost_frames)
{
    struct cp__profile *profile = new_profile();
    uintptr_t deep[CP_MAX_FRAMES];
    char *raw;

    for (size_t i = 0; i < CP_MAX_FRAMES; i++)
        deep[i] = 0x1000 + i;
    add(profile, deep, CP_MAX_FRAMES, 1, CP_SAMPLE_TRUNCATED, NULL);
    add(profile, stack_a, 1, 2, CP_SAMPLE_FOREIGN_SP, NULL);
    add(profile, stack_a, 3, 4, CP_SAMPLE_LATE, NULL);
    add(profile, NULL, 0, 8, CP_SAMPLE_LATE, NULL);
    add(profile, NULL, 0, 16, 0, NULL);
    add(profile, deep, CP_MAX_FRAMES, 32, 0, NULL);
    add(profile, stack_a, 2, 256, CP_SAMPLE_INCOMPLETE, NULL);
    CHECK_EQ(cp__profile_add_named(profile, "[dropped: sample buffer full]", 64), 0);
    CHECK_EQ(cp__profile_add_named(profile, "[dropped: sample buffer full]", 64), 0);
    raw = pprof("-traces", write_profile(profile, &cpu_meta, "flags"));
    CHECK_EQ(count_lines(raw, "<unknown>"), 2 * CP_MAX_FRAMES + 1 + 3 + 2);
    CHECK_CONTAINS(raw, "             <unknown>\n             [truncated: more than 256 frames]\n-----");
    CHECK_CONTAINS(raw, "       2ms   <unknown>\n             [unknown stack]\n-----");
    CHECK_CONTAINS(raw, "             <unknown>\n             [late: callers unknown]\n-----");
    CHECK_CONTAINS(raw, "       8ms   [late: callers unknown]\n-----");
    CHECK_CONTAINS(raw, "      16ms   [unknown stack]\n-----");
    CHECK_CONTAINS(raw,
                   "     256ms   <unknown>\n             <unknown>\n             [incomplete stack]\n-----");
    CHECK_CONTAINS(raw, "     128ms   [dropped: sample buffer full]\n-----");
    free(raw);
    cp__profile_free(profile);
}

/* ---- What the file says ---------------------------------------------------------------------- */

CP_TEST(meta_is_written)
{
    static const char *const comments[] = {"engine: none", "", "colour: \xc3\xa9"};
    struct cp__profile_meta meta = cpu_meta;
    struct cp__profile *profile = new_profile();
    const char *path;
    char *text;

    meta.sample_type = "cacheMisses";
    meta.sample_unit = "count";
    meta.period = 10007;
    meta.comments = comments;
    meta.n_comments = 3;
    add(profile, stack_a, 3, 5, 0, NULL);
    path = write_profile(profile, &meta, "meta");
    text = pprof("-raw", path);
    CHECK_CONTAINS(text, "Comment: engine: none\nComment: \nComment: colour: \xc3\xa9\n"
                         "PeriodType: cacheMisses count\nPeriod: 10007\n"
                         "Time: 2023-11-14 22:13:20 +0000 UTC\nDuration: 2s\n"
                         "Samples:\nsamples/count cacheMisses/count[dflt]\n          5      50035: 1 2 3 \n");
    free(text);
    text = pprof("-top", path);
    CHECK_CONTAINS(text, "Type: cacheMisses\n");
    CHECK_CONTAINS(text, "50035");
    free(text);
    text = pprof("-comments", path);
    CHECK_CONTAINS(text, "engine: none\n");
    free(text);
    text = decode(path);
    CHECK_CONTAINS(text, "period: 10007\n");
    CHECK_CONTAINS(text, "duration_nanos: 2000000000\n");
    CHECK_EQ(count_lines(text, "default_sample_type: "), 1);
    free(text);
    cp__profile_free(profile);
}

CP_TEST(empty_profile_is_readable)
{
    struct cp__profile *profile = new_profile();
    const char *path = write_profile(profile, &cpu_meta, "empty");
    char *text = pprof("-top", path);

    CHECK_CONTAINS(text, "Duration: 2s, Total samples = 0");
    free(text);
    text = decode(path);
    CHECK_EQ(count_lines(text, "sample_type {"), 2);
    CHECK_EQ(count_lines(text, "mapping {"), 1); /* the program's mapping */
    CHECK_EQ(count_lines(text, "sample {"), 0);
    free(text);
    cp__profile_free(profile);
}

CP_TEST(values_end_at_the_largest)
{
    struct cp__profile *profile = new_profile();
    char *text;

    add(profile, stack_a, 3, UINT64_MAX / 3, 0, NULL);
    add(profile, stack_b, 3, UINT64_MAX, 0, NULL);
    text = decode(write_profile(profile, &cpu_meta, "large"));
    CHECK_EQ(count_lines(text, "  value: 6148914691236517205"), 1);
    CHECK_EQ(count_lines(text, "  value: 9223372036854775807"), 3);
    free(text);
    cp__profile_free(profile);
}

/* Readers refuse strings that are not UTF-8. */
CP_TEST(strings_become_utf8)
{
    static const char *const pairs[][2] = {
        {"a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z", "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z"},
        /* a continuation alone, or a character cut short */
        {"\x80|\xff|\xc3|\xc3(|\xe2\x82|", "?|?|?|?(|??|"},
        {"\xc0\xaf|\xe0\x80\xaf|\xf0\x80\x80\xaf", "??|???|????"}, /* longer than necessary */
        /* code points that are no characters */
        {"\xed\xa0\x80|\xf4\x90\x80\x80|\xf5\x80\x80\x80", "???|????|????"},
        {"\xed\x9f\xbf|\xee\x80\x80|\xf4\x8f\xbf\xbf", "\xed\x9f\xbf|\xee\x80\x80|\xf4\x8f\xbf\xbf"},
    };
    struct cp__strings strings = {0};
    uint32_t number;

    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        CHECK_EQ(cp__strings_add(&strings, pairs[i][0], &number), 0);
        CHECK_STR(cp__strings_get(&strings, number), pairs[i][1]);
        CHECK_EQ(number, i);
        CHECK_EQ(cp__strings_add(&strings, pairs[i][0], &number), 0);
        CHECK_EQ(number, i);
    }
    cp__strings_free(&strings);
}

/* ---- Many ------------------------------------------------------------------------------------ */

CP_TEST(many_stacks_are_told_apart)
{
    struct cp__profile *profile = new_profile();
    unsigned n = 20000, wrong = 0, at = 0, value;
    uintptr_t frames[MANY_DEPTH], address;
    const char *path;
    char *text;
    FILE *decoded;

    add_many(profile, n);
    add_many(profile, n / 2);
    path = write_profile(profile, &cpu_meta, "many");
    /* decoded by protoc: each sample's leaf address, root address and first value, in the order of the
     * file */
    free(test_command(
        NULL,
        "file=$(dpkg -L golang-github-google-pprof-dev | grep '/profile\\.proto$') && gzip -dc %s | "
        "protoc --decode=perftools.profiles.Profile -I ${file%%/*} $file | awk '"
        "BEGIN { n = 0 } /^[a-z]/ { kind = $1 } "
        "kind == \"sample\" && $1 == \"location_id:\" { if (!leaf[n]) leaf[n] = $2; root[n] = $2 } "
        "kind == \"sample\" && $1 == \"value:\" { if (!value[n]) value[n] = $2 } "
        "kind == \"sample\" && /^}/ { n++ } "
        "kind == \"location\" && $1 == \"id:\" { id = $2 } "
        "kind == \"location\" && $1 == \"address:\" { address[id] = $2 } "
        "END { for (i = 0; i < n; i++) print address[leaf[i]], address[root[i]], value[i] }' > %s.text",
        path, path));
    text = test_command(NULL, "cat %s.text", path);
    decoded = fmemopen(text, strlen(text), "r");
    for (; fscanf(decoded, "%zu %zu %u", &frames[0], &address, &value) == 3; at++) {
        uintptr_t expected[MANY_DEPTH];

        many_stack(expected, at);
        wrong += frames[0] != expected[0] || address != 0x10000000 + at - 1 ||
                 value != (at % 5 + 1) * (at < n / 2 ? 2 : 1);
    }
    CHECK_EQ(at, n);
    CHECK_EQ(wrong, 0);
    fclose(decoded);
    free(text);
    cp__profile_free(profile);
}

/* Hashes have 32 bits: among 300000 addresses, about ten pairs are expected to have the same hash. */
CP_TEST(equal_hashes_of_findings_are_told_apart)
{
    struct cp__profile *profile = new_profile();
    struct cp_sample sample = {.weight = 1, .depth = 3, .frames = stack_a};
    unsigned n = 300000;

    for (unsigned i = 0; i < 2 * n; i++) {
        sample.addr = 0x7f0000000000 + i % n;
        CHECK_EQ(cp__profile_add(profile, &sample), 0);
    }
    CHECK_EQ(profile->n_stacks, n);
    sample.addr = 0;
    for (unsigned i = 0; i < 2 * n; i++) {
        sample.ip = 0x100000 + i % n;
        CHECK_EQ(cp__profile_add(profile, &sample), 0);
    }
    CHECK_EQ(profile->n_stacks, 2 * n);
    CHECK_EQ(profile->n_frames, 3 + n);
    for (unsigned i = 0; i < 2 * n; i++)
        CHECK_EQ(profile->stacks[i].weight, 2);
    cp__profile_free(profile);
}

/* The same for stacks and for labels. */
CP_TEST(equal_hashes_are_told_apart)
{
    struct cp__profile *profile = new_profile();
    struct cp_labels *labels;
    unsigned n = 300000;
    char value[16];

    add_many(profile, n);
    CHECK_EQ(profile->n_stacks, n);
    CHECK_EQ(profile->n_frames, n + 2 * MANY_FRAMES); /* each frame once as a leaf and once as a caller */
    cp__profile_free(profile);
    profile = new_profile();
    for (unsigned i = 0; i < 2 * n; i++) {
        snprintf(value, sizeof value, "%u", i % n);
        labels = labels1("number", strdup(value));
        add(profile, stack_a, 3, 1, 0, labels);
        if (i >= n)
            free((char *)(uintptr_t)labels->items[0].value);
        cp_labels_unref(labels);
    }
    CHECK_EQ(profile->n_label_sets, n);
    CHECK_EQ(profile->n_stacks, n);
    for (unsigned i = 0; i < n; i++)
        free((char *)(uintptr_t)profile->label_sets[i].labels->items[0].value);
    cp__profile_free(profile);
}

/* ---- Writers that fail ----------------------------------------------------------------------- */

static void check_failure(struct cp__profile *profile, const struct cp_memory *expected, size_t at, int error)
{
    struct failing f = {.fails_at = at, .chunk = SIZE_MAX, .error = error};
    struct cp_writer w = {.ops = &failing_ops, .context = &f};

    CHECK_EQ(write_to(profile, &w, &cpu_meta, NULL), error);
    CHECK_EQ(f.got.size, at);
    CHECK(memcmp(f.got.data ? f.got.data : expected->data, expected->data, at) == 0);
    free(f.got.data);
}

CP_TEST(writer_fails_at_every_byte)
{
    struct cp__profile *profile = new_profile();
    uintptr_t here[] = {(uintptr_t)write_or_fail, (uintptr_t)check_failure + 1, (uintptr_t)strlen + 1};
    struct cp_memory expected;

    add(profile, here, 3, 1, 0, NULL);
    expected = whole(profile, SIZE_MAX);
    CHECK(expected.size > 200);
    for (size_t at = 0; at < expected.size; at++) {
        check_failure(profile, &expected, at, at % 2 == 0 ? -ENOSPC : -EPIPE);
        check_same(profile, &expected, SIZE_MAX);
    }
    check_same(profile, &expected, 1);
    free(expected.data);
    cp__profile_free(profile);
}

/* The profile is larger than one of the encoder's buffers. */
CP_TEST(writer_fails_in_a_large_file)
{
    struct cp__profile *profile = new_profile();
    struct cp_memory expected;

    add_many(profile, 3000);
    expected = whole(profile, SIZE_MAX);
    CHECK(expected.size > 3 * 16384);
    for (size_t at = 0; at < expected.size; at += 1021)
        check_failure(profile, &expected, at, -ENOSPC);
    check_same(profile, &expected, 4096);
    free(expected.data);
    cp__profile_free(profile);
}
