/*
 * Profiles of test programs. flags.c reads the flags, parts.c merges what several processes sampled into one
 * profile, and profile.c implements the public calls of testing.h with both.
 */
#ifndef COUNTERPOINT_TESTING_PROFILE_H
#define COUNTERPOINT_TESTING_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "pprof.h"

/* ---- Flags: flags.c -------------------------------------------------------------------------- */

/* Which profile to write; the strings belong to argv. */
struct cp__profile_flags {
    const char *file;   /* NULL: no profile */
    const char *events; /* separated by commas, each with its period if it has its own; NULL: timer */
    uint64_t period;    /* of the events without a period of their own; 0: the event's default period */
    enum cp_engine engine;
    /* The files of Go's profiles of contentions, and the period of both in ns; 0: all waits. */
    const char *contention_files[2]; /* by enum cp_contention; NULL: no such profile */
    uint64_t contention_period;
};
/* Returns whether the flags ask for any profile. */
bool cp__profile_flags_ask(const struct cp__profile_flags *flags);
/* Returns what is wrong with flags that lack another one; NULL: nothing. */
const char *cp__profile_flags_lack(const struct cp__profile_flags *flags);

/* Removes the profile flags of testing.h from argv, which stays terminated by NULL. A wrong value ends
 * the program by cp__bad_usage(). The caller checks whether a file is given. */
void cp__profile_flags_take(int *argc, char **argv, struct cp__profile_flags *flags);

/* Prints to stderr what is wrong with the command line, and which flags there are, and exits with status
 * 2. */
_Noreturn void cp__bad_usage(const char *program, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Parses a number of at least 1, in decimal digits only. Returns 0 if the text is anything else or does not
 * fit. */
uint64_t cp__parse_count(const char *text);

/* ---- Parts: parts.c -------------------------------------------------------------------------- */

/*
 * The parts of a profile for which several processes sample, one after the other or at the same time; of
 * several profiles if there are several events, one for each. The process that opened the parts keeps its
 * own samples in memory; the other processes write their samples into a temporary directory when they stop.
 * In the end, all parts are merged into one file.
 */
struct cp__parts;
/* The samples of one process, from one start to its stop. */
struct cp__process_part;

/* Returns whether profiles of the same events that go to the files a and b would overwrite each other. */
bool cp__parts_same_file(const char *a, const char *b);
/* Makes the temporary directory. Returns -EACCES or a similar error if the profile's file cannot be written
 * later. */
int cp__parts_open(struct cp__parts **parts, const struct cp__profile_flags *flags, struct cp_error *err);
/* Returns whether this machine refuses one of the events although its name is right. */
bool cp__parts_are_refused(const struct cp__parts *parts);
/* For processes that are started anew: cp__parts_name() returns a string for the environment that describes
 * the parts, and cp__parts_named() makes parts of such a string. The caller frees both. NULL: no memory, or
 * a string that makes no sense. */
char *cp__parts_name(const struct cp__parts *parts);
struct cp__parts *cp__parts_named(const char *name);
/* Merges what is in the directory, writes the profile's file, and frees the parts. Returns 0 and removes the
 * directory, or prints to stderr what went wrong and where the directory is, and returns 1. Only for the
 * process that opened the parts. */
int cp__parts_merge(struct cp__parts *parts);
/* Removes the directory. */
void cp__parts_remove(const struct cp__parts *parts);
/* Frees the parts and keeps the directory. NULL does nothing. */
void cp__parts_free(struct cp__parts *parts);

/* Starts sampling in the calling process, which may have been forked from the one that opened the parts. The
 * parts must live until the part is stopped. The calling thread becomes an M. Errors are those of
 * cp_session_start(). */
int cp__process_part_start(struct cp__process_part **part, struct cp__parts *parts, struct cp_error *err);
/* Prints to stderr the warnings of the session: see cp_session_warning(). */
void cp__process_part_warn(const struct cp__process_part *part);
/* Stops sampling, keeps the samples, and frees the part, even if the call fails. */
int cp__process_part_stop(struct cp__process_part *part, struct cp_error *err);
/* Returns whether the calling process itself opened the parts. NULL: false. A forked child of that process
 * did not. */
bool cp__parts_are_mine(const struct cp__parts *parts);
/* Returns whether the calling process itself started the part. NULL: false. A forked child of that process
 * did not. */
bool cp__process_part_is_mine(const struct cp__process_part *part);
/* Frees the part with its samples. NULL does nothing. */
void cp__process_part_drop(struct cp__process_part *part);

/* ---- The program's profile: profile.c -------------------------------------------------------- */

/* Does what cp_testing_start() does, with flags that have been parsed. If is_by_children is set, only
 * children are sampled, not this process: a process that forks must not have a profile's thread, because the
 * child would inherit the locks that the thread held. */
void cp__profile_start(const struct cp__profile_flags *flags, bool is_by_children);

#endif
