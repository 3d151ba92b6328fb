/*
 * What a profile costs: folding a sample in, looking an address up, writing the file; and the same for data
 * addresses, of which there may be as many as samples. Figures in us are CPU time. The addresses are the
 * program's own, or those of a shared object that CP_BENCH_OBJECT names and the benchmark loads.
 */
#include "bench.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <malloc.h>
#include <string.h>

#include "pprof/profile.h"
#include "pprof/symbol/kernel.h"
#include "pprof/symbol/mapping.h"
#include "pprof/symbol/symbol.h"
#include "pprof/writer.h"

enum { DEPTH = 30, ADDRESSES = 10000, STACKS = 200000 };

static double cpu_us(void)
{
    return bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID) / 1e3;
}

static double in_use(void)
{
    struct mallinfo2 info = mallinfo2();

    return (double)(info.uordblks + info.hblkhd);
}

static void fail(const char *what)
{
    cp_t_fatal(cp_t_self(), "%s", what);
}

/* ---- Addresses and stacks -------------------------------------------------------------------- */

/* Chooses addresses spread over the code of the object whose path ends in name. */
static void spread(const char *name, uint64_t *addresses)
{
    struct cp__mappings mappings = {0};
    size_t i, j;

    if (cp__mappings_note(&mappings) < 0)
        fail("the mappings cannot be read");
    for (i = 0; i < mappings.n; i++) {
        const struct cp__mapping *m = &mappings.items[i];
        size_t length = strlen(m->file);

        if (length >= strlen(name) && strcmp(m->file + length - strlen(name), name) == 0)
            break;
    }
    if (i == mappings.n)
        fail("the object has no code");
    for (j = 0; j < ADDRESSES; j++)
        addresses[j] =
            mappings.items[i].start + (mappings.items[i].limit - mappings.items[i].start) / ADDRESSES * j;
    cp__mappings_free(&mappings);
}

/* Makes the i-th stack, which is a path in a call tree: the further out a frame is, the more stacks share the
 * frame and everything outside it. The stacks come in no order. */
static void make_stack(uintptr_t *frames, const uint64_t *addresses, uint64_t i)
{
    unsigned j;

    i = i * 7919 % STACKS; /* a prime */
    for (j = 0; j < DEPTH; j++) {
        frames[j] = addresses[(i + j) * 0x9e3779b97f4a7c15u % ADDRESSES];
        i = i * 3 / 4;
    }
}

static void add(struct cp__profile *profile, const uintptr_t (*stacks)[DEPTH], size_t first, size_t end)
{
    struct cp_sample sample = {.weight = 1, .depth = DEPTH};

    for (; first < end; first++) {
        sample.frames = stacks[first % STACKS];
        if (cp__profile_add(profile, &sample) < 0)
            fail("out of memory");
    }
}

static struct cp__profile *new_profile(void)
{
    struct cp__profile *profile;

    if (cp__profile_new(&profile) < 0)
        fail("out of memory");
    return profile;
}

static const uint64_t *all_addresses(void)
{
    static uint64_t addresses[ADDRESSES];
    const char *object = getenv("CP_BENCH_OBJECT");

    if (object != NULL && dlopen(object, RTLD_NOW) == NULL)
        fail(dlerror());
    if (addresses[0] == 0)
        spread(object != NULL ? strrchr(object, '/') : "/bench/profile", addresses);
    return addresses;
}

static uintptr_t (*all_stacks(void))[DEPTH]
{
    uintptr_t(*stacks)[DEPTH] = malloc(STACKS * sizeof *stacks);
    const uint64_t *addresses = all_addresses();

    if (stacks == NULL)
        fail("out of memory");
    for (size_t i = 0; i < STACKS; i++)
        make_stack(stacks[i], addresses, i);
    return stacks;
}

CP_BENCHMARK(NoteMappings)
{
    for (; cp_bench_next(b);) {
        struct cp__mappings mappings = {0};

        if (cp__mappings_note(&mappings) < 0)
            fail("the mappings cannot be read");
        cp_bench_metric(b, (double)mappings.n, "mappings");
        cp__mappings_free(&mappings);
    }
}

/* ---- Folding --------------------------------------------------------------------------------- */

static void fold_new(struct cp_t *b, void *stacks)
{
    struct bench_rounds us = {0};
    double before, start;

    for (; cp_bench_next(b);) {
        struct cp__profile *profile = new_profile();

        before = in_use();
        start = cpu_us();
        add(profile, stacks, 0, STACKS);
        bench_add(&us, (cpu_us() - start) / STACKS);
        cp_bench_metric(b, (in_use() - before) / STACKS, "B/stack");
        cp_bench_pause(b);
        cp__profile_free(profile);
        cp_bench_resume(b);
    }
    bench_spread(b, &us, "us/stack");
}

/* Adds n known stacks in turn to a profile that has all stacks. */
static void fold_known(struct cp_t *b, const uintptr_t (*stacks)[DEPTH], size_t n)
{
    struct cp__profile *profile = new_profile();
    double start;
    size_t i = 0;

    add(profile, stacks, 0, STACKS);
    start = cpu_us();
    for (; cp_bench_next(b); i = i + 1 < n ? i + 1 : 0)
        add(profile, stacks, i, i + 1);
    cp_bench_metric(b, (cpu_us() - start) / (double)cp_bench_iterations(b), "us/stack");
    cp__profile_free(profile);
}

static void fold_any_known(struct cp_t *b, void *stacks)
{
    fold_known(b, stacks, STACKS);
}

static void fold_one_of_a_hundred(struct cp_t *b, void *stacks)
{
    fold_known(b, stacks, 100);
}

/* Adds all stacks as new ones, and adds known ones. */
CP_BENCHMARK(Fold)
{
    uintptr_t(*stacks)[DEPTH] = all_stacks();

    cp_t_run(b, "new stacks", fold_new, stacks);
    cp_t_run(b, "a known stack", fold_any_known, stacks);
    cp_t_run(b, "one of a hundred", fold_one_of_a_hundred, stacks);
    free(stacks);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static size_t written;
static double peak;

static ssize_t count(struct cp_writer *w, const void *data, size_t size)
{
    (void)w, (void)data;
    if (in_use() > peak)
        peak = in_use();
    written += size;
    return (ssize_t)size;
}

/* Writes the profile; returns the CPU time in us. */
static double write_out(struct cp__profile *profile)
{
    static const struct cp_writer_ops ops = {.what = "bench", .write = count};
    struct cp__profile_meta meta = {.sample_type = "cpu", .sample_unit = "nanoseconds", .period = 100000};
    struct cp_writer w = {.ops = &ops};
    struct cp__profile_findings findings;
    double start = cpu_us();

    peak = 0;
    written = 0;
    if (cp__profile_resolve(profile, &findings, NULL) < 0 || cp__profile_encode(profile, &meta, &w) < 0)
        fail("cannot write");
    return cpu_us() - start;
}

/* Writes a profile of 200 000 stacks. */
CP_BENCHMARK(Write)
{
    uintptr_t(*stacks)[DEPTH] = all_stacks();
    struct cp__profile *profile = new_profile();
    struct bench_rounds us = {0};

    add(profile, stacks, 0, STACKS);
    write_out(profile); /* looks the addresses up, which LookUp measures */
    for (; cp_bench_next(b);) {
        double before = in_use();

        bench_add(&us, write_out(profile) / STACKS);
        cp_bench_metric(b, (double)written / STACKS, "file-B/stack");
        cp_bench_metric(b, (peak - before) / 1024, "KiB-memory");
        cp_bench_metric(b, (double)written / 1024, "KiB-file");
    }
    bench_spread(b, &us, "us/stack");
    cp__profile_free(profile);
    free(stacks);
}

/* Looks 10 000 addresses up, in a new profile each time. */
CP_BENCHMARK(LookUp)
{
    const uint64_t *addresses = all_addresses();
    struct bench_rounds us = {0};

    for (; cp_bench_next(b);) {
        struct cp_sample sample = {.weight = 1, .depth = 1};
        double before;

        cp_bench_pause(b);
        struct cp__profile *profile = new_profile();
        for (size_t i = 0; i < ADDRESSES; i++) {
            uintptr_t frame = addresses[i];

            sample.frames = &frame;
            if (cp__profile_add(profile, &sample) < 0)
                fail("out of memory");
        }
        before = in_use();
        cp_bench_resume(b);
        bench_add(&us, write_out(profile) / ADDRESSES);
        cp_bench_pause(b);
        cp_bench_metric(b, (in_use() - before) / ADDRESSES, "B/address");
        cp_bench_metric(b, (double)written / ADDRESSES, "file-B/address");
        cp__profile_free(profile);
        cp_bench_resume(b);
    }
    bench_spread(b, &us, "us/address");
}

/* ---- Data addresses -------------------------------------------------------------------------- */

static void fold_addresses(struct cp__profile *profile, size_t n)
{
    uintptr_t frames[DEPTH];
    struct cp_sample sample = {.weight = 1, .depth = DEPTH, .frames = frames};

    for (size_t i = 0; i < DEPTH; i++)
        frames[i] = 0x1000 * (i + 1);
    for (size_t i = 0; i < n; i++) {
        sample.addr = 0x7f0000000000 + 8 * i;
        if (cp__profile_add(profile, &sample) < 0)
            fail("out of memory");
    }
}

/* One stack accesses n addresses. */
static void fold_and_write_addresses(struct cp_t *b, void *arg)
{
    const size_t n = *(const size_t *)arg;
    struct bench_rounds fold = {0}, writing = {0};

    for (; cp_bench_next(b);) {
        struct cp__profile *profile = new_profile();
        double before = in_use(), start = cpu_us();

        fold_addresses(profile, n);
        bench_add(&fold, (cpu_us() - start) / (double)n);
        cp_bench_metric(b, (in_use() - before) / (double)n, "B/fold");
        bench_add(&writing, write_out(profile) / (double)n);
        cp_bench_metric(b, (in_use() - before) / (double)n, "B/write");
        cp_bench_metric(b, (double)written / (double)n, "file-B/write");
        cp__profile_free(profile);
    }
    bench_spread(b, &fold, "us/fold");
    bench_spread(b, &writing, "us/write");
}

CP_BENCHMARK(DataAddresses)
{
    static size_t few = 100000, many = 1000000;

    cp_t_run(b, "100000", fold_and_write_addresses, &few);
    cp_t_run(b, "1000000", fold_and_write_addresses, &many);
}

/* ---- The kernel ------------------------------------------------------------------------------ */

/* Spreads addresses over the kernel's code, from its first symbol to its last. */
static size_t list_kernel(uint64_t *addresses, size_t n)
{
    uint64_t start = 0, end = 0, address;
    FILE *file = fopen("/proc/kallsyms", "re");
    char name[512];

    while (file != NULL && fscanf(file, "%" SCNx64 " %*c %511s%*[^\n]", &address, name) == 2) {
        if (strcmp(name, "_stext") == 0)
            start = address;
        if (strcmp(name, "_etext") == 0)
            end = address;
    }
    if (file != NULL)
        fclose(file);
    for (size_t i = 0; i < n; i++)
        addresses[i] = start + (end - start) / n * i;
    return end > start ? n : 0;
}

static int count_name(void *n, size_t i, const char *name, const char *module)
{
    (void)i, (void)name, (void)module;
    ++*(size_t *)n;
    return 0;
}

static void look_up_kernel(struct cp_t *b, void *arg)
{
    static uint64_t addresses[ADDRESSES];
    const size_t n = *(const size_t *)arg;
    struct bench_rounds us = {0};

    if (list_kernel(addresses, n) == 0)
        cp_t_skip(b, "/proc/kallsyms shows no addresses here.");
    for (; cp_bench_next(b);) {
        double start = cpu_us();
        size_t found = 0;

        if (cp__kernel_symbolise("/proc/kallsyms", addresses, n, count_name, &found) < 0)
            fail("cannot look up the kernel's addresses");
        bench_add(&us, cpu_us() - start);
        cp_bench_metric(b, (double)found, "names");
    }
    bench_spread(b, &us, "us");
}

CP_BENCHMARK(LookUpKernel)
{
    static size_t counts[] = {10, 100, 1000, ADDRESSES};
    static const char *const names[] = {"10", "100", "1000", "10000"};

    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        cp_t_run(b, names[i], look_up_kernel, &counts[i]);
}

BENCH_MAIN()
