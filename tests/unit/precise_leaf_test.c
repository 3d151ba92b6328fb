/* Precise samples: when the recorded instruction takes the place of the interrupted one. */
#include <dlfcn.h>
#include <inttypes.h>

#include "pprof/profile_data.h"
#include "tests/support/profile_tools.h"

static void add_precise(struct cp__profile *profile, uintptr_t interrupted, uint64_t ip, uint64_t weight)
{
    const uintptr_t frames[] = {interrupted, 0x2001};
    const struct cp_sample sample = {.weight = weight, .depth = 2, .frames = frames, .ip = ip};

    CHECK_EQ(cp__profile_add(profile, &sample), 0);
}

static uint64_t elsewhere(struct cp__profile *profile)
{
    struct cp__profile_findings findings;

    CHECK_EQ(cp__profile_resolve(profile, &findings, NULL), 0);
    return findings.elsewhere;
}

/* ---- Objects --------------------------------------------------------------------------------- */

/* The compiler splits the function: the code for large n lies apart, in split.cold. */
static const char split_source[] = "extern int sink;\\n"
                                   "__attribute__((noinline, cold)) void fail(int n);\\n"
                                   "void fail(int n) { sink += n; }\\n"
                                   "int sink;\\n"
                                   "__attribute__((noinline)) int split(int n) {\\n"
                                   "if (n > 1000) { fail(n); sink = 3 * n; fail(n / 7); }\\n"
                                   "return n * sink; }\\n";

struct object {
    char path[256];
    uint64_t bias; /* the difference between addresses in memory and addresses in the file */
};

static struct object load(const char *name, const char *anchor)
{
    struct object object;
    void *handle, *address;
    char *text;

    snprintf(object.path, sizeof object.path, "%s/%s", test_dir(), name);
    handle = dlopen(object.path, RTLD_NOW);
    CHECKF(handle != NULL, "%s", dlerror());
    address = dlsym(handle, anchor);
    CHECK(address != NULL);
    text = test_command(NULL, "nm -D %s | grep ' %s$'", object.path, anchor);
    object.bias = (uintptr_t)address - strtoull(text, NULL, 16);
    free(text);
    return object;
}

static struct object load_target(const char *options, const char *name)
{
    char compile[128];

    snprintf(compile, sizeof compile, "gcc -O2 -shared -fPIC %s", options);
    build(compile, name);
    return load(name, "target_outer");
}

static struct object load_split(const char *options, const char *name)
{
    free(test_command(NULL, "printf '%s' > %s/split.c && gcc -O2 -shared -fPIC %s -o %s/%s %s/split.c",
                      split_source, test_dir(), options, test_dir(), name, test_dir()));
    return load(name, "split");
}

struct code {
    uint64_t start;
    uint64_t size;
};

static struct code find_code(const struct object *object, const char *symbol)
{
    struct code code;
    char *text = test_command(NULL, "{ nm -S %s; nm -DS %s; } 2> /dev/null | grep ' %s$' | head -n 1",
                              object->path, object->path, symbol);

    CHECKF(sscanf(text, "%" SCNx64 " %" SCNx64, &code.start, &code.size) == 2, "no %s: %s", symbol, text);
    code.start += object->bias;
    free(text);
    return code;
}

/* Adds samples that interrupted the middle of a function and recorded each instruction of another. Returns
 * how many of them the profile counts as recorded elsewhere. */
static uint64_t compare(struct code function, struct code other)
{
    struct cp__profile *profile = new_profile();
    uint64_t result;

    for (uint64_t i = 0; i < other.size; i++)
        add_precise(profile, function.start + function.size / 2, other.start + i, 1);
    result = elsewhere(profile);
    cp__profile_free(profile);
    return result;
}

/* ---- Which function -------------------------------------------------------------------------- */

/* A function is the linker's symbol, also if another function was inlined in it; with debug information and
 * with dynamic symbols only. */
CP_TEST(a_function_is_what_the_linker_sees)
{
    static const char *const options[] = {"-g", "-g0", "-g0 -s", "-g -O0"};
    char name[16];

    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        struct object object;
        struct code outer, exported;

        snprintf(name, sizeof name, "target%zu.so", i);
        object = load_target(options[i], name);
        outer = find_code(&object, "target_outer");
        exported = find_code(&object, "target_exported");
        CHECKF(outer.size > 20 && exported.size > 20, "%" PRIu64 " %" PRIu64, outer.size, exported.size);
        CHECK_EQ(compare(outer, outer), 0);
        CHECK_EQ(compare(exported, exported), 0);
        CHECK_EQ(compare(outer, exported), exported.size);
        CHECK_EQ(compare(exported, outer), outer.size);
    }
}

CP_TEST(a_part_that_lies_apart_is_another_function)
{
    static const char *const options[] = {"-g", "-g0"};

    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        struct object object = load_split(options[i], i == 0 ? "split0.so" : "split1.so");
        struct code hot = find_code(&object, "split"), cold = find_code(&object, "split.cold");

        CHECK_EQ(compare(hot, hot), 0);
        CHECK_EQ(compare(cold, cold), 0);
        CHECK_EQ(compare(hot, cold), cold.size);
        CHECK_EQ(compare(cold, hot), hot.size);
    }
}

CP_TEST(code_without_symbols_keeps_what_was_interrupted)
{
    const struct code unknown = {.start = 0x1000, .size = 16},
                      kernel = {.start = 0xffffffff81000000, .size = 8};

    CHECK_EQ(compare(unknown, unknown), 15); /* one of the 16 records is the interrupted instruction itself */
    CHECK_EQ(compare((struct code){.start = (uintptr_t)add_precise}, kernel), 8);
}

/* ---- What the file says ---------------------------------------------------------------------- */

CP_TEST(the_recorded_instruction_takes_the_place_of_the_interrupted_one)
{
    struct object object = load_target("-g", "target.so");
    struct code outer = find_code(&object, "target_outer"), exported = find_code(&object, "target_exported");
    struct cp__profile *profile = new_profile();
    struct cp_memory first;
    char line[64];
    char *text;

    add_precise(profile, outer.start, outer.start + 5, 1);
    add_precise(profile, outer.start, exported.start, 16);
    add_precise(profile, outer.start, 0, 256);
    CHECK_EQ(elsewhere(profile), 16);
    CHECK_EQ(elsewhere(profile), 16);
    add_precise(profile, outer.start, exported.start, 16);
    CHECK_EQ(elsewhere(profile), 32);
    text = pprof("-raw", write_profile(profile, &cpu_meta, "precise"));
    CHECK_CONTAINS(text, "          1    1000000: 1 2 \n"
                         "        288  288000000: 3 2 \n");
    snprintf(line, sizeof line, "     3: 0x%" PRIx64 " M=", outer.start);
    CHECK_CONTAINS(text, line);
    snprintf(line, sizeof line, "     1: 0x%" PRIx64 " M=", outer.start + 5);
    CHECK_CONTAINS(text, line);
    free(text);
    first = whole(profile, SIZE_MAX);
    check_same(profile, &first, SIZE_MAX);
    free(first.data);
    cp__profile_free(profile);
}

CP_TEST(precise_samples_fold)
{
    static const uintptr_t frames[] = {0xffffffff81000000, 0x1000};
    const struct cp_sample in_kernel = {
        .weight = 1, .depth = 2, .kernel_depth = 1, .frames = frames, .ip = 0xffffffff81000004};
    const struct cp_sample nowhere = {.weight = 1, .ip = 0x1000, .flags = CP_SAMPLE_LATE};
    struct cp__profile *profile = new_profile();

    add_precise(profile, 0x1000, 0x1004, 1);
    add_precise(profile, 0x1000, 0x1008, 1);
    CHECK_EQ(profile->n_stacks, 2);
    add_precise(profile, 0x1000, 0x1004, 4);
    CHECK_EQ(profile->n_stacks, 2);
    CHECK_EQ(profile->stacks[0].weight, 5);
    add_precise(profile, 0x1000, 0x1000, 1); /* the same as without a record */
    add_precise(profile, 0x1000, 0, 1);
    CHECK_EQ(profile->n_stacks, 3);
    CHECK_EQ(profile->stacks[2].weight, 2);
    CHECK_EQ(elsewhere(profile), 6);
    CHECK_EQ(cp__profile_add(profile, &in_kernel), 0);
    CHECK_EQ(cp__profile_add(profile, &nowhere), 0);
    CHECK_EQ(profile->stacks[3].ip, 0);
    CHECK_EQ(profile->stacks[4].ip, 0);
    CHECK_EQ(elsewhere(profile), 6);
    cp__profile_free(profile);
}
