/*
 * What a profile costs: folding a sample in, looking an address up, writing the file; and data addresses, of
 * which there may be as many as samples.
 *
 *     build/bench/profile            the program's own addresses
 *     build/bench/profile OBJECT     those of a shared object, which is loaded
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pprof/mapping.h"
#include "pprof/profile.h"
#include "pprof/symbol.h"
#include "pprof/symbol_kernel.h"
#include "pprof/writer.h"

enum { DEPTH = 30, ADDRESSES = 10000, STACKS = 200000, SAMPLES = 2000000 };

/* CPU time, in seconds. */
static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double in_use(void)
{
    struct mallinfo2 info = mallinfo2();

    return (double)(info.uordblks + info.hblkhd);
}

static void fail(const char *what)
{
    fprintf(stderr, "bench/profile: %s\n", what);
    exit(1);
}

/* Addresses spread over the code of the object that ends in name. */
static void spread(const char *name, uint64_t *addresses)
{
    struct cp__mappings mappings = {0};
    double start = now();
    size_t i, j;

    if (cp__mappings_note(&mappings) < 0)
        fail("the mappings cannot be read");
    printf("note mappings            %8.0f us, %zu of them\n", (now() - start) * 1e6, mappings.n);
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

/* The i-th stack, a path in a call tree: the further out a frame, the more stacks share it and all outside
 * it. They come in no order. */
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

static void measure_folding(struct cp__profile *profile, const uint64_t *addresses)
{
    uintptr_t(*stacks)[DEPTH] = malloc(STACKS * sizeof *stacks);
    double before, start;
    size_t i;

    if (stacks == NULL)
        fail("out of memory");
    for (i = 0; i < STACKS; i++)
        make_stack(stacks[i], addresses, i);
    before = in_use();
    start = now();
    add(profile, stacks, 0, STACKS);
    printf("fold in a new stack      %8.3f us, %.0f bytes\n", (now() - start) * 1e6 / STACKS,
           (in_use() - before) / STACKS);
    start = now();
    add(profile, stacks, 0, SAMPLES);
    printf("fold in a known stack    %8.3f us\n", (now() - start) * 1e6 / SAMPLES);
    start = now();
    for (i = 0; i < SAMPLES; i += 100)
        add(profile, stacks, 0, 100);
    printf("... one of a hundred     %8.3f us\n", (now() - start) * 1e6 / SAMPLES);
    free(stacks);
}

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

static double write_out(struct cp__profile *profile)
{
    static const struct cp_writer_ops ops = {.what = "bench", .write = count};
    struct cp__profile_meta meta = {.sample_type = "cpu", .sample_unit = "nanoseconds", .period = 100000};
    struct cp_writer w = {.ops = &ops};
    struct cp__profile_findings findings;
    double start = now();

    peak = 0;
    written = 0;
    if (cp__profile_resolve(profile, &findings, NULL) < 0 || cp__profile_encode(profile, &meta, &w, NULL) < 0)
        fail("cannot write");
    return now() - start;
}

static void measure_writing(struct cp__profile *profile)
{
    double before, seconds;

    write_out(profile); /* looks addresses up, which is measured elsewhere */
    before = in_use();
    seconds = write_out(profile);
    printf("write a stack            %8.3f us, %.1f bytes in the file\n", seconds * 1e6 / STACKS,
           (double)written / STACKS);
    printf("memory while writing     %8.0f KiB for a file of %zu KiB\n", (peak - before) / 1024,
           written / 1024);
}

static void measure_looking_up(const uint64_t *addresses)
{
    struct cp__profile *profile;
    struct cp_sample sample = {.weight = 1, .depth = 1};
    double before, seconds;
    uintptr_t frame;
    size_t i;

    if (cp__profile_new(&profile) < 0)
        fail("out of memory");
    sample.frames = &frame;
    for (i = 0; i < ADDRESSES; i++) {
        frame = addresses[i];
        if (cp__profile_add(profile, &sample) < 0)
            fail("out of memory");
    }
    before = in_use();
    seconds = write_out(profile);
    printf("look up an address       %8.3f us, %.0f bytes, %.1f in the file\n", seconds * 1e6 / ADDRESSES,
           (in_use() - before) / ADDRESSES, (double)written / ADDRESSES);
    cp__profile_free(profile);
}

/* One stack that touches n places. */
static void measure_data_addresses(size_t n)
{
    uintptr_t frames[DEPTH];
    struct cp__profile *profile;
    struct cp_sample sample = {.weight = 1, .depth = DEPTH, .frames = frames};
    double before, start, seconds;

    if (cp__profile_new(&profile) < 0)
        fail("out of memory");
    for (size_t i = 0; i < DEPTH; i++)
        frames[i] = 0x1000 * (i + 1);
    before = in_use();
    start = now();
    for (size_t i = 0; i < n; i++) {
        sample.addr = 0x7f0000000000 + 8 * i;
        if (cp__profile_add(profile, &sample) < 0)
            fail("out of memory");
    }
    printf("fold in a new address    %8.3f us, %.0f bytes, of %zu in all\n",
           (now() - start) * 1e6 / (double)n, (in_use() - before) / (double)n, n);
    seconds = write_out(profile);
    printf("write it                 %8.3f us, %.0f bytes, %.1f in the file\n", seconds * 1e6 / (double)n,
           (in_use() - before) / (double)n, (double)written / (double)n);
    cp__profile_free(profile);
}

/* The kernel's code: from its first symbol to its last but a few. */
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

static void measure_kernel(void)
{
    static uint64_t addresses[ADDRESSES];

    for (size_t n = 10; n <= ADDRESSES; n *= 10) {
        size_t found = 0;
        double start;

        if (list_kernel(addresses, n) == 0) {
            printf("look up the kernel's     not here: /proc/kallsyms shows no addresses\n");
            return;
        }
        start = now();
        if (cp__kernel_symbolise("/proc/kallsyms", addresses, n, count_name, &found) < 0)
            fail("cannot look up the kernel's addresses");
        printf("look up the kernel's     %8.1f ms for %zu addresses, %zu have names\n", (now() - start) * 1e3,
               n, found);
    }
}

int main(int argc, char **argv)
{
    static uint64_t addresses[ADDRESSES];
    struct cp__profile *profile;

    if (argc > 1 && dlopen(argv[1], RTLD_NOW) == NULL)
        fail(dlerror());
    if (cp__profile_new(&profile) < 0)
        fail("out of memory");
    spread(argc > 1 ? strrchr(argv[1], '/') : "/bench/profile", addresses);
    measure_folding(profile, addresses);
    measure_writing(profile);
    measure_looking_up(addresses);
    measure_data_addresses(100000);
    measure_data_addresses(1000000);
    measure_kernel();
    cp__profile_free(profile);
    return 0;
}
