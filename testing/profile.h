/*
 * Profiles of test programs, for the files that take them: flags.c reads the flags, parts.c makes one profile
 * of what several processes sampled, profile.c is what testing.h shows of both.
 */
#ifndef COUNTERPOINT_TESTING_PROFILE_H
#define COUNTERPOINT_TESTING_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "pprof.h"

/* ---- Flags: flags.c -------------------------------------------------------------------------- */

/* What a profile is to be of; the strings are argv's. */
struct cp__profile_flags {
    const char *file;   /* NULL: no profile */
    const char *events; /* with commas between; NULL: timer */
    uint64_t period;    /* 0: the event's preset */
};

/* Takes the three flags of testing.h out of argv, which stays terminated by NULL. What makes no sense in one
 * of them ends the program: see cp__bad_usage(). Whether there is a file is for the caller to look at. */
void cp__profile_flags_take(int *argc, char **argv, struct cp__profile_flags *flags);

/* Says on stderr what is wrong with the command line, and which flags there are, and exits with status 2. */
_Noreturn void cp__bad_usage(const char *program, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A number of at least 1, in decimal digits only; 0 where the text is none or it does not fit. */
uint64_t cp__parse_count(const char *text);

/* ---- Parts: parts.c -------------------------------------------------------------------------- */

/*
 * A profile (with several events: one of each) that several processes sample for, one after the other or at
 * once. What the process that opened the parts samples itself stays in its memory; others write theirs into a
 * directory of the run's own when they are done. In the end it is all made one file.
 */
struct cp__parts;
/* What one process samples for it, at one time. */
struct cp__part;

/* Whether profiles that are to go to a and to b, of the same events, would be written over each other. */
bool cp__parts_same_file(const char *a, const char *b);
/* Makes the directory. -EACCES and the like where the profile's file could not be written later on. */
int cp__parts_open(struct cp__parts **parts, const struct cp__profile_flags *flags, struct cp_error *err);
/* Whether this machine refuses one of the events, whose names are right. */
bool cp__parts_are_refused(const struct cp__parts *parts);
/* For processes that were started anew: a word for the environment that says which parts these are, and the
 * parts that it stands for. Free both. NULL: no memory; no sense in it. */
char *cp__parts_name(const struct cp__parts *parts);
struct cp__parts *cp__parts_named(const char *name);
/* Adds what there is in the directory, writes the profile's file, and frees the parts. The directory is taken
 * away, unless something went wrong; then stderr says what, and where it is, and it returns 1. Otherwise 0.
 * For the process that opened the parts. */
int cp__parts_merge(struct cp__parts *parts);
/* Takes the directory away. */
void cp__parts_remove(const struct cp__parts *parts);
/* Frees it and keeps the directory. NULL does nothing. */
void cp__parts_free(struct cp__parts *parts);

/* Starts sampling in this process, which may have been forked from the one that opened the parts; they must
 * live until the part is stopped. The calling thread becomes an M. Errors as cp_session_start(). */
int cp__part_start(struct cp__part **part, struct cp__parts *parts, struct cp_error *err);
/* Says on stderr what may be wrong with it: cp_session_warning(). */
void cp__part_warn(const struct cp__part *part);
/* Stops it, keeps what was sampled, and frees the part, also where that fails. */
int cp__part_stop(struct cp__part *part, struct cp_error *err);
/* Whether the calling process opened them, and not one from which it was forked. NULL: no. */
bool cp__parts_are_mine(const struct cp__parts *parts);
/* Whether the calling process started it, and not one from which it was forked. NULL: no. */
bool cp__part_is_mine(const struct cp__part *part);
/* Frees the part, and what it has sampled. NULL does nothing. */
void cp__part_drop(struct cp__part *part);

/* ---- The program's profile: profile.c -------------------------------------------------------- */

/* cp_testing_start(), of flags that were taken already. With is_by_children this process is not sampled: one
 * with a profile's thread had better not fork, for the child has whatever locks that thread held. */
void cp__profile_start(const struct cp__profile_flags *flags, bool is_by_children);

#endif
