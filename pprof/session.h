/*
 * A session, for the files that implement it: start.c checks and starts a session, session.c runs, stops and
 * writes it, report.c writes the comments on how it went, and default.c keeps the default session.
 */
#ifndef COUNTERPOINT_PPROF_SESSION_H
#define COUNTERPOINT_PPROF_SESSION_H

#include <pthread.h>
#include <sys/types.h>

#include "empty.h"
#include "pprof.h"
#include "profile.h"
#include "runtime/base/clock.h"
#include "runtime/base/lock.h"

struct cp__recording; /* runtime/wait/recording.h */

/* One option of a session. Owned by the profile-writer thread while there is one, else by the session's lock.
 */
struct cp__part {
    struct cp_event_spec event;
    struct cp_cpu_profile_config config;
    bool is_contention; /* the profile has the names of Go's */
    int slot;           /* of a part that a slot samples */
    char warning[320];  /* "": none */
    struct cp_writer writer;
    struct cp__profile *profile;
    struct cp__recording *recording; /* of a part whose event is a wait, until the session halts */
    uint64_t dropped_ns;             /* of its waits that were lost */
    uint64_t open, open_longest_ns;  /* waits that had not ended, and the longest of them */
    bool has_no_stacks;              /* as in struct cp__recording_stats */
    uint64_t read;                   /* periods that came with samples */
    uint64_t unfolded;               /* periods whose samples found no memory */
    bool opened;                     /* the writer is open */
    bool written;
    int result; /* result of the last attempt to write */
    struct cp_error error;

    /* Shared: written as the session ends, and read by any thread once has_ended is set. */
    char empty[CP__EMPTY_TEXT]; /* why there are no samples; "": there are some */
    uint32_t has_ended;
};

struct cp_session {
    /* Immutable after the start. */
    pid_t pid;
    bool is_default; /* the session is the default session, or was */
    size_t n;
    size_t n_slots; /* parts that are sampled by slots; the others are recorded */
    int slots[CP_EV_MAX];
    int64_t time_ns;    /* CLOCK_REALTIME at the start */
    int64_t started_ns; /* monotonic */

    /* Protected by the lock: */
    struct cp__lock lock;
    bool running;
    int64_t duration_ns;
    struct cp_slot_stats stats[CP_EV_MAX]; /* as at the stop */
    uint64_t rate_limit;                   /* as at the stop; 0: unknown */
    pthread_t thread;

    /* Shared: set by the thread that stops the session, and read by the profile-writer thread. */
    uint32_t stopping;

    struct cp__part parts[CP_EV_MAX];
};

/* Stop and release the session's slots, if there are any. */
void cp__session_stop_slots(const struct cp_session *session);
void cp__session_release_slots(const struct cp_session *session);
/* Starts the profile-writer thread. */
int cp__session_collect(struct cp_session *session);
/* A cp_sample_fn: stages a sample for a part's profile, or only counts the sample if it is the time of a
 * stall. */
void cp__part_fold(void *part, const struct cp_sample *sample);
/* Stores the figures of option i, whose slot has stopped, and reads all samples that they count. */
void cp__session_read_up(struct cp_session *session, size_t i);
/* Has the session's profiles leave names for later: see cp__profile_leave_names(). */
void cp__session_leave_names(struct cp_session *session, bool leave);
/* Returns whether the session runs; takes the session's lock. */
bool cp__session_is_running(struct cp_session *session);
/* Frees a session that does not run. */
void cp__session_free(struct cp_session *session);
/* Makes the session no longer the default session, if it is. */
void cp__default_forget(const struct cp_session *session);

/* Returns whether the part is recorded, because its event is a wait: see waits.h. */
static inline bool cp__part_is_wait(const struct cp__part *part)
{
    return part->event.kind == CP_EVENT_WAIT;
}
/* Returns whether the part's event is the timer or a clock. */
bool cp__part_is_time(const struct cp__part *part);
/* Returns whether the event happens so regularly while a thread runs that the time without the event tells
 * how often it would have happened. Faults, switches, tracepoints and accesses to an address do not. */
bool cp__part_has_rate(const struct cp__part *part);
/* Returns what one period of the part stands for in the profile: ns for the timer and clocks, else events. */
uint64_t cp__part_period(const struct cp__part *part);

/* Returns what came of the part's event. */
struct cp__yield cp__part_yield(const struct cp__part *part, const struct cp_slot_stats *stats);

/* Adds what was lost or never sampled to the profile, as frames with names. Called once, after the stop. */
int cp__report_losses(struct cp__part *part, const struct cp_slot_stats *stats);

/* A part of the CPU time of the process that has no samples. */
struct cp__missing {
    const char *key; /* of its comment; NULL: another comment tells it */
    const char *sentence;
    const char *frame; /* that stands for it in the profile */
    uint64_t ns;
    const char *threads_key; /* NULL: there is no number of threads */
    const char *threads_sentence;
    uint32_t threads;
    bool is_limit;
};

/* How much of what a part should have seen its samples stand for. */
struct cp__coverage {
    double percent;
    double clocks;                  /* the percentage by which events counted less time than CPU clocks */
    bool is_complete;               /* nothing is missing, as far as the clocks agree */
    struct cp__missing missing[10]; /* those that are more than a hundredth */
    size_t n;
};
struct cp__coverage cp__coverage_of(const struct cp__part *part, const struct cp_slot_stats *stats);
/* Encodes or prints the part's profile to w, with comments on how it was measured. */
int cp__report_write(struct cp_session *session, size_t i, struct cp_writer *w, bool is_text,
                     struct cp_error *err);
/* Encodes or prints a resolved profile to w, in one attempt. Must be called on a thread of
 * cp__thread_start(). */
int cp__report_to(const struct cp__profile *profile, const struct cp__profile_meta *meta, struct cp_writer *w,
                  struct cp_error *err);

#endif
