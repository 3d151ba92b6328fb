#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "rate_linux.h"
#include "runtime/base/fail.h"
#include "session.h"
#include "writer.h"

/* ---- Losses ---------------------------------------------------------------------------------- */

/* What a stopped event would have come to in the CPU time that it missed. */
static uint64_t overloaded_periods(const struct cp__part *part, const struct cp_slot_stats *stats)
{
    double rate = stats->time_running == 0 ? 0 : (double)stats->count / (double)stats->time_running;

    return (uint64_t)((double)stats->overloaded_ns * rate / (double)cp__part_period(part));
}

int cp__report_losses(struct cp__part *part, const struct cp_slot_stats *stats)
{
    const struct {
        const char *frame;
        uint64_t periods;
    } losses[] = {
        {"[dropped: sample buffer full]", stats->dropped},
        {"[lost: perf ring full]", stats->lost},
        {"[lost: no memory to fold samples]", part->unfolded},
        {"[stopped: samples took more than half of the time]", overloaded_periods(part, stats)},
    };
    int result = 0;

    for (size_t i = 0; i < sizeof losses / sizeof losses[0] && result == 0; i++) {
        if (losses[i].periods != 0)
            result = cp__profile_add_named(part->profile, losses[i].frame, losses[i].periods);
    }
    return result;
}

/* ---- Comments -------------------------------------------------------------------------------- */

#define MAX_COMMENTS 32

struct comments {
    char text[MAX_COMMENTS][384];
    const char *list[MAX_COMMENTS];
    size_t n;
};

static void __attribute__((format(printf, 2, 3))) say(struct comments *comments, const char *format, ...)
{
    va_list arguments;

    if (comments->n == MAX_COMMENTS)
        return;
    va_start(arguments, format);
    vsnprintf(comments->text[comments->n], sizeof comments->text[0], format, arguments);
    va_end(arguments);
    comments->list[comments->n] = comments->text[comments->n];
    comments->n++;
}

static bool is_time(const struct cp__part *part)
{
    return part->event.kind == CP_EVENT_TIMER || part->event.kind == CP_EVENT_CLOCK;
}

uint64_t cp__part_period(const struct cp__part *part)
{
    if (part->event.kind == CP_EVENT_TIMER)
        return 1000000000u / part->config.hz;
    return part->config.period;
}

/* "user and kernel mode" */
static const char *name_modes(const struct cp_cpu_profile_config *config)
{
    static const char *const names[] = {
        "no",
        "user",
        "kernel",
        "user and kernel",
        "hypervisor",
        "user and hypervisor",
        "kernel and hypervisor",
        "user, kernel and hypervisor",
    };
    unsigned modes = config->is_user_excluded ? 0 : 1;

    modes |= config->is_kernel_included ? 2 : 0;
    modes |= config->is_hv_included ? 4 : 0;
    return names[modes];
}

static void say_event(struct comments *comments, const struct cp__part *part)
{
    const struct cp_event_encoding *encoding = &part->config.encoding;
    const char *name = part->event.name;
    char more[64] = "";

    if (part->event.event == CP_CPUPROF_HW_RAW)
        say(comments, "event: %s is the processor's number %#" PRIx64, name, part->config.raw_event);
    if (part->event.event != CP_CPUPROF_NAMED)
        return;
    if ((encoding->config1 | encoding->config2) != 0)
        snprintf(more, sizeof more, ", config1 %#" PRIx64 ", config2 %#" PRIx64, encoding->config1,
                 encoding->config2);
    if (part->event.kind == CP_EVENT_WATCHPOINT)
        say(comments,
            "event: %s is perf_event_open's type %" PRIu32 ", bp_type %" PRIu32 ", bp_addr %#" PRIx64
            ", bp_len %" PRIu64,
            name, encoding->type, encoding->bp_type, encoding->config1, encoding->config2);
    else
        say(comments, "event: %s is perf_event_open's type %" PRIu32 ", config %#" PRIx64 "%s", name,
            encoding->type, encoding->config, more);
}

static void say_engine(struct comments *comments, const struct cp__part *part,
                       const struct cp_slot_stats *stats)
{
    if (part->event.kind == CP_EVENT_TIMER)
        say(comments, "engine: timer, a POSIX timer on the CPU clock of each thread, SIGPROF to that thread");
    else
        say(comments, "engine: %s through perf_event_open on each thread, %s mode%s, SIGPROF to that thread",
            part->event.name, name_modes(&part->config),
            part->config.is_idle_included ? " and the idle task" : "");
    say(comments,
        "threads: %" PRIu32 " sampled, %" PRIu32
        " without a perf ring (signals counted, not records), %" PRIu32 " refused%s%s",
        stats->ms, stats->ms_ringless, stats->ms_refused, stats->ms_refused != 0 ? ": " : "",
        stats->ms_refused != 0 ? strerror(-stats->refused_errno) : "");
    if (stats->ms == 0 && stats->ms_refused == 0)
        say(comments, "warning: no thread was sampled: none that had called cp_m_attach() ran meanwhile");
}

static void say_rate(struct comments *comments, const struct cp__part *part,
                     const struct cp_slot_stats *stats)
{
    double period = (double)cp__part_period(part);
    double count = (double)stats->count;

    if (stats->count == 0 && stats->time_running != 0)
        say(comments, "count: 0: the event did not happen, or this machine does not count it");
    if (stats->count == 0)
        return;
    if (is_time(part))
        say(comments,
            "rate: asked %.6g samples a CPU second, delivered %.6g in %.6g signals, over %.3f CPU seconds",
            1e9 / period, (double)stats->samples / count * 1e9, (double)stats->signals / count * 1e9,
            count / 1e9);
    else
        say(comments, "rate: asked a sample every %.0f, delivered one every %.1f, of %" PRIu64 " counted",
            period, stats->samples == 0 ? 0 : count / (double)stats->samples, stats->count);
    say(comments, "coverage: %" PRIu64 " samples, %.2f %% of the event's own count", stats->samples,
        100.0 * (double)stats->samples * period / count);
    if (stats->stalled != 0)
        say(comments,
            "stalls: %.3f of these CPU seconds passed in gaps of over 2 ms, while the machine ran something "
            "else; "
            "not in the profile",
            (double)stats->stalled * period / 1e9);
}

/* The event took turns with others. */
static void say_multiplexing(struct comments *comments, const struct cp_slot_stats *stats)
{
    double enabled = (double)stats->time_enabled;
    double running = (double)stats->time_running;

    if (stats->time_running == 0 && stats->time_enabled != 0)
        say(comments, "multiplexed: the event never had a counter");
    else if (stats->time_running < stats->time_enabled)
        say(comments,
            "multiplexed: the event had a counter for %.1f %% of the time; multiply values by %.3f for the "
            "whole",
            100 * running / enabled, enabled / running);
}

static void say_precision(struct comments *comments, const struct cp__part *part,
                          const struct cp_slot_stats *stats, const struct cp__profile_findings *findings)
{
    if (part->config.precise_ip > 0)
        say(comments, "precise_ip: asked %d, reached %" PRIu32, (int)part->config.precise_ip,
            stats->precise_ip);
    if (findings->elsewhere != 0)
        say(comments,
            "precise_ip: %" PRIu64 " samples whose recorded instruction lay in another function than the "
            "interrupted one; the interrupted one is shown",
            findings->elsewhere);
}

static void say_limits(struct comments *comments, const struct cp_session *session, size_t i)
{
    const struct cp__part *part = &session->parts[i];
    const struct cp_slot_stats *stats = &session->stats[i];
    char text[sizeof part->warning];

    cp__rate_judge(&part->event, &part->config, stats, session->rate_limit, text, sizeof text);
    if (part->warning[0] != '\0' || text[0] != '\0')
        say(comments, "warning: %s", part->warning[0] != '\0' ? part->warning : text);
    if (stats->throttled == 0)
        return;
    if (session->rate_limit != 0)
        snprintf(text, sizeof text, "; kernel.perf_event_max_sample_rate is %" PRIu64 " samples a second",
                 session->rate_limit);
    say(comments,
        "throttled by the kernel: %" PRIu64
        " times, for %.3f of %.3f CPU seconds, which are not in the profile%s",
        stats->throttled, (double)stats->throttled_ns / 1e9, (double)stats->time_running / 1e9,
        session->rate_limit != 0 ? text : "");
}

static void say_overload(struct comments *comments, const struct cp_slot_stats *stats)
{
    if (stats->ms_overloaded != 0)
        say(comments,
            "stopped: on %" PRIu32 " of %" PRIu32 " threads, where samples took more than half of the time; "
            "%.3f of their CPU seconds have no samples. "
            "Take a longer period.",
            stats->ms_overloaded, stats->ms, (double)stats->overloaded_ns / 1e9);
}

static void say_losses(struct comments *comments, const struct cp__part *part,
                       const struct cp_slot_stats *stats)
{
    const struct {
        const char *what;
        uint64_t n;
    } counts[] = {
        {"dropped (sample buffer full)", stats->dropped},
        {"lost (perf ring full)", stats->lost},
        {"unfolded (no memory)", part->unfolded},
        {"late (SIGPROF was blocked; without callers)", stats->late},
        {"truncated stacks", stats->truncated},
        {"incomplete stacks (code without frame pointers)", stats->incomplete},
        {"periods folded into a later sample", stats->overruns},
        {"foreign SIGPROFs", stats->foreign},
    };
    bool any = false;

    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        if (counts[i].n != 0)
            say(comments, "%s: %" PRIu64, counts[i].what, counts[i].n);
        any = any || (i < 3 && counts[i].n != 0);
    }
    if (!any && stats->ms_refused == 0 && stats->throttled == 0 && stats->ms_overloaded == 0)
        say(comments, "losses: none");
    if (stats->handler_replaced)
        say(comments, "incomplete: another SIGPROF handler was installed while this profile was taken");
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

int cp__report_write(struct cp_session *session, size_t i, struct cp_writer *w, bool is_text,
                     struct cp_error *err)
{
    struct cp__part *part = &session->parts[i];
    const struct cp_slot_stats *stats = &session->stats[i];
    struct comments comments = {.n = 0};
    const bool time = is_time(part);
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
    say_engine(&comments, part, stats);
    say_event(&comments, part);
    say_precision(&comments, part, stats, &findings);
    say_rate(&comments, part, stats);
    say_multiplexing(&comments, stats);
    say_limits(&comments, session, i);
    say_overload(&comments, stats);
    say_losses(&comments, part, stats);
    if (findings.unnamed != 0)
        say(&comments,
            "no names: there was not enough memory to look up %" PRIu64 " addresses; "
            "pprof tools can look them up where they find the program's files",
            findings.unnamed);
    if (findings.kernel[0] != '\0')
        say(&comments, "%s", findings.kernel);
    meta.n_comments = comments.n;
    return cp__report_to(part->profile, &meta, w, err);
}
