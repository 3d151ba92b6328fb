/* Switching between two flows of control: arch/ARCH/context.h. */
#include "arch/arch.h"
#include "context.h"
#include "runtime/sched/fiber.h"
#include "runtime/unwind/cache.h"
#include "sched.h"
#include "tests/support/step.h"
#include "tests/support/test.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define UNW_LOCAL_ONLY
#include <libunwind.h>

#define STACK_SIZE 262144

/* The function in which a context begins. */
#ifdef CP__CONTEXT_IS_ASSEMBLY
#define OUTERMOST "cp__context_entry"
#else
#define OUTERMOST "begin_fiber"
#endif

/* ---- Two flows: the test's own, and another on a stack of its own ---------------------------- */

struct flow {
    struct cp__context context;
    struct cp__fiber fiber;
};

static struct flow here, there;
static char *stack;

/* Inlined, so that the function that calls it is the one that switches. */
static inline __attribute__((always_inline)) void go_there(void)
{
    cp__fiber_leave(&here.fiber, &there.fiber, false);
    cp__context_switch(&here.context, &there.context);
    cp__fiber_arrive(&here.fiber, NULL);
}

static inline __attribute__((always_inline)) void go_back(void)
{
    cp__fiber_leave(&there.fiber, &here.fiber, false);
    cp__context_switch(&there.context, &here.context);
    cp__fiber_arrive(&there.fiber, &here.fiber);
}

static void start(void (*entry)(void *), void *arg)
{
    stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED);
    cp__fiber_init_thread(&here.fiber);
    cp__fiber_init(&there.fiber, stack, STACK_SIZE);
    cp__context_init(&there.context, stack, stack + STACK_SIZE, entry, arg);
}

static void stop(void)
{
    cp__fiber_fini(&there.fiber);
    munmap(stack, STACK_SIZE);
}

static bool is_on_stack(uintptr_t address)
{
    return address >= (uintptr_t)stack && address < (uintptr_t)stack + STACK_SIZE;
}

/* ---- Entry ----------------------------------------------------------------------------------- */

static int trace[8];
static unsigned traced;

static void entry_takes_turns(void *arg)
{
    char local __attribute__((aligned(16)));

    cp__fiber_arrive(&there.fiber, &here.fiber);
    CHECK(is_on_stack((uintptr_t)__builtin_frame_address(0)));
    CHECK_EQ((uintptr_t)__builtin_frame_address(0) % 16, 0);
    CHECK_EQ((uintptr_t)&local % 16, 0);
    CHECK(arg == trace);
    for (;;) {
        trace[traced++] = 2;
        go_back();
    }
}

CP_TEST(switches_take_turns)
{
    start(entry_takes_turns, trace);
    for (int i = 0; i < 4; i++) {
        trace[traced++] = 1;
        go_there();
        CHECK(!is_on_stack((uintptr_t)__builtin_frame_address(0)));
    }
    stop();
    CHECK_EQ(traced, 8);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(trace[i], 1 + i % 2);
}

/* ---- What a switch keeps --------------------------------------------------------------------- */

/* Fills the registers that a call preserves from in[], switches, and stores the registers to out[]. */
void switch_with_registers(struct cp__context *from, struct cp__context *to, const uint64_t *in,
                           uint64_t *out);
#if defined(__x86_64__)
#define KEPT 6 /* rbx, rbp, r12 to r15 */
__asm__(".text\n"
        ".type switch_with_registers, @function\n"
        "switch_with_registers:\n"
        "    pushq %rbx; pushq %rbp; pushq %r12; pushq %r13; pushq %r14; pushq %r15; pushq %rcx\n"
        "    movq (%rdx), %rbx; movq 8(%rdx), %rbp; movq 16(%rdx), %r12\n"
        "    movq 24(%rdx), %r13; movq 32(%rdx), %r14; movq 40(%rdx), %r15\n"
        "    callq cp__context_switch\n"
        "    popq %rcx\n"
        "    movq %rbx, (%rcx); movq %rbp, 8(%rcx); movq %r12, 16(%rcx)\n"
        "    movq %r13, 24(%rcx); movq %r14, 32(%rcx); movq %r15, 40(%rcx)\n"
        "    popq %r15; popq %r14; popq %r13; popq %r12; popq %rbp; popq %rbx\n"
        "    ret\n"
        ".size switch_with_registers, . - switch_with_registers\n");
#elif defined(__aarch64__)
#define KEPT 19 /* x19 to x29, d8 to d15 */
__asm__(
    ".text\n"
    ".type switch_with_registers, @function\n"
    "switch_with_registers:\n"
    "    hint #34\n"
    "    stp x29, x30, [sp, -176]!; str x3, [sp, 160]\n"
    "    stp x19, x20, [sp, 16]; stp x21, x22, [sp, 32]; stp x23, x24, [sp, 48]\n"
    "    stp x25, x26, [sp, 64]; stp x27, x28, [sp, 80]\n"
    "    stp d8, d9, [sp, 96]; stp d10, d11, [sp, 112]; stp d12, d13, [sp, 128]; stp d14, d15, [sp, 144]\n"
    "    ldp x19, x20, [x2]; ldp x21, x22, [x2, 16]; ldp x23, x24, [x2, 32]\n"
    "    ldp x25, x26, [x2, 48]; ldp x27, x28, [x2, 64]; ldr x29, [x2, 80]\n"
    "    ldp d8, d9, [x2, 88]; ldp d10, d11, [x2, 104]; ldp d12, d13, [x2, 120]; ldp d14, d15, [x2, 136]\n"
    "    bl cp__context_switch\n"
    "    ldr x3, [sp, 160]\n"
    "    stp x19, x20, [x3]; stp x21, x22, [x3, 16]; stp x23, x24, [x3, 32]\n"
    "    stp x25, x26, [x3, 48]; stp x27, x28, [x3, 64]; str x29, [x3, 80]\n"
    "    stp d8, d9, [x3, 88]; stp d10, d11, [x3, 104]; stp d12, d13, [x3, 120]; stp d14, d15, [x3, 136]\n"
    "    ldp x19, x20, [sp, 16]; ldp x21, x22, [sp, 32]; ldp x23, x24, [sp, 48]\n"
    "    ldp x25, x26, [sp, 64]; ldp x27, x28, [sp, 80]\n"
    "    ldp d8, d9, [sp, 96]; ldp d10, d11, [sp, 112]; ldp d12, d13, [sp, 128]; ldp d14, d15, [sp, 144]\n"
    "    ldp x29, x30, [sp], 176\n"
    "    ret\n"
    ".size switch_with_registers, . - switch_with_registers\n");
#endif

static void entry_changes_registers(void *arg)
{
    uint64_t in[KEPT], out[KEPT];

    (void)arg;
    for (unsigned i = 0; i < KEPT; i++)
        in[i] = 101 + i;
    cp__fiber_arrive(&there.fiber, &here.fiber);
    for (;;) {
        cp__fiber_leave(&there.fiber, &here.fiber, false);
        switch_with_registers(&there.context, &here.context, in, out);
        cp__fiber_arrive(&there.fiber, &here.fiber);
        CHECK(memcmp(in, out, sizeof in) == 0);
    }
}

CP_TEST(a_switch_keeps_the_registers)
{
    uint64_t in[KEPT], out[KEPT] = {0};

    for (unsigned i = 0; i < KEPT; i++)
        in[i] = 0x0101010101010101u * (i + 1);
    start(entry_changes_registers, NULL);
    for (int i = 0; i < 3; i++) {
        in[i]++;
        cp__fiber_leave(&here.fiber, &there.fiber, false);
        switch_with_registers(&here.context, &there.context, in, out);
        cp__fiber_arrive(&here.fiber, NULL);
        CHECK(memcmp(in, out, sizeof in) == 0);
    }
    stop();
}

#if defined(__x86_64__)
/* Returns MXCSR without its status flags, which no caller preserves, and above MXCSR the control word of the
 * x87. */
static uint64_t fp_modes(void)
{
    uint16_t x87;

    __asm__ volatile("fnstcw %0" : "=m"(x87));
    return (uint64_t)x87 << 32 | (__builtin_ia32_stmxcsr() & 0xffc0u);
}

static void set_fp_modes(uint64_t modes)
{
    uint16_t x87 = (uint16_t)(modes >> 32);

    __builtin_ia32_ldmxcsr((uint32_t)modes);
    __asm__ volatile("fldcw %0" : : "m"(x87));
}

#define FP_DEFAULT 0x037f00001f80
#define FP_DOWNWARD 0x027f00003f80     /* x87: doubles */
#define FP_FLUSH_UPWARD 0x007f0000df80 /* denormals are 0; x87: floats */
#elif defined(__aarch64__)
static uint64_t fp_modes(void)
{
    uint64_t modes;

    __asm__ volatile("mrs %0, fpcr" : "=r"(modes));
    return modes;
}

static void set_fp_modes(uint64_t modes)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(modes));
}

#define FP_DEFAULT 0
#define FP_DOWNWARD 0x800000
#define FP_FLUSH_UPWARD 0x1400000
#endif

static void entry_changes_fp_modes(void *arg)
{
    (void)arg;
    cp__fiber_arrive(&there.fiber, &here.fiber);
    CHECK_EQ(fp_modes(), FP_DOWNWARD); /* the modes of the thread that made the context */
    set_fp_modes(FP_FLUSH_UPWARD);
    for (;;) {
        go_back();
        CHECK_EQ(fp_modes(), FP_FLUSH_UPWARD);
    }
}

CP_TEST(a_switch_keeps_the_floating_point_modes)
{
    set_fp_modes(FP_DOWNWARD);
    start(entry_changes_fp_modes, NULL);
    set_fp_modes(FP_DEFAULT);
    for (int i = 0; i < 3; i++) {
        go_there();
        CHECK_EQ(fp_modes(), FP_DEFAULT);
    }
    stop();
}

/* ---- Unwinding ------------------------------------------------------------------------------- */

#define MAX_FRAMES 64

struct stack_trace {
    char names[MAX_FRAMES][48];
    unsigned depth;
    int end; /* the result of the last unw_step(); 0 is a clean end */
};

static void walk(struct stack_trace *t, unw_cursor_t *cursor)
{
    unw_word_t offset;

    t->depth = 0;
    do {
        if (unw_get_proc_name(cursor, t->names[t->depth], sizeof t->names[0], &offset) < 0)
            strcpy(t->names[t->depth], "?");
        t->end = unw_step(cursor);
    } while (++t->depth < MAX_FRAMES && t->end > 0);
}

static int find_frame(const struct stack_trace *t, const char *name)
{
    for (unsigned i = 0; i < t->depth; i++) {
        if (strcmp(t->names[i], name) == 0)
            return (int)i;
    }
    return -1;
}

static void print_trace(const struct stack_trace *t)
{
    for (unsigned i = 0; i < t->depth; i++)
        printf("  #%u %s\n", i, t->names[i]);
    printf("  end: %d\n", t->end);
}

static struct stack_trace from_g;

static __attribute__((noinline)) void trace_here(void)
{
    unw_context_t context;
    unw_cursor_t cursor;

    unw_getcontext(&context);
    unw_init_local(&cursor, &context);
    walk(&from_g, &cursor);
}

static __attribute__((noinline)) void middle_of_g(int depth)
{
    if (depth > 0)
        middle_of_g(depth - 1);
    else
        trace_here();
    __asm__ volatile("");
}

static void bottom_of_g(void *arg)
{
    cp_yield(); /* the stack is walked after a switch away and back */
    middle_of_g(*(int *)arg);
    __asm__ volatile("");
}

/* Checks both that the names are right and that no frame follows. */
CP_TEST(libunwind_ends_at_a_gs_entry)
{
    int depth = 5, bottom;

    CHECK_EQ(cp_sched_run(NULL, bottom_of_g, &depth, NULL), 0);
    print_trace(&from_g);
    CHECK_STR(from_g.names[0], "trace_here");
    for (int i = 1; i <= depth + 1; i++)
        CHECK_STR(from_g.names[i], "middle_of_g");
    bottom = find_frame(&from_g, "bottom_of_g");
    CHECK_EQ(bottom, depth + 2);
    CHECK_STR(from_g.names[bottom + 1], "cp__task_entry");
    CHECK_EQ(from_g.end, 0);
    CHECK_STR(from_g.names[bottom + 2], OUTERMOST);
    CHECK_EQ(from_g.depth, bottom + 3);
}

static __attribute__((noinline)) void suspend_in_a_chain(int depth)
{
    if (depth > 0)
        suspend_in_a_chain(depth - 1);
    else
        go_back();
    __asm__ volatile("");
}

static void entry_suspends_in_a_chain(void *arg)
{
    cp__fiber_arrive(&there.fiber, &here.fiber);
    suspend_in_a_chain(*(int *)arg);
    for (;;)
        go_back();
}

/* Parked stacks are unwound from the registers that a context tells. */
CP_TEST(a_suspended_context_can_be_walked)
{
    int depth = 3;
    struct cp__registers regs;
    uintptr_t fp;
    unsigned frames = 0;

    start(entry_suspends_in_a_chain, &depth);
    regs = cp__context_registers(&there.context);
    CHECK(is_on_stack(regs.sp) || regs.sp == (uintptr_t)stack + STACK_SIZE);
    CHECK_EQ(regs.fp, 0); /* the context has not begun, so nothing can be walked */
    go_there();
    regs = cp__context_registers(&there.context);
    CHECK(is_on_stack(regs.sp));
    for (fp = regs.fp; fp != 0 && frames < MAX_FRAMES; fp = *(uintptr_t *)fp, frames++) {
        CHECK(is_on_stack(fp) && fp >= regs.sp);
        regs.sp = fp;
    }
    CHECK(fp == 0);
    /* A chain of depth + 1 frames, the entry, and the frames that the architecture's own functions add. */
    CHECKF(frames >= (unsigned)depth + 2 && frames <= (unsigned)depth + 3, "%u frames", frames);
    stop();
}

/* pc is a return address. */
static void check_name_at(uintptr_t pc, const char *name)
{
    char found[48] = "?";
    unw_context_t context;
    unw_cursor_t cursor;
    unw_word_t offset;
    int result;

    unw_getcontext(&context);
    unw_init_local(&cursor, &context);
    unw_set_reg(&cursor, UNW_REG_IP, pc);
    result = unw_get_proc_name(&cursor, found, sizeof found, &offset);
    CHECKF(result == 0 && strcmp(found, name) == 0, "libunwind says %s and %s for %s", unw_strerror(result),
           found, name);
}

CP_TEST(a_suspended_context_names_who_suspended_it)
{
    int depth = 3;
    uintptr_t fp, outermost = 0;

    start(entry_suspends_in_a_chain, &depth);
    check_name_at(cp__context_registers(&there.context).pc, OUTERMOST);
    go_there();
    check_name_at(cp__context_registers(&there.context).pc, "suspend_in_a_chain");
    for (fp = cp__context_registers(&there.context).fp; fp != 0; fp = *(uintptr_t *)fp) {
        uintptr_t pc = ((uintptr_t *)fp)[1];

        outermost = pc != 0 ? pc : outermost;
    }
    check_name_at(outermost, OUTERMOST);
    stop();
}

#ifdef CP__CONTEXT_IS_ASSEMBLY
/* ---- At every instruction of a switch -------------------------------------------------------- */

#define MAX_STEPS 200

/* One instruction inside the switch, as the SIGTRAP handler saw it. */
struct step {
    struct stack_trace walked;
    uintptr_t sp;
    uintptr_t fp;
    uintptr_t frames[CP_MAX_FRAMES]; /* found by the profiler's unwinder */
    unsigned depth;
};

static struct step *steps;
static unsigned step_count;
static struct cp__unwind_cache cache;
static bool is_inside;

/* pc is in the assembly of the switch or of the entry. */
static bool is_in_switch(uintptr_t pc)
{
    return pc >= (uintptr_t)cp__context_switch && pc < (uintptr_t)cp__context_entry + 16;
}

static void note_step(void *ucontext, const struct cp__registers *regs)
{
    struct cp__stack bounds = {.lo = (uintptr_t)stack, .hi = (uintptr_t)stack + STACK_SIZE};
    struct step *step = &steps[step_count];
    unw_cursor_t cursor;
    unsigned flags;

    if (step_count + 1 == MAX_STEPS)
        return;
    step_count++;
    step->sp = regs->sp;
    step->fp = regs->fp;
    unw_init_local2(&cursor, ucontext, UNW_INIT_SIGNAL_FRAME);
    walk(&step->walked, &cursor);
    if (!is_on_stack(regs->sp))
        /* large enough for the caller's frame */
        bounds = (struct cp__stack){.lo = regs->sp, .hi = regs->sp + 4096};
    step->depth = cp__unwind_from_handler(regs, &bounds, &cache, step->frames, CP_MAX_FRAMES, &flags, NULL);
}

static void on_trap(int signo, siginfo_t *info, void *ucontext)
{
    struct cp__registers regs = cp__registers_from_handler(ucontext);
    bool was_inside = is_inside;

    (void)signo;
    (void)info;
    if (!step_arrive(ucontext))
        return;
    is_inside = is_in_switch(regs.pc);
    if (is_inside)
        note_step(ucontext, &regs);
    if (was_inside && !is_inside) /* the thread has just left the switch */
        step_off(ucontext);
    else
        step_on(ucontext);
}

static __attribute__((noinline)) void switch_there_stepping(void)
{
    step_from_here();
    cp__context_switch(&here.context, &there.context);
    __asm__ volatile("");
}

static __attribute__((noinline)) void switch_back_stepping(void)
{
    step_from_here();
    cp__context_switch(&there.context, &here.context);
    __asm__ volatile("");
}

static void entry_steps_back(void *arg)
{
    (void)arg;
    for (;;)
        switch_back_stepping();
}

static void catch_traps(void)
{
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    stack_t alternate = {.ss_size = 1 << 20, .ss_sp = malloc(1 << 20)};

    CHECK(alternate.ss_sp != NULL);
    CHECK_EQ(sigaltstack(&alternate, NULL), 0);
    CHECK_EQ(sigaction(SIGTRAP, &action, NULL), 0);
    step_prepare();
    steps = calloc(MAX_STEPS, sizeof *steps);
    CHECK(steps != NULL);
}

/* A step's chain is that of the function that called the switch on the current stack, and ends where the
 * stack ends. */
static void check_step(const struct step *step, unsigned *leaf_only)
{
    const struct stack_trace *t = &step->walked;
    const char *caller = is_on_stack(step->sp) ? "switch_back_stepping" : "switch_there_stepping";

    print_trace(t);
    CHECK_EQ(t->end, 0);
    if (strcmp(t->names[0], "cp__context_entry") == 0) {
        CHECK_EQ(t->depth, 1);
        return;
    }
    CHECK_STR(t->names[0], "cp__context_switch");
    /* otherwise this is a context's first switch, to its entry */
    if (strcmp(t->names[1], "cp__context_entry") != 0) {
        CHECK_STR(t->names[1], caller);
        CHECK_EQ(find_frame(t, is_on_stack(step->sp) ? "entry_steps_back" : "Test_every_step_unwinds"), 2);
    }
    if (is_on_stack(step->sp))
        CHECK_STR(t->names[t->depth - 1], "cp__context_entry");
    if (step->depth == 1)
        ++*leaf_only;
    else
        check_name_at(step->frames[1], t->names[1]);
}

CP_TEST(every_step_unwinds)
{
    unsigned leaf_only = 0, fp_elsewhere = 0;

    if (TEST_ASAN || TEST_TSAN)
        SKIP("a sanitizer's own code would be stepped through");
    catch_traps();
    start(entry_steps_back, NULL);
#ifdef __x86_64__
    /* The outermost frame's return address would be here if the frame had one. */
    *(uintptr_t *)(stack + STACK_SIZE - 16) = (uintptr_t)check_name_at;
#endif
    for (int i = 0; i < 2; i++)
        switch_there_stepping();
    CHECKF(step_count > 80, "%u steps", step_count);
    for (unsigned i = 0; i < step_count; i++) {
        printf("step %u, sp %s\n", i, is_on_stack(steps[i].sp) ? "there" : "here");
        check_step(&steps[i], &leaf_only);
        fp_elsewhere += steps[i].fp != 0 && is_on_stack(steps[i].fp) != is_on_stack(steps[i].sp);
    }
    /* Between the change of the stack pointer and the change of the frame pointer: once in each of four
     * switches. */
    CHECKF(fp_elsewhere <= 4, "%u steps where the frame pointer was on another stack", fp_elsewhere);
    CHECKF(leaf_only <= 4, "%u steps where the profiler found no caller", leaf_only);
    stop();
}
#endif
