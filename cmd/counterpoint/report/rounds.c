#include "rounds.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

#define WATCH_KEY "watch"
/* A number label that the library's profiles have for something else. */
#define RECORDED_KEY "recorded_location"

/* ---- The rounds of a watch ------------------------------------------------------------------- */

static bool is_of_watch(const struct profile_label *label, const char *watch)
{
    return label->text != NULL && strcmp(label->key, WATCH_KEY) == 0 &&
           (watch == NULL || strcmp(label->text, watch) == 0);
}

/* Returns the sample's first label of a watch; NULL stands for any watch. */
static const struct profile_label *label_of_watch(const struct profile_sample *sample, const char *watch)
{
    for (size_t i = 0; i < sample->n_labels; i++)
        if (is_of_watch(&sample->labels[i], watch))
            return &sample->labels[i];
    return NULL;
}

/* Says that the watch has no samples, and names one that has some. */
static enum status refuse_watch(const struct profile *profile, const char *watch)
{
    for (size_t i = 0; i < profile->n_samples; i++) {
        const struct profile_label *other = label_of_watch(&profile->samples[i], NULL);

        if (other != NULL)
            return complain(STATUS_NO,
                            "No sample was taken in a round of the watch \"%s\". The profile has samples in "
                            "rounds of \"%s\" and perhaps others: its comments (counterpoint report --top) "
                            "tell which.",
                            watch, other->text);
    }
    return complain(STATUS_NO, "No sample was taken in a round of a watch: counterpoint/watch.h has these.");
}

enum status rounds_keep_watch(struct profile *profile, const char *watch)
{
    size_t kept = 0;

    for (size_t i = 0; i < profile->n_samples; i++)
        kept += label_of_watch(&profile->samples[i], watch) != NULL;
    if (kept == 0)
        return refuse_watch(profile, watch);
    kept = 0;
    for (size_t i = 0; i < profile->n_samples; i++)
        if (label_of_watch(&profile->samples[i], watch) != NULL)
            profile->samples[kept++] = profile->samples[i];
    profile->n_samples = kept;
    return STATUS_OK;
}

/* ---- Slow rounds ----------------------------------------------------------------------------- */

static bool is_duration(const struct profile_label *label, const char *watch)
{
    if (label->text != NULL || strcmp(label->unit, "nanoseconds") != 0)
        return false;
    if (strcmp(watch, RECORDED_KEY) == 0)
        return strcmp(label->key, WATCH_KEY ":" RECORDED_KEY) == 0;
    return strcmp(label->key, watch) == 0;
}

/* Returns the longest duration of the sample's rounds of the watch; 0: none has ended. */
static int64_t duration_of(const struct profile_sample *sample, const char *watch)
{
    int64_t longest = 0;

    for (size_t i = 0; i < sample->n_labels; i++)
        if (is_duration(&sample->labels[i], watch) && sample->labels[i].number > longest)
            longest = sample->labels[i].number;
    return longest;
}

static int compare_durations(const void *x, const void *y)
{
    const int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;

    return (a > b) - (a < b);
}

/* Returns the least duration of the slowest rounds with samples; 0: no duration is known. Rounds are told
 * apart by their durations, in ns. */
static int64_t bound_of_sampled(struct profile *profile, const char *watch, double percent)
{
    int64_t *durations = arena_array(&profile->arena, profile->n_samples, sizeof *durations);
    size_t n = 0, distinct = 0, slow;

    for (size_t i = 0; i < profile->n_samples; i++) {
        durations[n] = duration_of(&profile->samples[i], watch);
        n += durations[n] != 0;
    }
    if (n == 0)
        return 0;
    qsort(durations, n, sizeof *durations, compare_durations);
    for (size_t i = 0; i < n; i++)
        if (distinct == 0 || durations[distinct - 1] != durations[i])
            durations[distinct++] = durations[i];
    slow = (size_t)(percent / 100 * (double)distinct);
    slow += (double)slow < percent / 100 * (double)distinct;
    return durations[distinct - slow];
}

/* Returns what the only comment "watch_slowest: NS NAME # ..." of the watch tells; 0: there is none, or
 * several, because the profile is merged. */
static int64_t bound_of_comments(const struct profile *profile, const char *watch)
{
    static const char key[] = WATCH_KEY "_slowest: ";
    int64_t bound = 0;

    for (size_t i = 0; i < profile->n_comments; i++) {
        const char *comment = profile->comments[i];
        char *name;
        long long ns;

        if (strncmp(comment, key, sizeof key - 1) != 0)
            continue;
        ns = strtoll(comment + sizeof key - 1, &name, 10);
        if (*name != ' ' || strncmp(name + 1, watch, strlen(watch)) != 0 ||
            strncmp(name + 1 + strlen(watch), " # ", 3) != 0)
            continue;
        if (bound != 0)
            return 0;
        bound = ns;
    }
    return bound;
}

static bool read_share(const char *text, double *percent)
{
    char *end;

    *percent = strtod(text, &end);
    end += *end == '%';
    return end != text && *end == '\0' && *percent > 0 && *percent <= 100;
}

static size_t keep_slow(struct profile *profile, const char *watch, int64_t bound)
{
    size_t kept = 0;

    for (size_t i = 0; i < profile->n_samples; i++)
        if (duration_of(&profile->samples[i], watch) >= bound)
            profile->samples[kept++] = profile->samples[i];
    profile->n_samples = kept;
    return kept;
}

enum status rounds_keep_slowest(struct profile *profile, const char *watch, const char *share)
{
    char text[MEASURE_SIZE];
    double percent;
    int64_t told, bound;

    if (!read_share(share, &percent))
        return complain(STATUS_USAGE, "--slowest takes a share of rounds, such as 1%%, and not \"%s\".",
                        share);
    told = percent == 1 ? bound_of_comments(profile, watch) : 0;
    bound = told > 0 ? told : bound_of_sampled(profile, watch, percent);
    if (bound == 0)
        return complain(
            STATUS_NO,
            "No round of the watch \"%s\" that has samples had ended when the profile was written.", watch);
    complain(STATUS_OK, "The slowest %g %% of %s of the watch \"%s\" took %s or longer.", percent,
             told > 0 ? "all rounds" : "the rounds with samples", watch,
             measure_label(text, bound, "nanoseconds", "auto"));
    if (keep_slow(profile, watch, bound) == 0)
        return complain(STATUS_NO, "None of these rounds has a sample.");
    return STATUS_OK;
}
