/* Profiles of several processes, whose addresses may be the same. */
#include <stdint.h>
#include <sys/auxv.h>

#include "pprof/profile_data.h"
#include "tests/support/profile_tools.h"

/* Addresses where no test program has code. */
enum { START = 0x10000, LIMIT = 0x20000 };
static const uintptr_t stack[] = {0x11000, 0x12001};

/* Makes a profile in which the program's mapping is the first. */
static struct cp__profile *noted_profile(void)
{
    struct cp__profile *profile = new_profile();

    CHECK_EQ(cp__profile_note_mappings(profile), 0);
    return profile;
}

static uint32_t add_process(struct cp__profile *profile)
{
    uint32_t process;

    CHECK_EQ(cp__mappings_add_process(&profile->mappings, &process), 0);
    return process;
}

static int add_range(struct cp__mappings *mappings, uint32_t process, uint64_t start, uint64_t limit)
{
    char file[] = "[anon]";
    const struct cp__mapping mapping = {.start = start, .limit = limit, .process = process, .file = file};

    return cp__mappings_add_of(mappings, &mapping);
}

/* Adds a process that has the file at START. */
static uint32_t add_process_with(struct cp__profile *profile, const char *file, const char *build_id)
{
    const struct cp__mapping mapping = {.start = START,
                                        .limit = LIMIT,
                                        .offset = 0x3000,
                                        .file = (char *)(uintptr_t)file,
                                        .build_id = (char *)(uintptr_t)build_id,
                                        .is_code = true,
                                        .process = add_process(profile)};

    CHECK_EQ(cp__mappings_add_of(&profile->mappings, &mapping), 0);
    return mapping.process;
}

static void add_of(struct cp__profile *profile, uint32_t process, const uintptr_t *frames, unsigned depth,
                   uint64_t weight)
{
    const struct cp_sample sample = {.weight = weight, .depth = depth, .frames = frames};

    CHECK_EQ(cp__profile_add_of(profile, process, &sample, NULL), 0);
}

/* ---- Frames ---------------------------------------------------------------------------------- */

static struct cp__profile *profile_of_two(void)
{
    struct cp__profile *profile = noted_profile();
    const uint32_t one = add_process_with(profile, "/srv/one", "aa01");
    const uint32_t two = add_process_with(profile, "/srv/two", "bb02");

    for (int i = 0; i < 2; i++) {
        add_of(profile, 0, stack, 2, 1);
        add_of(profile, one, stack, 2, 10);
        add_of(profile, two, stack, 2, 100);
    }
    return profile;
}

CP_TEST(equal_addresses_of_two_processes_are_two_frames)
{
    struct cp__profile *profile = profile_of_two();
    const char *path = write_profile(profile, &cpu_meta, "two");
    char *text = pprof("-raw", path);

    CHECK_CONTAINS(text, "samples/count cpu/nanoseconds[dflt]\n"
                         "          2    2000000: 1 2 \n"
                         "         20   20000000: 3 4 \n"
                         "        200  200000000: 5 6 \n"
                         "Locations\n"
                         "     1: 0x11000 \n"
                         "     2: 0x12000 \n"
                         "     3: 0x11000 M=2 \n"
                         "     4: 0x12000 M=2 \n"
                         "     5: 0x11000 M=3 \n"
                         "     6: 0x12000 M=3 \n"
                         "Mappings\n");
    CHECK_CONTAINS(text, "\n2: 0x10000/0x20000/0x3000 /srv/one aa01 \n"
                         "3: 0x10000/0x20000/0x3000 /srv/two bb02 \n");
    free(text);
    text = decode(path);
    CHECK_EQ(count_lines(text, "memory_start: 65536"), 2);
    CHECK_EQ(count_lines(text, "  address: 69632"), 3);
    free(text);
    cp__profile_free(profile);
}

CP_TEST(two_processes_are_two_after_a_merge)
{
    struct cp__profile *profile = profile_of_two();
    struct cp_merge *merge = cp_merge_new();
    struct cp_memory file = whole(profile, SIZE_MAX);
    struct cp_error err = {0};
    char path[256], *text;

    for (int i = 0; i < 2; i++)
        CHECKF(cp_merge_add(merge, file.data, file.size, &err) == 0, "%s", err.message);
    snprintf(path, sizeof path, "%s/merged.pb.gz", test_dir());
    CHECKF(cp_merge_write(merge, cp_writer_path(path), &err) == 0, "%s", err.message);
    text = pprof("-raw", path);
    CHECK_CONTAINS(text, "          4    4000000: 1 2 \n"
                         "         40   40000000: 3 4 \n"
                         "        400  400000000: 5 6 \n");
    CHECK_CONTAINS(text, "     3: 0x11000 M=2 \n");
    CHECK_CONTAINS(text, "     5: 0x11000 M=3 \n");
    free(text);
    free(file.data);
    cp_merge_free(merge);
    cp__profile_free(profile);
}

/* The mappings do not tell these frames apart. */
CP_TEST(addresses_in_no_mapping_belong_to_a_process)
{
    struct cp__profile *profile = noted_profile();
    const uint32_t one = add_process(profile), two = add_process(profile);

    for (uint32_t i = 0; i < 6; i++)
        add_of(profile, i % 3 == 0 ? 0 : i % 3 == 1 ? one : two, stack, 2, 1);
    CHECK_EQ(profile->n_stacks, 3);
    CHECK_EQ(profile->n_frames, 6);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_EQ(profile->stacks[i].weight, 2);
        CHECK_EQ(cp__frame_process(profile, &profile->frames[2 * i]), i);
    }
    CHECK(cp__profile_find(profile, stack[0]) == &profile->frames[0]);
    cp__profile_free(profile);
}

CP_TEST(code_of_this_process_is_not_another_ones)
{
    struct cp__profile *profile = noted_profile();
    const uintptr_t here = (uintptr_t)add_process;

    add_of(profile, 0, &here, 1, 1);
    add_of(profile, add_process(profile), &here, 1, 1);
    CHECK_EQ(cp__profile_note_mappings(profile), 0);
    CHECK_EQ(profile->n_frames, 2);
    CHECK_EQ(profile->frames[0].place, cp__mappings_find(&profile->mappings, here) + 1);
    CHECK_EQ(profile->frames[1].place, cp__no_place(1));
    cp__profile_free(profile);
}

CP_TEST(processes_have_one_kernel)
{
    struct cp__profile *profile = noted_profile();
    const uintptr_t frames[] = {(uintptr_t)0xffffffff81000000, 0x11000};
    const uint32_t one = add_process(profile);
    const struct cp_sample sample = {.weight = 1, .depth = 2, .kernel_depth = 1, .frames = frames};

    CHECK_EQ(cp__profile_add(profile, &sample), 0);
    CHECK_EQ(cp__profile_add_of(profile, one, &sample, NULL), 0);
    CHECK_EQ(profile->n_stacks, 2);
    CHECK_EQ(profile->n_frames, 3);
    CHECK_EQ(cp__profile_add_named(profile, "[lost: perf ring full]", 1), 0);
    CHECK_EQ(cp__frame_process(profile, &profile->frames[3]), 0);
    cp__profile_free(profile);
}

/* A sample may come before the mapping that it is in. */
CP_TEST(a_mapping_that_is_told_later_has_its_frames)
{
    struct cp__profile *profile = noted_profile();
    const uint32_t one = add_process(profile), two = add_process(profile);

    add_of(profile, one, stack, 2, 1);
    add_of(profile, two, stack, 2, 1);
    CHECK_EQ(add_range(&profile->mappings, one, START, LIMIT), 0);
    CHECK_EQ(cp__profile_note_mappings(profile), 0);
    CHECK_EQ(profile->frames[0].place, cp__mappings_find_of(&profile->mappings, one, stack[0]) + 1);
    CHECK_EQ(profile->frames[2].place, cp__no_place(two));
    cp__profile_free(profile);
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* Returns the mapping of this process that has an address. */
static struct cp__mapping own_mapping(const struct cp__profile *profile, uint64_t address)
{
    const size_t i = cp__mappings_find(&profile->mappings, address);

    CHECK(i < profile->mappings.n);
    return profile->mappings.items[i];
}

/* Gives a process the mapping, moved, and a sample at an address of this process, moved, too. Returns how
 * many functions the frame has. */
static uint32_t names_of_other(struct cp__mapping mapping, struct cp__profile *profile, uintptr_t address,
                               uint64_t moved)
{
    struct cp__profile_findings findings;

    mapping.process = add_process(profile);
    mapping.start += moved;
    mapping.limit += moved;
    mapping.is_linked = false;
    address += moved;
    CHECK_EQ(cp__mappings_add_of(&profile->mappings, &mapping), 0);
    add_of(profile, mapping.process, &address, 1, 1);
    CHECK_EQ(cp__profile_resolve(profile, &findings, NULL), 0);
    return profile->frames[profile->n_frames - 1].n_lines;
}

CP_TEST(another_process_has_the_names_of_its_files)
{
    struct cp__profile *profile = noted_profile();
    const uintptr_t here = (uintptr_t)names_of_other;
    char *text;

    CHECK_EQ(names_of_other(own_mapping(profile, here), profile, here, 0x100000000), 1);
    text = text_of(profile, &cpu_meta);
    CHECK_CONTAINS(text, "\tnames_of_other+0x");
    free(text);
    cp__profile_free(profile);
}

/* Neither this process's files nor its memory tell of another one. */
CP_TEST(another_process_has_no_names_of_this_one)
{
    struct cp__profile *profile = noted_profile();
    const uintptr_t here = (uintptr_t)names_of_other, vdso = getauxval(AT_SYSINFO_EHDR);
    struct cp__mapping mapping = own_mapping(profile, here);

    mapping.deleted = true; /* so this process's memory would prove what the file is */
    mapping.main = false;
    CHECK_EQ(names_of_other(mapping, profile, here, 0), 0);
    mapping.file = (char[]){"/nowhere/program"};
    mapping.main = true;
    CHECK_EQ(names_of_other(mapping, profile, here, 0), 0);
    if (vdso != 0)
        CHECK_EQ(names_of_other(own_mapping(profile, vdso), profile, vdso + 0x800, 0), 0);
    cp__profile_free(profile);
}

/* ---- Text ------------------------------------------------------------------------------------ */

CP_TEST(the_text_has_other_processes_in_comments)
{
    struct cp__profile *profile = profile_of_two();
    char *text = text_of(profile, &cpu_meta);

    CHECK_CONTAINS(text, "\n2 @ 0x11001 0x12001\n");
    CHECK_CONTAINS(text, "\n# 20\n#\t0x11001\t[one]+0x4001\n#\t0x12001\t[one]+0x5001\n");
    CHECK_CONTAINS(text, "\n# 200\n#\t0x11001\t[two]+0x4001\n#\t0x12001\t[two]+0x5001\n");
    CHECK_EQ(count_lines(text, "/srv/"), 0); /* the memory map */
    free(text);
    cp__profile_free(profile);
}

/* ---- Mappings -------------------------------------------------------------------------------- */

CP_TEST(mappings_of_a_process_are_found_in_any_order)
{
    enum { N = 50 };
    struct cp__mappings mappings = {0};
    uint32_t one, two;

    CHECK_EQ(add_range(&mappings, 1, START, LIMIT), -ESRCH);
    CHECK_EQ(cp__mappings_add_process(&mappings, &one), 0);
    CHECK_EQ(cp__mappings_add_process(&mappings, &two), 0);
    CHECK_EQ(add_range(&mappings, 0, START, LIMIT), -ESRCH);
    for (uint64_t i = 0; i < N; i++) {
        const uint64_t start = 0x1000 * (2 + 2 * (i * 7 % N));

        CHECK_EQ(add_range(&mappings, one, start, start + 0x1000), 0);
    }
    CHECK_EQ(add_range(&mappings, one, 0x2fff, 0x3001), -EEXIST);
    CHECK_EQ(add_range(&mappings, one, 0x3fff, 0x4001), -EEXIST);
    CHECK_EQ(add_range(&mappings, one, 0x1000, 0x1000 * 200), -EEXIST);
    CHECK_EQ(mappings.n, N);
    for (uint64_t i = 0; i < N; i++) {
        const size_t found = cp__mappings_find_of(&mappings, one, 0x1000 * (2 + 2 * i) + 0xfff);

        CHECK(found < N);
        CHECK_EQ(mappings.items[found].start, 0x1000 * (2 + 2 * i));
        CHECK_EQ(cp__mappings_find_of(&mappings, one, 0x1000 * (3 + 2 * i)), N);
        CHECK_EQ(cp__mappings_find_of(&mappings, two, 0x1000 * (2 + 2 * i)), N);
    }
    cp__mappings_free(&mappings);
}

/* Two processes run one program at the same addresses. */
CP_TEST(a_mapping_of_another_process_is_never_taken_for_one_of_this)
{
    struct cp__profile *profile = noted_profile();
    const uintptr_t here = (uintptr_t)names_of_other;
    struct cp__mapping mapping = own_mapping(profile, here);
    struct cp__mappings mappings = {0};

    CHECK_EQ(cp__mappings_add_process(&mappings, &mapping.process), 0);
    CHECK_EQ(cp__mappings_add_of(&mappings, &mapping), 0);
    CHECK_EQ(cp__mappings_note(&mappings), 0);
    CHECK_EQ(mappings.items[cp__mappings_find(&mappings, here)].process, 0);
    CHECK_EQ(mappings.items[cp__mappings_find_of(&mappings, 1, here)].process, 1);
    cp__mappings_free(&mappings);
    cp__profile_free(profile);
}
