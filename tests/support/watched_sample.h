/* What watched_sample.c does, and watch_command_pmu_test.c expects. */
#ifndef COUNTERPOINT_TESTS_WATCHED_SAMPLE_H
#define COUNTERPOINT_TESTS_WATCHED_SAMPLE_H

#define WATCHED_INSTRUCTIONS 400000
#define WATCHED_CALLS 60
#define WATCHED_THREADS 3

#endif
