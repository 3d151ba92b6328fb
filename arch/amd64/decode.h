/* A decoder of x86-64 instructions, as far as caller.c needs one: how long each instruction is, and how it
 * changes rsp and rbp. */
#ifndef COUNTERPOINT_ARCH_AMD64_DECODE_H
#define COUNTERPOINT_ARCH_AMD64_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Register numbers in instructions. */
#define CP__SP 4
#define CP__FP 5
#define CP__NO_REGISTER 16

struct cp__instruction {
    const uint8_t *begin;
    const uint8_t *end;
    unsigned opcode;       /* one byte; 0x0f00 + the byte after 0f; or CP__OTHER */
    bool has_operand_size; /* the prefix 66 is present */
    bool is_rip_relative;  /* the operand in memory is at end + disp */
    uint8_t rex;           /* a set of CP__REX_ bits */
    uint8_t mod;           /* 3: rm is a register, not memory */
    uint8_t group;         /* the reg field, if it selects the operation */
    uint8_t reg;
    uint8_t rm; /* also the register that is encoded in an opcode without operands */
    /* the base register of the operand in memory; CP__NO_REGISTER if the address has an index or no base */
    uint8_t base;
    int32_t disp;
    int32_t immediate; /* the last immediate; 0 if the immediate has 64 bits */
};
#define CP__OTHER 0x10000u /* vector instructions and similar ones; none of them changes rsp or rbp */
#define CP__REX_B 1
#define CP__REX_X 2
#define CP__REX_R 4
#define CP__REX_W 8

/* Decodes the instruction at `at`. Returns false if the bytes are no instruction, or an instruction that no
 * function executes on its way to its end: a privileged instruction, a trap, a system call. */
bool cp__decode_from_handler(const uint8_t *at, struct cp__instruction *in);
/* cp__decode_from_handler() reads at most this many bytes. */
#define CP__DECODE_MOST 34
/* The same, if only size bytes can be read. */
bool cp__decode_within_from_handler(const uint8_t *at, size_t size, struct cp__instruction *in);

#endif
