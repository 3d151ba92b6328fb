/*
 * A profile that is being built: samples are folded together as they arrive, and are symbolised and encoded
 * once, at the end. Only one thread at a time may use a profile.
 */
#ifndef COUNTERPOINT_PPROF_PROFILE_H
#define COUNTERPOINT_PPROF_PROFILE_H

#include "pprof.h"

struct cp__profile;
struct cp__frame; /* profile_data.h */

/* What a value counts that a stack has beside its weight, such as "delay" in "nanoseconds". */
struct cp__value_type {
    const char *type;
    const char *unit;
};
enum { CP__MAX_FURTHER = 8 };

/* What a profile's file says besides the samples. */
struct cp__profile_meta {
    bool is_count; /* leave out the first sample type, "samples", because sample_type counts the same */
    const char *sample_type; /* second sample type: "cpu" for the timer and clocks, else the event's name */
    const char *sample_unit; /* "nanoseconds" or "count" */
    uint64_t period;         /* in sample_unit; the second value of a sample is its weight times the period */
    int64_t time_ns;         /* CLOCK_REALTIME at the start */
    int64_t duration_ns;
    const char *const *comments;
    size_t n_comments;
    /* What the period counts, if it does not count what the second value does. That value is the weight then,
     * as it is with a period of 1. */
    const struct cp__value_type *period_type;
    bool shows_further; /* readers show the first further value if they are not told otherwise */
    bool is_text;       /* print the profile by cp__profile_print() instead of encoding it */
    /* Print the profile of waits, whose further value is the time waited, as Go prints its own under that
     * heading, "contention" or "mutex". NULL: as CPU profiles are printed. */
    const char *contention;
};

/* Makes an empty profile. Returns 0 or -ENOMEM. */
int cp__profile_new(struct cp__profile **profile);
/* The same for a profile whose stacks have n further values, at most CP__MAX_FURTHER, which the file shows
 * behind those that are made of the weight. The types' strings must live as long as the profile. */
int cp__profile_new_with(struct cp__profile **profile, const struct cp__value_type *further, size_t n);
/* Notes the current mappings of the process. cp__profile_add() calls this function for an address in no known
 * mapping, cp__profile_settle() after the linker has loaded or unloaded objects, and cp__profile_resolve()
 * always. Returns 0 or -ENOMEM. */
int cp__profile_note_mappings(struct cp__profile *profile);
/* A sample's flag besides those of runtime.h: the G runs, so that only the function that began it is
 * known. */
#define CP__SAMPLE_RUNNING 0x10000u

void cp__profile_free(struct cp__profile *profile);

/* Tells when the samples end, in ns of CLOCK_MONOTONIC, so that code that a just-in-time compiler has made
 * later names none of them. */
void cp__profile_end(struct cp__profile *profile, int64_t ended_ns);

/* Folds a sample in, and takes a reference of its own to the labels. -ENOMEM leaves the profile unchanged. */
int cp__profile_add(struct cp__profile *profile, const struct cp_sample *sample);
/* The same for a sample with further values, as many as the profile's stacks have; NULL: all are 0. */
int cp__profile_add_values(struct cp__profile *profile, const struct cp_sample *sample,
                           const uint64_t *further);
/* The same for a sample of another process, by its number in the profile's mappings; 0: this process. */
int cp__profile_add_of(struct cp__profile *profile, uint32_t process, const struct cp_sample *sample,
                       const uint64_t *further);
/*
 * The same for samples of a program that may load and unload objects meanwhile, so that each address gets the
 * name of what was there when the sample was taken. cp__profile_stage() keeps a copy of the sample, and
 * cp__profile_settle() folds the copies in, after it has looked whether the linker has loaded or unloaded
 * objects. Samples must be settled before the profile is resolved. All return the weight of the samples that
 * are lost for lack of memory. See stage.c.
 */
uint64_t cp__profile_stage(struct cp__profile *profile, const struct cp_sample *sample);
uint64_t cp__profile_stage_values(struct cp__profile *profile, const struct cp_sample *sample,
                                  const uint64_t *further);
uint64_t cp__profile_settle(struct cp__profile *profile);
/* Adds weight to a sample of a single frame that has a name and no address, such as "[dropped: sample buffer
 * full]". Names must not have (...) or <...>, which readers take for C++ and cut out. */
int cp__profile_add_named(struct cp__profile *profile, const char *frame, uint64_t weight);
int cp__profile_add_named_values(struct cp__profile *profile, const char *frame, uint64_t weight,
                                 const uint64_t *further);

/* Returns the frame that cp__profile_add() made for an address of this process (for a return address, the
 * address minus 1); NULL if there is none. */
const struct cp__frame *cp__profile_find(const struct cp__profile *profile, uint64_t address);

/* A module with functions that have no names. The strings live as long as the profile. */
struct cp__profile_missing {
    const char *module; /* the mapping's file */
    const char *why;    /* a sentence, "its file ..." */
};
enum { CP__MAX_MISSING = 6 };

/* What cp__profile_resolve() has found out about the profile as a whole. */
struct cp__profile_findings {
    uint64_t elsewhere; /* weight of the samples whose recorded instruction is in another function than the
                         * interrupted one, or in no known function; they keep the interrupted instruction */
    uint64_t
        replaced;     /* weight of the samples with a frame in code that other code has taken the place of, so
                         * close to the sample that nobody knows which one ran */
    int maps_unread;  /* why /proc/self/maps could not be read, as a negative errno; 0: it could */
    uint64_t unnamed; /* addresses without a name for lack of memory; the next call looks them up again */
    uint64_t later;   /* addresses whose names are left for later; the same: see cp__profile_leave_names() */
    char kernel
        [256]; /* why kernel frames have no names, and what to do; "": they have names, or do not exist */
    struct cp__profile_missing missing[CP__MAX_MISSING]; /* the first of n_missing */
    size_t n_missing;
};

/* Looks up the frames that were added since the last call, and those that have no name for lack of memory.
 * Names take much more memory than anything else; if there is not enough memory for them, the frames stay
 * addresses. Returns 0, or -ENOMEM without any loss. */
int cp__profile_resolve(struct cp__profile *profile, struct cp__profile_findings *findings,
                        struct cp_error *err);
/* The same for profiles that can be taken again: also returns -ENOMEM if a name is missing for lack of
 * memory. */
int cp__profile_resolve_all(struct cp__profile *profile, struct cp_error *err);

/* Leaves names for later, or no longer: frames in files and in the kernel stay addresses, because to read the
 * symbols may take more CPU time than a short process does itself. What only this process can know is looked
 * up all the same. cp__naming_write() adds the names to the file: see naming.h. */
void cp__profile_leave_names(struct cp__profile *profile, bool leave);

/* Encodes the profile, as resolved last, and writes it gzipped to w by ops->write alone, with a fixed amount
 * of memory. May be called again: without new samples, and if no round with samples has ended since,
 * resolving and encoding write the same bytes again. Returns 0, the writer's error, or -ENOMEM; after an
 * error nothing is lost. */
int cp__profile_encode(const struct cp__profile *profile, const struct cp__profile_meta *meta,
                       struct cp_writer *w);

/* Prints the profile as text instead: see cp_session_write_text(). */
int cp__profile_print(const struct cp__profile *profile, const struct cp__profile_meta *meta,
                      struct cp_writer *w);

/* Prints a line "# labels: {...}", or nothing if there are no labels. */
void cp__print_labels(FILE *out, const struct cp_labels *labels);

#endif
