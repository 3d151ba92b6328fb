/* -benchprofile: one profile of the loops of all benchmarks, whose samples are labelled with the benchmark's
 * name. */
#ifndef COUNTERPOINT_TESTING_BENCH_PROFILE_H
#define COUNTERPOINT_TESTING_BENCH_PROFILE_H

#include "profile.h"
#include "test.h"

/* Called in the runner before the first benchmark. Returns 0, or an error that says why no profile can be
 * taken. */
int cp__bench_profile_open(const struct cp__profile_flags *flags, struct cp_error *err);
/* Called in the runner after the last benchmark. Returns false if the profile could not be written. */
bool cp__bench_profile_write(void);

/* Called in the process of a benchmark, before and after the loop. Each returns 0, or an error that says why
 * there is no profile. */
int cp__bench_profile_start(const struct cp__test *test, struct cp_error *err);
int cp__bench_profile_stop(struct cp_error *err);

/* Sets or removes the label of the benchmark for what the calling G, and the Gs that it starts from now on,
 * do. */
void cp__bench_label(const struct cp__test *test);
void cp__bench_unlabel(void);

#endif
