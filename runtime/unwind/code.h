/*
 * Where code is: the executable mappings of this process, with the rows (rows.h) of the objects that they
 * belong to.
 *
 * The signal handler asks whether a word can be a return address, and which bytes of code it may read. A
 * table answers both questions. The table is made outside the handler: at each start of an event, and again
 * by a reader's pass (cp_slots_read()) after a handler has asked for an address that is in no range, or
 * after the dynamic linker has mapped or unmapped an object. So code that was mapped later (by dlopen(), by
 * a JIT) is known after one pass. Passes that find nothing new cost at most one two hundredth of a CPU.
 *
 * There are two tables. The handler reads the table of the version that was published last. A writer first
 * announces the version that it is about to write, then writes over the other table, then publishes the new
 * version. So a table that a handler reads does not change until two versions later. A handler that was
 * delayed for that long notices it: after the handler has read, it looks at the number of the version that
 * was begun last, and treats an address that it can no longer judge as no code. The memory of a table is
 * never freed, so reading it is always safe.
 *
 * If /proc/self/maps cannot be read, the table has the code of the objects that the linker knows, as far as
 * their rows are made. Before the first start of an event there is no table then, and every address of user
 * space counts as code.
 */
#ifndef COUNTERPOINT_RUNTIME_UNWIND_CODE_H
#define COUNTERPOINT_RUNTIME_UNWIND_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "atomic.h"

extern bool cp__code_has_keys; /* whether the processor has protection keys */

struct cp__rows;

struct cp__code_range {
    uintptr_t start;
    uintptr_t size;
    const struct cp__rows *rows; /* NULL if the range belongs to no object with rows */
    uintptr_t origin;            /* the address from which addresses in the rows count */
    bool may_go;                 /* the object of the rows may be unloaded */
    bool is_readable; /* by the mapping; a protection key, or a later mprotect(), may forbid reading */
};

/* Returns the version of the table that was published last; 0: none. */
uint64_t cp__code_version_from_handler(void);
/* Returns whether the linker has loaded objects since the table was made, as far as that can be told: objects
 * that were there may have been unloaded, and others have taken their places. */
bool cp__code_is_old_from_handler(void);
/* Finds the range that contains pc. Returns false, and leaves *found unchanged, if no range does. */
bool cp__code_find_from_handler(uintptr_t pc, struct cp__code_range *found);
/* Answers from the table, and from the kernel, which code can be read. */
cp__text_fn cp__text_at_from_handler;

/* Returns whether pc is in a range, for one of many addresses: most addresses are in the same range as the
 * one before. The caller starts with a *last of {0}. */
static inline bool cp__code_holds_from_handler(struct cp__code_range *last, uintptr_t pc)
{
    return pc - last->start < last->size || cp__code_find_from_handler(pc, last);
}

/*
 * Gives the signal handler the right to read all memory. A handler starts with the kernel's initial rights,
 * which allow reading only memory of protection key 0; code and stacks of the program may have other keys.
 * Returns the previous rights, for cp__code_keep_from_handler(). When the handler returns, the kernel
 * restores the rights of the interrupted code.
 */
static inline uint32_t cp__code_open_from_handler(void)
{
    uint32_t rights = 0;

    /* relaxed, here and below: the flag is set before the first M */
    if (cp_load_relaxed(&cp__code_has_keys)) {
        rights = cp__keys_from_handler();
        cp__set_keys_from_handler(cp__readable_keys(rights));
    }
    return rights;
}

/* Restores the rights that cp__code_open_from_handler() returned. */
static inline void cp__code_keep_from_handler(uint32_t rights)
{
    if (cp_load_relaxed(&cp__code_has_keys))
        cp__set_keys_from_handler(rights);
}

/* Makes the first table, before the first M. It has no rows yet: making them takes about 0.1 s of CPU time
 * for 100 MB of code, which a program that is never profiled does not pay. */
void cp__code_prepare(void);
/* Makes the table anew. Any number of threads may call this function; one of them does the work. */
void cp__code_update(void);
/* Makes the table anew if a handler missed an address or other objects are mapped, but not too often. */
void cp__code_look(void);
/* Resets the state in the child of a fork, because another thread of the parent may have been in
 * cp__code_update(). */
void cp__code_after_fork(void);

#endif
