/* The instructions of a block, found by decoding before any of them runs. Of each processor: ARCH/code.c. */
#ifndef COUNTERPOINT_BLOCK_CODE_H
#define COUNTERPOINT_BLOCK_CODE_H

#include <stdio.h>

#include "block.h"

#define CP__BLOCK_BYTES 8192u

/* A displacement that is relative to the end of its instruction. */
struct cp__relative {
    uint16_t at;  /* in the block */
    uint16_t end; /* of the instruction */
};

struct cp__code {
    const uint8_t *bytes;
    unsigned length;       /* without a branch at the end */
    unsigned instructions; /* as before */
    bool has_branch;
    bool has_floats; /* an instruction computes with what may be a subnormal number */
    unsigned n_relative;
    struct cp__relative relative[CP__BLOCK_BYTES / 6];
};

/* Finds the instructions of a block. Returns CP_BLOCK_MEASURED if all of them may run; otherwise why not,
 * with a detail. The bytes must outlive *code. */
enum cp_block_status cp__code_decode(struct cp__code *code, const void *bytes, size_t size, char *detail,
                                     size_t detail_size);

/* Prints the instructions but a branch at the end, a line each, in the syntax of Intel. Prints nothing if the
 * bytes cannot be decoded. */
void cp__code_print(FILE *out, const void *bytes, size_t size);

/* Writes the bytes of whole instructions, from begin to end, as they are at the address to, as if the block
 * stood at from. Both are less than 1 GiB apart. False: they reach too far. */
bool cp__code_copy_part(const struct cp__code *code, unsigned begin, unsigned end, uint64_t from, uint64_t to,
                        uint8_t *bytes);
/* The same for the whole block. */
bool cp__code_copy(const struct cp__code *code, uint64_t from, uint64_t to, uint8_t *bytes);

#endif
