/*
 * How long the rounds took in which samples were taken.
 *
 * Who reads samples wants to know how long their rounds took, and most rounds end after their samples were
 * read. So the end of a round that has an id stores the duration here. The table has one place for each of
 * CP__SAMPLED ids that follow each other: place number i is that of the ids that are i modulo CP__SAMPLED.
 * A round that ends takes the place of the one that had it before, so a duration is there until the process
 * has sampled so many rounds more; a session asks every 50 ms.
 *
 * The table is a MiB, of which the pages are used that ids have come to.
 */
#ifndef COUNTERPOINT_RUNTIME_WATCH_SAMPLED_H
#define COUNTERPOINT_RUNTIME_WATCH_SAMPLED_H

#include <stdbool.h>
#include <stdint.h>

#define CP__SAMPLED ((uint64_t)1 << 16)

/* A round has ended, which has an id: `round` is as in struct cp_sample. Not from a signal handler. */
void cp__sampled_ended(uint64_t round, uint64_t ns);
/* Finds how long a round took, at least 1 ns; false: the round has not ended, or another round has its
 * place. */
bool cp__sampled_find(uint64_t round, uint64_t *ns);
/* In the child of a fork. */
void cp__sampled_forget(void);

#endif
