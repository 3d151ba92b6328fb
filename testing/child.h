/* The process of a test: between the runner's fork and its end. */
#ifndef COUNTERPOINT_TESTING_CHILD_H
#define COUNTERPOINT_TESTING_CHILD_H

#include "event.h"
#include "options.h"
#include "output.h"

/* A test that is to run: immutable. */
struct cp__job {
    const struct cp_test_case *test;
    const struct cp__options *options;
    unsigned cpu;
    const char *temp_root; /* for the test's directories; may be NULL if it is not there */
    int temp_error;        /* why it is not there, as of errno; 0: it is */
};

/* The ends of the sockets and the pipe that a test's process has. */
struct cp__child_ends {
    int events;  /* its events go out, answers to STOPPED come in */
    int control; /* a byte comes in when the stacks of all Gs are wanted */
    int output;  /* stdout and stderr */
    const struct cp__output_counts *output_counts;
};

/* Runs the job in a child process and ends that. */
_Noreturn void cp__child_run(const struct cp__job *job, const struct cp__child_ends *ends);
/* Runs it in this one, where events are calls. */
void cp__child_run_in_process(const struct cp__job *job, void (*event)(const struct cp__event *event));

#endif
