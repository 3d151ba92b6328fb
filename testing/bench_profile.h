/* -benchprofile: one profile of the loops of all benchmarks, each labelled with its name. */
#ifndef COUNTERPOINT_TESTING_BENCH_PROFILE_H
#define COUNTERPOINT_TESTING_BENCH_PROFILE_H

#include "profile.h"
#include "test.h"

/* In the runner, before the first benchmark: 0, or why there can be no such profile. */
int cp__bench_profile_open(const struct cp__profile_flags *flags, struct cp_error *err);
/* There, after the last one: whether it could be written, or none was asked for. */
bool cp__bench_profile_write(void);

/* In the benchmark's process, around its loop. */
void cp__bench_profile_start(struct cp__test *test);
void cp__bench_profile_stop(struct cp__test *test);

/* Labels what the calling G, and those that it starts, do from now on as the benchmark's, or as nobody's. */
void cp__bench_label(const struct cp__test *test);
void cp__bench_unlabel(void);

#endif
