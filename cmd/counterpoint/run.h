/* What `counterpoint run` consists of. */
#ifndef COUNTERPOINT_CMD_RUN_H
#define COUNTERPOINT_CMD_RUN_H

#include <stdbool.h>
#include <sys/types.h>

#include "error.h"
#include "preload/settings.h"

/* ---- The program: run_target.c --------------------------------------------------------------- */

/* Find the program along PATH, as execvp() does, and store the path, which the caller frees. Return 0, or a
 * negative errno value and a sentence: the program is not there or, for the second one, a library cannot be
 * preloaded into it. */
int run_find_path(char **path, const char *name, struct cp_error *err);
int run_find_program(char **path, const char *name, struct cp_error *err);
/* Finds the library to preload, beside this command. has_http: the one with the endpoint. */
int run_find_preload(char **path, bool has_http, struct cp_error *err);
/* Adds the library of waits to such a list of one path, with a colon between. */
int run_add_preload_of_waits(char **list, struct cp_error *err);

/* ---- While it runs, and after: run_end.c ----------------------------------------------------- */

/* One run. */
struct run {
    char *directory;     /* where the profiles go */
    const char *program; /* its name */
    struct cp__preload_settings settings;
    pid_t pid;
    double started_s; /* by cp__clock_s() */
    bool is_progress_shown;
    struct timespec began; /* by the clock of files */
};

/* Shows on a terminal how the run goes, once a second. */
void run_show_progress(struct run *run);
/* Prints what the run has left: samples, losses, files, and the hottest functions. status is that of wait(2),
 * or -1 if the program goes on. */
void run_print_end(struct run *run, int status);

/* ---- Names: run_names.c ---------------------------------------------------------------------- */

/* Adds names to those of the profiles whose processes have left that for later, and replaces their files. If
 * that fails, says so, and the file stays as it was. Returns how many there were; 0 if one could not be
 * named, so that nobody tries again. */
size_t run_name_profiles(char *const *paths, size_t n);

#endif
