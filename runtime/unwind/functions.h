/*
 * The functions that call-frame information describes, in the order of their addresses, for objects that the
 * linker has given no such list (.eh_frame_hdr), or that have information outside of .eh_frame.
 *
 * Not for signal handlers.
 */
#ifndef COUNTERPOINT_RUNTIME_UNWIND_FUNCTIONS_H
#define COUNTERPOINT_RUNTIME_UNWIND_FUNCTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "rows.h"

/* A list in the form of .eh_frame_hdr, in memory of its own. */
struct cp__functions {
    const uint8_t *list; /* NULL: there is none */
    size_t size;
    void *memory;
    size_t memory_size;
};

/* Lists the functions whose entries stand in [lo, hi) or in the source's .debug_frame. Entries that are not
 * understood are left out. */
struct cp__functions cp__functions_list(const struct cp__cfi_source *source, const uint8_t *lo,
                                        const uint8_t *hi);
void cp__functions_free(struct cp__functions *functions);

#endif
