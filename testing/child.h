/* The process of a test, from the runner's fork() to the end of the process. */
#ifndef COUNTERPOINT_TESTING_CHILD_H
#define COUNTERPOINT_TESTING_CHILD_H

#include "event.h"
#include "options.h"
#include "output.h"

/* A test to run, and how to run it. Immutable. */
struct cp__job {
    const struct cp_test_case *test;
    const struct cp__options *options;
    unsigned cpu;
    const char *temp_root; /* parent of the test's temporary directories; may be NULL if temp_error is set */
    int temp_error;        /* 0, or the errno value that says why temp_root is missing */
};

/* The ends of the two sockets and the pipe that the test's process uses. */
struct cp__child_ends {
    int events;  /* events go out; the answer to CP__EVENT_STOPPED comes in */
    int control; /* a byte comes in when the runner wants the stacks of all Gs */
    int output;  /* stdout and stderr */
    const struct cp__output_counts *output_counts;
};

/* Runs the job in the calling process, which is a child of the runner, and ends that process. */
_Noreturn void cp__child_run(const struct cp__job *job, const struct cp__child_ends *ends);
/* Runs the job in the runner's own process (-inprocess): event() is called for each event. */
void cp__child_run_in_process(const struct cp__job *job, void (*event)(const struct cp__event *event));

#endif
