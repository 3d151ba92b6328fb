/* Which G a sample belongs to, and which frames it has, on stacks of every kind. */
#include "tests/support/burn.h"
#include "tests/support/frame_pointers.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>

#define STACK_SIZE ((size_t)256 << 10)
#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1u << 31) /* the C library has no name for it */
#endif

static char *map_stack(void)
{
    void *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(stack != MAP_FAILED);
    return stack;
}

/* ---- Gs -------------------------------------------------------------------------------------- */

/* A green thread with a stack of its own, which burns CPU time and switches back. */
struct green {
    struct cp_g g;
    char *stack;
    ucontext_t context;
    ucontext_t back;
};

static struct green *entered; /* the argument of enter_green(), because makecontext() passes no pointers */

CODE(c) void enter_untold(void)
{
    burn_b(20 * MS);
    __asm__ volatile(""); /* keeps the call from being a tail call */
}

static void enter_green(void)
{
    CP_LABEL_SCOPE("green", "yes");
    burn_b(20 * MS);
}

static void make_green(struct green *green, const struct cp_g *parent)
{
    green->stack = map_stack();
    if (parent != NULL)
        cp_g_init(&green->g, green->stack, green->stack + STACK_SIZE, parent);
    getcontext(&green->context);
    green->context.uc_stack.ss_sp = green->stack;
    green->context.uc_stack.ss_size = STACK_SIZE;
    green->context.uc_link = &green->back;
    makecontext(&green->context, enter_green, 0);
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
    make_green(&green, &own);
    by->id[1] = own.id;
    by->id[2] = green.g.id;
    CHECK(own.id != 0 && green.g.id != own.id && green.g.parent_id == own.id);

    run_c(10 * MS);
    cp_execute(worker->m, &own);
    CHECK(cp_g_self() == &own);
    CHECK_EQ(cp_label_set("own", "yes"), 0);
    burn_a(20 * MS);
    entered = &green;
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

    make_green(&green, &parent);
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

/* ---- Stacks that the profiler does not know -------------------------------------------------- */

/* Of the samples in burn_b(): what they have to have. */
struct wanted {
    unsigned flags;
    bool has_c; /* a function of IN_C among the callers */
    uint64_t g_id;
    int samples;
};

static bool has_code(enum code code, const struct cp_sample *sample)
{
    for (unsigned i = 0; i < sample->depth; i++)
        if (is_in(code, sample->frames[i]))
            return true;
    return false;
}

static void check_wanted(void *context, const struct cp_sample *sample)
{
    struct wanted *wanted = context;

    if (!is_in(IN_B, sample->frames[0]))
        return;
    CHECK_EQ(sample->flags, wanted->flags);
    CHECK_EQ(has_code(IN_C, sample), wanted->has_c);
    CHECK_EQ(sample->g_id, wanted->g_id);
    wanted->samples++;
}

/* Runs the body, which spends 20 ms in burn_b() on some stack. */
static void check_samples_of(void (*body)(struct worker *), struct wanted wanted)
{
    struct cp_slot_request requests[] = {request("taskClock", 100000)};
    struct profile profile = {.look = check_wanted, .context = &wanted};
    struct worker worker;

    start_profile(&profile, requests, 1);
    run_attached(&worker, body, &wanted);
    stop_profile(&profile);
    CHECK_EQ(wanted.samples, 200);
    CHECK_EQ(profile.stats[0].unknown_stacks, (wanted.flags & CP_SAMPLE_FOREIGN_SP) != 0 ? 200 : 0);
    CHECK_EQ(profile.stats[0].incomplete, 0);
    CHECK_EQ(profile.seen[0].truncated, 0);
}

static void body_untold(struct worker *worker)
{
    struct green green;

    (void)worker;
    make_green(&green, NULL);
    makecontext(&green.context, enter_untold, 0);
    burn_a(5 * MS);
    swapcontext(&green.back, &green.context);
    burn_a(5 * MS);
    munmap(green.stack, STACK_SIZE);
}

SIM_TEST(a_stack_that_nobody_told_of_is_walked_and_marked)
{
    check_samples_of(body_untold, (struct wanted){.flags = CP_SAMPLE_FOREIGN_SP, .has_c = true});
}

#if defined(__x86_64__) || defined(__aarch64__)
static void burn_20(void)
{
    burn_b(20 * MS);
    __asm__ volatile(""); /* keeps the call from being a tail call */
}

/* Calls a function on another stack, as libraries do that make their stack larger for a call. */
void call_across(void (*function)(void), void *stack_hi);
#if defined(__x86_64__)
__asm__(".text\n.type call_across,@function\n"
        "call_across: .cfi_startproc\n\tpush %rbp\n\t.cfi_def_cfa %rsp,16\n\t.cfi_offset %rbp,-16\n\t"
        "mov %rsp,%rbp\n\t.cfi_def_cfa_register %rbp\n\tmov %rsi,%rsp\n\tcall *%rdi\n"
        "mov %rbp,%rsp\n\t.cfi_def_cfa_register %rsp\n\tpop %rbp\n\t.cfi_def_cfa %rsp,8\n\tret\n"
        ".cfi_endproc\n.size call_across,.-call_across\n");
#else
__asm__(".text\n.type call_across,@function\n"
        "call_across: .cfi_startproc\n\tstp x29,x30,[sp,-16]!\n\t.cfi_def_cfa sp,16\n\t"
        ".cfi_offset x29,-16\n\t.cfi_offset x30,-8\n\tmov x29,sp\n\t.cfi_def_cfa_register x29\n\t"
        "mov sp,x1\n\tblr x0\nmov sp,x29\n\t.cfi_def_cfa_register sp\n\tldp x29,x30,[sp],16\n\t"
        ".cfi_def_cfa sp,0\n\tret\n.cfi_endproc\n.size call_across,.-call_across\n");
#endif

CODE(c) void burn_across(void)
{
    char *stack = map_stack();

    call_across(burn_20, stack + STACK_SIZE);
    munmap(stack, STACK_SIZE);
}

static void body_across(struct worker *worker)
{
    (void)worker;
    burn_across();
    burn_a(10 * MS);
}

SIM_TEST(a_call_on_another_stack_has_its_callers)
{
    check_samples_of(body_across, (struct wanted){.flags = 0, .has_c = true});
}
#endif

/* A thread that runs Gs, and was never attached. */
static void *execute_without_m(void *arg)
{
    struct green green;

    make_green(&green, NULL);
    cp_execute(cp_m_self(), &green.g);
    CHECK(cp_g_self() == NULL);
    cp_execute(NULL, NULL);
    cp_g_fini(&green.g);
    munmap(green.stack, STACK_SIZE);
    return arg;
}

CP_TEST(a_thread_that_is_no_m_can_pass_scheduling_points)
{
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, execute_without_m, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void on_usr1(int signal)
{
    char room[20000]; /* so that the kernel's frame is some pages away */

    (void)signal;
    __asm__ volatile("" : : "r"(room) : "memory");
    burn_b(20 * MS);
}

CODE(c) void be_interrupted(void)
{
    struct sigaction action = {.sa_handler = on_usr1, .sa_flags = SA_ONSTACK};

    sigaction(SIGUSR1, &action, NULL);
    pthread_kill(pthread_self(), SIGUSR1);
}

static void body_on_altstack(struct worker *worker)
{
    (void)worker;
    burn_a(5 * MS);
    be_interrupted();
    burn_a(5 * MS);
}

/* On a part of the thread's own stack. */
static void body_on_inner_altstack(struct worker *worker)
{
    char memory[65536];
    stack_t before, own = {.ss_sp = memory, .ss_size = sizeof memory};

    CHECK_EQ(sigaltstack(&own, &before), 0);
    body_on_altstack(worker);
    CHECK_EQ(sigaltstack(&before, NULL), 0);
}

/* On a stack of the program's own, and the kernel forgets it for as long as the handler runs. */
static void body_on_own_altstack(struct worker *worker)
{
    char *memory = map_stack();
    stack_t before, own = {.ss_sp = memory, .ss_size = STACK_SIZE, .ss_flags = (int)SS_AUTODISARM};

    CHECK_EQ(sigaltstack(&own, &before), 0);
    body_on_altstack(worker);
    CHECK_EQ(sigaltstack(&before, NULL), 0);
    munmap(memory, STACK_SIZE);
}

static void enter_interrupted(void)
{
    be_interrupted();
}

/* While a G runs on a stack of its own. */
static void body_g_on_altstack(struct worker *worker)
{
    struct wanted *wanted = worker->arg;
    struct green green;
    struct cp_g parent = {.id = 0};

    make_green(&green, &parent);
    makecontext(&green.context, enter_interrupted, 0);
    wanted->g_id = green.g.id;
    cp_execute(worker->m, &green.g);
    swapcontext(&green.back, &green.context);
    cp_execute(worker->m, NULL);
    burn_a(10 * MS);
    cp_g_fini(&green.g);
    munmap(green.stack, STACK_SIZE);
}

SIM_TEST(a_handler_on_an_alternate_stack_has_the_callers_of_what_it_interrupted)
{
    if (TEST_TSAN)
        SKIP("ThreadSanitizer calls the program's handlers on the stack of the call that lets signals in");
    check_samples_of(body_on_altstack, (struct wanted){.flags = 0, .has_c = true});
    check_samples_of(body_on_inner_altstack, (struct wanted){.flags = 0, .has_c = true});
    check_samples_of(body_on_own_altstack, (struct wanted){.flags = 0, .has_c = true});
    check_samples_of(body_g_on_altstack, (struct wanted){.flags = 0, .has_c = true});
}

/* ---- A stack that grows ---------------------------------------------------------------------- */

#define LIMIT ((size_t)1 << 20)

/* Uses 64 KiB of stack a level. */
CODE(c) void recurse_c(int depth)
{
    char room[65536];

    __asm__ volatile("" : : "r"(room) : "memory");
    if (depth > 0)
        recurse_c(depth - 1);
    else
        burn_b(20 * MS);
    __asm__ volatile(""); /* keeps the call from being a tail call */
}

/* The limit of the stack is raised after the thread was attached. */
SIM_TEST(a_stack_that_grows_beyond_its_limit_is_whole)
{
    struct cp_slot_request requests[] = {request("taskClock", 100000)};
    struct wanted wanted = {.flags = 0, .has_c = true};
    struct profile profile = {.look = check_wanted, .context = &wanted};
    struct rlimit limit, low;
    struct worker worker = {.body = NULL};

    if (syscall(SYS_gettid) != getpid())
        SKIP("The test does not run on the program's first thread.");
    CHECK_EQ(getrlimit(RLIMIT_STACK, &limit), 0);
    low = (struct rlimit){.rlim_cur = LIMIT, .rlim_max = limit.rlim_max};
    CHECK_EQ(setrlimit(RLIMIT_STACK, &low), 0);
    attach(&worker);
    CHECK_EQ(setrlimit(RLIMIT_STACK, &limit), 0);
    start_profile(&profile, requests, 1);
    recurse_c(25);
    stop_profile(&profile);
    cp_m_detach(worker.m);
    CHECK_EQ(wanted.samples, 200);
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
