/*
 * The entries of call-frame information: of functions (FDEs), and of what is common to many functions (CIEs).
 * .eh_frame is in the form of DWARF with the changes that the Linux Standard Base describes; .debug_frame is
 * in the form of DWARF. In a CIE the number that tells the kind is 0 or all ones; in an FDE it leads to the
 * CIE: in .eh_frame it is the distance back, in .debug_frame the place in the section.
 *
 * Not for signal handlers.
 */
#ifndef COUNTERPOINT_RUNTIME_UNWIND_ENTRIES_H
#define COUNTERPOINT_RUNTIME_UNWIND_ENTRIES_H

#include "reader.h"
#include "rows.h"

struct cp__entry {
    struct reader reader; /* of what follows the number that tells the kind; bad: there is no entry */
    const uint8_t *end;   /* also where the next entry begins */
    const uint8_t *cie;   /* NULL: the entry is a CIE */
    bool is_debug;        /* it stands in .debug_frame */
};

/* What a CIE says before its program. */
struct cp__cie {
    uint64_t code_align;
    int64_t data_align;
    uint64_t return_register;
    unsigned address_form; /* of the addresses in FDEs */
    bool is_of_signal;
    bool has_data; /* the FDEs have data whose size they tell */
};

/* Opens the entry at `at`. Nothing outside of the source is read. */
struct cp__entry cp__entry_open(const struct cp__cfi_source *source, const uint8_t *at);
/* Reads a CIE up to its program. Returns false if it has another form than gcc's and clang's. */
bool cp__entry_read_cie(struct cp__entry *entry, struct cp__cie *cie);

/* Reads an address of code, and returns it counted from the object's first one on. */
static inline uint64_t cp__entry_read_place(struct reader *reader, unsigned form, bool is_debug,
                                            const struct cp__cfi_source *source)
{
    uint64_t address = read_address(reader, form, NULL);

    if ((form & RELATIVE) == 0)
        address += source->moved + (is_debug ? source->bias : 0);
    return address - source->code_lo;
}

#endif
