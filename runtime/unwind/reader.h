/* Reads numbers and addresses of call-frame information, and nothing past its end. For cfi.c; functions.c
 * has the names of the forms from here. */
#ifndef COUNTERPOINT_RUNTIME_UNWIND_READER_H
#define COUNTERPOINT_RUNTIME_UNWIND_READER_H

#include <dwarf.h> /* the names of DWARF's codes; no library is needed */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct reader {
    const uint8_t *at;
    const uint8_t *end;
    bool is_bad; /* something was read past the end, or had another form than expected */
};

static inline uint64_t read_fixed(struct reader *reader, size_t size)
{
    uint64_t value = 0;

    if ((size_t)(reader->end - reader->at) < size) {
        reader->is_bad = true;
        reader->at = reader->end;
        return 0;
    }
    memcpy(&value, reader->at, size); /* both processors are little-endian */
    reader->at += size;
    return value;
}

static inline int64_t read_signed(struct reader *reader, size_t size)
{
    unsigned unused = 64 - 8 * (unsigned)size;

    return (int64_t)(read_fixed(reader, size) << unused) >> unused;
}

/* Reads a number in groups of seven bits. No number has more than ten groups. */
static inline uint64_t read_leb(struct reader *reader, bool is_signed)
{
    uint64_t value = 0;
    unsigned shift = 0, byte;

    do {
        byte = (unsigned)read_fixed(reader, 1);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        else
            reader->is_bad = true;
        shift += 7;
    } while ((byte & 0x80) != 0 && !reader->is_bad);
    if (is_signed && (byte & 0x40) != 0 && shift < 64)
        value |= ~(uint64_t)0 << shift;
    return value;
}

static inline uint64_t read_uleb(struct reader *reader)
{
    return read_leb(reader, false);
}

static inline int64_t read_sleb(struct reader *reader)
{
    return (int64_t)read_leb(reader, true);
}

static inline const uint8_t *skip(struct reader *reader, uint64_t size)
{
    const uint8_t *at = reader->at;

    if ((uint64_t)(reader->end - reader->at) < size) {
        reader->is_bad = true;
        size = (uint64_t)(reader->end - reader->at);
    }
    reader->at += size;
    return at;
}

#define FORM 0x0f     /* the bits of an address's encoding that tell its form ... */
#define RELATIVE 0x70 /* ... and what it is relative to */

/* Reads an address in one of the forms that DWARF for exceptions has. `data` is what addresses may be
 * relative to. */
static inline uint64_t read_address(struct reader *reader, unsigned form, const uint8_t *data)
{
    const uint8_t *at = reader->at;
    uint64_t value = 0;

    switch (form & FORM) {
    case DW_EH_PE_absptr:
    case DW_EH_PE_udata8:
    case DW_EH_PE_sdata8:
        value = read_fixed(reader, 8);
        break;
    case DW_EH_PE_uleb128:
        value = read_uleb(reader);
        break;
    case DW_EH_PE_udata2:
        value = read_fixed(reader, 2);
        break;
    case DW_EH_PE_udata4:
        value = read_fixed(reader, 4);
        break;
    case DW_EH_PE_sleb128:
        value = (uint64_t)read_sleb(reader);
        break;
    case DW_EH_PE_sdata2:
        value = (uint64_t)read_signed(reader, 2);
        break;
    case DW_EH_PE_sdata4:
        value = (uint64_t)read_signed(reader, 4);
        break;
    default:
        reader->is_bad = true;
    }
    if ((form & RELATIVE) == DW_EH_PE_pcrel)
        value += (uintptr_t)at;
    else if ((form & RELATIVE) == DW_EH_PE_datarel)
        value += (uintptr_t)data;
    else if ((form & RELATIVE) != 0)
        reader->is_bad = true;
    return value;
}

#endif
