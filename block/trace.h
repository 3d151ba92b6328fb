/* Runs a block's copies once, and judges all their accesses to memory. */
#ifndef COUNTERPOINT_BLOCK_TRACE_H
#define COUNTERPOINT_BLOCK_TRACE_H

#include "image.h"

/* What a trace needs, which is kept from one block to the next. */
struct cp__trace {
    struct cp__operands operands;
    bool is_complete;       /* all operands of the block are known */
    struct cp__apart apart; /* pages of which traces have shown that they should be */
    uint64_t log[CP__LOG_SIZE / 8];
};

/* Finds the operands of a block that was decoded. No page should be apart from another one yet. */
void cp__trace_begin(struct cp__trace *trace, const struct cp__code *code);

/* Runs as many of the image's copies as there is room for in a new guest of the host, which has mapped what
 * they touch, and judges their accesses. Stores how many copies that were; 0: there is no room for one, or it
 * has not come to its end. Returns 0 or a negative errno value. */
int cp__trace_run(struct cp__trace *trace, const struct cp__image *image, const struct cp__host *host,
                  struct cp__judge *judge, unsigned *copies);

#endif
