/* Writes what was lost, and how the session went, into a profile and its comments. See session.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comments.h"
#include "naming.h"
#include "rate_linux.h"
#include "runtime/base/fail.h"
#include "runtime/switch_cost.h"
#include "runtime/unwind/objects.h"
#include "session.h"
#include "waits.h"
#include "watches.h"
#include "writer.h"

/* ---- Comments -------------------------------------------------------------------------------- */

/*
 * A comment is a line "KEY: VALUE # sentence": key and value are for programs, the sentence is for people.
 * docs/accuracy.md lists the keys, which must not change. A comment is a LIMIT if it says that something is
 * missing, or is not as it was asked for.
 */
enum kind { FACT, LIMIT };

/* A number with its sentence. A number that is 0 is not written. */
struct figure {
    enum kind kind;
    const char *key;
    uint64_t number;
    const char *sentence;
};

/* The comments of one profile. report_test has nearly all of them in one. There is always room for the last
 * ones. */
enum { MAX_COMMENTS = 80, N_LAST = 2 };
struct cp__comments {
    char text[MAX_COMMENTS][448];
    const char *list[MAX_COMMENTS];
    size_t n;
    size_t room;      /* for as many */
    size_t left_out;  /* comments for which there was no room */
    char limits[384]; /* the keys of all comments that are limits, separated by commas */
};

/* Adds a key to the list of limits, once. */
static void add_limit(struct cp__comments *comments, const char *key)
{
    const size_t n = strlen(comments->limits);

    if (cp__keys_find(comments->limits, n, key) == NULL)
        snprintf(comments->limits + n, sizeof comments->limits - n, "%s%s", n > 0 ? "," : "", key);
}

static void __attribute__((format(printf, 5, 6)))
say(struct cp__comments *comments, enum kind kind, const char *key, const char *sentence, const char *format,
    ...)
{
    char *text, value[384];
    va_list arguments;

    if (kind == LIMIT)
        add_limit(comments, key);
    if (comments->n >= comments->room) {
        comments->left_out++;
        return;
    }
    text = comments->text[comments->n];
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    snprintf(text, sizeof comments->text[0], "%s: %s%s%s", key, value, sentence[0] != '\0' ? " # " : "",
             sentence);
    comments->list[comments->n++] = text;
}

static void say_figures(struct cp__comments *comments, const struct figure *figures, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (figures[i].number != 0)
            say(comments, figures[i].kind, figures[i].key, figures[i].sentence, "%" PRIu64,
                figures[i].number);
}

/* Adds the event's encoding, if its name does not tell it. */
static void say_encoding(struct cp__comments *comments, const struct cp__part *part)
{
    static const char sentence[] = "the event, as perf_event_open was asked for it";
    const struct cp_event_encoding *encoding = &part->config.encoding;
    char more[64] = "";

    if (part->event.event == CP_CPUPROF_HW_RAW)
        say(comments, FACT, "encoding", sentence, "type=4,config=%#" PRIx64, part->config.raw_event);
    if (part->event.event != CP_CPUPROF_NAMED)
        return;
    if ((encoding->config1 | encoding->config2) != 0)
        snprintf(more, sizeof more, ",config1=%#" PRIx64 ",config2=%#" PRIx64, encoding->config1,
                 encoding->config2);
    if (part->event.kind == CP_EVENT_WATCHPOINT)
        say(comments, FACT, "encoding", sentence,
            "type=%" PRIu32 ",bp_type=%" PRIu32 ",bp_addr=%#" PRIx64 ",bp_len=%" PRIu64, encoding->type,
            encoding->bp_type, encoding->config1, encoding->config2);
    else
        say(comments, FACT, "encoding", sentence, "type=%" PRIu32 ",config=%#" PRIx64 "%s", encoding->type,
            encoding->config, more);
}

/* Adds what raised the samples, and why these are not traps. */
static void say_engine(struct cp__comments *comments, const struct cp__part *part,
                       const struct cp_slot_stats *stats)
{
    if (part->event.kind == CP_EVENT_TIMER)
        say(comments, FACT, "engine",
            "a POSIX timer on the CPU clock of each thread sends SIGPROF to the thread", "timer");
    else if (stats->engine == CP_ENGINE_TRAP)
        say(comments, FACT, "engine",
            "an event of perf_event_open on each thread raises a synchronous SIGTRAP in the thread", "trap");
    else
        say(comments, FACT, "engine",
            "an event of perf_event_open on each thread sends SIGPROF to the thread", "signal");
    if (stats->engine_reason != NULL)
        say(comments, FACT, "engine_reason", "is why the event does not raise SIGTRAP", "%s",
            stats->engine_reason);
}

static void say_event(struct cp__comments *comments, const struct cp__part *part,
                      const struct cp_slot_stats *stats)
{
    const struct cp_cpu_profile_config *config = &part->config;
    char modes[40];

    snprintf(modes, sizeof modes, "%s%s%s%s", config->is_user_excluded ? "" : ",user",
             config->is_kernel_included ? ",kernel" : "", config->is_hv_included ? ",hypervisor" : "",
             config->is_idle_included ? ",idle" : "");
    say(comments, FACT, "event", "", "%s", part->event.name);
    say_engine(comments, part, stats);
    if (part->event.kind != CP_EVENT_TIMER)
        say(comments, FACT, "modes", "are the modes of the processor in which the event counts", "%s",
            modes[0] != '\0' ? modes + 1 : "none");
    say_encoding(comments, part);
}

static void say_threads(struct cp__comments *comments, const struct cp__part *part,
                        const struct cp_slot_stats *stats)
{
    const struct figure figures[] = {
        {FACT, "period", cp__part_period(part),
         cp__part_is_time(part) ? "ns of CPU time between two samples, as asked"
                                : "events between two samples, as asked"},
        {FACT, "threads", stats->ms, "were sampled"},
        {LIMIT, "threads_ringless", stats->ms_ringless,
         "had no perf ring, so that signals were counted instead of records"},
        {LIMIT, "threads_refused", stats->ms_refused,
         "were not sampled, because the system refused the event"},
        {LIMIT, "threads_unsettled", stats->ms_unsettled,
         "held the event 2 s after the stop, because they were in their handler and got no CPU; their last "
         "samples may be missing"},
        {FACT, "unsettled_thread", (uint64_t)stats->unsettled_tid, "is the id of one of them"},
    };

    say_figures(comments, figures, sizeof figures / sizeof figures[0]);
    if (stats->ms_refused != 0)
        say(comments, LIMIT, "refusal", "was the last answer of the system", "%s",
            strerror(-stats->refused_errno));
    else if (stats->ms == 0)
        say(comments, LIMIT, "threads", "no thread that had called cp_m_attach() ran during the profile",
            "0");
}

/* Adds how much of what should have been seen the samples stand for, and what they do not stand for. */
static void say_coverage(struct cp__comments *comments, const struct cp__part *part,
                         const struct cp_slot_stats *stats)
{
    const struct cp__coverage coverage = cp__coverage_of(part, stats);

    if (stats->cpu_ns != 0)
        say(comments, FACT, "cpu_ns", "ns of CPU time had the process during the profile", "%" PRIu64,
            stats->cpu_ns);
    if (stats->count != 0 || cp__part_has_rate(part))
        say(comments, coverage.is_complete ? FACT : LIMIT, "coverage",
            stats->cpu_ns == 0 || !cp__part_has_rate(part)
                ? "percent of the event's own count that the samples stand for"
            : cp__part_is_time(part)
                ? "percent of the CPU time of the process that the samples stand for"
                : "percent of the events in the CPU time of the process that the samples "
                  "stand for, by the rate at which they were counted",
            "%.2f", coverage.percent);
    if (coverage.clocks >= 0.005 || coverage.clocks <= -0.005)
        say(comments, FACT, "clocks",
            "percent less time have the events counted than the CPU clocks of the same threads", "%.2f",
            coverage.clocks);
    if (stats->excluded_ns != 0)
        say(comments, FACT, "excluded_ns", "ns of it passed in modes that the event does not sample",
            "%" PRIu64, stats->excluded_ns);
    for (size_t i = 0; i < coverage.n; i++) {
        const struct cp__missing *missing = &coverage.missing[i];

        if (missing->key == NULL)
            continue;
        if (missing->threads_key != NULL && missing->threads != 0)
            say(comments, LIMIT, missing->threads_key, missing->threads_sentence, "%" PRIu32,
                missing->threads);
        say(comments, missing->is_limit ? LIMIT : FACT, missing->key, missing->sentence, "%" PRIu64,
            missing->ns);
    }
}

static void say_rate(struct cp__comments *comments, const struct cp__part *part,
                     const struct cp_slot_stats *stats)
{
    const double period = (double)cp__part_period(part);
    const double count = (double)stats->count, samples = (double)stats->samples;
    const struct figure figures[] = {
        {FACT, "count", stats->count,
         cp__part_is_time(part) ? "ns of CPU time, by the event's own count"
                                : "events, by the event's own count"},
        {FACT, "samples", stats->samples, "each stands for one period"},
        {FACT, "signals", stats->signals, "brought the samples"},
    };

    say_figures(comments, figures, sizeof figures / sizeof figures[0]);
    if (stats->count == 0 && stats->time_running != 0)
        say(comments, LIMIT, "count", "the event did not happen, or this machine does not count it", "0");
    if (stats->count != 0 && cp__part_is_time(part)) {
        say(comments, FACT, "rate_asked", "samples a CPU second", "%.6g", 1e9 / period);
        say(comments, FACT, "rate", "samples a CPU second, as delivered", "%.6g", samples / count * 1e9);
    } else if (stats->count != 0 && stats->samples != 0) {
        say(comments, FACT, "interval", "events between two samples, as delivered", "%.1f", count / samples);
    }
    if (stats->count != 0 || stats->cpu_ns != 0)
        say_coverage(comments, part, stats);
}

static void say_quality(struct cp__comments *comments, const struct cp__part *part,
                        const struct cp_slot_stats *stats, const struct cp__profile_findings *findings)
{
    const uint32_t asked = (uint32_t)part->config.precise_ip;

    if (asked > 0) {
        say(comments, FACT, "precise_ip_asked", "is the level that was asked for", "%" PRIu32, asked);
        say(comments, stats->precise_ip < asked ? LIMIT : FACT, "precise_ip", "is the level that was reached",
            "%" PRIu32, stats->precise_ip);
    }
    if (stats->time_running < stats->time_enabled)
        say(comments, LIMIT, "multiplexed",
            stats->time_running == 0
                ? "the event never had a counter"
                : "percent of the time the event had a counter; divide values by this share",
            "%.1f", 100 * (double)stats->time_running / (double)stats->time_enabled);
    if (stats->handler_replaced)
        say(comments, LIMIT, "handler_replaced",
            "another handler of the signal was installed during the profile", "yes");
    if (findings->maps_unread < 0)
        say(comments, LIMIT, "mappings",
            "told which code was where, because /proc/self/maps could not be read; the linker does not know "
            "code that the program has made itself",
            "linker (%s)", strerror(-findings->maps_unread));
}

static void say_kernel(struct cp__comments *comments, const struct cp__profile_findings *findings)
{
    if (findings->kernel[0] != '\0')
        say(comments, LIMIT, "kernel_names", findings->kernel, "none");
}

static void say_objects(struct cp__comments *comments)
{
    const char *first;
    const uint32_t n = cp__objects_refused(&first);
    char sentence[400];

    if (n == 0)
        return;
    snprintf(sentence, sizeof sentence,
             "objects have call-frame information that takes more to read than their code justifies; stacks "
             "in them are found by frame pointers; the first one is %s",
             first);
    say(comments, LIMIT, "objects_refused", sentence, "%" PRIu32, n);
}

/* Adds the modules with functions that have no names, and how many more there are. */
static void say_missing(struct cp__comments *comments, const struct cp__profile_findings *findings)
{
    char sentence[160];
    size_t i;

    for (i = 0; i < findings->n_missing && i < CP__MAX_MISSING; i++) {
        snprintf(sentence, sizeof sentence, "has code without names, or without lines: %s",
                 findings->missing[i].why);
        say(comments, i == 0 ? LIMIT : FACT, "symbols_missing", sentence, "%s", findings->missing[i].module);
    }
    if (findings->n_missing > CP__MAX_MISSING)
        say(comments, FACT, "symbols_missing_more", "further modules have code without names", "%zu",
            findings->n_missing - CP__MAX_MISSING);
}

/* Adds that names are left for later, and the boot of the kernel whose addresses the profile has. */
static void say_later(struct cp__comments *comments, const struct cp__profile_findings *findings)
{
    char boot[CP__BOOT_ID];

    if (findings->later == 0)
        return;
    cp__boot_id(boot);
    say(comments, LIMIT, "names_later",
        "is the boot of the machine; functions have no names yet, because the program has left that for "
        "later: 'counterpoint report' shows them, and 'go tool pprof' if it finds the files",
        "%s", boot);
}

/* Adds the warning of the session's start; if there was none, the warning of cp__rate_judge(). */
static void say_warning(struct cp__comments *comments, const struct cp_session *session, size_t i)
{
    const struct cp__part *part = &session->parts[i];
    char text[sizeof part->warning];

    cp__rate_judge(&part->event, &part->config, &session->stats[i], session->rate_limit, text, sizeof text);
    if (part->warning[0] != '\0' || text[0] != '\0')
        say(comments, LIMIT, "warning", "", "%s", part->warning[0] != '\0' ? part->warning : text);
}

/* Adds why there are no samples: a shorter period would have brought some, or all threads slept. */
static void say_empty(struct cp__comments *comments, const struct cp__part *part,
                      const struct cp_slot_stats *stats)
{
    const struct cp__yield yield = cp__part_yield(part, stats);
    char value[CP__EMPTY_VALUE], phrase[CP__EMPTY_TEXT];

    if (cp__empty_by_period(&yield, value, phrase))
        say(comments, LIMIT, "empty", phrase, "%s", value);
    else if (yield.threads != 0 && stats->count == 0 && stats->time_enabled == 0 && stats->cpu_ns != 0)
        say(comments, FACT, "empty", "the threads that could be sampled did not run", "idle");
}

/* Adds what the event cost at switches, if that is a hundredth of the CPU time or more. The cost is measured
 * only if it may be that much. */
static void say_switches(struct cp__comments *comments, const struct cp__part *part,
                         const struct cp_slot_stats *stats)
{
    const double a_ns = stats->cpu_ns == 0 ? 0 : (double)stats->switches / (double)stats->cpu_ns;
    char sentence[240];
    double share;
    uint64_t cost;

    if (a_ns * CP__SWITCH_MOST_NS < 0.01)
        return;
    cost = cp_switch_cost_ns(part->event.kind, cp__part_period(part));
    share = (double)cp__switch_ns(cost, stats->switches, stats->cpu_ns) / (double)stats->cpu_ns;
    if (share < 0.01)
        return;
    snprintf(sentence, sizeof sentence,
             "percent of the CPU time went to the event at %" PRIu64 " switches between threads, %" PRIu64
             " ns at each%s",
             stats->switches, cp__switch_ns(cost, stats->switches, stats->cpu_ns) / stats->switches,
             part->event.kind == CP_EVENT_CLOCK
                 ? "; a period of 10 ms or more costs less, and the timer nothing"
                 : "");
    say(comments, FACT, "switch_cost", sentence, "%.1f", 100 * share);
}

static void say_line(void *context, const struct cp__comment_line *line)
{
    say(context, line->is_limit ? LIMIT : FACT, line->key, line->sentence, "%s", line->value);
}

#define UNNAMED                                                                                              \
    "addresses have no names, because there was no memory to look them up; pprof tools can do it if they "   \
    "find the program's files"
#define ELSEWHERE                                                                                            \
    "samples recorded an instruction of another function than the interrupted one, which is shown"

/* Adds everything that was lost or came late. */
static void say_losses(struct cp__comments *comments, const struct cp_session *session, size_t i,
                       const struct cp__profile_findings *findings)
{
    const struct cp__part *part = &session->parts[i];
    const struct cp_slot_stats *stats = &session->stats[i];
    const bool is_throttled = stats->throttled != 0, are_many = stats->late > stats->samples / 100;
    const bool is_wait = cp__part_is_wait(part);
    const struct figure figures[] = {
        {LIMIT, "throttled", stats->throttled, "times the kernel throttled the event"},
        {LIMIT, "throttled_ns", stats->throttled_ns,
         "ns of CPU time passed while the event was throttled; they are not in the profile"},
        {FACT, "running_ns", is_throttled ? stats->time_running : 0, "ns of CPU time passed in all"},
        {FACT, "rate_limit", is_throttled ? session->rate_limit : 0,
         "samples a second are the limit of the kernel, kernel.perf_event_max_sample_rate"},
        {FACT, "cost_percent", stats->cost_percent > 50 ? stats->cost_percent : 0,
         "percent of a thread's time may go to the samples of all events that ran, and to its switches, by "
         "what these cost on this machine; take a longer period"},
        {LIMIT, "stopped", stats->ms_overloaded,
         "threads on which the event was stopped, for a while or for good, because its samples left the "
         "thread no time, or reached the limit that the kernel keeps; take a longer period"},
        {LIMIT, "stopped_ns", stats->overloaded_ns, "ns of CPU time passed on these threads without samples"},
        {LIMIT, "stalled_ns", stats->stalled * cp__part_period(part),
         "ns of CPU time passed in gaps of more than 2 ms, while the host ran something else; they are not "
         "in the profile"},
        {LIMIT, "dropped", stats->dropped,
         is_wait ? "waits were lost, because there was no room to record them"
                 : "periods were lost, because a sample buffer was full"},
        {LIMIT, "dropped_ns", part->dropped_ns, "ns of waiting were these"},
        {LIMIT, "lost", stats->lost, "records were lost, because a perf ring was full"},
        {LIMIT, "unfolded", part->unfolded,
         is_wait ? "waits were lost, because there was no memory to fold them in"
                 : "periods were lost, because there was no memory to fold them in"},
        {LIMIT, "unnamed", findings->unnamed, UNNAMED},
        {LIMIT, "late", are_many ? stats->late : 0,
         "periods have no callers, because the signal was blocked"},
        {FACT, "late", are_many ? 0 : stats->late, "periods have no callers, because the signal was blocked"},
        {LIMIT, "truncated", stats->truncated, "stacks had more than 256 frames"},
        {LIMIT, "incomplete", stats->incomplete,
         "stacks may lack functions, because code has no call-frame information, or was loaded just before"},
        {FACT, "new_code", stats->new_code, "of these came to code that was loaded just before"},
        {LIMIT, "unknown_stacks", stats->unknown_stacks,
         "samples may lack functions, because the program ran on a stack that cp_execute() was not told of"},
        {LIMIT, "code_replaced", findings->replaced,
         "samples have a frame in code that other code has taken the place of, within so short a time that "
         "nobody knows which one ran"},
        {LIMIT, "elsewhere", findings->elsewhere, ELSEWHERE},
        {FACT, "folded", stats->overruns, "periods are counted with a later sample"},
        {FACT, "foreign", stats->foreign, "SIGPROFs and SIGTRAPs were sent by others"},
    };

    say_figures(comments, figures, sizeof figures / sizeof figures[0]);
}

/* Adds how many comments were left out, and the list of limits. */
static void say_last(struct cp__comments *comments)
{
    comments->room = MAX_COMMENTS;
    if (comments->left_out > 0)
        say(comments, FACT, "more_comments", "had no room here", "%zu", comments->left_out);
    if (comments->limits[0] == '\0')
        say(comments, FACT, "limits", "nothing is known to be missing", "none");
    else
        say(comments, FACT, "limits",
            "are the keys of the lines that tell what is missing, or is not as it was asked for", "%s",
            comments->limits);
}

/* ---- Names that were left for later ---------------------------------------------------------- */

/* Adds the keys of a comment "limits: KEY,KEY # ..." to the limits, without that of the comment that goes. */
static void keep_limits(struct cp__comments *comments, const char *keys)
{
    char text[sizeof comments->limits], *rest, *key;

    snprintf(text, sizeof text, "%s", keys);
    text[strcspn(text, " ")] = '\0';
    for (rest = text; (key = strsep(&rest, ",")) != NULL;)
        if (strcmp(key, "names_later") != 0 && strcmp(key, "none") != 0)
            add_limit(comments, key);
}

static void say_names(struct cp__comments *comments, const struct cp__profile_findings *findings)
{
    const struct figure figures[] = {{LIMIT, "elsewhere", findings->elsewhere, ELSEWHERE},
                                     {LIMIT, "unnamed", findings->unnamed, UNNAMED}};

    say_kernel(comments, findings);
    say_missing(comments, findings);
    say_figures(comments, figures, sizeof figures / sizeof figures[0]);
}

struct cp__comments *cp__comments_name(const char *const *known, size_t n,
                                       const struct cp__profile_findings *findings)
{
    struct cp__comments *comments = calloc(1, sizeof *comments);
    const char *keys;
    bool is_named = false;

    if (comments == NULL)
        return NULL;
    comments->room = MAX_COMMENTS - N_LAST;
    for (size_t i = 0; i < n; i++) {
        keys = cp__comment_value(known[i], "limits");
        if (keys != NULL) {
            keep_limits(comments, keys);
        } else if (cp__comment_later(known[i]) != NULL) {
            if (!is_named)
                say_names(comments, findings);
            is_named = true;
        } else if (comments->n >= comments->room) {
            comments->left_out++;
        } else {
            snprintf(comments->text[comments->n], sizeof comments->text[0], "%s", known[i]);
            comments->list[comments->n] = comments->text[comments->n];
            comments->n++;
        }
    }
    say_last(comments);
    return comments;
}

const char *const *cp__comments_list(const struct cp__comments *comments, size_t *n)
{
    *n = comments->n;
    return comments->list;
}

/* ---- Writing --------------------------------------------------------------------------------- */

struct resolved {
    const struct cp__profile *profile;
    const struct cp__profile_meta *meta;
};

static int write_resolved(const void *what, struct cp_writer *w)
{
    const struct resolved *r = what;

    return (r->meta->is_text ? cp__profile_print : cp__profile_encode)(r->profile, r->meta, w);
}

int cp__report_to(const struct cp__profile *profile, const struct cp__profile_meta *meta, struct cp_writer *w,
                  struct cp_error *err)
{
    return cp__write_attempt(w, write_resolved, &(struct resolved){profile, meta}, err);
}

/* Adds how a part was measured that a slot has sampled. */
static void say_sampled(struct cp__comments *comments, const struct cp_session *session, size_t i)
{
    const struct cp__part *part = &session->parts[i];
    const struct cp_slot_stats *stats = &session->stats[i];

    say_event(comments, part, stats);
    say_threads(comments, part, stats);
    say_rate(comments, part, stats);
}

/* Adds all comments. */
static void say_everything(struct cp__comments *comments, const struct cp_session *session, size_t i,
                           const struct cp__profile_findings *findings)
{
    const struct cp__part *part = &session->parts[i];
    const struct cp_slot_stats *stats = &session->stats[i];

    if (cp__part_is_wait(part))
        cp__waits_lines(part, stats, say_line, comments);
    else
        say_sampled(comments, session, i);
    say_empty(comments, part, stats);
    say_quality(comments, part, stats, findings);
    say_kernel(comments, findings);
    say_objects(comments);
    say_missing(comments, findings);
    say_later(comments, findings);
    say_warning(comments, session, i);
    cp__watch_lines(part->profile, say_line, comments);
    say_switches(comments, part, stats);
    say_losses(comments, session, i, findings);
    say_last(comments);
}

int cp__report_write(struct cp_session *session, size_t i, struct cp_writer *w, bool is_text,
                     struct cp_error *err)
{
    struct cp__part *part = &session->parts[i];
    struct cp__comments comments = {.n = 0, .room = MAX_COMMENTS - N_LAST, .limits = ""};
    const bool time = cp__part_is_time(part);
    struct cp__profile_meta meta = {.sample_type = time ? "cpu" : part->event.name,
                                    .sample_unit = time ? "nanoseconds" : "count",
                                    .period = cp__part_period(part),
                                    .time_ns = session->time_ns,
                                    .duration_ns = session->duration_ns,
                                    .comments = comments.list,
                                    .is_text = is_text};
    struct cp__profile_findings findings;
    int result = cp__profile_resolve(part->profile, &findings, err);

    if (result < 0)
        return result;
    if (cp__part_is_wait(part))
        cp__waits_set_types(&meta, part->event.event, part->is_contention);
    say_everything(&comments, session, i, &findings);
    meta.n_comments = comments.n;
    return cp__report_to(part->profile, &meta, w, err);
}
