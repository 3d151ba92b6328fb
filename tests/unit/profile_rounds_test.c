/* The rounds of watches in profiles: labels, durations, and how go tool pprof cuts a profile by them. */
#include <stdint.h>

#include "pprof/rounds.h"
#include "runtime/rounds.h"
#include "runtime/watch/registry.h"
#include "runtime/watch/sampled.h"
#include "tests/support/profile_tools.h"
#include "watch.h"

/* Addresses that are in no mapping. */
static const uintptr_t stack_a[] = {0x1000, 0x2001, 0x3001};
static const uintptr_t stack_b[] = {0x1000, 0x2001, 0x4001};

/* Opens a watch that measures nothing, and returns its number. */
static uint64_t open_named(struct cp__watch_entry *entry, const char *name)
{
    struct cp_error err = {0};

    *entry = (struct cp__watch_entry){.name = name};
    CHECKF(cp__registry_add(entry, &err) == 0, "%s", err.message);
    return entry->number;
}

static uint64_t round_of(uint64_t watch, uint64_t id)
{
    return watch << CP__ROUND_ID_BITS | id;
}

static void add_in(struct cp__profile *profile, const uintptr_t *frames, uint64_t weight,
                   const uint64_t *rounds, unsigned n)
{
    const struct cp_sample sample = {
        .weight = weight, .depth = 3, .frames = frames, .n_rounds = n, .rounds = rounds};

    CHECK_EQ(cp__profile_stage(profile, &sample), 0);
    CHECK_EQ(cp__profile_settle(profile), 0);
}

#define MS UINT64_C(1000000)

/* Rounds of "parse" of 5 and 50 ms, of "sort" in one of them and alone, and none. The watches are closed
 * before the profile is written. */
static uint64_t still_open;

static struct cp__profile *new_rounds(void)
{
    struct cp__profile *profile = new_profile();
    struct cp__watch_entry parse, sort;
    const uint64_t p = open_named(&parse, "parse"), s = open_named(&sort, "sort 2");
    const uint64_t short_one[] = {round_of(p, 1)}, both[] = {round_of(p, 2), round_of(s, 3)},
                   open_one[] = {round_of(s, 4)};

    add_in(profile, stack_a, 1, short_one, 1);
    add_in(profile, stack_a, 2, both, 2);
    add_in(profile, stack_a, 4, both, 2);
    add_in(profile, stack_b, 8, both, 1);
    add_in(profile, stack_b, 16, open_one, 1);
    add_in(profile, stack_b, 32, NULL, 0);
    still_open = open_one[0];
    cp__registry_remove(&parse);
    cp__registry_remove(&sort);
    cp__sampled_ended(round_of(p, 1), 5 * MS);
    cp__sampled_ended(round_of(p, 2), 50 * MS);
    cp__sampled_ended(round_of(s, 3), 7 * MS);
    return profile;
}

/* ---- The file -------------------------------------------------------------------------------- */

CP_TEST(stacks_have_labels_of_their_rounds)
{
    struct cp__profile *profile = new_rounds();
    const char *path = write_profile(profile, &cpu_meta, "rounds");
    char *text = pprof("-raw", path);

    CHECK_CONTAINS(text, "          1    1000000: 1 2 3 \n"
                         "                watch:[parse]\n"
                         "                parse:[5000000 nanoseconds]\n"
                         "          6    6000000: 1 2 3 \n"
                         "                watch:[parse sort 2]\n"
                         "                parse:[50000000 nanoseconds] sort 2:[7000000 nanoseconds]\n"
                         "          8    8000000: 1 2 4 \n"
                         "                watch:[parse]\n"
                         "                parse:[50000000 nanoseconds]\n"
                         "         16   16000000: 1 2 4 \n"
                         "                watch:[sort 2]\n"
                         "         32   32000000: 1 2 4 \n");
    free(text);
    text = decode(path);
    CHECK_EQ(count_lines(text, "  label {"), 5 + 4);
    CHECK_EQ(count_lines(text, "    num: 50000000"), 2);
    CHECK_EQ(count_lines(text, "    num_unit: "), 4);
    free(text);
    cp__profile_free(profile);
}

/* Checks what pprof prints with these options. */
static void check_total(const char *path, const char *options, const char *total)
{
    char *text = pprof(options, path);

    CHECK_CONTAINS(text, total);
    free(text);
}

CP_TEST(a_profile_is_cut_to_a_watch_and_to_slow_rounds)
{
    struct cp__profile *profile = new_rounds();
    const char *path = write_profile(profile, &cpu_meta, "rounds");

    check_total(path, "-top -tagfocus=watch=parse", "Showing nodes accounting for 15ms");
    check_total(path, "-top '-tagfocus=watch=sort 2'", "Showing nodes accounting for 22ms");
    check_total(path, "-top -tagignore=watch", "Showing nodes accounting for 32ms");
    check_total(path, "-top -tagfocus=parse=10ms:", "Showing nodes accounting for 14ms");
    check_total(path, "-top -tagfocus=parse=5000000ns:", "Showing nodes accounting for 15ms");
    check_total(path, "-top -tagfocus=parse=5000001ns:", "Showing nodes accounting for 14ms");
    check_total(path, "-top -tagfocus=parse=:10ms", "Showing nodes accounting for 1ms");
    check_total(path, "-top '-tagfocus=sort 2=1ms:'", "Showing nodes accounting for 6ms");
    check_total(path, "-tags", "15.0ms (40.54%): parse");
    check_total(path, "-tags", "22.0ms (59.46%): sort 2");
    cp__profile_free(profile);
}

CP_TEST(the_text_has_rounds)
{
    struct cp__profile *profile = new_rounds();
    char *text = text_of(profile, &cpu_meta);

    CHECK_CONTAINS(text, "6 @ 0x1001 0x2001 0x3001\n# watches: {\"parse\":50000000, \"sort 2\":7000000}\n");
    CHECK_CONTAINS(text, "16 @ 0x1001 0x2001 0x4001\n# watches: {\"sort 2\":null}\n");
    CHECK_EQ(count_lines(text, "# watches: "), 4);
    free(text);
    cp__profile_free(profile);
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* Nested rounds of one watch, a label of the program with the key "watch", and a watch that has the name of a
 * label with a number of the library's own. */
CP_TEST(names_that_clash_stay_apart)
{
    struct cp__profile *profile = new_profile();
    struct cp__watch_entry nested, reserved;
    const uint64_t n = open_named(&nested, "nested"), r = open_named(&reserved, "recorded_location");
    const uint64_t rounds[] = {round_of(n, 10), round_of(n, 11), round_of(r, 12)};
    struct cp_labels *labels = labels2("watch", "the program's", "nested", "text");
    const struct cp_sample sample = {
        .weight = 1, .depth = 3, .frames = stack_a, .labels = labels, .n_rounds = 3, .rounds = rounds};
    char *text;

    cp__sampled_ended(rounds[0], 100);
    cp__sampled_ended(rounds[1], 60);
    cp__sampled_ended(rounds[2], 30);
    CHECK_EQ(cp__profile_add(profile, &sample), 0);
    text = pprof("-raw", write_profile(profile, &cpu_meta, "names"));
    CHECK_CONTAINS(text, "nested:[text]");
    CHECK_CONTAINS(text, "watch:[the program's nested recorded_location]");
    CHECK_CONTAINS(text, "nested:[100 nanoseconds 60 nanoseconds]");
    CHECK_CONTAINS(text, "watch:recorded_location:[30 nanoseconds]");
    CHECK(strstr(text, " recorded_location:[") == NULL);
    free(text);
    cp_labels_unref(labels);
    cp__profile_free(profile);
    cp__registry_remove(&nested);
    cp__registry_remove(&reserved);
}

/* A watch that was closed, and opened again, is another watch of the same name. */
static void count_watch(void *context, const struct cp__sampled_watch *watch)
{
    CHECK_STR(watch->name, "again");
    CHECK_EQ(watch->rounds, 4);
    CHECK_EQ(watch->ended, 2);
    (*(int *)context)++;
}

CP_TEST(watches_of_one_name_are_told_together)
{
    struct cp__profile *profile = new_profile();
    struct cp__watch_entry entry;
    struct cp__profile_findings findings;
    int told = 0;

    for (uint64_t id = 20; id < 24; id += 2) {
        const uint64_t number = open_named(&entry, "again");
        const uint64_t rounds[] = {round_of(number, id), round_of(number, id + 1)};

        add_in(profile, stack_a, 1, rounds, 2);
        add_in(profile, stack_b, 1, rounds + 1, 1);
        cp__sampled_ended(rounds[0], 1);
        cp__registry_remove(&entry);
    }
    CHECK_EQ(cp__profile_resolve(profile, &findings, NULL), 0);
    CHECK_EQ(cp__profile_rounds_each(profile, count_watch, &told), 0);
    CHECK_EQ(told, 1);
    cp__profile_free(profile);
}

/* ---- Durations ------------------------------------------------------------------------------- */

/* More rounds than one look asks for, whose durations would not stay for the end of the profile. */
CP_TEST(durations_are_asked_for_while_samples_come)
{
    enum { N = 3000, AGAIN = 40 };
    struct cp__profile *profile = new_profile();
    struct cp__watch_entry entry;
    const uint64_t number = open_named(&entry, "many");
    uint64_t round = 0;

    for (uint64_t id = 100; id < 100 + N; id++) {
        round = round_of(number, id);
        add_in(profile, stack_a, 1, &round, 1);
    }
    for (uint64_t id = 100; id < 100 + N; id += 2)
        cp__sampled_ended(round_of(number, id), id);
    for (int i = 0; i < AGAIN; i++)
        CHECK_EQ(cp__profile_settle(profile), 0);
    for (uint64_t id = 100; id < 100 + N; id++)
        cp__sampled_ended(round_of(number, CP__SAMPLED + id), 1); /* takes the place */
    CHECK_EQ(profile->n_unended, N / 2);
    for (uint64_t id = 100; id < 100 + N; id++)
        CHECK_EQ(profile->round_ns[id - 100], id % 2 == 0 ? id : 0);
    cp__registry_remove(&entry);
    cp__profile_free(profile);
}

/* What is encoded again is the same, and a round that has ended meanwhile has its duration. */
CP_TEST(a_profile_that_is_written_again_knows_more)
{
    struct cp__profile *profile = new_rounds();
    struct cp_memory first = whole(profile, SIZE_MAX);
    char *text;

    check_same(profile, &first, 7);
    cp__sampled_ended(still_open, 9 * MS);
    text = pprof("-raw", write_profile(profile, &cpu_meta, "later"));
    CHECK_CONTAINS(text, "                sort 2:[9000000 nanoseconds]\n         32");
    free(text);
    free(first.data);
    cp__profile_free(profile);
}

CP_TEST(merging_keeps_rounds_apart)
{
    struct cp__profile *profile = new_rounds();
    struct cp_memory file = whole(profile, SIZE_MAX);
    struct cp_merge *merge = cp_merge_new();
    struct cp_error err = {0};
    char path[256], *text;

    for (int i = 0; i < 2; i++)
        CHECKF(cp_merge_add(merge, file.data, file.size, &err) == 0, "%s", err.message);
    snprintf(path, sizeof path, "%s/merged.pb.gz", test_dir());
    CHECKF(cp_merge_write(merge, cp_writer_path(path), &err) == 0, "%s", err.message);
    text = pprof("-raw", path);
    CHECK_CONTAINS(text, "         12   12000000: ");
    CHECK_CONTAINS(text, "watch:[parse sort 2]\n                parse:[50000000 nanoseconds] sort "
                         "2:[7000000 nanoseconds]\n");
    free(text);
    free(file.data);
    cp_merge_free(merge);
    cp__profile_free(profile);
}

/* What takes memory for ever is the number of rounds, so that ends. */
CP_TEST(a_profile_tells_a_limited_number_of_rounds)
{
    enum { FURTHER = 50 };
    struct cp__profile *profile = new_profile();
    struct cp__watch_entry entry;
    const uint64_t number = open_named(&entry, "many");
    char *text;

    for (uint64_t id = 1; id <= CP__ROUNDS_TOLD + FURTHER; id++) {
        const uint64_t round = round_of(number, id);
        const struct cp_sample sample = {
            .weight = 1, .depth = 3, .frames = stack_a, .n_rounds = 1, .rounds = &round};

        CHECK_EQ(cp__profile_add(profile, &sample), 0);
        cp__sampled_ended(round, id);
    }
    CHECK_EQ(profile->n_stacks, CP__ROUNDS_TOLD + 1);
    CHECK_EQ(profile->untold, FURTHER);
    add_in(profile, stack_a, 1, (const uint64_t[]){round_of(number, 1)}, 1); /* one of the first */
    CHECK_EQ(profile->untold, FURTHER);
    CHECK_EQ(profile->n_stacks, CP__ROUNDS_TOLD + 1);
    text = text_of(profile, &cpu_meta);
    CHECK_CONTAINS(text, "\n50 @ 0x1001 0x2001 0x3001\n# watches: {\"many\":null}\n");
    free(text);
    cp__registry_remove(&entry);
    cp__profile_free(profile);
}
