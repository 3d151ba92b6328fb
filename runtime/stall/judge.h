/* What a thread did while its M's G held it: by clocks alone. */
#ifndef COUNTERPOINT_RUNTIME_STALL_JUDGE_H
#define COUNTERPOINT_RUNTIME_STALL_JUDGE_H

#include "runtime/m.h"
#include "stall.h"

/* The kernel tells stolen time in such steps. */
#define CP__STOLEN_STEP_NS 10000000u

/* Returns what is to be said of a stint that has lasted for so long: CP_STALL_NOT_RUN if it would have been
 * shorter than the threshold, had the system and the host run the thread all the time; else what the thread
 * did for most of the time between the two readings of its clocks. */
enum cp_stall_kind cp__stall_judge(const struct cp__stint_clocks *first, const struct cp__stint_clocks *last,
                                   uint64_t lasted, uint64_t threshold);

#endif
