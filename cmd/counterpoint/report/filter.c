/* The rules are those of github.com/google/pprof, profile/filter.go and internal/driver/driver_focus.go. */
#include "filter.h"

#include <string.h>

#include "names.h"
#include "rounds.h"

/* ---- What matches ---------------------------------------------------------------------------- */

/* A condition, while it is applied. */
struct condition {
    regex_t expression;
    const char *key; /* of labels; NULL: functions, files and modules match */
    size_t key_length;
};

static bool location_matches(const struct condition *condition, const struct profile_location *location)
{
    for (size_t i = 0; i < location->n_lines; i++) {
        const struct profile_function *function = location->lines[i].function;

        if (function != NULL && (expression_matches(&condition->expression, function->name) ||
                                 expression_matches(&condition->expression, function->file)))
            return true;
    }
    return location->mapping != NULL && expression_matches(&condition->expression, location->mapping->file);
}

static bool label_matches(const struct condition *condition, const struct profile_label *label)
{
    return label->text != NULL && strlen(label->key) == condition->key_length &&
           strncmp(label->key, condition->key, condition->key_length) == 0 &&
           expression_matches(&condition->expression, label->text);
}

static bool sample_matches(const struct condition *condition, const struct profile_sample *sample)
{
    if (condition->key == NULL) {
        for (size_t i = 0; i < sample->n_locations; i++) {
            if (location_matches(condition, sample->locations[i]))
                return true;
        }
        return false;
    }
    for (size_t i = 0; i < sample->n_labels; i++) {
        if (label_matches(condition, &sample->labels[i]))
            return true;
    }
    return false;
}

/* ---- Options --------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    bool is_of_labels, is_kept;
} filter_rows[N_FILTERS] = {
    [FILTER_WATCH] = {"watch", false, true},       [FILTER_SLOWEST] = {"slowest", false, true},
    [FILTER_FOCUS] = {"focus", false, true},       [FILTER_IGNORE] = {"ignore", false, false},
    [FILTER_TAG_FOCUS] = {"tagfocus", true, true}, [FILTER_TAG_IGNORE] = {"tagignore", true, false},
};

const char *filter_name(enum filter filter)
{
    return filter_rows[filter].name;
}

bool filters_any(const struct filters *filters, enum filter *first)
{
    for (*first = 0; *first < N_FILTERS; ++*first) {
        if (filters->of[*first] != NULL)
            return true;
    }
    return false;
}

static enum status read_condition(struct condition *condition, enum filter filter, const char *text)
{
    const char *equals = strchr(text, '=');

    *condition = (struct condition){.key = filter_rows[filter].is_of_labels ? text : NULL};
    if (condition->key != NULL && equals == NULL)
        return complain(STATUS_USAGE, "--%s takes KEY=REGEX, such as thread=worker, and not \"%s\".",
                        filter_name(filter), text);
    if (condition->key != NULL) {
        condition->key_length = (size_t)(equals - text);
        text = equals + 1;
    }
    return expression_read(&condition->expression, text);
}

static enum status apply_filter(struct profile *profile, enum filter filter, const char *text)
{
    struct condition condition;
    enum status status = read_condition(&condition, filter, text);
    size_t kept = 0;

    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < profile->n_samples; i++) {
        if (sample_matches(&condition, &profile->samples[i]) == filter_rows[filter].is_kept)
            profile->samples[kept++] = profile->samples[i];
    }
    if (kept == 0 && profile->n_samples > 0)
        complain(STATUS_OK, "No sample is left by --%s %s.", filter_name(filter), text);
    profile->n_samples = kept;
    regfree(&condition.expression);
    return STATUS_OK;
}

enum status filters_apply(const struct filters *filters, struct profile *profile)
{
    enum status status = STATUS_OK;

    if (filters->of[FILTER_SLOWEST] != NULL)
        status = rounds_keep_slowest(profile, filters->of[FILTER_WATCH], filters->of[FILTER_SLOWEST]);
    else if (filters->of[FILTER_WATCH] != NULL)
        status = rounds_keep_watch(profile, filters->of[FILTER_WATCH]);
    for (enum filter i = FILTER_FOCUS; i < N_FILTERS && status == STATUS_OK; i++) {
        if (filters->of[i] != NULL)
            status = apply_filter(profile, i, filters->of[i]);
    }
    return status;
}
