/*
 * Call chains against libunwind's: at every instruction, of code with frame pointers and without, and of
 * libraries, and at random moments.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/chains.h"
#include "tests/support/step.h"

/* Whether the library reads this processor's code to find a function's caller: see arch/arch.h. */
#ifdef CP__READS_CODE
#define KNOWS_CODE 1
#else
#define KNOWS_CODE 0
#endif

/* The compilers for this processor, on any machine. */
#ifdef __aarch64__
#define GCC "aarch64-linux-gnu-gcc"
#define CLANG_TARGET " --target=aarch64-linux-gnu"
#else
#define GCC "gcc"
#define CLANG_TARGET ""
#endif
#define CLANG "clang-14"

/* ---- Comparisons ----------------------------------------------------------------------------- */

/*
 * The second reference, for code that runs one instruction at a time: the calls that have not returned yet.
 * It needs no call-frame information, which clang 14 writes for arm64 so that it is right at calls only.
 * libunwind 1.6 does not know signed return addresses.
 */
static struct {
    bool is_reference;
    uintptr_t last; /* the last instruction that ran */
    unsigned n;
    uintptr_t return_to[MAX_DEPTH];
    struct chain outside; /* the chain where stepping began */
} calls;

static void count_calls(void *ucontext)
{
    uintptr_t pc = cp__registers_from_handler(ucontext).pc;

    if (!calls.is_reference)
        return;
    if (calls.last == 0)
        find_reference(ucontext, &calls.outside);
    else if (step_is_call(calls.last) && pc != calls.last + 4)
        calls.return_to[calls.n++] = calls.last + 4;
    else if (calls.n > 0 && pc == calls.return_to[calls.n - 1])
        calls.n--;
    calls.last = pc;
}

static void find_calls(const void *ucontext, struct chain *chain)
{
    chain->n = 0;
    chain->frames[chain->n++] = cp__registers_from_handler(ucontext).pc;
    for (unsigned i = calls.n; i > 0; i--)
        chain->frames[chain->n++] = calls.return_to[i - 1];
    for (unsigned i = 1; i < calls.outside.n; i++)
        chain->frames[chain->n++] = calls.outside.frames[i];
}

/* The results of comparisons on one thread. */
struct run {
    struct cp__stack stack;
    struct cp__stack maps[64]; /* the executable memory */
    unsigned map_count;
    long in_own[VERDICTS];    /* chains in which all frames of the program are own code */
    long in_others[VERDICTS]; /* all other chains */
    long called_right;        /* of in_others: the interrupted function's caller is right */
    long mismarked;     /* of all that are not wrong: cut short and not marked so, or marked and whole */
    long wrong_in_code; /* of the wrong ones: all frames lie in executable memory */
    struct chain bad; /* the first chain in own code that is not exact, or the first one that is mismarked */
    struct chain bad_reference;
};
static struct run run;

static bool is_in_code(const struct chain *chain)
{
    for (unsigned i = 0; i < chain->n; i++) {
        unsigned map = 0;

        while (map < run.map_count && !cp__stack_holds(&run.maps[map], chain->frames[i]))
            map++;
        if (map == run.map_count)
            return false;
    }
    return true;
}

static bool is_all_own(const struct chain *reference)
{
    for (unsigned i = 0; i + 1 < needed_depth(reference); i++)
        if (!is_own(reference->frames[i]))
            return false;
    return true;
}

/* Whether a chain that was cut short is marked so, and no other chain is. A chain was cut short if its last
 * frame is none of the outermost frames. */
static bool is_marked_right(const struct chain *ours, const struct chain *reference)
{
    unsigned at = reference->n - 1;

    while (at > 0 && reference->frames[at] != ours->frames[ours->n - 1])
        at--;
    return ours->flags == (at + 1 >= needed_depth(reference) ? 0 : CP_SAMPLE_INCOMPLETE);
}

/* Compares the two chains in a signal handler. */
static void look(void *ucontext)
{
    struct chain ours, reference;
    enum verdict verdict;

    find_ours(ucontext, &run.stack, &ours);
    if (calls.is_reference)
        find_calls(ucontext, &reference);
    else
        find_reference(ucontext, &reference);
    verdict = compare(&ours, &reference);
    if (verdict != WRONG && !is_marked_right(&ours, &reference) && run.mismarked++ == 0) {
        run.bad = ours;
        run.bad_reference = reference;
    }
    if (!is_all_own(&reference)) {
        run.in_others[verdict]++;
        run.called_right += ours.n > 1 && ours.frames[1] == reference.frames[1];
        run.wrong_in_code += verdict == WRONG && is_in_code(&ours);
        return;
    }
    run.in_own[verdict]++;
    if (verdict != EXACT && run.bad.n == 0) {
        run.bad = ours;
        run.bad_reference = reference;
    }
}

static long sum(const long *counts)
{
    return counts[EXACT] + counts[SHORT] + counts[WRONG];
}

static void print_run(void)
{
    printf("own code %ld: %ld exact, %ld short, %ld wrong; ", sum(run.in_own), run.in_own[EXACT],
           run.in_own[SHORT], run.in_own[WRONG]);
    printf("others %ld: %ld exact, %ld short (caller right in %ld of all), %ld wrong (all in code in %ld)"
           "; mismarked %ld\n",
           sum(run.in_others), run.in_others[EXACT], run.in_others[SHORT], run.called_right,
           run.in_others[WRONG], run.wrong_in_code, run.mismarked);
    if (run.bad.n != 0) {
        print_chain("ours", &run.bad);
        print_chain("libunwind's", &run.bad_reference);
    }
}

/* ---- Targets --------------------------------------------------------------------------------- */

static long (*target)(int);
static int rounds;

static void note_maps(void)
{
    FILE *file = fopen("/proc/self/maps", "re");
    char line[512];

    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned long lo, hi;
        char mode[5];

        if (sscanf(line, "%lx-%lx %4s", &lo, &hi, mode) == 3 && mode[2] == 'x' && run.map_count < 64)
            run.maps[run.map_count++] = (struct cp__stack){.lo = lo, .hi = hi};
    }
    fclose(file);
}

static bool is_there(const char *compiler)
{
    int status;

    free(test_command(&status, "command -v %s", compiler));
    return status == 0;
}

/* Builds the target, without this program's code, with a compiler and its options, beside this program. If
 * there is no compiler, as in a machine that has been booted just for tests, a target that was built before
 * is used. */
static void build_target(const char *compiler, const char *options, char path[500])
{
    char name[100];

    snprintf(name, sizeof name, "%s%s", compiler, options);
    for (char *c = name; *c != '\0'; c++)
        *c = strchr(" =", *c) != NULL ? '_' : *c;
    snprintf(path, 500, "%s/tests/targets/%s.so", test_build_dir(), name);
    if (is_there(compiler))
        free(test_command(
            NULL,
            "mkdir -p %s/tests/targets && %s%s -g -D_GNU_SOURCE -fPIC -shared -fno-builtin"
            " -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer %s -o %s tests/support/unwind_target.c"
            " -lm",
            test_build_dir(), compiler, strncmp(compiler, "clang", 5) == 0 ? CLANG_TARGET : "", options,
            path));
    else if (access(path, R_OK) != 0)
        SKIP("There is no %s here.", compiler);
}

/* Loads the target and finds the function to call, which is named symbol. */
static void load_target(const char *compiler, const char *options, const char *symbol)
{
    char path[500];
    void *object;

    build_target(compiler, options, path);
    object = dlopen(path, RTLD_NOW);
    CHECKF(object != NULL, "%s", dlerror());
    memset(&run, 0, sizeof run);
    memset(own, 0, sizeof own);
    dl_iterate_phdr(note_object, path);
    CHECK(own[1].hi != 0);
    note_maps();
    cp__code_update();
    *(void **)&target = dlsym(object, symbol);
    CHECK(target != NULL);
}

/* AddressSanitizer's functions may be part of the program, and these keep no frame pointers. */
static void check_own_code(void)
{
    CHECK_EQ(run.in_own[WRONG], 0);
    if (TEST_ASAN)
        return;
    CHECK_EQ(run.mismarked, 0);
    if (KNOWS_CODE)
        CHECK_EQ(run.in_own[SHORT], 0);
}

/* ---- Every instruction ----------------------------------------------------------------------- */

static void on_trap(int signal, siginfo_t *info, void *ucontext)
{
    (void)signal;
    (void)info;
    if (!step_arrive(ucontext))
        return;
    count_calls(ucontext);
    look(ucontext);
    step_on(ucontext);
}

static void step_through(void)
{
    run.stack = cp__thread_stack();
    step_from_here();
    target(rounds);
    step_to_here();
}

static void step_target(const char *compiler, const char *options, const char *symbol, int n)
{
    if (!STEP_IS_KNOWN)
        SKIP("How this processor is made to run one instruction at a time, this test does not know.");
    load_target(compiler, options, symbol);
    step_prepare();
    handle(SIGTRAP, on_trap);
    rounds = n;
    memset(&calls, 0, sizeof calls);
    calls.is_reference =
        STEP_KNOWS_CALLS && (strcmp(compiler, CLANG) == 0 || strstr(options, "standard") != NULL);
    on_thread(step_through);
    printf("%s %s: ", compiler, options);
    print_run();
}

static void check_every_instruction(const char *compiler, const char *options)
{
    step_target(compiler, options, "unwind_target", 8);
    CHECK(sum(run.in_own) > 3000);
    CHECK_EQ(run.in_others[WRONG], 0);
    check_own_code();
}

static const char *const any_options[] = {"-O0", "-O1", "-O2", "-O3", "-Os", "-O2 -fno-plt", NULL};
static const char *const gcc_options[] = {"-Og",
                                          "-O2 -fstack-protector-all",
                                          "-O2 -fno-shrink-wrap -fno-schedule-insns2",
#if defined(__x86_64__)
                                          "-O2 -fno-optimize-sibling-calls -mno-red-zone",
                                          "-O2 -fcf-protection=full",
#elif defined(__aarch64__)
                                          "-O1 -momit-leaf-frame-pointer",
                                          "-O2 -momit-leaf-frame-pointer",
                                          "-O2 -fstack-clash-protection",
                                          "-O2 -mbranch-protection=bti",
                                          "-O2 -mbranch-protection=standard",
#endif
                                          NULL};
static const char *const clang_options[] = {
#if defined(__x86_64__)
    "-O2 -fcf-protection=full",
#elif defined(__aarch64__)
    "-O2 -momit-leaf-frame-pointer", "-O2 -mbranch-protection=standard",
#endif
    NULL};

static void check_options(const char *compiler, const char *const *options)
{
    for (; *options != NULL; options++)
        check_every_instruction(compiler, *options);
}

CP_TEST(chains_are_right_at_every_instruction_of_gcc)
{
    skip_under_tsan();
    check_options(GCC, any_options);
    check_options(GCC, gcc_options);
}

CP_TEST(chains_are_right_at_every_instruction_of_clang)
{
    skip_under_tsan();
    check_options(CLANG, any_options);
    check_options(CLANG, clang_options);
}

/* Libraries have rows, so that all chains are exact, whatever the code does with the frame pointer. On arm64,
 * the reference itself is at a loss in a few instructions. */
static void check_others(void)
{
    check_own_code();
    if (!KNOWS_CODE) /* nor all registers, which the linker's stubs need */
        return;
    CHECK_EQ(run.in_others[WRONG], 0);
    CHECKF(run.in_others[SHORT] * 1000 <= sum(run.in_others), "%ld of %ld chains are short",
           run.in_others[SHORT], sum(run.in_others));
}

CP_TEST(chains_in_libraries_are_exact)
{
    skip_under_tsan();
    step_target(GCC, "-O2", "unwind_target_libraries", 1);
    CHECK(sum(run.in_others) > 10000);
    check_others();
}

/* The same code without frame pointers, in which only rows tell callers. */
CP_TEST(chains_through_code_without_frame_pointers_are_exact)
{
    skip_under_tsan();
    if (!CP__RECORD_ENDS_FRAME)
        SKIP("The linker's stubs have no rows here, and the code ahead does not tell the stack pointer.");
    step_target(GCC, "-O2 -fomit-frame-pointer", "unwind_target", 8);
    check_others();
    step_target(GCC, "-O2 -fomit-frame-pointer", "unwind_target_libraries", 1);
    check_others();
}

/* ---- Random moments -------------------------------------------------------------------------- */

static volatile bool is_sampling;

static void on_timer(int signal, siginfo_t *info, void *ucontext)
{
    (void)signal;
    (void)info;
    if (is_sampling)
        look(ucontext);
}

static timer_t start_timer(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    struct itimerspec every = {.it_value.tv_nsec = 37000, .it_interval.tv_nsec = 37000};
    timer_t timer;

    event._sigev_un._tid = (int)syscall(SYS_gettid);
    CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    CHECK_EQ(timer_settime(timer, 0, &every, NULL), 0);
    return timer;
}

/* Takes samples until there are enough. */
static void sample(void)
{
    timer_t timer;

    run.stack = cp__thread_stack();
    timer = start_timer();
    while (sum(run.in_own) + sum(run.in_others) < 20000) {
        is_sampling = true;
        target(20);
        is_sampling = false;
    }
    timer_delete(timer);
}

CP_TEST(chains_at_random_moments_are_exact)
{
    skip_under_tsan();
    handle(SIGUSR1, on_timer);
    load_target(GCC, "-O2", "unwind_target");
    on_thread(sample);
    print_run();
    check_own_code();
    load_target(GCC, "-O2", "unwind_target_libraries");
    on_thread(sample);
    print_run();
    check_others();
}
