/*
 * Samples between the buffers of the Ms and a profile.
 *
 * A reader's pass learns from the linker only afterwards whether objects were loaded or unloaded while the
 * samples were taken that it has read. So samples are copied first, and are folded in after the look. If the
 * linker has loaded and unloaded nothing since the mappings were noted, all addresses are in these mappings.
 * Else the mappings are noted anew, and each address is in one of those that held it at the time before or
 * now. If these are different ones, the frame is "[code replaced]".
 *
 * The copies have the words
 *
 *     [0] number of kernel frames << 48 | flags << 16 | number of rounds << 12 | number of frames
 *     [1] weight   [2] labels (a reference)   [3] ip   [4] data address   [5] what was loaded   [6...] frames
 *     then the rounds of watches, and the further values, as many as the profile's stacks have
 *
 * A stack has no time and no thread, and what is staged is of this process, so these have no words.
 */
#include <string.h>
#include <time.h>

#include "profile_data.h"
#include "rounds.h"
#include "runtime/base/clock.h"
#include "runtime/base/loads.h"

enum { HEADER = 6 };
_Static_assert(HEADER + CP_MAX_FRAMES + CP_SAMPLE_ROUNDS + CP__MAX_FURTHER <= CP__STAGE_WORDS,
               "a sample fits");
_Static_assert(CP_SAMPLE_ROUNDS < 16 && CP_MAX_FRAMES < 4096, "the numbers fit");

uint64_t cp__profile_stage(struct cp__profile *p, const struct cp_sample *sample)
{
    return cp__profile_stage_values(p, sample, NULL);
}

uint64_t cp__profile_stage_values(struct cp__profile *p, const struct cp_sample *sample,
                                  const uint64_t *further)
{
    const uint32_t depth = sample->depth < CP_MAX_FRAMES ? sample->depth : CP_MAX_FRAMES;
    const uint32_t n_rounds = sample->n_rounds < CP_SAMPLE_ROUNDS ? sample->n_rounds : CP_SAMPLE_ROUNDS;
    const size_t n = HEADER + depth + n_rounds + p->n_further;
    uint64_t lost = 0, *words;

    if (n > CP__STAGE_WORDS - p->n_staged)
        lost = cp__profile_settle(p);
    words = p->staged + p->n_staged;
    words[0] = (uint64_t)sample->kernel_depth << 48 | (uint64_t)sample->flags << 16 | n_rounds << 12 | depth;
    words[1] = sample->weight;
    words[2] = (uintptr_t)cp_labels_ref(sample->labels);
    words[3] = sample->ip;
    words[4] = sample->addr;
    words[5] = sample->loads;
    if (depth > 0)
        memcpy(words + HEADER, sample->frames, depth * sizeof *words);
    if (n_rounds > 0)
        memcpy(words + HEADER + depth, sample->rounds, n_rounds * sizeof *words);
    for (size_t i = 0; i < p->n_further; i++)
        words[HEADER + depth + n_rounds + i] = further != NULL ? further[i] : 0;
    p->n_staged += n;
    return lost;
}

static struct cp_sample staged_at(const uint64_t *words)
{
    const unsigned depth = words[0] & 0xfff;

    return (struct cp_sample){.weight = words[1],
                              .labels = (struct cp_labels *)(uintptr_t)words[2],
                              .flags = (unsigned)(words[0] >> 16),
                              .depth = depth,
                              .kernel_depth = (unsigned)(words[0] >> 48),
                              .frames = (const uintptr_t *)(words + HEADER),
                              .ip = words[3],
                              .addr = words[4],
                              .loads = words[5],
                              .n_rounds = words[0] >> 12 & 0xf,
                              .rounds = words + HEADER + depth};
}

/* Notes the mappings that have changed, and lets the reader rest from that. */
static bool note_changes(struct cp__profile *p)
{
    const int64_t began = cp__clock_ns(CLOCK_THREAD_CPUTIME_ID);
    const int result = cp__profile_note_mappings(p);

    cp__loads_rest((uint64_t)(cp__clock_ns(CLOCK_THREAD_CPUTIME_ID) - began));
    return result == 0;
}

uint64_t cp__profile_settle(struct cp__profile *p)
{
    bool is_known = true; /* what was mapped */
    uint64_t lost = 0;

    p->is_between = cp__mappings_have_changed(&p->mappings);
    if (p->is_between)
        is_known = note_changes(p);
    for (size_t at = 0; at < p->n_staged;) {
        const struct cp_sample sample = staged_at(p->staged + at);
        const uint64_t *further = sample.rounds + sample.n_rounds;

        if (!is_known || cp__profile_add_values(p, &sample, further) < 0)
            lost += sample.weight;
        cp_labels_unref(sample.labels);
        at += HEADER + sample.depth + sample.n_rounds + p->n_further;
    }
    p->n_staged = 0;
    p->is_between = false;
    cp__profile_rounds_look(p, false);
    return lost;
}

void cp__stage_drop(struct cp__profile *p)
{
    for (size_t at = 0; at < p->n_staged;) {
        const struct cp_sample sample = staged_at(p->staged + at);

        cp_labels_unref(sample.labels);
        at += HEADER + sample.depth + sample.n_rounds + p->n_further;
    }
    p->n_staged = 0;
}
