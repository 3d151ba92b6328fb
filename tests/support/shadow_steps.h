/*
 * Runs code one instruction at a time, and compares the chain at each of them with the judge's (shadow.h).
 */
#ifndef COUNTERPOINT_TESTS_SHADOW_STEPS_H
#define COUNTERPOINT_TESTS_SHADOW_STEPS_H

#include <dlfcn.h>
#include <stdlib.h>

#include "runtime/base/loads.h"
#include "shadow.h"

/* Whether the library reads this processor's code, and all of its registers. If it does not, it marks
 * more. */
#ifdef CP__READS_CODE
#define KNOWS_CODE 1
#else
#define KNOWS_CODE 0
#endif

/* So many instructions of each target are looked at. */
#define MOST_STEPS 40000

static struct {
    struct cp__stack stack;
    struct shadow shadow;
    long steps, exact, marked, unmarked;
    struct chain bad, bad_reference; /* the first chain that is neither exact nor marked */
} run;

/* Compares the chain at this stop with the judge's. */
static inline void look(void *ucontext)
{
    struct chain ours, reference;
    unsigned same = 0;

    find_ours(ucontext, &run.stack, &ours);
    shadow_find(&run.shadow, ucontext, &reference);
    while (same < ours.n && same < reference.n && ours.frames[same] == reference.frames[same])
        same++;
    run.steps++;
    if (ours.flags != 0)
        run.marked++;
    else if (same == ours.n && same >= reference.n)
        run.exact++;
    else if (run.unmarked++ == 0) {
        run.bad = ours;
        run.bad_reference = reference;
    }
}

static inline void on_trap(int signal, siginfo_t *info, void *ucontext)
{
    (void)signal;
    (void)info;
    if (run.steps >= MOST_STEPS) {
        step_off(ucontext);
        return;
    }
    shadow_follow(&run.shadow, &run.stack, ucontext);
    if (cp__stack_holds(&run.stack, run.shadow.last_sp))
        look(ucontext);
    step_on(ucontext);
}

/* Prepares steps through code at which the library has looked, or has not. */
static inline void begin_with(void (*look_at_code)(void))
{
    skip_under_tsan();
    if (!SHADOW_IS_KNOWN)
        SKIP("This test does not know what a call looks like on this processor.");
    if (TEST_ASAN)
        SKIP("AddressSanitizer lets nobody read a stack between its variables.");
    memset(&run, 0, sizeof run);
    memset(own, 0, sizeof own);
    dl_iterate_phdr(note_object, NULL);
    look_at_code();
    step_prepare();
    handle(SIGTRAP, on_trap);
}

static inline void begin(void)
{
    begin_with(cp__code_update);
}

/* Steps begin here; the calls outside are counted from here on. */
static inline __attribute__((always_inline)) void step_in(void)
{
    run.shadow.last_pc = 0;
    run.shadow.n = 0;
    step_from_here();
}

static inline void finish(const char *name)
{
    printf("%s: %ld instructions, %ld exact, %ld short and marked, %ld unmarked\n", name, run.steps,
           run.exact, run.marked, run.unmarked);
    if (run.unmarked > 0) {
        print_chain("ours", &run.bad);
        print_chain("the calls", &run.bad_reference);
    }
    CHECK(run.steps > 0);
    CHECK_EQ(run.unmarked, 0);
}

/* ---- Code that is built here ----------------------------------------------------------------- */

static long (*target)(int), (*target_libraries)(int);
static long (*call)(void (*)(void));

/* Builds code into a shared object of the test's own, and returns its path. */
static inline const char *build(const char *compiler, const char *options, const char *source)
{
    static int n_built;
    static char path[500];

    snprintf(path, sizeof path, "%s/target%d.so", test_dir(), n_built++);
    free(test_command(NULL, "%s -D_GNU_SOURCE -fPIC -shared -fno-builtin %s -o %s %s -lm", compiler, options,
                      path, source));
    return path;
}

/* Finds the targets of a shared object that was loaded. */
static inline void find_targets(void *object)
{
    CHECKF(object != NULL, "%s", dlerror());
    *(void **)&target = dlsym(object, "unwind_target");
    *(void **)&target_libraries = dlsym(object, "unwind_target_libraries");
    *(void **)&call = dlsym(object, "unwind_target_calls");
    CHECK(target != NULL);
}

static inline void load(const char *compiler, const char *options, const char *source)
{
    find_targets(dlopen(build(compiler, options, source), RTLD_LAZY));
}

static inline void step_target(void)
{
    begin();
    run.stack = cp__thread_stack();
    step_in();
    target(3);
    step_to_here();
}

#endif
