/*
 * How an unmodified program is told to profile itself: by its environment, which the preloaded library reads
 * and `counterpoint run` writes.
 *
 *     LD_PRELOAD=…/libcounterpoint-preload.so CP_CPUPROFILE=/tmp/%n.%p.pb.gz PROGRAM
 *
 * With …/libcounterpoint-preload-waits.so behind it, separated by a colon, the program's waits are told,
 * too.
 */
#ifndef COUNTERPOINT_PRELOAD_SETTINGS_H
#define COUNTERPOINT_PRELOAD_SETTINGS_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "pprof.h"
#include "runtime/switch_cost.h"

/* The file for a profile. "%p" stands for the process's id, "%n" for the program's name, and "%%" for "%".
 * Without "%p", the first process has the file of that name, and its children have ".PID" in front of
 * ".pb.gz". With several events, each profile has ".EVENT" there, too. If the variable is not set, nothing is
 * profiled. */
#define CP__VARIABLE_FILE "CP_CPUPROFILE"
/* Events with commas between, each with its period if it is not to have the event's preset:
 * "taskClock:1000000". Without the variable, the best event that this machine has: see cp__best_event(). */
#define CP__VARIABLE_EVENT "CP_CPUPROFILE_EVENT"
/* The seconds after which a process's profile ends, and its program goes on; without the variable, at its
 * end. */
#define CP__VARIABLE_SECONDS "CP_CPUPROFILE_SECONDS"
/* Where the first process serves the endpoint of counterpoint/http.h, such as "127.0.0.1:6060". */
#define CP__VARIABLE_HTTP "CP_CPUPROFILE_HTTP"
/* "later": the profiles have addresses instead of names of code in files and in the kernel, because to read
 * symbols may take more CPU time than a short process does itself. "later:PID" does so if the process with
 * that id is there when this one ends: `counterpoint run`, which sets the variable, adds the names at its
 * end. `counterpoint report` shows them, too. */
#define CP__VARIABLE_NAMES "CP_CPUPROFILE_NAMES"
/* Internal, for processes that `counterpoint run` starts: what a sample costs on this machine, in ns, and
 * then, with commas between, the members of struct cp__switch_costs, so that none of them need measure that.
 * Numbers that make no sense are as none. */
#define CP__VARIABLE_COST "CP_CPUPROFILE_COST"
#define CP__COST_FORMAT "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
/* The same for sscanf(). */
#define CP__COST_SCAN "%" SCNu64 ",%" SCNu64 ",%" SCNu64 ",%" SCNu64 ",%" SCNu64
/* Set by the first process, for those that it starts: its id. */
#define CP__VARIABLE_FIRST "CP_CPUPROFILE_FIRST"

struct cp__preload_settings {
    char *file; /* NULL: no profile is wanted */
    char *event_list;
    char *events[CP_EV_MAX]; /* parts of event_list */
    uint64_t periods[CP_EV_MAX];
    size_t n;
    /* The program's name, copied because a program may write over its arguments; NULL in the command. */
    char *program;
    double seconds;                       /* 0: to the end */
    uint64_t cost_ns;                     /* of a sample; 0: not told */
    struct cp__switch_costs switch_costs; /* the same */
    bool are_names_left;
    int namer;         /* the process that adds names; 0: whichever does */
    char *http;        /* NULL: no endpoint */
    bool is_first;     /* whether the process is the one that was told, or what that one has executed since */
    bool has_executed; /* the latter: the file may be there, and is then not replaced */
};

/* Reads the environment. Returns -EINVAL, with a sentence that names the variable, if a value makes no sense.
 * The strings are the caller's, for the life of the process. */
int cp__preload_settings(struct cp__preload_settings *settings, struct cp_error *err);
/* Splits a list of events with their periods into settings->events; checks that each of them has a name that
 * means something, and that there are not too many. */
int cp__preload_take_events(struct cp__preload_settings *settings, const char *list, struct cp_error *err);
/* Returns whether one of the events is about what the program's threads wait for. */
bool cp__preload_records_waits(const struct cp__preload_settings *settings);
/* Parses a number of seconds above 0; 0 if the text is none. */
double cp__preload_seconds(const char *text);

/* Returns the best event for CPU time that can be sampled here: cycles, or else taskClock, or else timer,
 * which every machine has. Opens events on the calling thread, and closes them. */
const char *cp__best_event(void);

/* Returns the path of the file for an event: see CP__VARIABLE_FILE. event: NULL if there is one only.
 * `again`: 0, or the number of this attempt if files of the names before exist. The caller frees the path;
 * NULL: no memory. */
char *cp__profile_path(const char *pattern, const char *program, int pid, bool is_first, const char *event,
                       unsigned again);

/* Prints a path that stands for itself in such a pattern: a "%" becomes "%%". */
void cp__print_pattern_of(FILE *out, const char *path);

#endif
