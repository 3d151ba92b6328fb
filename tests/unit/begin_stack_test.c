/* The stacks of begins: where they lead, and what rounds add to them. */
#include "runtime/unwind/code.h"
#include "runtime/watch/recorder.h"
#include "sched.h"
#include "tests/support/stopwatch.h"

struct seen {
    unsigned n;
    uint64_t rounds;
    uint64_t ns;
    uintptr_t callers[8]; /* the second frame of each */
};

static uintptr_t called_from; /* where the last call of inner() returned to */

__attribute__((noinline)) static void inner(struct cp_watch *watch, int n)
{
    called_from = (uintptr_t)__builtin_return_address(0);
    for (volatile int i = 0; i < n; i++) {
        CP_WATCH(watch)
        {
            __asm__ volatile("");
        }
    }
    __asm__ volatile("");
}

__attribute__((noinline)) static void outer(struct cp_watch *watch, int n)
{
    inner(watch, n);
    __asm__ volatile("");
}

static int note_stack(void *context, const struct cp__watch_stack *stack)
{
    struct seen *seen = context;

    CHECK(stack->depth >= 2);
    CHECK(seen->n < 8);
    CHECK(stack->frames[0] - (uintptr_t)inner < 1024);
    seen->callers[seen->n++] = stack->frames[1];
    seen->rounds += stack->rounds;
    seen->ns += stack->values[0];
    return 0;
}

static bool has_caller(const struct seen *seen, uintptr_t caller)
{
    for (unsigned i = 0; i < seen->n; i++) {
        if (seen->callers[i] == caller)
            return true;
    }
    return false;
}

static struct cp_watch *open_with_stacks(const char *labels)
{
    const struct cp_watch_options options = {
        .size = sizeof options, .name = "stacks", .labels = labels, .has_stacks = true};

    return open_watch_of(&options);
}

CP_TEST(rounds_are_added_to_the_stack_of_their_begin)
{
    struct cp_m *m = attach_m();
    struct cp_watch *watch = open_with_stacks(NULL);
    struct seen seen = {.n = 0};
    uintptr_t in_outer;

    outer(watch, 5);
    in_outer = called_from;
    inner(watch, 2);
    CHECK_EQ(cp__watch_each_stack(watch, note_stack, &seen), 0);
    CHECK_EQ(seen.n, 2);
    CHECK_EQ(seen.rounds, 7);
    CHECK(has_caller(&seen, in_outer) && has_caller(&seen, called_from));
    CHECK_EQ(seen.ns, find_row(watch, "time").sum);
    cp_watch_close(watch);
    cp_m_detach(m);
}

CP_TEST(stacks_are_told_apart_by_labels)
{
    struct cp_m *m = attach_m();
    struct cp_watch *watch = open_with_stacks("k");
    struct seen seen = {.n = 0};

    for (volatile int i = 0; i < 4; i++) { /* volatile, here and above: one call, and not one for each i */
        CP_LABEL_SCOPE("k", i % 2 == 0 ? "even" : "odd");
        outer(watch, 1);
    }
    CHECK_EQ(cp__watch_each_stack(watch, note_stack, &seen), 0);
    CHECK_EQ(seen.n, 2);
    CHECK_EQ(seen.rounds, 4);
    cp_watch_close(watch);
    cp_m_detach(m);
}

static void in_g(void *watch)
{
    outer(watch, 3);
    cp_yield();
    outer(watch, 3);
}

CP_TEST(stacks_of_gs_end_with_the_g)
{
    const struct cp_sched_options options = {.size = sizeof options, .threads = 2};
    struct cp_watch *watch = open_with_stacks(NULL);
    struct seen seen = {.n = 0};

    CHECK_EQ(cp_sched_run(&options, in_g, watch, NULL), 0);
    CHECK_EQ(cp__watch_each_stack(watch, note_stack, &seen), 0);
    CHECK_EQ(seen.rounds, 6);
    CHECK(has_caller(&seen, called_from));
    cp_watch_close(watch);
}

/* Without rows, a walk looks at the code of each function, and asks the kernel whether it can be read. */
CP_TEST(stacks_are_walked_by_rows_without_a_profile)
{
    struct cp_watch *watch = open_watch("none", NULL);
    struct cp__code_range range = {.rows = NULL};

    CHECK(cp__code_find_from_handler((uintptr_t)inner, &range));
    CHECK(range.rows == NULL);
    cp_watch_close(watch);
    watch = open_with_stacks(NULL);
    CHECK(cp__code_find_from_handler((uintptr_t)inner, &range));
    CHECK(range.rows != NULL);
    cp_watch_close(watch);
}

CP_TEST(a_watch_without_stacks_has_none)
{
    struct cp_watch *watch = open_watch("none", NULL);
    struct seen seen = {.n = 0};

    CHECK_EQ(cp__watch_each_stack(watch, note_stack, &seen), -EINVAL);
    cp_watch_close(watch);
}
