/* One run of `counterpoint watch`, from the first probe to the last line. */
#ifndef COUNTERPOINT_CMD_WATCH_SESSION_H
#define COUNTERPOINT_CMD_WATCH_SESSION_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "cmd/counterpoint/commands.h"
#include "functions.h"
#include "probes.h"
#include "rounds.h"

/* What the command line says, and what was found of it. */
struct watch_request {
    char *events; /* with commas between; NULL: none */
    const char *names[WATCH_FUNCTIONS];
    size_t n_names;
    struct watch_function functions[WATCH_FUNCTIONS];
    size_t n_functions;
    struct watch_files files;
    const char *output; /* NULL: stdout */
    bool is_json;
    double seconds; /* 0: until the program ends */
    bool is_attached;
    pid_t pid;   /* of the process to attach to */
    char *path;  /* of the program to start */
    char **argv; /* the program and its arguments */
};

/* Watches the functions, and prints what was measured. */
enum status watch_session(struct watch_request *request);

/* ---- What is shown: show.c ------------------------------------------------------------------- */

/* Shows on a terminal, in a line, what the rounds are so far. */
void watch_show_progress(struct watch_rounds *rounds);
void watch_clear_progress(void);
/* Says what is not in the distributions, and why. */
void watch_tell_losses(struct watch_rounds *rounds, const struct watch_probes *probes);

#endif
