/*
 * Where code is: the executable mappings of this process.
 *
 * The signal handler asks whether a word can be a return address, and which code bytes it may read. It gets
 * the answer from a table, which is made outside the handler: at each start, and again by the pass of a
 * reader (cp_slots_read()) after a handler has asked for an address that is in no range. So code that was
 * mapped later (dlopen(), a JIT) is known after one pass. A pass that found nothing new costs, at most, one
 * two hundredth of a CPU.
 *
 * There are two tables, of versions n and n - 1 or n + 1; the handler reads the one of the version that was
 * published last. A writer says which version it is about to write, then writes over the other table, then
 * publishes that. So what a handler reads stays as it is until two versions later, and a handler that was
 * held up for so long finds that out: it looks at the number of the version that was begun after it has read,
 * and takes an address that it cannot tell for no code. A table's memory is never freed, and so can be read
 * always.
 *
 * If /proc/self/maps cannot be read, there is no table. Then every address of user space may be code.
 */
#ifndef COUNTERPOINT_RUNTIME_UNWIND_CODE_H
#define COUNTERPOINT_RUNTIME_UNWIND_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "atomic.h"

extern bool cp__code_has_keys; /* the processor has protection keys */

struct cp__code_range {
    uintptr_t start;
    uintptr_t size;
    bool is_readable; /* by its mapping; a protection key, or a later mprotect(), may say otherwise */
};

/* Finds the range that pc is in; false if it is in none. Then *found is as it was. */
bool cp__code_find_from_handler(uintptr_t pc, struct cp__code_range *found);

/* The same for one of many addresses, most of which are in the range of the one before; {0} at first. */
static inline bool cp__code_holds_from_handler(struct cp__code_range *last, uintptr_t pc)
{
    return pc - last->start < last->size || cp__code_find_from_handler(pc, last);
}

/*
 * A signal handler starts with the kernel's initial rights, by which only memory of protection key 0 can be
 * read. Code and stacks of the program may have other keys, so the handler gives itself the right to read
 * all. Returns what the rights were, for cp__code_keep_from_handler(); when the handler returns, the kernel
 * puts back what the interrupted code had.
 */
static inline uint32_t cp__code_open_from_handler(void)
{
    uint32_t rights = 0;

    if (cp_load_relaxed(&cp__code_has_keys)) { /* relaxed, here and below: set before the first M */
        rights = cp__keys_from_handler();
        cp__set_keys_from_handler(cp__readable_keys(rights));
    }
    return rights;
}

static inline void cp__code_keep_from_handler(uint32_t rights)
{
    if (cp_load_relaxed(&cp__code_has_keys))
        cp__set_keys_from_handler(rights);
}

/* Makes the table anew. Any number of threads may; one does it. */
void cp__code_update(void);
/* Does so if a handler missed an address, but not too often. */
void cp__code_look(void);
/* In the child of a fork, whose parent may have had another thread in cp__code_update(). */
void cp__code_after_fork(void);

#endif
