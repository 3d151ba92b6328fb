/* Timings that are alike: most of a block's timings are the same if nothing disturbs it. */
#ifndef COUNTERPOINT_BLOCK_ALIKE_H
#define COUNTERPOINT_BLOCK_ALIKE_H

struct cp__alike {
    unsigned n;    /* how many */
    double time;   /* their mean: a clock that ticks in steps is rounded off by it */
    double spread; /* the longest less the shortest */
};

/* Finds the most timings, of n, that are within one step of the clock of each other, or within 1/500. */
struct cp__alike cp__alike_find(const double *times, unsigned n, double step);

#endif
