#include "watches.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rounds.h"
#include "runtime/watch/recorder.h"

/* The watches that a profile tells one by one. */
enum { MAX_WATCHES = 8 };

struct told_watches {
    cp__comment_line_fn *fn;
    void *context;
    size_t n;
};

/* ---- Slow rounds ----------------------------------------------------------------------------- */

/* A search for the bucket with the round of a rank. */
struct ranked {
    uint64_t before; /* rounds that are faster */
    uint64_t low;
};

static int find_ranked(void *context, uint64_t low, uint64_t high, uint64_t count)
{
    struct ranked *ranked = context;

    (void)high;
    ranked->low = low;
    if (ranked->before < count)
        return 1;
    ranked->before -= count;
    return 0;
}

/* Adds up the times of all rounds, whatever their labels are: the first quantity of each series. */
static int add_times(const struct cp_watch_snapshot *snapshot, struct cp__histogram *times)
{
    int result = 0;

    for (size_t i = 0; i < snapshot->n; i++)
        for (size_t j = 0; j < snapshot->watches[i].n_series && result == 0; j++)
            result = cp__histogram_merge(times, &snapshot->watches[i].series[j].histograms[0]);
    return result;
}

/* Returns the ns that the slowest 1 % of a watch's rounds took or exceeded; 0: unknown. The low end of a
 * bucket is the result, so that no round of the 1 % is below it. */
static uint64_t slowest_ns(unsigned number)
{
    struct cp_watch_snapshot *snapshot = cp__snapshot_new();
    struct cp__histogram times;
    struct ranked ranked = {.low = 0};
    const void *watch = cp__registry_hold(number);
    int result = watch != NULL && snapshot != NULL ? cp__watch_fill(watch, snapshot) : -1;

    cp__registry_let_go();
    cp__histogram_init(&times);
    if (result == 0 && add_times(snapshot, &times) == 0 && times.count > 0) {
        ranked.before = times.count - (times.count + 99) / 100;
        cp__histogram_each(&times, find_ranked, &ranked);
    }
    cp__histogram_fini(&times);
    cp_watch_snapshot_free(snapshot);
    return ranked.low;
}

/* ---- Comments -------------------------------------------------------------------------------- */

/* Returns whether a name stands for itself in a regular expression, in a filter of go tool pprof, which has
 * "=" and ",", and between quotes of a shell. */
static bool is_plain_name(const char *name)
{
    return name[strcspn(name, "\\^$.|?*+()[]{}=,'")] == '\0';
}

static void tell_slowest(const struct told_watches *told, const struct cp__sampled_watch *watch)
{
    char value[CP_WATCH_NAME_MAX + 32], sentence[256];
    const uint64_t ns = slowest_ns(watch->number);
    const struct cp__comment_line line = {.key = "watch_slowest", .value = value, .sentence = sentence};
    int n;

    if (ns == 0)
        return;
    snprintf(value, sizeof value, "%" PRIu64 " %s", ns, watch->name);
    n = snprintf(sentence, sizeof sentence, "ns or longer took the slowest 1 %% of all rounds of the watch");
    if (is_plain_name(watch->name))
        snprintf(sentence + n, sizeof sentence - (size_t)n, ": go tool pprof -tagfocus='%s=%" PRIu64 "ns:'",
                 watch->name, ns);
    told->fn(told->context, &line);
}

/* Tells of a watch whose rounds have samples, and how to see these samples alone. */
static void tell_watch(void *context, const struct cp__sampled_watch *watch)
{
    struct told_watches *told = context;
    char sentence[256];
    const struct cp__comment_line line = {.key = "watch", .value = watch->name, .sentence = sentence};
    int n;

    if (told->n++ >= MAX_WATCHES)
        return;
    n = snprintf(sentence, sizeof sentence,
                 "%" PRIu64 " of its rounds have samples, of which %" PRIu64 " had ended", watch->rounds,
                 watch->ended);
    if (is_plain_name(watch->name))
        snprintf(sentence + n, sizeof sentence - (size_t)n, ": go tool pprof -tagfocus='watch=^%s$'",
                 watch->name);
    told->fn(told->context, &line);
    tell_slowest(told, watch);
}

static void tell_number(const struct told_watches *told, const struct cp__comment_line *line, uint64_t number)
{
    char value[24];
    struct cp__comment_line told_line = *line;

    snprintf(value, sizeof value, "%" PRIu64, number);
    told_line.value = value;
    if (number != 0)
        told->fn(told->context, &told_line);
}

void cp__watch_lines(const struct cp__profile *profile, cp__comment_line_fn *fn, void *context)
{
    struct told_watches told = {.fn = fn, .context = context};
    const struct cp__comment_line more = {.key = "watches_more",
                                          .sentence = "further watches have samples in their rounds"};
    const struct cp__comment_line untold = {
        .key = "rounds_untold",
        .is_limit = true,
        .sentence = "samples have no duration of their round, because a profile tells 100000 rounds apart"};

    if (cp__profile_rounds_each(profile, tell_watch, &told) == 0)
        tell_number(&told, &more, told.n > MAX_WATCHES ? told.n - MAX_WATCHES : 0);
    tell_number(&told, &untold, profile->untold);
}
