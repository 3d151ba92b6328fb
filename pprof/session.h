/*
 * A session, for the files that make one: start.c checks and starts it, session.c runs, stops and
 * writes it, report.c says how it went, default.c keeps the default one.
 */
#ifndef COUNTERPOINT_PPROF_SESSION_H
#define COUNTERPOINT_PPROF_SESSION_H

#include <pthread.h>
#include <sys/types.h>

#include "pprof.h"
#include "profile.h"
#include "runtime/base/clock.h"
#include "runtime/base/lock.h"

/* One option of a session. Owned by the profile-writer thread while there is one, else by the session's lock.
 */
struct cp__part {
    struct cp_event_spec event;
    struct cp_cpu_profile_config config;
    char warning[320]; /* "": none */
    struct cp_writer writer;
    struct cp__profile *profile;
    uint64_t read;     /* periods that came with samples */
    uint64_t unfolded; /* periods whose samples found no memory */
    bool opened;       /* the writer */
    bool written;
    int result; /* of the last attempt to write */
    struct cp_error error;
};

struct cp_session {
    /* Immutable once started. */
    pid_t pid;
    bool is_default; /* or was */
    size_t n;
    int slots[CP_EV_MAX];
    int64_t time_ns;    /* wall clock at the start */
    int64_t started_ns; /* monotonic */

    /* Under the lock. */
    struct cp__lock lock;
    bool running;
    int64_t duration_ns;
    struct cp_slot_stats stats[CP_EV_MAX]; /* as they were at the stop */
    uint64_t rate_limit;                   /* too; 0: unknown */
    pthread_t thread;

    /* Shared: set by the one who stops, read by the profile-writer thread. */
    uint32_t stopping;

    struct cp__part parts[CP_EV_MAX];
};

/* Starts the profile-writer thread. */
int cp__session_collect(struct cp_session *session);
/* Folds a sample into a part (a cp_sample_fn), or only counts it, if it is the time of a stall. */
void cp__part_fold(void *part, const struct cp_sample *sample);
/* Takes the figures of option i, of a slot that has stopped, and the samples that they count. */
void cp__session_read_up(struct cp_session *session, size_t i);
bool cp__session_is_running(struct cp_session *session);
/* Frees a session that does not run. */
void cp__session_free(struct cp_session *session);
/* Where it still is the default session, it is none any more. */
void cp__default_forget(const struct cp_session *session);

/* The time that a period of the part stands for in the profile: ns for timer and clocks, else events. */
uint64_t cp__part_period(const struct cp__part *part);

/* Puts what was lost into the profile, as frames named for it; once, after the stop. */
int cp__report_losses(struct cp__part *part, const struct cp_slot_stats *stats);
/* Encodes the part's profile to w, with comments on how it was measured. */
int cp__report_write(struct cp_session *session, size_t i, struct cp_writer *w, bool is_text,
                     struct cp_error *err);
/* Encodes or prints a resolved profile to w, in one attempt. Called on a thread of cp__thread_start(). */
int cp__report_to(const struct cp__profile *profile, const struct cp__profile_meta *meta, struct cp_writer *w,
                  struct cp_error *err);

#endif
