/* What the files of runner_sample share. */
#ifndef COUNTERPOINT_TESTS_RUNNER_SAMPLE_H
#define COUNTERPOINT_TESTS_RUNNER_SAMPLE_H

#include "testing.h"

/* It is always 0, and the compiler cannot know that. */
extern volatile int zero;

/* Crashes. Stacks show the call, because it is not the last action of its caller. */
int writes_to_nowhere(void) __asm__("_ZN6sample17writes_to_nowhereEv"); /* as if it were of C++ */

/* A subtest that logs its name. */
void passing(struct cp_t *t, void *unused);

#endif
