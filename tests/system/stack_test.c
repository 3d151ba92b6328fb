/* Which G a sample belongs to, and which frames it has, on stacks of every kind. */
#include "tests/support/burn.h"
#include "tests/support/frame_pointers.h"
#include "tests/support/green.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

/* ---- Gs -------------------------------------------------------------------------------------- */

static void enter_green(void)
{
    CP_LABEL_SCOPE("green", "yes");
    burn_b(20 * MS);
}

/* How many samples came for each G. */
struct by_g {
    uint64_t id[3]; /* of the three Gs; 0: the M itself */
    int samples[3];
    int of_others;
    int wrong_code;
    int wrong_label;
};

/* Sorts the samples. G 0 runs run_c() without labels, G 1 burn_a() with a label, and G 2 burn_b() with
 * another. */
static void sort_by_g(void *context, const struct cp_sample *sample)
{
    static const enum code code[] = {IN_C, IN_A, IN_B};
    static const char *const label[] = {NULL, "own", "green"};
    struct by_g *by = context;
    int i = 0;

    while (i < 3 && sample->g_id != by->id[i])
        i++;
    if (i == 3) {
        by->of_others++;
        return;
    }
    by->samples[i]++;
    for (unsigned f = 0; f < sample->depth; f++)
        for (enum code c = 0; c < CODES; c++)
            by->wrong_code += c != code[i] && is_in(c, sample->frames[f]);
    by->wrong_code += !is_in(code[i], sample->frames[0]);
    if (i == 0)
        by->wrong_label += cp_labels_count(sample->labels) != 0;
    else
        by->wrong_label +=
            cp_labels_count(sample->labels) != 1 || strcmp(cp_labels_key(sample->labels, 0), label[i]) != 0;
}

CODE(c) void run_c(uint64_t ns)
{
    SIM_RUN(ns);
}

/* Runs the M's own code, a G on the M's stack, a G on a stack of its own, and the M's own code again. */
static void body_gs(struct worker *worker)
{
    struct by_g *by = worker->arg;
    pthread_attr_t attributes;
    struct green green;
    struct cp_g own;
    void *stack;
    size_t size;

    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &stack, &size);
    pthread_attr_destroy(&attributes);
    cp_g_init(&own, stack, (char *)stack + size, NULL);
    make_green(&green, &own, enter_green);
    by->id[1] = own.id;
    by->id[2] = green.g.id;
    CHECK(own.id != 0 && green.g.id != own.id && green.g.parent_id == own.id);

    run_c(10 * MS);
    cp_execute(worker->m, &own);
    CHECK(cp_g_self() == &own);
    CHECK_EQ(cp_label_set("own", "yes"), 0);
    burn_a(20 * MS);

    cp_execute(worker->m, &green.g);
    swapcontext(&green.back, &green.context);
    cp_execute(worker->m, NULL);
    CHECK(cp_labels_count(green.g.labels) == 0);
    run_c(10 * MS);
    cp_g_fini(&green.g);
    cp_g_fini(&own);
    munmap(green.stack, STACK_SIZE);
}

SIM_TEST(samples_name_the_g_and_its_labels)
{
    struct cp_slot_request requests[] = {request("taskClock", 100000), request("timer", 10 * MS)};
    struct by_g by = {.id = {0, UINT64_MAX, UINT64_MAX}};
    struct profile profile = {.look = sort_by_g, .context = &by};
    struct worker worker;

    start_unread(&profile, requests, 2);
    run_attached(&worker, body_gs, &by);
    stop_profile(&profile);
    CHECK_EQ(by.of_others, 0);
    CHECK_EQ(by.wrong_code, 0);
    CHECK_EQ(by.wrong_label, 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(by.samples[i], 200 + 2);
    CHECK_EQ(profile.seen[0].foreign_sp + profile.seen[1].foreign_sp, 0);
}

/* The M has announced the next G, but still runs on its own stack. */
static void body_half_switched(struct worker *worker)
{
    struct green green;
    struct cp_g parent = {.id = 0};

    make_green(&green, &parent, enter_green);
    cp_execute(worker->m, &green.g);
    burn_a(20 * MS);
    cp_execute(worker->m, NULL);
    cp_g_fini(&green.g);
    munmap(green.stack, STACK_SIZE);
}

static void count_named(void *context, const struct cp_sample *sample)
{
    *(int *)context += sample->g_id != 0;
}

SIM_TEST(the_stack_pointer_decides_whose_a_sample_is)
{
    struct cp_slot_request requests[] = {request("taskClock", 100000)};
    int named = 0;
    struct profile profile = {.look = count_named, .context = &named};
    struct worker worker;

    start_unread(&profile, requests, 1);
    run_attached(&worker, body_half_switched, NULL);
    stop_profile(&profile);
    CHECK_EQ(profile.seen[0].samples, 200);
    CHECK_EQ(profile.seen[0].leaf[IN_A], 200);
    CHECK_EQ(named, 0);
    CHECK_EQ(profile.seen[0].foreign_sp, 0);
}

/* ---- Depth ----------------------------------------------------------------------------------- */

CODE(b) void recurse_b(int depth, uint64_t ns)
{
    if (depth > 0)
        recurse_b(depth - 1, ns);
    else
        burn_a(ns);
    __asm__ volatile(""); /* keeps the call from being a tail call */
}

static void body_deep(struct worker *worker)
{
    recurse_b(*(const int *)worker->arg, 20 * MS);
}

struct depths {
    unsigned least;
    unsigned most;
    int samples;
    int truncated;
};

static void note_depth(void *context, const struct cp_sample *sample)
{
    struct depths *depths = context;

    CHECK(is_in(IN_A, sample->frames[0]));
    if (sample->depth < depths->least || depths->samples == 0)
        depths->least = sample->depth;
    if (sample->depth > depths->most)
        depths->most = sample->depth;
    depths->samples++;
    depths->truncated += (sample->flags & CP_SAMPLE_TRUNCATED) != 0;
}

static struct depths depths_below(int recursion)
{
    struct cp_slot_request requests[] = {request("taskClock", MS)};
    struct depths depths = {0};
    struct profile profile = {.look = note_depth, .context = &depths};
    struct worker worker;

    start_profile(&profile, requests, 1);
    run_attached(&worker, body_deep, &recursion);
    stop_profile(&profile);
    printf("recursion %d: %u to %u frames\n", recursion, depths.least, depths.most);
    CHECK_EQ(depths.samples, 20);
    CHECK_EQ(depths.least, depths.most);
    CHECK_EQ(profile.seen[0].truncated, depths.truncated);
    CHECK_EQ(profile.stats[0].truncated, depths.truncated);
    return depths;
}

SIM_TEST(stacks_end_at_256_frames)
{
    struct depths depths;
    int outside;

    depths = depths_below(0);
    outside = (int)depths.most;
    CHECK(depths.truncated == 0 && outside < 20);
    depths = depths_below(CP_MAX_FRAMES - outside);
    CHECK_EQ(depths.least, CP_MAX_FRAMES);
    CHECK_EQ(depths.truncated, 0);
    depths = depths_below(CP_MAX_FRAMES - outside + 1);
    CHECK_EQ(depths.least, CP_MAX_FRAMES);
    CHECK_EQ(depths.truncated, depths.samples);
    depths = depths_below(3000);
    CHECK_EQ(depths.least, CP_MAX_FRAMES);
    CHECK_EQ(depths.truncated, depths.samples);
}

/* ---- Frame pointers that are none ------------------------------------------------------------ */

CODE(c) void run_once(void)
{
    SIM_RUN(MS);
}

#define CALLS 10

/* Calls a function with fp in the frame pointer, which that function saves as its caller's. */
__attribute__((noinline)) static void call_with_frame_pointer(uintptr_t fp)
{
    for (int i = 0; i < CALLS; i++)
#if defined(__x86_64__)
        __asm__ volatile("mov %%rsp, %%rbx\n\tsub $256, %%rsp\n\tand $-16, %%rsp\n\t"
                         "push %%rbp\n\tpush %%rbp\n\tmov %0, %%rbp\n\t"
                         "call *%1\n\t"
                         "pop %%rbp\n\tpop %%rbp\n\tmov %%rbx, %%rsp"
                         :
                         : "r"(fp), "r"(run_once)
                         : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc",
                           "memory");
#elif defined(__aarch64__)
        __asm__ volatile("str x29, [sp, #-16]!\n\tmov x29, %0\n\t"
                         "blr %1\n\t"
                         "ldr x29, [sp], #16"
                         :
                         : "r"(fp), "r"(run_once)
                         : "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12",
                           "x13", "x14", "x15", "x16", "x17", "x18", "x30", "cc", "memory");
#endif
}

static void body_calls(struct worker *worker)
{
    *(int *)worker->arg = CALLS * with_bad_frame_pointers(call_with_frame_pointer);
}

static void note_most(void *context, const struct cp_sample *sample)
{
    unsigned *most = context;

    *most = sample->depth > *most ? sample->depth : *most;
}

/* No walk leads far. tests/live/hostile_test.c has functions that keep no frame pointer themselves. */
SIM_TEST(a_callers_frame_pointer_may_be_anything)
{
    struct cp_slot_request requests[] = {request("taskClock", MS)};
    unsigned most = 0;
    struct profile profile = {.look = note_most, .context = &most};
    struct worker worker;
    int calls;

    start_profile(&profile, requests, 1);
    run_attached(&worker, body_calls, &calls);
    stop_profile(&profile);
    CHECK_EQ(profile.seen[0].samples, calls);
    CHECK_EQ(profile.seen[0].leaf[IN_C], calls);
    CHECK_EQ(profile.seen[0].truncated + profile.seen[0].foreign_sp, 0);
    CHECK(most <= 3); /* run_once(), its caller, and what the frame pointer leads to */
}
