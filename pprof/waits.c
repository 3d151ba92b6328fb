/* See waits.h. */
#include "waits.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "runtime/base/fail.h"
#include "runtime/event/rows.h"
#include "runtime/g_account.h"
#include "runtime/label.h"
#include "runtime/prepare.h"
#include "runtime/ticks.h"

#define STATE_KEY "state"
#define REASON_KEY "reason"
#define OBJECT_KEY "object"

static const struct cp__value_type delay_type = {"delay", "nanoseconds"};
static const struct cp__value_type wall_type = {"wall", "nanoseconds"};

/* ---- Profiles of waits ----------------------------------------------------------------------- */

int cp__waits_new_profile(struct cp__profile **profile, enum cp_cpu_event event)
{
    return cp__profile_new_with(profile, event == CP_CPUPROF_WALL ? &wall_type : &delay_type, 1);
}

/* The context of fold_waits(). */
struct fold {
    struct cp__profile *profile;
    struct cp__waits_folded *folded;
};

/* Stores a set of labels with those of the wait, as a set of the caller's own. */
static int label_reason(const struct cp__waits *waits, const struct cp_labels *old, struct cp_labels **labels)
{
    struct cp_labels *with_reason;
    char object[24];
    int result = cp__labels_with(old, REASON_KEY, cp_wait_reason_name(waits->reason), &with_reason);

    if (result < 0 || waits->object == NULL) {
        *labels = with_reason;
        return result;
    }
    snprintf(object, sizeof object, "%#" PRIxPTR, (uintptr_t)waits->object);
    result = cp__labels_with(with_reason, OBJECT_KEY, object, labels);
    cp_labels_unref(with_reason);
    return result;
}

/* Stores the labels of the G with those of the wait, or of its state, as a set of the caller's own. */
static int label_waits(const struct cp__waits *waits, struct cp_labels **labels)
{
    static const char *const states[] = {
        [CP__WALL_RUNNING] = "running", [CP__WALL_RUNNABLE] = "runnable", [CP__WALL_WAITING] = "waiting"};
    struct cp_labels *with_state;
    int result;

    if (waits->state == CP__WALL_NONE)
        return label_reason(waits, waits->labels, labels);
    result = cp__labels_with(waits->labels, STATE_KEY, states[waits->state], &with_state);
    if (result < 0 || waits->state != CP__WALL_WAITING) {
        *labels = with_state;
        return result;
    }
    result = label_reason(waits, with_state, labels);
    cp_labels_unref(with_state);
    return result;
}

/* Called for each stack of a recording. */
static int fold_waits(void *context, const struct cp__waits *waits)
{
    const struct fold *fold = context;
    struct cp_sample sample = {.weight = (uint64_t)(waits->waits + 0.5),
                               .flags = waits->flags,
                               .depth = waits->depth,
                               .frames = waits->frames,
                               .loads = waits->loads};

    if (label_waits(waits, &sample.labels) < 0) {
        fold->folded->unfolded += sample.weight;
        return 0;
    }
    fold->folded->unfolded += cp__profile_stage_values(fold->profile, &sample, &waits->delay);
    cp_labels_unref(sample.labels);
    fold->folded->truncated += (waits->flags & CP_SAMPLE_TRUNCATED) != 0 ? waits->sampled : 0;
    fold->folded->incomplete += (waits->flags & CP_SAMPLE_INCOMPLETE) != 0 ? waits->sampled : 0;
    return 0;
}

void cp__waits_fold(struct cp__recording *recording, struct cp__profile *profile,
                    struct cp__waits_folded *folded)
{
    struct fold fold = {.profile = profile, .folded = folded};

    *folded = (struct cp__waits_folded){.unfolded = 0};
    cp__recording_each(recording, &folded->stats, fold_waits, &fold);
    folded->unfolded += cp__profile_settle(profile);
    if (folded->stats.dropped != 0 &&
        cp__profile_add_named_values(profile, "[dropped: no room to record waits]", folded->stats.dropped,
                                     &folded->stats.dropped_ns) < 0)
        folded->unfolded += folded->stats.dropped;
}

void cp__waits_set_types(struct cp__profile_meta *meta, enum cp_cpu_event event, bool is_contention)
{
    meta->is_count = meta->shows_further = true;
    meta->sample_type = event == CP_CPUPROF_LOCK || is_contention ? "contentions"
                        : event == CP_CPUPROF_WAIT                ? "waits"
                                                                  : "delays";
    meta->sample_unit = "count";
    if (event == CP_CPUPROF_WALL) {
        meta->sample_type = "samples";
        meta->period_type = &wall_type;
        return;
    }
    meta->contention = event == CP_CPUPROF_LOCK ? "mutex" : "contention";
    if (is_contention)
        meta->period = 1; /* as in Go's profiles, whose period counts contentions */
    else
        meta->period_type = &delay_type;
}

/* ---- Parts of sessions ----------------------------------------------------------------------- */

static int start_part(struct cp__part *part, struct cp_error *err)
{
    static const enum cp__wait_event events[] = {
        [CP_CPUPROF_WAIT - CP_CPUPROF_WAIT] = CP__WAIT_EVENT_WAIT,
        [CP_CPUPROF_RUNNABLE - CP_CPUPROF_WAIT] = CP__WAIT_EVENT_RUNNABLE,
        [CP_CPUPROF_LOCK - CP_CPUPROF_WAIT] = CP__WAIT_EVENT_LOCK,
        [CP_CPUPROF_WALL - CP_CPUPROF_WAIT] = CP__WAIT_EVENT_WALL,
    };
    const struct cp_slot_request request = {
        .event = part->event.event, .name = part->event.name, .config = part->config};
    int result = cp__request_check(&request, err);

    if (result < 0)
        return result;
    return cp__recording_start(events[part->event.event - CP_CPUPROF_WAIT], part->config.period,
                               &part->recording, err);
}

int cp__waits_start(struct cp_session *session, struct cp_error *err)
{
    int result = 0;

    cp__prepare(); /* accounts are on from then on, unless the program has switched them off */
    for (size_t i = 0; i < session->n && result == 0; i++)
        if (cp__part_is_wait(&session->parts[i]))
            result = start_part(&session->parts[i], err);
    for (size_t i = 0; i < session->n && result < 0; i++)
        cp__waits_drop(&session->parts[i]);
    return result;
}

void cp__waits_stop(const struct cp_session *session)
{
    for (size_t i = 0; i < session->n; i++)
        if (session->parts[i].recording != NULL)
            cp__recording_stop(session->parts[i].recording);
}

void cp__waits_drop(struct cp__part *part)
{
    if (part->recording == NULL)
        return;
    cp__recording_stop(part->recording);
    cp__recording_free(part->recording);
    part->recording = NULL;
}

static struct cp_slot_stats figures_of(const struct cp__recording_stats *stats)
{
    return (struct cp_slot_stats){.size = sizeof(struct cp_slot_stats),
                                  .samples = stats->sampled,
                                  .dropped = stats->dropped,
                                  .count = stats->delay};
}

static int skip_waits(void *context, const struct cp__waits *waits)
{
    (void)context, (void)waits;
    return 0;
}

void cp__waits_stats(const struct cp__part *part, struct cp_slot_stats *stats)
{
    struct cp__recording_stats recorded;

    cp__recording_each(part->recording, &recorded, skip_waits, NULL);
    *stats = figures_of(&recorded);
}

/* The context of count_open_wait(). */
struct open {
    uint64_t now, n, longest; /* now and longest in stamps */
};

static int count_open_wait(void *context, const struct cp__account_copy *copy)
{
    struct open *open = context;
    const int64_t lasted = (int64_t)(open->now - copy->since);

    if (copy->state != CP__G_WAITING || lasted <= 0)
        return 0;
    open->n++;
    if ((uint64_t)lasted > open->longest)
        open->longest = (uint64_t)lasted;
    return 0;
}

/* A wait is recorded when it ends. */
static void look_for_open_waits(struct cp__part *part)
{
    struct open open = {.now = cp__account_now()};

    if (part->event.event != CP_CPUPROF_WAIT)
        return;
    cp__accounts_each(count_open_wait, &open);
    part->open = open.n;
    part->open_longest_ns = open.n > 0 ? cp__stamps_ns(open.longest) : 0;
}

void cp__waits_read(struct cp__recording *recording, struct cp_session *session, size_t i)
{
    struct cp__part *part = &session->parts[i];
    struct cp__waits_folded folded;

    cp__waits_fold(recording, part->profile, &folded);
    session->stats[i] = figures_of(&folded.stats);
    session->stats[i].truncated = folded.truncated;
    session->stats[i].incomplete = folded.incomplete;
    part->unfolded = folded.unfolded;
    part->dropped_ns = folded.stats.dropped_ns;
    part->has_no_stacks = folded.stats.has_no_stacks;
    look_for_open_waits(part);
}

void cp__waits_read_up(struct cp_session *session, size_t i)
{
    cp__waits_read(session->parts[i].recording, session, i);
    cp__waits_drop(&session->parts[i]);
}

/* ---- Comments -------------------------------------------------------------------------------- */

/* A number that is 0 is not told. */
static void tell_figure(const struct cp__comment_line *line, uint64_t number, cp__comment_line_fn *fn,
                        void *context)
{
    struct cp__comment_line told = *line;
    char value[24];

    if (number == 0)
        return;
    snprintf(value, sizeof value, "%" PRIu64, number);
    told.value = value;
    fn(context, &told);
}

static void tell_figures(const struct cp__part *part, const struct cp_slot_stats *stats,
                         cp__comment_line_fn *fn, void *context)
{
    const bool is_wall = part->event.event == CP_CPUPROF_WALL;
    const struct {
        struct cp__comment_line line;
        uint64_t number;
    } figures[] = {
        {{.key = "period",
          .sentence = is_wall ? "ns lie between two looks at the green threads"
                              : "ns: what waited as long or longer is recorded, and what is shorter in "
                                "proportion"},
         part->config.period},
        {{.key = "samples",
          .sentence = is_wall ? "green threads were looked at, of which one may stand for several"
                              : "waits were recorded, of which short ones stand for several"},
         stats->samples},
        {{.key = "count",
          .sentence = is_wall ? "ns of green threads' lives are what they stand for"
                              : "ns of waiting are what they stand for"},
         stats->count},
    };

    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
        tell_figure(&figures[i].line, figures[i].number, fn, context);
}

static void tell_open(const struct cp__part *part, cp__comment_line_fn *fn, void *context)
{
    struct cp__comment_line line = {.key = "open"};
    char sentence[160];

    snprintf(
        sentence, sizeof sentence,
        "waits had not ended when the recording did, the longest after %.6f s, and are in no sample; the "
        "event wall has them",
        (double)part->open_longest_ns / 1e9);
    line.sentence = sentence;
    tell_figure(&line, part->open, fn, context);
}

void cp__waits_lines(const struct cp__part *part, const struct cp_slot_stats *stats, cp__comment_line_fn *fn,
                     void *context)
{
    const struct cp__comment_line event = {.key = "event", .value = part->event.name, .sentence = ""};
    const struct cp__comment_line engine = {
        .key = "engine", .value = "runtime", .sentence = "tells when green threads and threads wait"};
    const struct cp__comment_line no_stacks = {
        .is_limit = true,
        .key = "stacks",
        .value = "none",
        .sentence = "the system does not let the process copy its own memory by process_vm_readv(), so green "
                    "threads that wait or are runnable have no stacks"};

    fn(context, &event);
    fn(context, &engine);
    tell_figures(part, stats, fn, context);
    tell_open(part, fn, context);
    if (part->has_no_stacks)
        fn(context, &no_stacks);
}
