/* What may explain that a block takes longer than it must, or must take long. */
#ifndef COUNTERPOINT_CMD_ANNOTATE_JUDGE_H
#define COUNTERPOINT_CMD_ANNOTATE_JUDGE_H

#include <stdio.h>

#include "block/block.h"

struct block_facts {
    struct cp_block_result result; /* of the measurement; its size is 0 if there was none */
    bool has_call;                 /* so there is no measurement */
    bool is_loop;                  /* of this block alone */
    bool is_alone;                 /* nothing tells how often it has run */
    bool loads, stores, divides;
    bool loads_what_it_stores; /* from the address of a store in it */
    double ratio;              /* of the cycles by samples and those at best; 0: not known */
    double peak;               /* the part of its samples at one load, or right behind that; 0: at no load */
    uint64_t peak_address;
    /* Of the other values of the profile that count misses or the like, the one of which the block has more
     * than its part; NULL: none. */
    const char *event;
    double event_share, share; /* the block's part of the function's, of this value and of the samples */
};

/* Returns whether the block has a best case. */
bool block_has_best(const struct block_facts *facts);

/* Prints a line for each thing that can be said, each behind the margin. What nothing but the block's looks
 * speak for is a "hypothesis". */
void judge_block(FILE *out, const char *margin, const struct block_facts *facts);

#endif
