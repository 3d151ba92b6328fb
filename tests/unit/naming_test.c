/* Names that are left for later: a profile that is written without names and then named is the one that its
 * process would have written. */
#include <dlfcn.h>

#include "pprof/comments.h"
#include "pprof/naming_data.h"
#include "pprof/session.h"
#include "tests/support/profile_tools.h"

/* ---- Tools ----------------------------------------------------------------------------------- */

/* Makes a stopped session. */
static struct cp_session *stopped_session(void)
{
    struct cp_session *session = calloc(1, sizeof *session);
    struct cp__part *part = &session->parts[0];

    session->n = 1;
    session->pid = getpid();
    session->stats[0].ms = 1;
    session->lock = (struct cp__lock)CP__LOCK_INIT(CP__RANK_SESSION);
    part->event.size = sizeof part->event;
    part->config.size = sizeof part->config;
    CHECK_EQ(cp_event_parse("taskClock", &part->event, NULL), 0);
    CHECK_EQ(cp_cpu_profile_config_init(&part->config, &part->event, 1000000, NULL), 0);
    part->profile = new_profile();
    return session;
}

static const char *file_of(const char *name)
{
    static char path[256];

    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    return path;
}

static void save_as(const struct cp_memory *profile, const char *name)
{
    FILE *file = fopen(file_of(name), "w");

    CHECK(file != NULL && fwrite(profile->data, 1, profile->size, file) == profile->size);
    fclose(file);
}

/* ---- Code ------------------------------------------------------------------------------------ */

/* Loads a library that is built of a source, of C++ or of C. */
static void *load_library(const char *compile, const char *source, const char *name)
{
    char path[256];
    void *handle;

    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    free(test_command(NULL, "%s -shared -fPIC -o %s %s", compile, path, test_source(source)));
    handle = dlopen(path, RTLD_NOW);
    CHECKF(handle != NULL, "%s", dlerror());
    return handle;
}

static const char kernel_list[] = "ffffffff81000000 T first\n"
                                  "ffffffff81000100 T second\n"
                                  "ffffffffc0000000 t of_module\t[module]\n"
                                  "ffffffffc0000100 t behind\t[module]\n";

static char *kernel_file(void)
{
    char *path = strdup(file_of("kallsyms"));
    FILE *file = fopen(path, "w");

    fputs(kernel_list, file);
    fclose(file);
    return path;
}

/* Adds a sample at each fourth byte of some code, called from the C library, with a label, and one in the
 * kernel. */
static void add_samples_of(struct cp__profile *profile, void *code, size_t size)
{
    static const uintptr_t kernel[] = {0xffffffff81000010, 0xffffffff81000110, 0xffffffffc0000020};
    struct cp_labels *label = labels1("thread", "one");

    for (size_t i = 0; i < size; i += 4) {
        const uintptr_t frames[] = {kernel[i / 4 % 3], (uintptr_t)code + i, (uintptr_t)strtol + 1,
                                    (uintptr_t)cp__naming_new + 4};
        const struct cp_sample sample = {
            .weight = 1 + i % 7, .depth = 3, .frames = frames + 1, .labels = i % 8 == 0 ? label : NULL};
        const struct cp_sample in_kernel = {
            .weight = 1, .depth = 4, .kernel_depth = 1, .frames = frames, .labels = NULL};

        CHECK_EQ(cp__profile_add(profile, &sample), 0);
        CHECK_EQ(cp__profile_add(profile, &in_kernel), 0);
    }
    cp_labels_unref(label);
}

/* ---- Both ways ------------------------------------------------------------------------------- */

/* Writes the profile of a session with its names, or without. */
static struct cp_memory write_session(struct cp_session *session, bool leave)
{
    struct cp_memory memory = {0};
    struct cp_writer w = cp_writer_memory(&memory);
    struct cp_error err;

    cp__session_leave_names(session, leave);
    CHECKF(cp__report_write(session, 0, &w, false, &err) == 0, "%s", err.message);
    return memory;
}

/* Names n profiles together. */
static void name_all(struct cp_memory *profiles, size_t n, const char *kallsyms)
{
    struct cp__naming *naming;
    struct cp_error err = {0};

    CHECK_EQ(cp__naming_new(&naming), 0);
    naming->known->kallsyms = kallsyms;
    for (size_t i = 0; i < n; i++)
        CHECKF(cp__naming_add(naming, profiles[i].data, profiles[i].size, &err) == 1, "%s", err.message);
    CHECK_EQ(cp__naming_look_up(naming, &err), 0);
    for (size_t i = 0; i < n; i++) {
        struct cp_memory named = {0};

        CHECKF(cp__naming_write(naming, profiles[i].data, profiles[i].size, cp_writer_memory(&named), &err) ==
                   0,
               "%s", err.message);
        free(profiles[i].data);
        profiles[i] = named;
    }
    cp__naming_free(naming);
}

static char *report_of(const struct cp_memory *profile, const char *report)
{
    save_as(profile, "profile.pb.gz");
    return pprof(report, file_of("profile.pb.gz"));
}

static void check_same_report(const struct cp_memory *a, const struct cp_memory *b, const char *report)
{
    char *left = report_of(a, report), *right = report_of(b, report);

    CHECKF(strcmp(left, right) == 0, "%s:\n%.3000s\nbut in the process:\n%.3000s", report, left, right);
    free(left);
    free(right);
}

static void check_same_profile(const struct cp_memory *named, const struct cp_memory *expected)
{
    static const char *const reports[] = {
        "-symbolize=none -top -nodecount=5000", "-symbolize=none -top -lines -nodecount=5000",
        "-symbolize=none -top -files", "-symbolize=none -traces", "-symbolize=none -tags"};

    for (size_t i = 0; i < sizeof reports / sizeof reports[0]; i++)
        check_same_report(named, expected, reports[i]);
}

static char *sorted_comments(const struct cp_memory *profile)
{
    free(report_of(profile, "-comments"));
    return test_command(NULL, "cd %s && HOME=. PPROF_TMPDIR=. go tool pprof -comments profile.pb.gz | sort",
                        test_dir());
}

/* All comments are the same but the order of the last one's keys. */
static void check_same_comments(const struct cp_memory *named, const struct cp_memory *expected)
{
    char *left = sorted_comments(named), *right = sorted_comments(expected);

    CHECK_STR(left, right);
    free(left);
    free(right);
}

/* Checks that a function is in a profile. */
static void check_shows(const struct cp_memory *profile, const char *name)
{
    char *top = report_of(profile, "-symbolize=none -top -nodecount=5000");

    CHECK_CONTAINS(top, name);
    free(top);
}

static void check_way(const char *compile, const char *source, const char *name, const char *symbol,
                      const char *shown)
{
    void *library = load_library(compile, source, name), *code = dlsym(library, symbol);
    struct cp_session *session = stopped_session();
    char *kallsyms = kernel_file();
    struct cp_memory left, expected;

    CHECKF(code != NULL, "%s", dlerror());
    session->parts[0].profile->kallsyms = kallsyms;
    add_samples_of(session->parts[0].profile, code, 600);
    CHECK_EQ(cp__profile_add_named(session->parts[0].profile, "[not sampled: x]", 5), 0);
    left = write_session(session, true);
    expected = write_session(session, false);
    name_all(&left, 1, kallsyms);
    check_shows(&left, shown);
    check_shows(&left, "of_module");
    check_same_profile(&left, &expected);
    check_same_comments(&left, &expected);
    free(left.data);
    free(expected.data);
    cp__session_free(session);
    free(kallsyms);
}

CP_TEST(names_are_the_same_later)
{
    check_way("gcc -O2 -g", "inline_target.c", "inline.so", "main", " mix (inline)");
    check_way("g++ -x c++ -O2 -g", "inline_target.c", "inline_cc.so", "main", "branches(unsigned int)");
    check_way("gcc -O2 -g", "symbol_target.c", "symbol.so", "target_outer", "innermost (inline)");
    check_way("gcc -O2 -s", "symbol_target.c", "stripped.so", "target_outer", " target_outer");
}

/* ---- Many ------------------------------------------------------------------------------------ */

/* Each object has one mapping, and each address one frame, however many profiles have it. */
CP_TEST(many_profiles_are_named_together)
{
    void *library = load_library("gcc -O2 -g", "symbol_target.c", "many.so");
    struct cp_memory left[3], expected[3];
    struct cp__naming *naming;
    size_t frames = 0, objects = 0;

    for (size_t i = 0; i < 3; i++) {
        struct cp_session *session = stopped_session();

        add_samples_of(session->parts[0].profile, dlsym(library, "target_outer"), 40 * (3 - i));
        left[i] = write_session(session, true);
        expected[i] = write_session(session, false);
        cp__session_free(session);
    }
    CHECK_EQ(cp__naming_new(&naming), 0);
    for (size_t i = 0; i < 3; i++) {
        CHECK_EQ(cp__naming_add(naming, left[i].data, left[i].size, NULL), 1);
        CHECK(i == 0 || (naming->known->n_frames == frames && naming->objects.n == objects));
        frames = naming->known->n_frames;
        objects = naming->objects.n;
    }
    /* the library, this program, and the C library if no sanitizer has the place of its functions */
    CHECK(objects == 3 || (objects == 2 && (TEST_ASAN || TEST_TSAN)));
    cp__naming_free(naming);
    name_all(left, 3, "/proc/kallsyms");
    for (size_t i = 0; i < 3; i++) {
        check_same_profile(&left[i], &expected[i]);
        free(left[i].data);
        free(expected[i].data);
    }
}

/* ---- Leaves ---------------------------------------------------------------------------------- */

CP_TEST(the_recorded_instruction_is_the_leaf_if_it_is_in_the_function)
{
    char *code = dlsym(load_library("gcc -O2 -g", "symbol_target.c", "precise.so"), "target_outer");
    const uintptr_t frames[] = {(uintptr_t)code + 8};
    const uint64_t ips[] = {(uintptr_t)code + 12, (uintptr_t)strtol + 1, (uintptr_t)code + 12};
    struct cp_session *session = stopped_session();
    struct cp_memory left, expected;
    char *raw;

    for (size_t i = 0; i < 3; i++) {
        const struct cp_sample sample = {
            .weight = 1 + i, .depth = 1, .frames = frames, .ip = ips[i], .addr = i == 2 ? 0x1230 : 0};

        CHECK_EQ(cp__profile_add(session->parts[0].profile, &sample), 0);
    }
    left = write_session(session, true);
    raw = report_of(&left, "-symbolize=none -raw");
    CHECK_CONTAINS(raw, "recorded_location");
    free(raw);
    expected = write_session(session, false);
    name_all(&left, 1, "/proc/kallsyms");
    check_same_profile(&left, &expected);
    check_same_report(&left, &expected, "-symbolize=none -top -addresses");
    check_same_comments(&left, &expected);
    raw = report_of(&left, "-comments");
    CHECK_CONTAINS(raw, "elsewhere: 2 ");
    free(raw);
    free(left.data);
    free(expected.data);
    cp__session_free(session);
}

/* Checks that the program's function has its name, and the kernel's have none. */
static void check_is_of_another_boot(const struct cp_memory *profile)
{
    char *said = report_of(profile, "-comments");

    CHECK_CONTAINS(said, "kernel_names: none # the profile is of another boot");
    free(said);
    check_shows(profile, "[kernel.kallsyms]");
    check_shows(profile, "strtol");
}

/* ---- Merged profiles -------------------------------------------------------------------------- */

static struct cp_memory merge_both(const struct cp_memory *a, const struct cp_memory *b)
{
    struct cp_merge *merge = cp_merge_new();
    struct cp_memory memory = {0};

    CHECK_EQ(cp_merge_add(merge, a->data, a->size, NULL), 0);
    CHECK_EQ(cp_merge_add(merge, b->data, b->size, NULL), 0);
    CHECK_EQ(cp_merge_write(merge, cp_writer_memory(&memory), NULL), 0);
    cp_merge_free(merge);
    return memory;
}

/* The locations of both profiles have other numbers in the merged one. */
CP_TEST(recorded_instructions_of_merged_profiles_are_leaves)
{
    char *code = dlsym(load_library("gcc -O2 -g", "symbol_target.c", "merged.so"), "target_outer");
    struct cp_memory left[2], expected[2], all_left, all_expected;

    for (size_t i = 0; i < 2; i++) {
        struct cp_session *session = stopped_session();
        const uintptr_t frames[] = {(uintptr_t)code + 8, (uintptr_t)strtol + 1 + i};
        const struct cp_sample sample = {
            .weight = 1 + i, .depth = 2, .frames = frames, .ip = (uintptr_t)code + 12 + 4 * i};

        CHECK_EQ(cp__profile_add(session->parts[0].profile, &sample), 0);
        left[i] = write_session(session, true);
        expected[i] = write_session(session, false);
        cp__session_free(session);
    }
    all_left = merge_both(&left[0], &left[1]);
    all_expected = merge_both(&expected[0], &expected[1]);
    name_all(&all_left, 1, "/proc/kallsyms");
    check_same_report(&all_left, &all_expected, "-symbolize=none -top -addresses");
    check_same_report(&all_left, &all_expected, "-symbolize=none -tags");
    for (size_t i = 0; i < 2; i++) {
        free(left[i].data);
        free(expected[i].data);
    }
    free(all_left.data);
    free(all_expected.data);
}

/* Returns the profile as one of that boot, if any, without gzip's checksum. */
static struct cp_memory unzipped(const struct cp_memory *profile, const char *boot)
{
    int result;
    struct cp_memory memory = {0};
    Cp__Proto__Profile *p = cp__merge_read(profile->data, profile->size, CP_MERGE_LIMIT, &result, NULL);

    CHECK(p != NULL);
    for (size_t i = 0; i < p->n_comment; i++)
        if (cp__comment_later(p->string_table[p->comment[i]]) != NULL)
            memcpy(p->string_table[p->comment[i]] + strlen("names_later: "), boot, strlen(boot));
    memory.size = cp__proto__profile__get_packed_size(p);
    memory.data = malloc(memory.size);
    cp__proto__profile__pack(p, (uint8_t *)memory.data);
    cp__proto__profile__free_unpacked(p, NULL);
    return memory;
}

CP_TEST(the_kernel_is_not_asked_for_a_profile_of_two_boots)
{
    struct cp_session *session = stopped_session();
    struct cp_memory left, other, both;

    add_samples_of(session->parts[0].profile, (void *)(uintptr_t)strtol, 40);
    left = write_session(session, true);
    other = unzipped(&left, "x");
    both = merge_both(&left, &other);
    name_all(&both, 1, "/proc/kallsyms");
    check_is_of_another_boot(&both);
    free(left.data);
    free(other.data);
    free(both.data);
    cp__session_free(session);
}

CP_TEST(what_the_names_lack_is_told_once)
{
    static const char *const known[] = {
        "names_later: a # b", "names_later: c # d", "symbols_missing: [anon] # e",
        "limits: symbols_missing,lost,names_later # f", "limits: dropped,lost,names_later # f"};
    struct cp__profile_findings findings = {.missing = {{"x.so", "its file is gone"}}, .n_missing = 1};
    struct cp__comments *comments = cp__comments_name(known, 5, &findings);
    size_t n;
    const char *const *list = cp__comments_list(comments, &n);

    CHECK_EQ(n, 3);
    CHECK_CONTAINS(list[0], "symbols_missing: x.so # ");
    CHECK_STR(list[1], known[2]);
    CHECK_CONTAINS(list[2], "limits: symbols_missing,lost,dropped # ");
    free(comments);
}

/* ---- Damage ----------------------------------------------------------------------------------- */

/* Names what may be another valid profile. Returns whether it was written. */
static bool name_damaged(const struct cp_memory *profile)
{
    struct cp__naming *naming;
    struct cp_memory named = {0};
    int result;

    CHECK_EQ(cp__naming_new(&naming), 0);
    naming->known->kallsyms = "/dev/null";
    result = cp__naming_add(naming, profile->data, profile->size, NULL);
    CHECK_EQ(cp__naming_look_up(naming, NULL), 0);
    if (result == 1)
        CHECK_EQ(cp__naming_write(naming, profile->data, profile->size, cp_writer_memory(&named), NULL), 0);
    cp__naming_free(naming);
    free(named.data);
    return result == 1;
}

CP_TEST(no_damage_does_harm)
{
    void *library = load_library("gcc -O2", "symbol_target.c", "damaged.so");
    const uintptr_t code = (uintptr_t)dlsym(library, "target_outer");
    const uintptr_t frames[] = {0xffffffff81000010, code + 8, code + 16};
    const struct cp_sample samples[] = {{.weight = 1, .depth = 2, .frames = frames + 1, .ip = code + 12},
                                        {.weight = 1, .depth = 3, .kernel_depth = 1, .frames = frames}};
    struct cp_session *session = stopped_session();
    struct cp_memory left, damaged;
    unsigned written = 0, tried = 0;

    for (size_t i = 0; i < 2; i++)
        CHECK_EQ(cp__profile_add(session->parts[0].profile, &samples[i]), 0);
    left = write_session(session, true);
    damaged = unzipped(&left, "");
    for (size_t i = 0; i < damaged.size; i += 11) {
        damaged.data[i] ^= (unsigned char)(1u << i % 8);
        written += name_damaged(&damaged);
        tried++;
        damaged.data[i] ^= (unsigned char)(1u << i % 8);
    }
    CHECKF(written > tried / 10 && written < tried, "%u of %u", written, tried);
    free(left.data);
    free(damaged.data);
    cp__session_free(session);
}

/* ---- Memory ----------------------------------------------------------------------------------- */

#if TEST_ASAN || TEST_TSAN
CP_TEST(memory_ends_in_add)
{
    SKIP("A sanitizer has the allocator that this test takes the place of.");
}
#else
#include "tests/support/failing_memory.h"

/* Adds two profiles, of which the first one finds no memory at the call "first" of the allocator. Returns
 * whether there were so many calls. */
static bool add_without_memory(const struct cp_memory *profiles, unsigned first)
{
    struct cp__naming *naming;
    bool has_failed;

    CHECK_EQ(cp__naming_new(&naming), 0);
    fail_calls(first, first);
    cp__naming_add(naming, profiles[0].data, profiles[0].size, NULL);
    has_failed = have_failed();
    for (size_t i = 0; i < 2; i++)
        if (cp__naming_add(naming, profiles[i].data, profiles[i].size, NULL) == 1)
            CHECK_EQ(naming->known->mappings.n, naming->objects.n);
    for (size_t i = 0; i < naming->known->n_frames; i++)
        CHECK(naming->known->frames[i].place <= naming->known->mappings.n);
    cp__naming_free(naming);
    return has_failed;
}

CP_TEST(memory_ends_in_add)
{
    struct cp_memory profiles[2];
    unsigned first = 1;

    for (size_t i = 0; i < 2; i++) {
        struct cp_session *session = stopped_session();

        add_samples_of(session->parts[0].profile,
                       i == 0 ? (void *)(uintptr_t)strtol : (void *)(uintptr_t)cp__naming_new, 8);
        profiles[i] = write_session(session, true);
        cp__session_free(session);
    }
    for (; add_without_memory(profiles, first); first++)
        ;
    CHECK(first > 20);
    for (size_t i = 0; i < 2; i++)
        free(profiles[i].data);
}
#endif

/* ---- What cannot be named -------------------------------------------------------------------- */

/* Returns a profile without names of a library that has this file in the test's directory, with its build id
 * or without. */
static struct cp_memory profile_of_library(const char *name, const char *build_id)
{
    char compile[80];
    struct cp_session *session = stopped_session();
    struct cp_memory left;
    void *library;

    snprintf(compile, sizeof compile, "gcc -O2 -g -Wl,--build-id=%s", build_id);
    library = load_library(compile, "symbol_target.c", name);
    add_samples_of(session->parts[0].profile, dlsym(library, "target_outer"), 40);
    session->time_ns = cp__clock_ns(CLOCK_REALTIME);
    left = write_session(session, true);
    cp__session_free(session);
    return left;
}

static void check_unnamed(struct cp_memory *left, const char *comment)
{
    char *said, *top;

    name_all(left, 1, "/proc/kallsyms");
    said = report_of(left, "-comments");
    CHECK_CONTAINS(said, comment);
    free(said);
    top = report_of(left, "-symbolize=none -top -nodecount=5000");
    CHECKF(strstr(top, "target_outer") == NULL, "%s", top);
    CHECK_CONTAINS(top, "strtol");
    free(top);
    free(left->data);
}

CP_TEST(a_file_that_is_another_one_now_is_not_read)
{
    static const char replaced[] = "replaced.so # has code without names, or without lines: another file has";
    struct cp_memory left = profile_of_library("replaced.so", "sha1");

    free(test_command(NULL,
                      "cd %s && cp replaced.so other.so && objcopy --remove-section=.note.gnu.build-id "
                      "other.so && mv other.so replaced.so",
                      test_dir()));
    check_unnamed(&left, replaced);
    left = profile_of_library("same_id.so", "none");
    free(test_command(NULL,
                      "cd %s && cp same_id.so other.so && touch -d 'last year' other.so && sleep 0.1 && "
                      "mv other.so same_id.so",
                      test_dir()));
    check_unnamed(&left, "same_id.so # has code without names, or without lines: another file has");
    left = profile_of_library("gone.so", "sha1");
    unlink(file_of("gone.so"));
    check_unnamed(&left, "gone.so # has code without names, or without lines: its file is gone");
}

/* What is gone at the end already is named by the process itself, as before. */
CP_TEST(what_only_the_process_can_know_is_not_left)
{
    void *library = load_library("gcc -O2 -g", "symbol_target.c", "early.so");
    struct cp_session *session = stopped_session();
    struct cp_memory left;

    add_samples_of(session->parts[0].profile, dlsym(library, "target_outer"), 40);
    CHECK_EQ(cp__profile_note_mappings(session->parts[0].profile), 0);
    unlink(file_of("early.so"));
    left = write_session(session, true);
    check_shows(&left, "target_outer");
    free(left.data);
    cp__session_free(session);
}

CP_TEST(the_kernel_of_another_boot_is_not_asked)
{
    struct cp_session *session = stopped_session();
    struct cp_memory left, other;

    add_samples_of(session->parts[0].profile, (void *)(uintptr_t)strtol, 40);
    left = write_session(session, true);
    other = unzipped(&left, "x");
    name_all(&other, 1, "/proc/kallsyms");
    check_is_of_another_boot(&other);
    free(left.data);
    free(other.data);
    cp__session_free(session);
}

CP_TEST(what_has_left_no_names_is_let_be)
{
    struct cp_session *session = stopped_session();
    struct cp__naming *naming;
    struct cp_memory whole;
    struct cp_error err = {0};

    add_samples_of(session->parts[0].profile, (void *)(uintptr_t)strtol, 40);
    whole = write_session(session, false);
    CHECK_EQ(cp__naming_new(&naming), 0);
    CHECK_EQ(cp__naming_add(naming, whole.data, whole.size, &err), 0);
    CHECK_EQ(cp__naming_add(naming, whole.data, whole.size / 2, &err), -EBADMSG);
    CHECK_EQ(naming->known->n_frames, 0);
    cp__naming_free(naming);
    free(whole.data);
    cp__session_free(session);
}
