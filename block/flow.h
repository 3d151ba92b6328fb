/* Where control flow goes from an instruction, and what the instruction does with memory. Of each processor:
 * ARCH/flow.c. */
#ifndef COUNTERPOINT_BLOCK_FLOW_H
#define COUNTERPOINT_BLOCK_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cp__flow {
    CP__FLOW_ON = 0,   /* to the next instruction */
    CP__FLOW_CALL,     /* elsewhere, and back to the next instruction */
    CP__FLOW_BRANCH,   /* to the target, or to the next instruction */
    CP__FLOW_JUMP,     /* to the target */
    CP__FLOW_ANYWHERE, /* where a register or memory says */
    CP__FLOW_END       /* away: a return, or an instruction that no other one follows */
};

struct cp__step {
    unsigned length;
    enum cp__flow flow;
    uint64_t target; /* of a branch or jump */
    bool loads, stores;
    bool divides; /* or takes a root: so slow that nothing needs to wait for anything */
    bool is_nop;
    /* Names the address that the instruction loads from or stores to: equal numbers are the same address if
     * the registers in it have not changed. 0: none. */
    uint64_t place;
};

/* Decodes the instruction at the beginning of the bytes, which stand at the address. Returns false if they
 * are none. */
bool cp__flow_decode(const void *bytes, size_t size, uint64_t address, struct cp__step *step);

#endif
