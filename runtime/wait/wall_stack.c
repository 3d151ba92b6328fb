#include "wall_stack.h"

#include <errno.h>

#include "runtime/base/loads.h"
#include "runtime/label_sum_part.h"
#include "runtime/moment.h"
#include "runtime/unwind/cache.h"

static void copy_stack(const struct cp__account *account, struct cp__wall_stack *stack,
                       struct cp__wall_seen *seen)
{
    /* relaxed, all: the version is read before and after them */
    const uintptr_t pc = cp_load_relaxed(&account->parked.pc), sp = cp_load_relaxed(&account->parked.sp);
    const uintptr_t hi = cp_load_relaxed(&account->parked.hi);
    size_t size;

    if (pc == 0 || sp % sizeof(uintptr_t) != 0 || hi <= sp)
        return;
    size = hi - sp < CP__WALL_STACK_MAX ? hi - sp : CP__WALL_STACK_MAX;
    stack->offset = sp % CP__SYS_PAGE;
    if (!cp__sys_copy_from_handler(stack->bytes + stack->offset, sp, size)) {
        seen->is_refused = errno == EPERM || errno == ENOSYS;
        return;
    }
    seen->size = size;
    seen->regs = (struct cp__registers){.pc = pc, .sp = sp, .fp = cp_load_relaxed(&account->parked.fp)};
}

bool cp__wall_see(const struct cp__account *account, struct cp__wall_stack *stack, struct cp__wall_seen *seen)
{
    /* acquire: pairs with the release in cp__account_end_change() */
    const uint64_t version = cp_load_acquire(&account->version);
    const struct cp__label_sum *sum;

    if (version % 2 != 0)
        return false;
    /* relaxed, all: the version is read before and after them */
    *seen = (struct cp__wall_seen){.id = cp_load_relaxed(&account->id),
                                   .switches = cp_load_relaxed(&account->values.switches),
                                   .state = (enum cp__g_state)cp_load_relaxed(&account->state),
                                   .reason = (enum cp_wait_reason)cp_load_relaxed(&account->reason),
                                   .object = cp_load_relaxed(&account->object)};
    sum = cp_load_relaxed(&account->sum);
    if (stack != NULL && seen->id != 0 && (seen->state == CP__G_RUNNABLE || seen->state == CP__G_WAITING))
        copy_stack(account, stack, seen);
    cp_fence_acquire(); /* pairs with the fence in cp__account_begin_change() */
    if (cp_load_relaxed(&account->version) != version)
        return false;
    seen->labels = sum == NULL ? NULL : sum->labels; /* sums are never freed */
    return true;
}

/* Makes the words of the copy that point into the stack point into the copy. */
static void move_pointers(uintptr_t *words, size_t n, uintptr_t sp, size_t size)
{
    for (size_t i = 0; i < n; i++) {
        if (words[i] - sp < size)
            words[i] += (uintptr_t)words - sp;
    }
}

void cp__wall_walk(struct cp__wall_stack *stack, const struct cp__wall_seen *seen,
                   struct cp__unwind_cache *cache, struct cp__wait_chain *chain)
{
    uintptr_t *copy = (uintptr_t *)(stack->bytes + stack->offset);
    const uintptr_t sp = seen->regs.sp;
    struct cp__registers regs = seen->regs;
    struct cp__stack of_copy = {
        .lo = (uintptr_t)copy, .hi = (uintptr_t)copy + seen->size, .slack = CP__G_SLACK};

    chain->loads = cp__loads_from_handler();
    chain->flags = CP_SAMPLE_INCOMPLETE;
    chain->depth = 0;
    if (regs.pc != 0) {
        move_pointers(copy, seen->size / sizeof *copy, sp, seen->size);
        regs.pc = cp__code_address_from_handler(regs.pc);
        regs.sp = of_copy.lo;
        if (regs.fp - sp < seen->size)
            regs.fp += of_copy.lo - sp;
        chain->depth = cp__unwind_call(&regs, &of_copy, cache, chain->frames, CP_MAX_FRAMES, &chain->flags);
    }
    chain->hash = cp__wait_hash_chain(chain);
}
