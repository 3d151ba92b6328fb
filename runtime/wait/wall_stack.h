/*
 * What another thread can see of a G: its account, and the stack of one that stands still.
 *
 * A G that waits or is runnable has told where its frames stand still until it runs again. The stack from
 * there on is copied by the kernel, so that a stack that is unmapped meanwhile is an error and no fault, and
 * the account's version is read before and after it. In the copy, words that point into the stack are moved
 * to point into the copy, which the unwinder then walks.
 */
#ifndef COUNTERPOINT_RUNTIME_WAIT_WALL_STACK_H
#define COUNTERPOINT_RUNTIME_WAIT_WALL_STACK_H

#include "runtime/base/sys_linux.h"
#include "runtime/g_account.h"
#include "sums.h"

/* What is farther out in a larger stack is not walked. */
#define CP__WALL_STACK_MAX ((size_t)64 << 10)

/* What was seen of an account, at one moment. */
struct cp__wall_seen {
    uint64_t id;
    uint64_t switches;
    enum cp__g_state state;
    enum cp_wait_reason reason;
    const void *object;
    struct cp_labels *labels;  /* a set that lives as long as the process; NULL: none */
    struct cp__registers regs; /* their pc is 0 if there is no stack */
    size_t size;               /* of the stack that was copied */
    bool is_refused;           /* the system does not let the process copy its own memory */
};

struct cp__wall_stack {
    size_t offset; /* of the copy: it has the same place in a page as the stack */
    unsigned char bytes[CP__WALL_STACK_MAX + CP__SYS_PAGE] __attribute__((aligned(CP__SYS_PAGE)));
};

/* Copies what the account says. If stack is not NULL, copies the stack as well, if it stands still. Returns
 * false if the account changed meanwhile. */
bool cp__wall_see(const struct cp__account *account, struct cp__wall_stack *stack,
                  struct cp__wall_seen *seen);
/* Walks the stack that was copied. Moves its pointers, so once only. */
void cp__wall_walk(struct cp__wall_stack *stack, const struct cp__wall_seen *seen,
                   struct cp__unwind_cache *cache, struct cp__wait_chain *chain);

#endif
