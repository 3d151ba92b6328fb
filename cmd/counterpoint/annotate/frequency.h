/*
 * How often the blocks of a function have run, by the samples in them: a block that runs f times, and c
 * cycles each time, has about f * c samples. c is not known, but at least what the block was measured to
 * take. So samples / cycles is what a block says of its own frequency, and mostly too much. Control flow
 * tells the rest: as much comes into each block as goes out of it. Of all flows that do, the estimate is
 * the one next to what the blocks say: by weighted squares, where long blocks that have many samples weigh
 * most, and to say too much weighs less than to say too little. Blocks that run equally often share what
 * they say so.
 *
 * The idea is DCPI's: Anderson and others, Continuous Profiling: Where Have All the Cycles Gone? (1997).
 */
#ifndef COUNTERPOINT_CMD_ANNOTATE_FREQUENCY_H
#define COUNTERPOINT_CMD_ANNOTATE_FREQUENCY_H

#include "blocks.h"

/* What is known of a block's cycles. */
enum frequency_source {
    FREQUENCY_GUESSED,  /* they are a guess */
    FREQUENCY_MEASURED, /* it takes so many at best */
    FREQUENCY_COUNTED   /* samples are of an event that each execution has so often, as instructions */
};

struct frequency_block {
    double samples;
    double cycles; /* of an execution; more than 0 */
    enum frequency_source source;
    double frequency; /* the estimate: in samples a cycle, so that samples / frequency are cycles */
};

/* Stores the frequencies. There is a struct for each block of the graph. */
void frequency_estimate(const struct flow_graph *graph, struct frequency_block *blocks);

#endif
