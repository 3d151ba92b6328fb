/* What `counterpoint annotate` knows of a function. */
#ifndef COUNTERPOINT_CMD_ANNOTATE_ANNOTATION_H
#define COUNTERPOINT_CMD_ANNOTATE_ANNOTATION_H

#include "frequency.h"
#include "hot.h"
#include "judge.h"

struct block_note {
    double samples; /* how many */
    double cycles;  /* of an execution, by the samples; 0: not known */
    struct block_facts facts;
};

struct annotation {
    struct hot_function hot;
    struct flow_graph graph;
    struct block_note *notes; /* of each block */
    struct frequency_block *frequencies;
    size_t *order;     /* of the blocks, by samples */
    double samples;    /* of the function */
    double per_sample; /* the value of a sample */
    bool has_cycles;   /* the values are cycles */
    /* If the profile has them besides cycles, instructions tell how often a block has run. */
    bool has_count;
    size_t count;     /* their type */
    double per_count; /* instructions of a sample of them */
};

/* Makes the annotation of a function that was found. */
enum status annotation_make(struct annotation *annotation, struct cp_block *block);

/* Prints at most n blocks, the hottest first. */
void annotation_print(const struct annotation *annotation, size_t n, FILE *out);
/* Prints all blocks as comma-separated values, by addresses. */
void annotation_print_csv(const struct annotation *annotation, FILE *out);

#endif
