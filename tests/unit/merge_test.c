/* Merging profiles: cp_merge has the same result as go tool pprof with several files. */
#include <fcntl.h>
#include <zlib.h>

#include "pprof/merge.h"
#include "tests/support/memory_limit.h"
#include "tests/support/profile_tools.h"

/* ---- Files ----------------------------------------------------------------------------------- */

/* Returns the file's path, which is valid until the next call. */
static const char *path_of(const char *name, const char *suffix)
{
    static char path[256];

    snprintf(path, sizeof path, "%s/%s%s", test_dir(), name, suffix);
    return path;
}

static struct cp_memory load(const char *name, const char *suffix)
{
    struct cp_memory file = {0};
    FILE *in = fopen(path_of(name, suffix), "r");
    int c;

    CHECKF(in != NULL, "%s", name);
    while ((c = getc(in)) != EOF) {
        CHECK_EQ(CP__RESERVE(file.data, file.capacity, file.size + 1), 0);
        file.data[file.size++] = (unsigned char)c;
    }
    fclose(in);
    return file;
}

static int add_file(struct cp_merge *merge, const char *name)
{
    struct cp_memory file = load(name, ".pb.gz");
    struct cp_error err = {0};
    int result;

    result = cp_merge_add(merge, file.data, file.size, &err);
    CHECKF(result == 0, "%s: %s", name, err.message);
    free(file.data);
    return result;
}

static void write_merge(const struct cp_merge *merge, const char *name)
{
    struct cp_error err = {0};

    CHECKF(cp_merge_write(merge, cp_writer_path(path_of(name, ".pb.gz")), &err) == 0, "%s", err.message);
}

static void merge_files(const char *const *names, size_t n)
{
    struct cp_merge *merge = cp_merge_new();

    for (size_t i = 0; i < n; i++)
        add_file(merge, names[i]);
    write_merge(merge, "merged");
    cp_merge_free(merge);
}

/* Checks that go tool pprof reports the same for the merged profile as for its parts together. */
static void check_as_pprof_merges(const char *const *names, size_t n, const char *report)
{
    char files[600] = "";
    char *expected, *got;

    for (size_t i = 0; i < n; i++) {
        strcat(files, " ");
        strcat(files, path_of(names[i], ".pb.gz"));
    }
    expected = pprof(report, files);
    got = pprof(report, path_of("merged", ".pb.gz"));
    CHECK(got[0] != '\0' || strcmp(report, "-tags") == 0);
    CHECKF(strcmp(got, expected) == 0, "%s:\n%s\nbut go tool pprof merges to:\n%s", report, got, expected);
    free(got);
    free(expected);
}

static void check_merge(const char *const *names, size_t n)
{
    static const char *const reports[] = {
        "-raw", "-top -nodecount=500", "-tags", "-comments", "-traces", "-top -sample_index=0 -addresses"};

    merge_files(names, n);
    for (size_t i = 0; i < sizeof reports / sizeof reports[0]; i++)
        check_as_pprof_merges(names, n, reports[i]);
}

/* ---- Profiles -------------------------------------------------------------------------------- */

/* Writes a profile with stacks in this program's own code, in libc and in no mapping, with and without
 * labels. */
static void write_one(const char *name, unsigned which, const struct cp__profile_meta *meta)
{
    struct cp__profile *profile = new_profile();
    const uintptr_t here[] = {(uintptr_t)write_one + 4, (uintptr_t)check_merge + 8};
    const uintptr_t libc[] = {(uintptr_t)strtol + 1, (uintptr_t)write_one + 8};
    const uintptr_t only[] = {(which == 1 ? (uintptr_t)load : (uintptr_t)add_file) + 4};
    struct cp_labels *both = labels1("test", "both");
    struct cp_labels *own = labels2("part", which == 1 ? "1" : "2", "test", "both");

    add(profile, only, 1, which, 0, NULL);
    add(profile, here, 2, 10 * which, 0, NULL);
    add(profile, here, 2, 100 * which, 0, both);
    add(profile, libc, 2, 1000 * which, 0, own);
    add_many(profile, 20 * which);
    CHECK_EQ(cp__profile_add_named(profile, "[dropped: sample buffer full]", which), 0);
    write_profile(profile, meta, name);
    cp_labels_unref(both);
    cp_labels_unref(own);
    cp__profile_free(profile);
}

static struct cp__profile_meta meta_of(unsigned which)
{
    static const char *const comments[][2] = {{"common", "of the first"}, {"common", "of the second"}};
    struct cp__profile_meta meta = cpu_meta;

    meta.comments = comments[which - 1];
    meta.n_comments = 2;
    meta.time_ns += which == 1 ? 5000000000 : 0;
    meta.duration_ns = which * 1000000000;
    return meta;
}

static void write_two(void)
{
    const struct cp__profile_meta first = meta_of(1), second = meta_of(2);

    write_one("a", 1, &first);
    write_one("b", 2, &second);
}

CP_TEST(two_profiles_become_the_one_that_pprof_makes_of_them)
{
    char *raw;

    write_two();
    check_merge((const char *const[]){"a", "b"}, 2);
    raw = pprof("-raw", path_of("merged", ".pb.gz"));
    CHECK_CONTAINS(raw, "Duration: 3s");
    CHECK_EQ(count_lines(raw, "common"), 1);
    free(raw);
}

CP_TEST(a_profile_merged_with_itself_has_everything_twice)
{
    write_two();
    check_merge((const char *const[]){"b", "b"}, 2);
    check_merge((const char *const[]){"a", "b", "a"}, 3);
}

/* Two processes have the same objects at different addresses. */
CP_TEST(profiles_of_other_processes_keep_their_addresses_right)
{
    for (int i = 0; i < 2; i++)
        free(test_command(NULL,
                          "cd %s && %s/examples/serial -seconds 0.2 -cpuprofile %d.pb.gz -cpuprofileevent "
                          "cpuClock -cpuprofileperiod 1000000",
                          test_dir(), test_build_dir(), i));
    check_merge((const char *const[]){"0", "1"}, 2);
}

/* A profile of a process that hardly ran may have no names; its mapping must not mark the others' functions
 * as missing. */
CP_TEST(a_profile_without_names_takes_none_from_others)
{
    extern char etext[]; /* behind the last function, in the same mapping */
    const uintptr_t nameless[] = {(uintptr_t)etext + 16};
    struct cp__profile *profile = new_profile();
    char *raw, *line;

    add(profile, nameless, 1, 1, 0, NULL);
    raw = pprof("-symbolize=none -raw", write_profile(profile, &cpu_meta, "nameless"));
    CHECK_CONTAINS(strstr(raw, "Mappings"), "merge_test ");
    CHECK(strstr(raw, "[FN]") == NULL);
    free(raw);
    cp__profile_free(profile);
    write_two();
    merge_files((const char *const[]){"nameless", "a"}, 2);
    raw = pprof("-symbolize=none -raw", path_of("merged", ".pb.gz"));
    line = find_line(strstr(raw, "Mappings"), "merge_test ", 0);
    CHECK_CONTAINS(line, "[FN][FL][LN]");
    free(line);
    free(raw);
}

/* The merged profile keeps few comments, because a thousand tests' processes each have some and tools show
 * them before everything else. Here, each of four profiles has 20 comments of its own and one that all
 * have. */
CP_TEST(many_comments_are_cut)
{
    struct cp__profile_meta meta = cpu_meta;
    struct cp_merge *merge = cp_merge_new();
    char text[20][32];
    const char *comments[21];
    char *all;

    meta.comments = comments;
    meta.n_comments = 21;
    comments[20] = "common";
    for (unsigned profile = 0; profile < 4; profile++) {
        for (unsigned i = 0; i < 20; i++) {
            snprintf(text[i], sizeof text[i], "comment of %u", 20 * profile + i);
            comments[i] = text[i];
        }
        write_one("a", 1, &meta);
        add_file(merge, "a");
    }
    write_merge(merge, "merged");
    cp_merge_free(merge);
    all = pprof("-comments", path_of("merged", ".pb.gz"));
    CHECK_CONTAINS(all, "common\n");
    CHECK_CONTAINS(all, "comment of 62\n");
    CHECK_EQ(count_lines(all, " of "), 63);
    CHECK_CONTAINS(all, "more_comments: 17 # in the 4 profiles that were merged");
    free(all);
}

/* ---- What is refused ------------------------------------------------------------------------- */

CP_TEST(profiles_of_different_events_are_not_merged)
{
    struct cp__profile_meta other = cpu_meta;
    struct cp_merge *merge = cp_merge_new();
    struct cp_memory file, before = {0}, after = {0};
    struct cp_error err = {0};

    write_two();
    other.sample_type = "cycles";
    other.sample_unit = "count";
    write_one("c", 1, &other);
    CHECK_EQ(cp_merge_write(merge, cp_writer_memory(&before), &err), -ENODATA);
    CHECK_CONTAINS(err.message, "no profile was added");
    add_file(merge, "a");
    CHECK_EQ(cp_merge_write(merge, cp_writer_memory(&before), NULL), 0);
    file = load("c", ".pb.gz");
    CHECK_EQ(cp_merge_add(merge, file.data, file.size, &err), -EINVAL);
    CHECK_CONTAINS(err.message, "samples in count, cycles in count by cycles in count");
    CHECK_CONTAINS(err.message, "samples in count, cpu in nanoseconds by cpu in nanoseconds");
    CHECK_EQ(cp_merge_write(merge, cp_writer_memory(&after), NULL), 0);
    CHECK(before.size == after.size && memcmp(before.data, after.data, after.size) == 0);
    free(before.data);
    free(after.data);
    free(file.data);
    cp_merge_free(merge);
}

/* Loads the file without compression; gunzip is a tool that is not part of this library. */
static struct cp_memory plain(const char *name)
{
    free(test_command(NULL, "cd %s && gunzip -c %s.pb.gz > %s.pb", test_dir(), name, name));
    return load(name, ".pb");
}

static void check_unchanged(const struct cp_merge *merge, const struct cp_memory *before)
{
    struct cp_memory after = {0};

    CHECK_EQ(cp_merge_write(merge, cp_writer_memory(&after), NULL), 0);
    CHECK_EQ(after.size, before->size);
    CHECK(memcmp(before->data, after.data, after.size) == 0);
    free(after.data);
}

static bool must_refuse(struct cp_merge *merge, const void *data, size_t size)
{
    struct cp_error err = {0};
    int result = cp_merge_add(merge, data, size, &err);

    if (result == 0)
        return false;
    CHECKF(result == -EBADMSG || result == -EINVAL, "%d", result);
    CHECK_EQ(err.code, result);
    CHECK(err.message[strlen(err.message) - 1] == '.');
    return true;
}

/* Whether a damaged file still unpacks to the same bytes. Two bits of damage are harmless: the padding of the
 * last byte, and the distance of a repetition whose text stands at both distances. */
static bool still_tells(struct cp_memory file, struct cp_memory expected)
{
    unsigned char *data = malloc(expected.size + 1);
    z_stream z = {.next_in = file.data, .avail_in = (uInt)file.size, .next_out = data};
    bool does;

    CHECK(data != NULL);
    z.avail_out = (uInt)expected.size + 1;
    CHECK_EQ(inflateInit2(&z, 15 + 16), Z_OK); /* 16 selects gzip's format */
    does = inflate(&z, Z_FINISH) == Z_STREAM_END && z.total_out == expected.size &&
           memcmp(data, expected.data, expected.size) == 0;
    inflateEnd(&z);
    free(data);
    return does;
}

CP_TEST(damaged_profiles_are_refused_and_change_nothing)
{
    struct cp_merge *merge = cp_merge_new();
    struct cp_memory file, content, before = {0};
    unsigned char *copy;

    write_two();
    content = plain("b");
    add_file(merge, "a");
    CHECK_EQ(cp_merge_write(merge, cp_writer_memory(&before), NULL), 0);
    CHECK(must_refuse(merge, "", 0));
    CHECK(must_refuse(merge, "heap profile: 0: 0 [0: 0] @", 27));
    file = load("b", ".pb.gz");
    for (size_t size = 0; size < file.size; size += size < 100 || size + 20 > file.size ? 1 : 13) {
        copy = malloc(size + 1); /* ends the copy where AddressSanitizer notices an access behind it */
        memcpy(copy, file.data, size);
        copy = realloc(copy, size > 0 ? size : 1);
        CHECKF(must_refuse(merge, copy, size), "cut to %zu", size);
        free(copy);
    }
    for (size_t i = 10; i < file.size; i += 7) { /* begins behind gzip's header, which has no checksum */
        file.data[i] ^= 0x10;
        if (!still_tells(file, content))
            CHECKF(must_refuse(merge, file.data, file.size), "flipped at %zu", i);
        file.data[i] ^= 0x10;
    }
    check_unchanged(merge, &before);
    free(file.data);
    free(content.data);
    free(before.data);
    cp_merge_free(merge);
}

/* Without gzip's checksum a damaged file may be another valid profile. It must still do no harm. */
CP_TEST(no_damage_does_harm)
{
    struct cp_memory file;
    unsigned refused = 0, tried = 0;

    write_two();
    file = plain("b");
    for (size_t i = 0; i < file.size; i += 11) {
        for (unsigned bit = 0; bit < 8; bit += 1 + i % 3) {
            struct cp_merge *merge = cp_merge_new();
            struct cp_memory out = {0};

            file.data[i] ^= (unsigned char)(1u << bit);
            add_file(merge, "a");
            refused += must_refuse(merge, file.data, file.size);
            tried++;
            CHECK_EQ(cp_merge_write(merge, cp_writer_memory(&out), NULL), 0);
            file.data[i] ^= (unsigned char)(1u << bit);
            free(out.data);
            cp_merge_free(merge);
        }
    }
    printf("%u of %u refused\n", refused, tried);
    CHECK(refused > tried / 10 && refused < tried);
    free(file.data);
}

/* Compresses unit, repeated up to size bytes. */
static struct cp_memory zipped(const char *unit, size_t unit_size, size_t size)
{
    struct cp_memory file = {.capacity = 1 << 20};
    unsigned char chunk[3 << 12];
    z_stream z = {0};
    int said = Z_OK;

    for (size_t i = 0; i < sizeof chunk; i++)
        chunk[i] = (unsigned char)unit[i % unit_size];
    file.data = malloc(file.capacity);
    CHECK(file.data != NULL);
    z.next_out = file.data;
    z.avail_out = (uInt)file.capacity;
    CHECK_EQ(deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    while (said == Z_OK) {
        z.next_in = chunk;
        z.avail_in = (uInt)(size < sizeof chunk ? size : sizeof chunk);
        size -= z.avail_in;
        said = deflate(&z, size > 0 ? Z_NO_FLUSH : Z_FINISH);
        CHECK(z.avail_out > 0);
    }
    CHECK_EQ(said, Z_STREAM_END);
    file.size = z.total_out;
    deflateEnd(&z);
    return file;
}

/* Reads the file with a limit on the memory of the profile. */
static int read_within(const struct cp_memory *file, size_t limit, struct cp_error *err)
{
    int result;
    Cp__Proto__Profile *p = cp__merge_read(file->data, file->size, limit, &result, err);

    if (p != NULL)
        cp__proto__profile__free_unpacked(p, NULL);
    CHECK_EQ(p == NULL, result < 0);
    return result;
}

/* Several gzip files in a row are one gzip file. */
CP_TEST(a_small_file_does_not_unpack_to_any_size)
{
    enum { TIMES = 64 };
    struct cp_memory part = zipped("\0", 1, CP_MERGE_LIMIT / 4), bomb = {.size = TIMES * part.size};
    struct cp_merge *merge = cp_merge_new();
    struct cp_error err = {0};

    bomb.data = malloc(bomb.size);
    for (size_t i = 0; i < TIMES; i++)
        memcpy(bomb.data + i * part.size, part.data, part.size);
    CHECK_EQ(cp_merge_add(merge, bomb.data, 4 * part.size, &err), -EBADMSG); /* as large as a file may be */
    if (!TEST_ASAN && !TEST_TSAN)
        limit_memory(4 * CP_MERGE_LIMIT);
    CHECK_EQ(cp_merge_add(merge, bomb.data, bomb.size, &err), -EFBIG);
    CHECK_CONTAINS(err.message, "unpack to more than 67108864, or take more than 1073741824 bytes of memory. "
                                "It was left out.");
    free(part.data);
    free(bomb.data);
    cp_merge_free(merge);
}

CP_TEST(a_profile_may_unpack_to_the_limit)
{
    struct cp_memory file, content;
    struct cp_error err = {0};

    write_two();
    file = load("b", ".pb.gz");
    content = plain("b");
    CHECK_EQ(read_within(&file, content.size, &err), 0);
    CHECK_EQ(read_within(&file, content.size - 1, &err), -EFBIG);
    free(file.data);
    free(content.data);
}

/* The unit is a field of two bytes, "a sample of length 0", which becomes a message in memory. */
CP_TEST(a_file_does_not_take_any_memory)
{
    const size_t limit = 1 << 20;
    struct cp_memory bomb = zipped("\x12\0", 2, limit);
    struct cp_error err = {0};

    CHECK_EQ(read_within(&bomb, limit, &err), -EFBIG);
    CHECK_EQ(read_within(&bomb, 100 * limit, &err), -EBADMSG);
    free(bomb.data);
}

/* ---- What others write ----------------------------------------------------------------------- */

/* A profile, encoded by protoc, with fields that this library does not write. */
static const char others[] =
    "string_table: ['', 'alloc', 'bytes', 'size', 'request', 'kilobytes', 'f', 'f.c', 'drop.*', 'keep', "
    "'http://example.org', 'word']\n"
    "sample_type { type: 1 unit: 2 } sample { location_id: 900 value: %d label { key: 3 num: 4096 num_unit: "
    "5 } "
    "label { key: 4 str: 11 } }\n"
    "sample { location_id: 900 value: 1 label { key: 3 num: 8192 num_unit: 5 } }\n"
    "location { id: 900 address: 77 is_folded: true line { function_id: 18446744073709551615 line: 12 } }\n"
    "function { id: 18446744073709551615 name: 6 filename: 7 start_line: 3 }\n"
    "drop_frames: 8 keep_frames: 9 default_sample_type: 1 period: %d time_nanos: %d\n";

static void __attribute__((format(printf, 2, 3))) encode_text(const char *name, const char *format, ...)
{
    FILE *out = fopen(path_of(name, ".txt"), "w");
    va_list arguments;

    va_start(arguments, format);
    vfprintf(out, format, arguments);
    va_end(arguments);
    fclose(out);
    free(test_command(NULL,
                      "file=$(dpkg -L golang-github-google-pprof-dev | grep '/profile\\.proto$') && cd %s && "
                      "protoc --encode=perftools.profiles.Profile -I ${file%%/*} $file < %s.txt > %s.pb.gz",
                      test_dir(), name, name));
}

CP_TEST(what_only_others_write_is_kept)
{
    char *text;

    encode_text("x", others, 7, 7, 7);
    encode_text("y", others, 5, 5, 5);
    check_merge((const char *const[]){"x", "y"}, 2);
    text = decode(path_of("merged", ".pb.gz"));
    CHECK_CONTAINS(text, "num: 4096");
    CHECK_CONTAINS(text, "num_unit: ");
    CHECK_CONTAINS(text, "is_folded: true");
    CHECK_CONTAINS(text, "drop_frames: ");
    CHECK_CONTAINS(text, "keep_frames: ");
    CHECK_CONTAINS(text, "value: 12");
    CHECK_CONTAINS(text, "time_nanos: 5");
    CHECK_CONTAINS(text, "period: 7");
    CHECK_EQ(count_lines(text, "sample {"), 2);
    CHECK_EQ(count_lines(text, "function {"), 1);
    free(text);
}

/* A label more or fewer, or another value, makes another sample. Another order of the labels does not. */
CP_TEST(labels_in_any_order_are_equal)
{
    static const char strings[] = "string_table: ['', 'cpu', 'ns', 'k1', 'v1', 'k2', 'v2']\n"
                                  "sample_type { type: 1 unit: 2 }\n";
    char *text;

    encode_text("x", "%ssample { value: 1 label { key: 3 str: 4 } label { key: 5 str: 6 } }\n", strings);
    encode_text("y",
                "%ssample { value: 2 label { key: 5 str: 6 } label { key: 3 str: 4 } }\n"
                "sample { value: 4 label { key: 3 str: 6 } label { key: 5 str: 4 } }\n",
                strings);
    merge_files((const char *const[]){"x", "y"}, 2);
    text = decode(path_of("merged", ".pb.gz"));
    CHECK_EQ(count_lines(text, "sample {"), 2);
    CHECK_CONTAINS(text, "value: 3\n");
    CHECK_CONTAINS(text, "value: 4\n");
    free(text);
}

/* A program that was built anew has the same name as the old one; a library in a container may have another
 * name. */
CP_TEST(build_ids_tell_mappings_apart)
{
    static const char format[] =
        "string_table: ['', 'cpu', 'ns', '%s', '%s']\n"
        "sample_type { type: 1 unit: 2 }\n"
        "sample { location_id: 1 value: %d }\n"
        "location { id: 1 mapping_id: 1 address: 4100 }\n"
        "mapping { id: 1 memory_start: 4096 memory_limit: 8192 filename: 3 build_id: 4 }\n";
    char *text;

    encode_text("x", format, "/bin/one", "1111", 1);
    encode_text("y", format, "/bin/one", "2222", 2);
    encode_text("z", format, "/container/one", "1111", 4);
    check_merge((const char *const[]){"x", "y", "z"}, 3);
    text = decode(path_of("merged", ".pb.gz"));
    CHECK_EQ(count_lines(text, "mapping {"), 2);
    CHECK_CONTAINS(text, "value: 5\n");
    CHECK_CONTAINS(text, "value: 2\n");
    free(text);
}

/* The type's name "a in b, c" is not the same as two types. If the merge took it for two, it would read two
 * values of a sample that has one. */
CP_TEST(names_that_look_like_more_types_are_none)
{
    struct cp_merge *merge = cp_merge_new();
    struct cp_memory file;
    struct cp_error err = {0};

    encode_text("one", "string_table: ['', 'a in b, c', 'd']\nsample_type { type: 1 unit: 2 }\n"
                       "sample { value: 1 } sample { value: 2 label { key: 1 num: 1 } }\n");
    encode_text("two", "string_table: ['', 'a', 'b', 'c', 'd']\nsample_type { type: 1 unit: 2 }\n"
                       "sample_type { type: 3 unit: 4 }\nsample { value: [1, 2] label { key: 1 num: 2 } }\n");
    add_file(merge, "one");
    file = load("two", ".pb.gz");
    CHECK_EQ(cp_merge_add(merge, file.data, file.size, &err), -EINVAL);
    CHECK_CONTAINS(err.message, "different things");
    free(file.data);
    cp_merge_free(merge);
}
