/* Samples on stacks that the profiler does not know: untold ones, alternate ones, and one that grows. */
#include "tests/support/burn.h"
#include "tests/support/green.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1u << 31) /* the C library has no name for it */
#endif

CODE(c) void enter_untold(void)
{
    burn_b(20 * MS);
    __asm__ volatile(""); /* keeps the call from being a tail call */
}

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
    make_green(&green, NULL, enter_untold);
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

    make_green(&green, NULL, enter_untold);
    cp_g_init(&green.g, green.stack, green.stack + STACK_SIZE, NULL);
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

    make_green(&green, &parent, enter_interrupted);
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

#if defined(__x86_64__) || defined(__aarch64__)
/* Its first instruction is interrupted. The function before has another frame. */
void fault_at_once(void);
#if defined(__x86_64__)
#define FAULT "ud2"
#define FAULT_SIZE 2
#else
#define FAULT "udf #0"
#define FAULT_SIZE 4
#endif
__asm__(".text\n.type before_fault,@function\n"
        "before_fault: .cfi_startproc\n\t.cfi_def_cfa_offset 4096\n\tret\n.cfi_endproc\n"
        ".type fault_at_once,@function\n"
        "fault_at_once: .cfi_startproc\n\t" FAULT "\n\tret\n.cfi_endproc\n");

static void on_fault(int signal, siginfo_t *info, void *ucontext)
{
    mcontext_t *machine = &((ucontext_t *)ucontext)->uc_mcontext;

    (void)signal;
    (void)info;
    burn_b(20 * MS);
#if defined(__x86_64__)
    machine->gregs[REG_RIP] += FAULT_SIZE;
#else
    machine->pc += FAULT_SIZE;
#endif
}

CODE(c) void call_fault(void)
{
    fault_at_once();
    __asm__ volatile(""); /* keeps the call from being a tail call */
}

static void body_fault(struct worker *worker)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_ONSTACK | SA_SIGINFO};

    (void)worker;
    sigaction(SIGILL, &action, NULL);
    call_fault();
    signal(SIGILL, SIG_DFL);
    burn_a(10 * MS);
}

SIM_TEST(code_that_a_signal_has_interrupted_made_no_call)
{
    if (TEST_TSAN)
        SKIP("ThreadSanitizer calls the program's handlers on the stack of the call that lets signals in");
    check_samples_of(body_fault, (struct wanted){.flags = 0, .has_c = true});
}
#endif

#if defined(__x86_64__) || defined(__aarch64__)
/* Its rows say of its caller what they say of interrupted code, as those of runtimes that switch stacks. */
void call_as_interrupted(void (*function)(void));
#if defined(__x86_64__)
__asm__(
    ".text\n.type call_as_interrupted,@function\n"
    "call_as_interrupted: .cfi_startproc\n\t.cfi_signal_frame\n\tsub $8,%rsp\n\t.cfi_def_cfa_offset 16\n\t"
    "call *%rdi\n\tadd $8,%rsp\n\t.cfi_def_cfa_offset 8\n\tret\n.cfi_endproc\n"
    ".size call_as_interrupted,.-call_as_interrupted\n");
#else
__asm__(".text\n.type call_as_interrupted,@function\n"
        "call_as_interrupted: .cfi_startproc\n\t.cfi_signal_frame\n\tstp x29,x30,[sp,-16]!\n\t"
        ".cfi_def_cfa_offset 16\n\t.cfi_offset x29,-16\n\t.cfi_offset x30,-8\n\tblr x0\n\t"
        "ldp x29,x30,[sp],16\n\t.cfi_def_cfa_offset 0\n\tret\n.cfi_endproc\n"
        ".size call_as_interrupted,.-call_as_interrupted\n");
#endif

CODE(c) void burn_as_interrupted(void)
{
    call_as_interrupted(burn_20);
    __asm__ volatile(""); /* keeps the call from being a tail call */
}

static void body_as_interrupted(struct worker *worker)
{
    (void)worker;
    burn_as_interrupted();
    burn_a(10 * MS);
}

SIM_TEST(rows_that_are_like_a_signals_are_followed)
{
    check_samples_of(body_as_interrupted, (struct wanted){.flags = 0, .has_c = true});
}
#endif

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

/* Sets the limit of the first thread's stack, and returns the one before. */
static rlim_t limit_stack(rlim_t size)
{
    struct rlimit limit;
    rlim_t before;

    CHECK_EQ(getrlimit(RLIMIT_STACK, &limit), 0);
    before = limit.rlim_cur;
    limit.rlim_cur = size < limit.rlim_max ? size : limit.rlim_max;
    CHECK_EQ(setrlimit(RLIMIT_STACK, &limit), 0);
    return before;
}

/* The limit of the stack is raised after the thread was attached. */
SIM_TEST(a_stack_that_grows_beyond_its_limit_is_whole)
{
    struct cp_slot_request requests[] = {request("taskClock", 100000)};
    struct wanted wanted = {.flags = 0, .has_c = true};
    struct profile profile = {.look = check_wanted, .context = &wanted};
    struct worker worker = {.body = NULL};
    rlim_t before;

    if (syscall(SYS_gettid) != getpid())
        SKIP("The test does not run on the program's first thread.");
    before = limit_stack(LIMIT);
    attach(&worker);
    limit_stack(before);
    start_profile(&profile, requests, 1);
    recurse_c(25);
    stop_profile(&profile);
    cp_m_detach(worker.m);
    CHECK_EQ(wanted.samples, 200);
}

/* Returns the size of the first thread's stack in KiB. */
static long stack_size(void)
{
    char line[200];
    long size = -1;
    FILE *file = fopen("/proc/self/status", "r");

    CHECK(file != NULL);
    while (size < 0 && fgets(line, sizeof line, file) != NULL)
        sscanf(line, "VmStk: %ld", &size);
    fclose(file);
    return size;
}

#define RAISED ((rlim_t)1 << 30)

/* Memory is looked for between the first thread's stack and the one that the thread runs on. */
SIM_TEST(a_stack_does_not_grow_by_samples_of_another)
{
    struct cp_slot_request requests[] = {request("taskClock", 100000)};
    struct wanted wanted = {.flags = CP_SAMPLE_FOREIGN_SP, .has_c = true};
    struct profile profile = {.look = check_wanted, .context = &wanted};
    struct worker worker = {.body = NULL};
    long before;

    if (syscall(SYS_gettid) != getpid())
        SKIP("The test does not run on the program's first thread.");
    attach(&worker);
    limit_stack(RAISED);
    before = stack_size();
    start_profile(&profile, requests, 1);
    body_untold(&worker);
    stop_profile(&profile);
    cp_m_detach(worker.m);
    CHECK_EQ(wanted.samples, 200);
    printf("%ld KiB of stack, and %ld after the samples\n", before, stack_size());
    CHECK(stack_size() < before + 1024);
}
