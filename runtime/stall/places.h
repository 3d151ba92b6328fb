/* Where stalls were: each place once, with sums. */
#ifndef COUNTERPOINT_RUNTIME_STALL_PLACES_H
#define COUNTERPOINT_RUNTIME_STALL_PLACES_H

#include <stdbool.h>

#include "stall.h"

struct cp__place;

/* Forgets all places and sums: another search begins. */
void cp__places_clear(void);
/* Adds a stall that has lasted for stall->longest_ns. Returns its place, and whether it is new; NULL if there
 * is no room, or no memory. Takes a reference of the labels if they are kept. */
struct cp__place *cp__places_add(const struct cp_stall *stall, bool *is_new);
/* A stall of that place goes on, or has ended: it has lasted for ns, and not for told_ns as was told before.
 * place may be NULL. */
void cp__places_go_on(struct cp__place *place, enum cp_stall_kind kind, uint64_t told_ns, uint64_t ns);
/* Notes that a stall was reported, or was not because there were too many. */
void cp__places_note_report(bool is_suppressed);
/* Fills in what the places add up to. */
void cp__places_sum(struct cp_stalls_stats *stats);
/* In the child of a fork: the lock is free, and the places are lost. */
void cp__places_forget(void);

#endif
