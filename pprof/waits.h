/* What sessions record of waits: the parts whose event is wait, runnable, lock or wall have a recording in
 * place of a slot. It is read into the part's profile when the session halts. */
#ifndef COUNTERPOINT_PPROF_WAITS_H
#define COUNTERPOINT_PPROF_WAITS_H

#include "comments.h"
#include "runtime/wait/recording.h"
#include "session.h"

/* ---- Profiles of waits ----------------------------------------------------------------------- */

/* Makes an empty profile whose stacks have the time waited as their further value, or with the event wall the
 * time of whatever it was. Returns 0 or -ENOMEM. */
int cp__waits_new_profile(struct cp__profile **profile, enum cp_cpu_event event);

/* What a profile has of a recording. */
struct cp__waits_folded {
    struct cp__recording_stats stats;
    uint64_t truncated, incomplete; /* waits with such stacks */
    uint64_t unfolded;              /* waits that found no memory in the profile */
};
/* Adds what the recording has to the profile: each stack with the labels of its G, and with the labels
 * "reason" and, if it is known, "object"; of the event wall, with the label "state", and these two of what
 * waits. Adds what was lost as a frame with a name. */
void cp__waits_fold(struct cp__recording *recording, struct cp__profile *profile,
                    struct cp__waits_folded *folded);

/* Sets what the file says of the types of such a profile: those of the event, or those of Go's profiles. */
void cp__waits_set_types(struct cp__profile_meta *meta, enum cp_cpu_event event, bool is_contention);

/* ---- Parts of sessions ----------------------------------------------------------------------- */

/* Begins the recordings of a session's parts; all or none. Returns what cp__recording_start() returns, or
 * -EINVAL for a bad config. */
int cp__waits_start(struct cp_session *session, struct cp_error *err);
/* Ends them. What was recorded stays. */
void cp__waits_stop(const struct cp_session *session);
/* Reads the recording of a stopped part into its profile, stores the part's figures, and frees the
 * recording. */
void cp__waits_read_up(struct cp_session *session, size_t i);
/* The same for any recording, which goes on if it runs. */
void cp__waits_read(struct cp__recording *recording, struct cp_session *session, size_t i);
/* Fills the figures of a part whose recording runs. */
void cp__waits_stats(const struct cp__part *part, struct cp_slot_stats *stats);
/* Ends and frees the part's recording, if there is one. */
void cp__waits_drop(struct cp__part *part);

/* Calls fn for each comment on how the part was recorded. */
void cp__waits_lines(const struct cp__part *part, const struct cp_slot_stats *stats, cp__comment_line_fn *fn,
                     void *context);

#endif
