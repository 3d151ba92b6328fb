#include "parked.h"

#include "arch/arch.h"
#include "runtime/base/sys_linux.h"

/* Walks from a frame pointer on, within [lowest, hi). */
static unsigned walk_records(uintptr_t fp, uintptr_t lowest, uintptr_t hi, uintptr_t *frames, unsigned max)
{
    uintptr_t record[2]; /* the caller's frame pointer, and the return address */
    unsigned n = 0;

    while (n < max && fp >= lowest && fp % sizeof fp == 0 && fp < hi && hi - fp >= sizeof record &&
           cp__sys_copy_from_handler(record, fp, sizeof record) && record[1] != 0) {
        frames[n++] = cp__code_address_from_handler(record[1]);
        lowest = fp + sizeof record;
        fp = record[0];
    }
    return n;
}

unsigned cp__parked_stack(const struct cp__account *account, uint64_t g_id, uintptr_t *frames, unsigned max)
{
    /* acquire: pairs with the release in cp__account_end_change() */
    const uint64_t version = cp_load_acquire(&account->version);
    /* relaxed, all: the version is read before and after them */
    const uintptr_t pc = cp_load_relaxed(&account->parked.pc);
    const uintptr_t sp = cp_load_relaxed(&account->parked.sp);
    const uintptr_t fp = cp_load_relaxed(&account->parked.fp);
    const uintptr_t hi = cp_load_relaxed(&account->parked.hi);
    const bool waits =
        cp_load_relaxed(&account->state) == CP__G_WAITING && cp_load_relaxed(&account->id) == g_id;
    unsigned n = 0;

    if (version % 2 != 0 || !waits || pc == 0 || max == 0)
        return 0;
    frames[n++] = pc - 1;
    n += walk_records(fp, sp, hi, frames + n, max - n);
    cp_fence_acquire(); /* pairs with the fence in cp__account_begin_change() */
    return cp_load_relaxed(&account->version) == version ? n : 0;
}
