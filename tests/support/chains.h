/* Call chains of this library and of libunwind, which finds chains by call-frame information, and their
 * comparison. */
#ifndef COUNTERPOINT_TESTS_CHAINS_H
#define COUNTERPOINT_TESTS_CHAINS_H

#define UNW_LOCAL_ONLY
#include <libunwind.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "runtime/altstack.h"
#include "runtime/unwind/cache.h"
#include "runtime/unwind/code.h"
#include "test.h"

#define MAX_DEPTH 400

struct chain {
    unsigned n;
    unsigned flags; /* of this library's chains only */
    uintptr_t frames[MAX_DEPTH];
};

static inline void find_ours(const void *ucontext, const struct cp__stack *stack, struct chain *chain)
{
    static struct cp__unwind_cache cache;
    struct cp__registers regs = cp__registers_from_handler(ucontext);
    struct cp__stack bounds = *stack;

    chain->n =
        cp__unwind_from_handler(&regs, &bounds, &cache, chain->frames, CP_MAX_FRAMES, &chain->flags, NULL);
}

static inline void find_reference(void *ucontext, struct chain *chain)
{
    unw_cursor_t cursor;
    unw_word_t pc;

    chain->n = 0;
    if (unw_init_local2(&cursor, ucontext, UNW_INIT_SIGNAL_FRAME) < 0)
        return;
    do {
        if (unw_get_reg(&cursor, UNW_REG_IP, &pc) < 0 || pc == 0)
            break;
        chain->frames[chain->n++] = pc;
    } while (chain->n < MAX_DEPTH && unw_step(&cursor) > 0);
}

enum verdict { EXACT, SHORT, WRONG, VERDICTS };

/* Where our own code is, which is built with frame pointers: the program, and the target if the test loads
 * one. */
static struct cp__stack own[2];

static inline bool is_own(uintptr_t pc)
{
    return cp__stack_holds(&own[0], pc) || cp__stack_holds(&own[1], pc);
}

/* Returns how many frames our chain must have: one more than up to the outermost frame of own code. The last
 * frame of the reference, where the system starts a thread or the program, is not reached and does not
 * count. */
static inline unsigned needed_depth(const struct chain *reference)
{
    unsigned n = reference->n - 1;

    while (n > 0 && !is_own(reference->frames[n - 1]))
        n--;
    return n + 1;
}

/* EXACT: our chain begins like the reference and has all required frames. SHORT: frames are missing. WRONG: a
 * frame is not in the reference, or is in another place there. */
static inline enum verdict compare(const struct chain *ours, const struct chain *reference)
{
    unsigned found = 0;

    for (unsigned i = 0; i < reference->n && found < ours->n; i++)
        found += ours->frames[found] == reference->frames[i];
    if (found < ours->n)
        return WRONG;
    return ours->n >= needed_depth(reference) && ours->frames[ours->n - 1] == reference->frames[ours->n - 1]
               ? EXACT
               : SHORT;
}

static inline void print_chain(const char *title, const struct chain *chain)
{
    printf("%s:", title);
    for (unsigned i = 0; i < chain->n; i++)
        for (unsigned j = 0; j < 2; j++)
            if (cp__stack_holds(&own[j], chain->frames[i]))
                printf(" %s+%#lx", j == 0 ? "program" : "target", chain->frames[i] - own[j].lo);
            else if (j == 1 && !is_own(chain->frames[i]))
                printf(" %#lx", chain->frames[i]);
    printf("\n");
}

/* ---- Where own code is ----------------------------------------------------------------------- */

static inline struct cp__stack extent_of(const struct dl_phdr_info *object)
{
    struct cp__stack extent = {.lo = UINTPTR_MAX, .hi = 0};

    for (int i = 0; i < object->dlpi_phnum; i++) {
        uintptr_t lo = object->dlpi_addr + object->dlpi_phdr[i].p_vaddr;

        if (object->dlpi_phdr[i].p_type != PT_LOAD)
            continue;
        extent.lo = lo < extent.lo ? lo : extent.lo;
        extent.hi = lo + object->dlpi_phdr[i].p_memsz;
    }
    return extent;
}

/* Notes where an object's code is. The program comes first. */
static inline int note_object(struct dl_phdr_info *object, size_t size, void *name)
{
    (void)size;
    if (own[0].hi == 0)
        own[0] = extent_of(object);
    if (name != NULL && strcmp(object->dlpi_name, name) == 0)
        own[1] = extent_of(object);
    return 0;
}

/* ---- Where chains are looked at -------------------------------------------------------------- */

static inline void handle(int signal, void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};

    CHECK_EQ(sigaction(signal, &action, NULL), 0);
}

/* Runs fn with an alternate signal stack, so that a chain that goes astray does not find the handler's
 * frames. */
static inline void *with_alternate_stack(void *fn)
{
    struct cp_error err = {0};
    void *mapped;

    CHECKF(cp__os_altstack_make(&mapped, &err) == 0, "%s", err.message);
    (*(void (**)(void))fn)();
    cp__os_altstack_free(mapped);
    return NULL;
}

static inline void on_thread(void (*fn)(void))
{
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, with_alternate_stack, &fn), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static inline void skip_under_tsan(void)
{
    if (TEST_TSAN)
        SKIP("ThreadSanitizer delivers signals late, in a place of its own.");
}

#endif
