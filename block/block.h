/*
 * counterpoint/block.h: how fast a basic block can be, measured without its program.
 *
 *     struct cp_block_result result = {.size = sizeof result};
 *     struct cp_block *block;
 *     struct cp_error err;
 *
 *     if (cp_block_open(&block, NULL, &err) == 0 && cp_block_measure(block, code, size, &result, &err) == 0)
 *         printf("%s: %.2f cycles\n", cp_block_status_name(result.status), result.cycles);
 *     cp_block_close(block);
 *
 * The bytes of a block run in a process of their own, where nothing is mapped but the code and one physical
 * page, to which all pages are mapped that the block touches: so all its accesses hit the cache. If a load
 * could wait for a store to another page because of that, the block is measured again with two or four
 * physical pages, and the result is of the one that is not slower. The block is copied
 * so many times that the copies take 12 and 24 KB, and the difference of the two times is that of the copies
 * between them in the steady state: what an execution of the block takes if nothing but itself slows it down.
 *
 * Registers and memory hold the same before each timing: all general registers and all 64-bit words
 * 0x12345600, also those of vector registers; subnormal numbers count as 0 (FTZ and DAZ). A branch that ends
 * the block is left out. What is relative to the block's place reaches the same address from all copies.
 *
 * Errors: calls return 0 or a negative errno value, with the reason in a struct cp_error, which may be NULL.
 * That a block cannot be measured is no error but the result's status.
 * Threads: a struct cp_block belongs to the thread that has opened it. Its processes are children of the
 * caller's process: do not wait for any child whatever, as by wait(2), in that thread. No call may be made
 * from a signal handler.
 */
#ifndef COUNTERPOINT_BLOCK_H
#define COUNTERPOINT_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a measurement has ended. */
enum cp_block_status {
    CP_BLOCK_MEASURED = 0,
    CP_BLOCK_NOT_REPRODUCIBLE = 1, /* too few timings were alike; cycles is the best guess */
    /* Nothing has run: */
    CP_BLOCK_EMPTY = 2,     /* there is no instruction */
    CP_BLOCK_TOO_LONG = 3,  /* more than 8 KB */
    CP_BLOCK_UNDECODED = 4, /* there are bytes that are no instruction */
    CP_BLOCK_BRANCH = 5,    /* a branch, call or return that is not the last instruction */
    CP_BLOCK_REFUSED =
        6, /* an instruction that calls the system, is privileged, or changes what is not restored */
    /* It has run, and was ended by: */
    CP_BLOCK_BAD_ADDRESS = 7, /* an access to an address that cannot be mapped */
    CP_BLOCK_OWN_MEMORY = 8, /* an access to what the measurement needs itself: the code, or its own memory */
    CP_BLOCK_MANY_PAGES = 9, /* accesses to more than 256 pages */
    CP_BLOCK_ILLEGAL = 10,   /* an instruction that this processor does not have */
    CP_BLOCK_ARITHMETIC = 11, /* a division by 0, or one whose result is too large */
    CP_BLOCK_PROTECTION = 12, /* an access that must be aligned and is not, or to an address that is none */
    CP_BLOCK_ENDLESS = 13,    /* it had no end in half a second */
    CP_BLOCK_ENDED = 14,      /* anything else: the detail tells the signal */
    CP_BLOCK_STATUSES
};
/* Returns a phrase, as "not reproducible"; "unknown" for a number that is no status. */
const char *cp_block_status_name(enum cp_block_status status);

/* What cycles were counted by. */
enum cp_block_clock {
    CP_BLOCK_CLOCK_TSC = 0,  /* ticks of the time-stamp counter; so many are a cycle of dependent additions */
    CP_BLOCK_CLOCK_RDPRU = 1 /* the core's own counter, read by RDPRU */
};
/* Returns "tsc" or "rdpru"; "unknown" for a number that is no clock. */
const char *cp_block_clock_name(enum cp_block_clock clock);

/* The caller sets size. */
struct cp_block_result {
    size_t size; /* sizeof(struct cp_block_result) */
    enum cp_block_status status;
    enum cp_block_clock clock;
    double cycles;         /* of one execution; 0 if it was not timed */
    double spread;         /* of the repeated timings, as a part of cycles: 0.01 is 1 % */
    unsigned instructions; /* of the block, without a branch at its end */
    unsigned length;       /* its bytes */
    bool has_branch;       /* a branch at the end was left out */
    unsigned copies[2];    /* how many were timed */
    unsigned alike[2];     /* of 16 timings of the last run: how many were alike */
    unsigned runs;         /* of 32 timings each, until enough were alike */
    unsigned pages;        /* that the copies touch */
    unsigned switches;     /* how often the last run lost its CPU */
    char detail[120];      /* about the status: the instruction, or the address; "": none */
    unsigned physical;     /* pages that the pages share: 1; 2 or 4 if the block is not slower with these */
    /* Of all accesses of the first copies, as instructions make them: */
    unsigned traced;     /* so many copies; 0: the block is too long for that, and nothing is known */
    unsigned accesses;   /* an instruction that loads and stores at an address makes one */
    unsigned unaligned;  /* at no multiple of their size */
    unsigned crossings;  /* from one line of the cache, of 64 bytes, into the next */
    bool may_alias;      /* a load may wait for a store to another page, for no reason but the physical one */
    double other_cycles; /* with other physical pages, if a load may wait falsely; 0: not reproducible */
    /* Timed again with subnormal numbers, which take some processors long, as what they are: */
    bool subnormal;          /* that takes more than 5 % longer, or shorter */
    double subnormal_cycles; /* 0: it was not timed, or is not reproducible */
};

struct cp_block;

/* Options. The caller sets the struct to zero and sets size. */
struct cp_block_options {
    size_t size;   /* sizeof(struct cp_block_options) */
    unsigned runs; /* at most, until enough timings are alike; 0: 20 */
};

/* Makes what is needed to measure blocks: a process. Options may be NULL. Returns 0; -ENOSYS on a processor
 * whose blocks cannot be measured yet; -EINVAL for bad options; or why there can be no such process. */
int cp_block_open(struct cp_block **block, const struct cp_block_options *options, struct cp_error *err);
/* NULL: does nothing. */
void cp_block_close(struct cp_block *block);

/* Measures the code, size bytes, and fills *result. Returns 0, whatever the status is; -EINVAL if the
 * result's size was never set; or the system's errno value if processes cannot be had any more. */
int cp_block_measure(struct cp_block *block, const void *code, size_t size, struct cp_block_result *result,
                     struct cp_error *err);

#ifdef __cplusplus
}
#endif

#endif
