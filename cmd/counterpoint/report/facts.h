/* What a profile says about itself, and how many samples its values stand for. */
#ifndef COUNTERPOINT_CMD_REPORT_FACTS_H
#define COUNTERPOINT_CMD_REPORT_FACTS_H

#include "model.h"

/* Returns whether a comment "KEY: VALUE" of the profile tells what is missing: if its key is in a list
 * "limits: KEY,KEY". A merged profile has several such lists. */
bool profile_is_limit(const struct profile *profile, const char *comment);

/* Adds up the numbers of all comments "key: NUMBER": a merged profile has one for each of its parts. Returns
 * false if there is none. */
bool profile_number(const struct profile *profile, const char *key, double *sum);

/* Returns the CPU time in ns that the profile says it is of (cpu_ns); 0: it does not say. */
double profile_cpu_ns(const struct profile *profile);

/* Returns whether the profile is one of waits, as Go's block and mutex profiles are: how often, how long. */
bool profile_is_of_waits(const struct profile *profile);

/* Returns how often the profiler took this stack: by the sample's value of the type "samples", or by its
 * value of `type` and the profile's period; 1 if the profile tells neither. Of waits, returns how many. */
double sample_count(const struct profile *profile, const struct profile_sample *sample, size_t type);
/* The same of all samples. */
double profile_sample_count(const struct profile *profile, size_t type);

#endif
