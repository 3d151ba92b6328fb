/* Samples of a program that loads and unloads objects: each address gets the name of what was there when the
 * sample was taken, or none. */
#include <dlfcn.h>
#include <sys/mman.h>

#include "pprof/profile_data.h"
#include "runtime/base/loads.h"
#include "tests/support/profile_tools.h"

/* ---- Plugins --------------------------------------------------------------------------------- */

/* Compiles libNAME.so, whose function NAME is at the same place in each library. */
static void compile_as(const char *name, const char *file, const char *options)
{
    free(test_command(NULL,
                      "cd %s && echo 'static volatile long sink; void %s(void) { sink++; }' | "
                      "gcc -xc -O1 -shared -fPIC %s -o lib%s.new - && mv lib%s.new lib%s.so",
                      test_dir(), name, options, file, file, file));
}

static void compile(const char *name)
{
    compile_as(name, name, "-Wl,--build-id");
}

struct plugin {
    void *handle;
    uintptr_t function;
};

static struct plugin load_from(const char *file, const char *name)
{
    char path[300];
    struct plugin plugin;

    snprintf(path, sizeof path, "%s/lib%s.so", test_dir(), file);
    plugin.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECKF(plugin.handle != NULL, "%s", dlerror());
    plugin.function = (uintptr_t)dlsym(plugin.handle, name);
    CHECK(plugin.function != 0);
    return plugin;
}

static struct plugin load(const char *name)
{
    return load_from(name, name);
}

static void unload(const struct plugin *plugin)
{
    CHECK_EQ(dlclose(plugin->handle), 0);
}

/* Unloads a plugin, and loads another one, which gets the same addresses. */
static struct plugin replace(const struct plugin *plugin, const char *name)
{
    struct plugin other;

    unload(plugin);
    other = load(name);
    if (other.function != plugin->function)
        SKIP("the linker puts the second library elsewhere");
    return other;
}

/* ---- Samples --------------------------------------------------------------------------------- */

static void stage_as_of(struct cp__profile *profile, uintptr_t function, uint64_t weight, uint64_t loads)
{
    const uintptr_t frames[] = {function, (uintptr_t)stage_as_of + 1};
    const struct cp_sample sample = {.weight = weight, .depth = 2, .frames = frames, .loads = loads};

    CHECK_EQ(cp__profile_stage(profile, &sample), 0);
}

/* Stages a sample without a stamp, as those of late signals are. */
static void stage(struct cp__profile *profile, uintptr_t function, uint64_t weight)
{
    stage_as_of(profile, function, weight, 0);
}

/* Stages a sample of now. */
static void stage_now(struct cp__profile *profile, uintptr_t function, uint64_t weight)
{
    stage_as_of(profile, function, weight, cp__loads_from_handler());
}

/* Skips the test if handlers do not find the linker's count of what it has loaded. */
static void need_stamps(void)
{
    cp__loads_prepare();
    if (cp__loads_from_handler() == 0)
        SKIP("the linker's count is not found");
}

static void settle(struct cp__profile *profile)
{
    CHECK_EQ(cp__profile_settle(profile), 0);
}

static struct cp__profile *noted_profile(void)
{
    struct cp__profile *profile = new_profile();

    CHECK_EQ(cp__profile_note_mappings(profile), 0);
    return profile;
}

/* Returns what pprof shows of the profile's stacks, and frees the profile. */
static char *traces_of(struct cp__profile *profile)
{
    char *text = pprof("-symbolize=none -traces", write_profile(profile, &cpu_meta, "stage"));

    cp__profile_free(profile);
    return text;
}

/* Checks that the profile has exactly these samples. NULL: none. */
static void check_leaves(struct cp__profile *profile, uint64_t replaced, const char *a, const char *b)
{
    char *text;

    CHECK_EQ(profile->replaced, replaced);
    text = traces_of(profile);
    CHECK_CONTAINS(text, a);
    if (b != NULL)
        CHECK_CONTAINS(text, b);
    CHECK_EQ(count_lines(text, "ms   "), b != NULL ? 2 : 1);
    CHECK_EQ(count_lines(text, "             stage_as_of"), b != NULL ? 2 : 1);
    free(text);
}

/* ---- One after the other --------------------------------------------------------------------- */

CP_TEST(each_library_has_its_own_time)
{
    struct cp__profile *profile;
    struct plugin plugin;
    const char *path;
    char *text;

    compile("first"), compile("second");
    profile = noted_profile();
    plugin = load("first");
    stage(profile, plugin.function, 1);
    settle(profile);
    stage(profile, plugin.function, 2);
    settle(profile);
    plugin = replace(&plugin, "second");
    settle(profile);
    stage(profile, plugin.function, 4);
    settle(profile);
    path = write_profile(profile, &cpu_meta, "both");
    text = pprof("-symbolize=none -raw", path);
    CHECK_CONTAINS(text, "libfirst.so ");
    CHECK_CONTAINS(text, "libsecond.so ");
    free(text);
    check_leaves(profile, 0, "       3ms   first\n", "       4ms   second\n");
    unload(&plugin);
}

/* The pass that finds the second library has the last samples of the first one. */
CP_TEST(what_ran_close_to_the_replacement_has_no_name)
{
    struct cp__profile *profile;
    struct plugin plugin;

    compile("first"), compile("second");
    profile = noted_profile();
    plugin = load("first");
    settle(profile);
    stage(profile, plugin.function, 1);
    plugin = replace(&plugin, "second");
    stage(profile, plugin.function, 2);
    settle(profile);
    stage(profile, plugin.function, 4);
    settle(profile);
    check_leaves(profile, 3, "       3ms   [code replaced]\n", "       4ms   second\n");
    unload(&plugin);
}

CP_TEST(a_library_that_is_closed_keeps_its_last_samples)
{
    struct cp__profile *profile;
    struct plugin plugin;

    compile("first");
    profile = noted_profile();
    plugin = load("first");
    settle(profile);
    stage(profile, plugin.function, 1);
    unload(&plugin);
    settle(profile);
    check_leaves(profile, 0, "       1ms   first\n", NULL);
}

CP_TEST(a_library_that_was_loaded_has_its_first_samples)
{
    struct cp__profile *profile;
    struct plugin plugin;

    compile("first");
    profile = noted_profile();
    plugin = load("first");
    stage(profile, plugin.function, 1);
    settle(profile);
    check_leaves(profile, 0, "       1ms   first\n", NULL);
    unload(&plugin);
}

/* ---- Unseen ---------------------------------------------------------------------------------- */

/* If the linker has unloaded nothing, nothing was replaced. It may have loaded objects while the mappings
 * were read, which are missing among these. */
CP_TEST(what_is_only_loaded_replaces_nothing)
{
    static const uint64_t unknown_stamp = 12345;
    struct cp__mappings mappings = {0};
    struct plugin plugin;
    size_t number;

    compile("first");
    plugin = load("first");
    CHECK_EQ(cp__mappings_note(&mappings), 0);
    CHECK_EQ(cp__mappings_note(&mappings), 0);
    number = cp__mappings_find(&mappings, plugin.function);
    mappings.now.stamps[0] = mappings.now.stamps[1] = 1;
    mappings.now.loads += 2;
    mappings.now.unloads = mappings.before.unloads = 0;
    CHECK_EQ(cp__mappings_find_between(&mappings, plugin.function), number);
    CHECK_EQ(cp__mappings_find_then(&mappings, plugin.function, unknown_stamp, false), number);
    mappings.now.unloads = 1;
    CHECK_EQ(cp__mappings_find_between(&mappings, plugin.function), CP__MAPPING_REPLACED);
    CHECK_EQ(cp__mappings_find_then(&mappings, plugin.function, unknown_stamp, false), CP__MAPPING_REPLACED);
    cp__mappings_free(&mappings);
    unload(&plugin);
}

/* The second library comes and goes between two looks, which find the same library. */
CP_TEST(a_library_between_two_looks_is_not_taken_for_another)
{
    struct cp__profile *profile;
    struct plugin plugin;

    compile("first"), compile("second");
    profile = noted_profile();
    plugin = load("first");
    settle(profile);
    plugin = replace(&plugin, "second");
    stage(profile, plugin.function, 1);
    plugin = replace(&plugin, "first");
    settle(profile);
    stage(profile, plugin.function, 2);
    settle(profile);
    check_leaves(profile, 1, "       1ms   [code replaced]\n", "       2ms   first\n");
    unload(&plugin);
}

CP_TEST(a_library_behind_a_closed_one_is_not_taken_for_it)
{
    struct cp__profile *profile;
    struct plugin plugin;

    compile("first"), compile("second");
    profile = noted_profile();
    plugin = load("first");
    settle(profile);
    plugin = replace(&plugin, "second");
    stage(profile, plugin.function, 1);
    unload(&plugin);
    settle(profile);
    check_leaves(profile, 1, "       1ms   [code replaced]\n", NULL);
}

/* A library that is closed and loaded again is the same one, and what was loaded with the program stays. */
CP_TEST(what_stays_has_its_name)
{
    struct cp__profile *profile;
    struct plugin plugin;

    compile("first");
    profile = noted_profile();
    plugin = load("first");
    settle(profile);
    stage(profile, plugin.function, 1);
    plugin = replace(&plugin, "first");
    settle(profile);
    for (int i = 0; i < 3; i++)
        plugin = replace(&plugin, "first");
    stage(profile, (uintptr_t)drand48, 2);
    settle(profile);
    check_leaves(profile, 0, "       1ms   first\n", "       2ms   drand48\n");
    unload(&plugin);
}

/* ---- Stamps ---------------------------------------------------------------------------------- */

/* A pass finds the samples on both sides of the replacement. */
CP_TEST(stamps_tell_on_which_side_of_a_replacement_a_sample_was_taken)
{
    struct cp__profile *profile;
    struct plugin plugin;

    need_stamps();
    compile("first"), compile("second");
    profile = noted_profile();
    plugin = load("first");
    settle(profile);
    for (int i = 0; i < 3; i++) {
        stage_now(profile, plugin.function, 1);
        plugin = replace(&plugin, "second");
        stage_now(profile, plugin.function, 2);
        settle(profile);
        stage_now(profile, plugin.function, 4);
        plugin = replace(&plugin, "first");
        stage_now(profile, plugin.function, 8);
        settle(profile);
    }
    check_leaves(profile, 0, "      27ms   first\n", "      18ms   second\n");
    unload(&plugin);
}

/* Nothing was loaded since the plugin, so its samples and those of the memory in its place have one stamp. */
CP_TEST(memory_in_the_place_of_a_closed_library_is_not_taken_for_it)
{
    struct cp__profile *profile;
    struct plugin first;
    char *page, *text;

    need_stamps();
    compile("first");
    profile = noted_profile();
    first = load("first");
    unload(&first);
    CHECK_EQ(cp__profile_note_mappings(profile), 0); /* drops words that change if an object is unloaded */
    first = load("first");
    stage_now(profile, first.function, 3);
    settle(profile);
    stage_now(profile, first.function, 5);
    unload(&first);
    page = mmap((void *)(first.function & -(uintptr_t)4096), 4096, PROT_READ | PROT_EXEC,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(page != MAP_FAILED);
    stage_now(profile, first.function, 7);
    settle(profile);
    stage_now(profile, first.function, 11);
    settle(profile);
    CHECK_EQ(munmap(page, 4096), 0);
    text = traces_of(profile);
    CHECK_CONTAINS(text, "       3ms   first\n");
    CHECK_CONTAINS(text, "      12ms   [code replaced]\n");
    CHECK_CONTAINS(text, "      11ms   [[anon]]\n"); /* go tool pprof puts names of modules in brackets */
    free(text);
}

/* A handler that was held up appends its sample after the mappings were noted. */
CP_TEST(a_sample_that_comes_late_has_its_old_name)
{
    struct cp__profile *profile;
    struct plugin plugin;
    uint64_t first;

    need_stamps();
    compile("first"), compile("second");
    profile = noted_profile();
    plugin = load("first");
    settle(profile);
    first = cp__loads_from_handler();
    plugin = replace(&plugin, "second");
    settle(profile);
    stage_as_of(profile, plugin.function, 1, first);
    settle(profile);
    plugin = replace(&plugin, "second");
    settle(profile);
    stage_as_of(profile, plugin.function, 2, first);
    settle(profile);
    check_leaves(profile, 2, "       1ms   first\n", "       2ms   [code replaced]\n");
    unload(&plugin);
}

CP_TEST(stamps_between_two_looks_tell_nothing)
{
    struct cp__profile *profile;
    struct plugin plugin;

    need_stamps();
    compile("first"), compile("second");
    profile = noted_profile();
    plugin = load("first");
    settle(profile);
    plugin = replace(&plugin, "second");
    stage_now(profile, plugin.function, 1);
    plugin = replace(&plugin, "first");
    stage_now(profile, plugin.function, 2);
    settle(profile);
    check_leaves(profile, 1, "       1ms   [code replaced]\n", "       2ms   first\n");
    unload(&plugin);
}

CP_TEST(a_reader_is_woken_once_for_what_was_loaded)
{
    struct plugin plugin;
    uint64_t before;

    need_stamps();
    compile("first");
    before = cp__loads_from_handler();
    CHECK(!cp__loads_are_news_from_handler(before));
    plugin = load("first");
    CHECK(cp__loads_from_handler() != before);
    cp__loads_rest(1000000000);
    CHECK(!cp__loads_are_news_from_handler(cp__loads_from_handler()));
    cp__loads_rest(0);
    CHECK(cp__loads_are_news_from_handler(cp__loads_from_handler()));
    CHECK(!cp__loads_are_news_from_handler(cp__loads_from_handler()));
    unload(&plugin);
}

/* ---- The same path --------------------------------------------------------------------------- */

/* A build that replaces its library, whose functions have moved on to other names. */
static void check_reload(const char *options)
{
    struct cp__profile *profile;
    struct plugin plugin;
    uintptr_t function;

    compile_as("first", "reloaded", options);
    profile = noted_profile();
    plugin = load_from("reloaded", "first");
    settle(profile);
    stage(profile, plugin.function, 1);
    settle(profile);
    CHECK_EQ(cp__profile_look_up(profile), 0); /* while the file is there */
    function = plugin.function;
    unload(&plugin);
    compile_as("second", "reloaded", options);
    plugin = load_from("reloaded", "second");
    if (plugin.function != function)
        SKIP("the linker puts the second library elsewhere");
    settle(profile);
    stage(profile, plugin.function, 2);
    settle(profile);
    check_leaves(profile, 0, "       1ms   first\n", "       2ms   second\n");
    unload(&plugin);
}

CP_TEST(a_library_with_the_same_path_is_another)
{
    check_reload("-Wl,--build-id");
}

CP_TEST(a_library_with_the_same_path_and_without_a_build_id_is_another)
{
    check_reload("-Wl,--build-id=none");
}

/* ---- What it costs --------------------------------------------------------------------------- */

CP_TEST(libraries_without_samples_take_no_memory)
{
    struct cp__profile *profile;
    struct plugin plugin;
    char build_id[40];
    size_t n;

    compile("first");
    profile = noted_profile();
    plugin = load("first");
    settle(profile);
    n = profile->mappings.n;
    for (unsigned i = 0; i < 20; i++) {
        snprintf(build_id, sizeof build_id, "-Wl,--build-id=0x%08x", i);
        compile_as("first", "first", build_id);
        unload(&plugin);
        plugin = load("first");
        settle(profile);
    }
    CHECKF(profile->mappings.n <= n + 3, "%zu mappings have become %zu", n, profile->mappings.n);
    unload(&plugin);
    cp__profile_free(profile);
}

/* A number that is free has no mapping. */
CP_TEST(the_text_has_no_forgotten_mappings)
{
    struct cp__profile *profile;
    struct plugin plugin;
    char *text;

    compile("first");
    profile = noted_profile();
    plugin = load("first");
    settle(profile);
    unload(&plugin);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(cp__profile_note_mappings(profile), 0);
    text = text_of(profile, &cpu_meta);
    CHECK_CONTAINS(text, "--- Memory map: ---");
    CHECK_EQ(count_lines(text, "libfirst"), 0);
    CHECK_EQ(count_lines(text, "(null)"), 0);
    free(text);
    cp__profile_free(profile);
}

CP_TEST(mappings_are_noted_only_if_they_have_changed)
{
    struct cp__profile *profile = noted_profile();
    const struct cp__place *places = profile->mappings.now.items;
    struct plugin plugin;

    compile("first");
    for (int i = 0; i < 10; i++) {
        stage(profile, (uintptr_t)qsort, 1);
        settle(profile);
    }
    CHECK(profile->mappings.now.items == places);
    plugin = load("first");
    settle(profile);
    CHECK(profile->mappings.now.items != places);
    unload(&plugin);
    cp__profile_free(profile);
}

/* More samples than there is room for, with labels, are settled on the way. */
CP_TEST(staged_samples_are_folded_with_their_labels)
{
    struct cp__profile *profile = noted_profile();
    struct cp_labels *labels = labels1("colour", "red");
    const uintptr_t frames[] = {(uintptr_t)qsort, (uintptr_t)stage_as_of + 1};
    const struct cp_sample sample = {
        .weight = 3, .depth = 2, .frames = frames, .labels = labels, .flags = CP_SAMPLE_INCOMPLETE};
    char *text;

    for (int i = 0; i < 2000; i++)
        CHECK_EQ(cp__profile_stage(profile, &sample), 0);
    CHECK(labels->refs > 1);
    settle(profile);
    CHECK_EQ(profile->n_stacks, 1);
    CHECK_EQ(cp__profile_stage(profile, &sample), 0);
    settle(profile);
    CHECK_EQ(profile->stacks[0].weight, 6003);
    text = traces_of(profile);
    CHECK_CONTAINS(text, "colour:  red");
    CHECK_CONTAINS(text, "[incomplete stack]");
    free(text);
    CHECK_EQ(labels->refs, 1);
    cp_labels_unref(labels);
}
