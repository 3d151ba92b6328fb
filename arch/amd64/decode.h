/* x86-64 instructions, as far as caller.c needs to know them: how long each is, and what becomes of rsp and
 * rbp. */
#ifndef COUNTERPOINT_ARCH_AMD64_DECODE_H
#define COUNTERPOINT_ARCH_AMD64_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers of registers. */
#define CP__SP 4
#define CP__FP 5
#define CP__NO_REGISTER 16

struct cp__instruction {
    const uint8_t *begin;
    const uint8_t *end;
    unsigned opcode;       /* one byte; 0x0f00 + the one behind 0f; or CP__OTHER */
    bool has_operand_size; /* the prefix 66 */
    bool is_rip_relative;  /* the operand in memory lies at end + disp */
    uint8_t rex;           /* CP__REX_... */
    uint8_t mod;           /* 3: rm is a register */
    uint8_t group;         /* what reg is where it selects the operation */
    uint8_t reg;
    uint8_t rm;   /* also the register that an opcode without operands has in itself */
    uint8_t base; /* of the operand in memory; CP__NO_REGISTER where the address has more to it, or less */
    int32_t disp;
    int32_t immediate; /* the last one; 0 where it has 64 bits */
};
#define CP__OTHER 0x10000u /* vectors and the like; none changes rsp or rbp */
#define CP__REX_B 1
#define CP__REX_X 2
#define CP__REX_R 4
#define CP__REX_W 8

/*
 * Decodes the instruction at, reading none of the bytes behind it. False where it is none, or one that no
 * function meets on its way to its end: privileged ones, traps, system calls.
 */
bool cp__decode_from_handler(const uint8_t *at, struct cp__instruction *in);
/* The most bytes that cp__decode_from_handler() reads. */
#define CP__DECODE_MOST 34
/* The same if only size bytes can be read. */
bool cp__decode_within_from_handler(const uint8_t *at, size_t size, struct cp__instruction *in);

#endif
