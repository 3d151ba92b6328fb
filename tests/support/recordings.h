/* What tests of recordings of waits share: starting one, and what it has recorded. */
#ifndef COUNTERPOINT_TESTS_RECORDINGS_H
#define COUNTERPOINT_TESTS_RECORDINGS_H

#include <string.h>

#include "runtime/wait/recording.h"
#include "test.h"

static inline struct cp__recording *start_recording(enum cp__wait_event event, uint64_t period)
{
    struct cp__recording *recording = NULL;
    struct cp_error err = {0};
    int result = cp__recording_start(event, period, &recording, &err);

    CHECKF(result == 0, "%s", err.message);
    return recording;
}

/* Which records a test looks for, and what they add up to. */
struct sought {
    enum cp_wait_reason reason; /* CP_WAIT_REASONS: any */
    uintptr_t frame;            /* in the stack; 0: any stack */
    const char *label;          /* the value of the first label; NULL: any, or none */

    unsigned records;
    uint64_t sampled;
    double waits;
    uint64_t delay;
    const void *object; /* of the last one */
    unsigned depth, flags, place;
    uintptr_t frames[CP_MAX_FRAMES];
};

/* Returns the place of a frame; the depth: there is none. */
static inline unsigned place_of_frame(const struct cp__waits *waits, uintptr_t frame)
{
    unsigned place = 0;

    while (place < waits->depth && waits->frames[place] != frame)
        place++;
    return place;
}

static inline int seek_waits(void *context, const struct cp__waits *waits)
{
    struct sought *sought = context;
    const unsigned place = sought->frame == 0 ? 0 : place_of_frame(waits, sought->frame);
    const char *label = cp_labels_value(waits->labels, 0);

    if ((sought->reason != CP_WAIT_REASONS && sought->reason != waits->reason) ||
        (sought->frame != 0 && place == waits->depth) ||
        (sought->label != NULL && (label == NULL || strcmp(label, sought->label) != 0)))
        return 0;
    sought->records++;
    sought->sampled += waits->sampled;
    sought->waits += waits->waits;
    sought->delay += waits->delay;
    sought->object = waits->object;
    sought->flags = waits->flags;
    sought->place = place;
    sought->depth = waits->depth;
    memcpy(sought->frames, waits->frames, waits->depth * sizeof waits->frames[0]);
    return 0;
}

static inline struct sought seek(struct cp__recording *recording, enum cp_wait_reason reason, uintptr_t frame,
                                 const char *label)
{
    struct sought sought = {.reason = reason, .frame = frame, .label = label};
    struct cp__recording_stats stats;

    CHECK_EQ(cp__recording_each(recording, &stats, seek_waits, &sought), 0);
    return sought;
}

/* The same of all. Checks the figures of the whole. */
static inline struct sought seek_all(struct cp__recording *recording)
{
    struct sought sought = {.reason = CP_WAIT_REASONS};
    struct cp__recording_stats stats;

    CHECK_EQ(cp__recording_each(recording, &stats, seek_waits, &sought), 0);
    CHECK_EQ(stats.sampled, sought.sampled);
    CHECK_EQ(stats.delay, sought.delay);
    CHECK_EQ(stats.dropped, 0);
    CHECK_EQ(stats.dropped_ns, 0);
    return sought;
}

#endif
