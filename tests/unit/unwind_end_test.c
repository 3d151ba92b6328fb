/* The outer end of call chains on threads, in main() and on Gs, compared with libunwind's chains. */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/prepare.h"
#include "runtime/unwind/step.h"
#include "sched.h"
#include "tests/support/chains.h"
#include "tests/support/step.h"

/* ---- The outer end --------------------------------------------------------------------------- */

static struct chain interrupted; /* by this library */
static struct chain interrupted_reference;
static struct cp__stack looked_at;

static void on_interrupt(int signal, siginfo_t *info, void *ucontext)
{
    (void)signal;
    (void)info;
    find_ours(ucontext, &looked_at, &interrupted);
    find_reference(ucontext, &interrupted_reference);
}

/* Fills interrupted with the call chain at a signal in the calling function. */
static inline __attribute__((always_inline)) void interrupt(struct cp__stack stack)
{
    looked_at = stack;
#ifdef __x86_64__
    __asm__ volatile("int3" ::: "memory");
#else
    raise(SIGTRAP);
#endif
}

static struct cp__stack whole_stack(void)
{
    pthread_attr_t attributes;
    void *lo;
    size_t size;

    CHECK_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
    CHECK_EQ(pthread_attr_getstack(&attributes, &lo, &size), 0);
    pthread_attr_destroy(&attributes);
    return (struct cp__stack){.lo = (uintptr_t)lo, .hi = (uintptr_t)lo + size};
}

static bool has_frame(uintptr_t pc)
{
    for (unsigned i = 0; i < interrupted.n; i++)
        if (interrupted.frames[i] == pc)
            return true;
    return false;
}

/* Checks that the last chain has all frames of the program and one more, that of the C library's function
 * which called the outermost one. */
static void check_end(void)
{
    unsigned needed = needed_depth(&interrupted_reference);

    print_chain("ours", &interrupted);
    print_chain("libunwind's", &interrupted_reference);
    CHECK_EQ(compare(&interrupted, &interrupted_reference), EXACT);
    if (!TEST_ASAN) /* AddressSanitizer adds frames of its own */
        CHECK_EQ(interrupted.n, needed);
}

static void end_of_thread(void)
{
    interrupt(cp__thread_stack());
    check_end();
}

static int from_callback(const void *a, const void *b)
{
    (void)a;
    (void)b;
    looked_at = cp__thread_stack();
    return 0;
}

/* cp__thread_stack() finds the same stack deep in a callback of the C library. */
static void end_from_callback(void)
{
    struct cp__stack stack = cp__thread_stack();
    int numbers[2] = {2, 1};

    looked_at = (struct cp__stack){.lo = 0, .hi = 0};
    qsort(numbers, 2, sizeof numbers[0], from_callback);
    CHECK_EQ(looked_at.lo, stack.lo);
    CHECK_EQ(looked_at.hi, stack.hi);
    CHECK(looked_at.hi < whole_stack().hi);
    CHECK(looked_at.ends_there);
}

CP_TEST(chains_end_on_threads)
{
    skip_under_tsan();
    dl_iterate_phdr(note_object, NULL);
    handle(SIGTRAP, on_interrupt);
    on_thread(end_of_thread);
    on_thread(end_from_callback);
    end_of_thread(); /* on the main thread */
    end_from_callback();
}

/* The thread's first function has variables above the address in its frame pointer. */
static void *start_with_large_frame(void *arg)
{
    volatile char large[2000];

    for (size_t i = 0; i < sizeof large; i++)
        large[i] = 1;
    interrupt(cp__thread_stack());
    return large[5] == 0 ? arg : NULL;
}

CP_TEST(a_chain_that_ends_in_a_large_frame_is_whole)
{
    pthread_t thread;

    skip_under_tsan();
    dl_iterate_phdr(note_object, NULL);
    cp__code_update();
    handle(SIGTRAP, on_interrupt);
    CHECK_EQ(pthread_create(&thread, NULL, start_with_large_frame, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    check_end();
    CHECK_EQ(interrupted.flags, 0);
}

/* A function without call-frame information, as in a C library that has none, calls the first one. Nothing
 * tells its caller, whose address lies beyond the end of the stack. */
extern uintptr_t end_of_first;
uintptr_t end_of_first;
void call_first(void);
void first_function(void);

#if defined(__x86_64__)
__asm__(".text\n.type call_first,@function\n"
        "call_first: sub $8,%rsp\n\tmov %rsp,end_of_first(%rip)\n\tcall first_function\n"
        "add $8,%rsp\n\tret\n.size call_first,.-call_first\n");
#elif defined(__aarch64__)
__asm__(".text\n.type call_first,@function\n"
        "call_first: stp x29,x30,[sp,-16]!\n\tmov x1,sp\n\tadrp x0,end_of_first\n"
        "str x1,[x0,:lo12:end_of_first]\n\tbl first_function\n"
        "ldp x29,x30,[sp],16\n\tret\n.size call_first,.-call_first\n");
#else
void call_first(void)
{
    SKIP("call_first() is not written for this processor");
}
#endif

static bool the_stack_ends_there;

__attribute__((noinline)) void first_function(void)
{
    struct cp__stack stack = whole_stack();

    stack.hi = end_of_first;
    stack.ends_there = the_stack_ends_there;
    interrupt(stack);
    print_chain("ours", &interrupted);
}

CP_TEST(a_chain_ends_where_the_first_function_ends)
{
    skip_under_tsan();
    dl_iterate_phdr(note_object, NULL);
    cp__code_update();
    handle(SIGTRAP, on_interrupt);
    the_stack_ends_there = true;
    call_first();
    CHECK_EQ(interrupted.flags, 0);
    the_stack_ends_there = false;
    call_first();
    CHECK_EQ(interrupted.flags, CP__CHAIN_INCOMPLETE);
}

/* ---- The outer end, with garbage in the frame pointer ---------------------------------------- */

/* Checks what happens if a chain of frame pointers leads to a word in the outer part of the stack, which
 * belongs to the C library: with the whole stack as bounds the unwinder takes that word for a return address,
 * with the bounds that cp__thread_stack() finds it does not. */
static void check_garbage(uintptr_t garbage)
{
    struct cp__stack found = cp__thread_stack();

    interrupt(whole_stack());
    print_chain("unbounded", &interrupted);
    CHECK(has_frame(garbage));
    interrupt(found);
    print_chain("bounded", &interrupted);
    CHECK(!has_frame(garbage));
    CHECK_EQ(compare(&interrupted, &interrupted_reference), EXACT);
}

#ifdef __x86_64__
/* The thread's control block, which lies on the thread's stack, begins with its own address and the address
 * of a table. To the unwinder, the two words look like a frame. */
__attribute__((noinline, used)) static void thread_with_garbage(void)
{
    uintptr_t garbage;

    __asm__("movq %%fs:8, %0" : "=r"(garbage));
    check_garbage(garbage);
    pthread_exit(NULL); /* does not return, because the C library's frame pointer is lost */
}

__attribute__((naked)) static void *start_with_garbage(void *arg __attribute__((unused)))
{
    __asm__("movq %fs:0, %rbp\n\tjmp thread_with_garbage");
}

CP_TEST(garbage_at_the_start_of_a_thread_ends_no_walk_badly)
{
    pthread_t thread;

    skip_under_tsan();
    dl_iterate_phdr(note_object, NULL);
    handle(SIGTRAP, on_interrupt);
    CHECK_EQ(pthread_create(&thread, NULL, start_with_garbage, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}
#endif

/* Above main's frame lies the frame of the function of the C library that called main. The test's child does
 * not return to that function. */
CP_TEST(garbage_at_the_start_of_the_program_ends_no_walk_badly)
{
    static const uintptr_t planted[2] = {0, 0x123456789abc};
    struct cp__stack found = cp__thread_stack();
    uintptr_t hi = found.hi;
    uintptr_t place = hi + 32;
    uintptr_t *frame = __builtin_frame_address(0);

    skip_under_tsan();
    dl_iterate_phdr(note_object, NULL);
    handle(SIGTRAP, on_interrupt);
    while (frame[0] > (uintptr_t)frame && frame[0] < hi)
        frame = (uintptr_t *)frame[0];
    CHECK(hi - (uintptr_t)(frame + 2) <= found.slack); /* main's frame */
    CHECK(place + sizeof planted <= whole_stack().hi);
    memcpy((void *)place, planted, sizeof planted);
    frame[0] = place;
    check_garbage(planted[1]);
}

/* ---- Gs -------------------------------------------------------------------------------------- */

static int checked;

static void deep(int depth)
{
    struct cp_g *g = cp_g_self();

    if (depth > 0) {
        deep(depth - 1);
        __asm__ volatile("");
        return;
    }
    interrupt((struct cp__stack){.lo = g->stack_lo, .hi = g->stack_hi});
    CHECK_EQ(compare(&interrupted, &interrupted_reference), EXACT);
    CHECK_EQ(interrupted.n, interrupted_reference.n);
    checked++;
}

static void run_g(void *depth)
{
    for (int i = 0; i < 10; i++) {
        deep((int)(uintptr_t)depth);
        cp_yield();
    }
}

static void run_gs(void *arg)
{
    for (uintptr_t i = 0; i < 20; i++)
        CHECK_EQ(cp_go(run_g, (void *)i), 0);
    run_g(arg);
}

/* The chains of Gs, and of the M that runs them, are libunwind's up to the last frame. */
CP_TEST(chains_end_on_gs)
{
    struct cp_sched_options options = {.size = sizeof options, .threads = 1};
    struct cp_error err = {0};

    skip_under_tsan();
    dl_iterate_phdr(note_object, NULL);
    handle(SIGTRAP, on_interrupt);
    CHECKF(cp_sched_run(&options, run_gs, NULL, &err) == 0, "%s", err.message);
    CHECK_EQ(checked, 210);
}

/* ---- The bounds ------------------------------------------------------------------------------ */

/* The C library counts as stack what lies between the limit and the next mapping. */
CP_TEST(a_raised_limit_is_not_taken_for_stack)
{
    struct rlimit limit;
    struct cp__stack stack;

    if (syscall(SYS_gettid) != getpid())
        SKIP("The test does not run on the program's first thread.");
    CHECK_EQ(getrlimit(RLIMIT_STACK, &limit), 0);
    limit.rlim_cur = limit.rlim_max < (rlim_t)1 << 30 ? limit.rlim_max : (rlim_t)1 << 30;
    CHECK_EQ(setrlimit(RLIMIT_STACK, &limit), 0);
    stack = cp__thread_stack();
    CHECK(stack.may_grow && stack.hi - stack.lo <= (size_t)128 << 20);
}

/* A frame pointer that leads into memory of others, on a stack that nobody told of. */
CP_TEST(a_record_that_has_vanished_leads_nowhere)
{
    const size_t size = 65536; /* at least a page */
    char *memory = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const struct cp__stack stack = {
        .lo = (uintptr_t)memory, .hi = (uintptr_t)memory + 2 * size, .is_open = true};
    struct cp__walk_place place = {.regs = {.sp = (uintptr_t)memory, .fp = (uintptr_t)memory + size}};

    CHECK(memory != MAP_FAILED);
    CHECK_EQ(cp__step_by_frame_from_handler(&place, &stack), CP__STEP_TAKEN);
    place.regs = (struct cp__registers){.sp = (uintptr_t)memory, .fp = (uintptr_t)memory + size};
    munmap(memory + size, size);
    CHECK_EQ(cp__step_by_frame_from_handler(&place, &stack), CP__STEP_LOST);
    munmap(memory, size);
}

/* ---- Switches -------------------------------------------------------------------------------- */

#if defined(__x86_64__) && defined(__GLIBC__) && defined(CP__READS_CODE)
static struct {
    uintptr_t words[8192]; /* the other stack */
    struct cp__stack stack;
    ucontext_t back, from, to;
    int looked_at, unmarked;
} other;

void go_back(void);
void go_back(void)
{
    setcontext(&other.back);
}

/* The function before ends in a call that never returns, and has no caller. */
void land(void);
__asm__(".text\n.type before_land,@function\n"
        "before_land: .cfi_startproc\n\t.cfi_undefined rip\n\tcall abort\n\t.cfi_endproc\n"
        ".size before_land,.-before_land\n.type land,@function\n"
        "land: .cfi_startproc\n\tjmp go_back\n\t.cfi_endproc\n.size land,.-land\n");

/* Looks at the chains on the other stack, up to the first instruction of land(). */
static void on_switch(int signal, siginfo_t *info, void *ucontext)
{
    const struct cp__registers regs = cp__registers_from_handler(ucontext);
    struct chain chain;

    (void)signal;
    (void)info;
    if (regs.pc == (uintptr_t)land)
        step_off(ucontext);
    if (regs.pc == (uintptr_t)land || !cp__stack_holds(&other.stack, regs.sp))
        return;
    find_ours(ucontext, &other.stack, &chain);
    other.looked_at++;
    other.unmarked += chain.flags == 0;
}

/* A switch loads the stack pointer first, and then pushes the address to go on at, the first one of a
 * function. Whatever the stack holds meanwhile has not called the switch, and land() has not either. */
static void check_switch(bool is_swap, uintptr_t word)
{
    const uintptr_t *top = &other.words[8192 - 9];
    volatile bool is_back = false;

    for (size_t i = 0; i < 8192; i++)
        other.words[i] = word;
    other.looked_at = other.unmarked = 0;
    getcontext(&other.to);
    other.to.uc_mcontext.gregs[REG_RSP] = (greg_t)(uintptr_t)top;
    other.to.uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)land;
    getcontext(&other.back);
    if (!is_back) {
        is_back = true;
        step_from_here();
        if (is_swap)
            swapcontext(&other.from, &other.to);
        else
            setcontext(&other.to);
    }
    printf("%d instructions, %d unmarked\n", other.looked_at, other.unmarked);
    CHECK(other.looked_at > 10);
    CHECK_EQ(other.unmarked, 0);
}

CP_TEST(what_a_switch_has_not_stored_is_no_caller)
{
    skip_under_tsan();
    if (TEST_ASAN)
        SKIP("AddressSanitizer has functions of its own under these names.");
    other.stack =
        (struct cp__stack){.lo = (uintptr_t)other.words, .hi = (uintptr_t)(other.words + 8192), .slack = 512};
    cp__prepare();
    cp__code_update();
    step_prepare();
    handle(SIGTRAP, on_switch);
    for (int is_swap = 0; is_swap < 2; is_swap++) {
        check_switch(is_swap, 0);
        check_switch(is_swap, (uintptr_t)__builtin_return_address(0)); /* a call stands before it */
    }
}
#endif
