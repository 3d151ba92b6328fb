/* What a merged profile says if it has no samples; see merge.h. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comments.h"
#include "merge.h"

#define MARK " # " /* between value and sentence of a comment */

/* Returns the number of characters of a value. */
static size_t value_length(const char *value)
{
    const char *end = strstr(value, MARK);

    return end != NULL ? (size_t)(end - value) : strlen(value);
}

/* ---- The profiles' figures ------------------------------------------------------------------- */

#define FIGURE(key, member)                                                                                  \
    {                                                                                                        \
        key, offsetof(struct cp__tally, member)                                                              \
    }

/* The comments whose numbers are summed up, and where. */
static const struct {
    const char *key;
    size_t at;
} summed[] = {
    FIGURE("samples", samples),         FIGURE("count", count),   FIGURE("excluded_ns", excluded),
    FIGURE("threads", threads),         FIGURE("dropped", lost),  FIGURE("lost", lost),
    FIGURE("threads_refused", refused), FIGURE("unfolded", lost), FIGURE("more_comments", left_out),
};

void cp__tally_add(struct cp__tally *tally, const char *comment)
{
    const char *value = cp__comment_value(comment, "event");

    if (value != NULL) {
        snprintf(tally->event, sizeof tally->event, "%.*s", (int)value_length(value), value);
        tally->n++;
    }
    for (size_t i = 0; i < sizeof summed / sizeof summed[0]; i++) {
        value = cp__comment_value(comment, summed[i].key);
        if (value != NULL)
            *(uint64_t *)(void *)((char *)tally + summed[i].at) += strtoull(value, NULL, 10);
    }
}

/* ---- The profiles' comments ------------------------------------------------------------------ */

const char *cp__tally_comment(const char *comment, char text[CP__TALLY_COMMENT])
{
    const char *keys = cp__comment_value(comment, "limits"), *empty, *rest;

    if (cp__comment_value(comment, "empty") != NULL)
        return NULL;
    empty = keys == NULL ? NULL : cp__keys_find(keys, value_length(keys), "empty");
    if (empty == NULL || strlen(comment) >= CP__TALLY_COMMENT)
        return comment;
    rest = empty + strlen("empty");
    if (*rest == ',')
        rest++; /* before another key */
    else if (empty > keys)
        empty--; /* to the comma behind another key */
    else
        return "limits: none # nothing is known to be missing";
    snprintf(text, CP__TALLY_COMMENT, "%.*s%s", (int)(empty - comment), comment, rest);
    return text;
}

/* ---- The merged profile ---------------------------------------------------------------------- */

/* Finds out what came of the event in all the profiles together. Returns false if that is unknown, because
 * one of the profiles does not tell, or was subtracted. */
static bool yield_of(const struct cp_merge *m, struct cp__yield *yield)
{
    const struct cp__tally *tally = &m->tally;
    struct cp_event_spec spec = {.size = sizeof spec};

    if (tally->n == 0 || tally->n != m->n_profiles || tally->left_out != 0)
        return false;
    *yield = (struct cp__yield){.event = tally->event,
                                .period = m->period > 0 ? (uint64_t)m->period : 0,
                                .samples = tally->samples,
                                .lost = tally->lost,
                                .count = cp__yield_count(tally->count, tally->excluded),
                                .threads = tally->threads,
                                .refused = tally->refused};
    if (yield->samples == 0) /* or the kind does not matter */
        yield->kind = cp_event_parse(tally->event, &spec, NULL) == 0 ? spec.kind : CP_EVENT_SOFTWARE;
    return true;
}

bool cp__tally_is_empty(const struct cp_merge *m, char comment[CP__TALLY_COMMENT])
{
    char value[CP__EMPTY_VALUE], phrase[CP__EMPTY_TEXT];
    struct cp__yield yield;

    if (!yield_of(m, &yield) || !cp__empty_by_period(&yield, value, phrase))
        return false;
    snprintf(comment, CP__TALLY_COMMENT, "empty: %s" MARK "%s", value, phrase);
    return true;
}

const char *cp_merge_warning(struct cp_merge *m)
{
    struct cp__yield yield;

    m->warning[0] = '\0';
    if (yield_of(m, &yield))
        cp__empty_warn(&yield, m->warning);
    return m->warning[0] != '\0' ? m->warning : NULL;
}
