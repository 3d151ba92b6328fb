/*
 * The operands in memory of a block, and a trace of all accesses to them.
 *
 * A block has no branch inside, so it is known before which instruction comes when, and an access is known by
 * the registers that make its address. In a copy that is traced, instructions before each access store these
 * registers into a log, at addresses of their own: they need no register, and change no flag. So all copies
 * are traced at full speed. A trap at each instruction would take longer than measuring the block does.
 *
 * Of each processor: ARCH/operands.c finds them, ARCH/trace.c writes copies and reads logs.
 */
#ifndef COUNTERPOINT_BLOCK_OPERANDS_H
#define COUNTERPOINT_BLOCK_OPERANDS_H

#include "accesses.h"
#include "code.h"

#define CP__OPERANDS 4096u
#define CP__NO_REGISTER 0xffu

/* How registers make an address. */
enum cp__operand_kind {
    CP__OPERAND_PLAIN,  /* base, index times scale, and displacement */
    CP__OPERAND_BYTE,   /* the same, with the lowest byte of index */
    CP__OPERAND_BITS,   /* besides, a register has the number of a bit */
    CP__OPERAND_STRING, /* base goes through the bytes, in either direction, and is logged behind, too */
    CP__OPERAND_VECTOR  /* index is a vector: an access for each part of it */
};

struct cp__operand {
    enum cp__operand_kind kind;
    uint16_t at, end;     /* the instruction's place in the block */
    uint16_t slot;        /* in the log of a copy: of base, if there is one; then of index and bit */
    uint8_t base, index;  /* numbers of registers, or CP__NO_REGISTER */
    uint8_t bit;          /* the same */
    uint8_t scale;        /* of index */
    uint8_t address_bits; /* 32 or 64 */
    uint8_t lanes;        /* accesses of a vector */
    uint8_t lane_size;    /* bytes of a part of index */
    bool is_load, is_store;
    uint16_t vector;  /* the decoder's name of the register */
    uint32_t size;    /* in bytes */
    uint64_t segment; /* its base */
    int64_t displacement;
};

struct cp__operands {
    unsigned n;
    unsigned slots; /* of 8 bytes, for each copy */
    unsigned extra; /* bytes of code, at most, for each copy */
    struct cp__operand operand[CP__OPERANDS];
};

/* Finds the operands of a block that was decoded, and stands at from. False: there are more than
 * CP__OPERANDS. */
bool cp__operands_find(struct cp__operands *operands, const struct cp__code *code, uint64_t from);

/* Writes the copy of that number, as it is at the address to, as if the block stood at from. Returns its
 * bytes; 0: it reaches too far. */
unsigned cp__operands_copy(const struct cp__operands *operands, const struct cp__code *code, uint64_t from,
                           uint64_t to, unsigned number, uint8_t *bytes);

/* Adds all accesses of so many copies. */
void cp__operands_judge(const struct cp__operands *operands, const uint64_t *log, unsigned copies,
                        struct cp__judge *judge);

#endif
