/*
 * A profile being built: samples folded together while they come in, symbolised and encoded once at the end.
 * One thread at a time.
 */
#ifndef COUNTERPOINT_PPROF_PROFILE_H
#define COUNTERPOINT_PPROF_PROFILE_H

#include "pprof.h"

struct cp__profile;
struct cp__frame; /* profile_data.h */

/* What stands in the file beside the samples. */
struct cp__profile_meta {
    bool is_count;           /* no first sample type, "samples": sample_type counts */
    const char *sample_type; /* second sample type: "cpu" for timer and clocks, else the event's name */
    const char *sample_unit; /* "nanoseconds" or "count" */
    uint64_t period;         /* in sample_unit; a sample's second value is its weight times this */
    int64_t time_ns;         /* wall clock at the start */
    int64_t duration_ns;
    const char *const *comments;
    size_t n_comments;
    bool is_text; /* cp__profile_print() it, instead of encoding it */
};

/* -ENOMEM or 0. */
int cp__profile_new(struct cp__profile **profile);
/* Notes the mappings of the process as they are now, beside those that it had before. cp__profile_add() does
 * so for an address that is in none, cp__profile_resolve() always. -ENOMEM or 0. */
int cp__profile_note_mappings(struct cp__profile *profile);
/* A flag of a sample beside those of runtime.h: nobody can read its stack but the function that began it. */
#define CP__SAMPLE_RUNNING 0x10000u

void cp__profile_free(struct cp__profile *profile);

/* Folds a sample in; takes its own reference of the labels. -ENOMEM leaves the profile as it was. */
int cp__profile_add(struct cp__profile *profile, const struct cp_sample *sample);
/* Adds weight to a sample of a single frame that stands for no address: "[dropped: sample buffer full]".
 * Readers take (...) and <...> in a name for C++ and cut them out. */
int cp__profile_add_named(struct cp__profile *profile, const char *frame, uint64_t weight);

/* The frame of an address as cp__profile_add() made it, less 1 for a return address; NULL: none. */
const struct cp__frame *cp__profile_find(const struct cp__profile *profile, uint64_t address);

/* What came to light about the profile as a whole. */
struct cp__profile_findings {
    uint64_t elsewhere; /* weight of the samples whose recorded instruction is in another function than the
                         * interrupted one, or in none that is known: they keep the interrupted one */
    uint64_t unnamed;   /* addresses without a name since there was no memory; the next call tries again */
    char kernel[256]; /* why kernel frames have no names, and what to do; "": they have, or there are none */
};

/* Finds out what the frames are that came in since the last call, or that have no name for want of memory.
 * Names take much more memory than all the rest: without that much the frames stay addresses. -ENOMEM, and
 * nothing is lost, or 0. */
int cp__profile_resolve(struct cp__profile *profile, struct cp__profile_findings *findings,
                        struct cp_error *err);
/* The same for what can be had again: -ENOMEM if any name is missing for lack of memory, too. */
int cp__profile_resolve_all(struct cp__profile *profile, struct cp_error *err);

/* Encodes the profile as it was resolved last, gzipped, to w (ops->write only), with a fixed amount of
 * memory. May be called more than once; without samples in between both calls together write the same bytes
 * again. Errors: the writer's, -ENOMEM; nothing is lost then. */
int cp__profile_encode(const struct cp__profile *profile, const struct cp__profile_meta *meta,
                       struct cp_writer *w);

/* The same as text: see cp_session_write_text(). */
int cp__profile_print(const struct cp__profile *profile, const struct cp__profile_meta *meta,
                      struct cp_writer *w);

/* A line "# labels: {...}"; of none, nothing. */
void cp__print_labels(FILE *out, const struct cp_labels *labels);

#endif
