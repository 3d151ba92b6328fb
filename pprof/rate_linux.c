/* See rate_linux.h. */
#include "rate_linux.h"

#include <inttypes.h>
#include <stdio.h>

#include "runtime/base/sysctl_linux.h"

uint64_t cp__rate_limit(void)
{
    int64_t limit = cp__sysctl("kernel/perf_event_max_sample_rate");

    return limit > 0 ? (uint64_t)limit : 0;
}

void cp__rate_warn(const struct cp_event_spec *event, const struct cp_cpu_profile_config *config,
                   uint64_t limit, char *text, size_t size)
{
    double rate = config->period == 0 ? 0 : 1e9 / (double)config->period;

    text[0] = '\0';
    if (event->kind == CP_EVENT_CLOCK && limit != 0 && rate > (double)limit)
        snprintf(text, size,
                 "A sample of %.100s every %" PRIu64 " ns is %.0f a second, and the kernel stops at %" PRIu64
                 " (kernel.perf_event_max_sample_rate). Take a period of %.0f ns or more, or raise that with "
                 "sysctl.",
                 event->name, config->period, rate, limit, 1e9 / (double)limit + 0.5);
}

void cp__rate_judge(const struct cp_event_spec *event, const struct cp_cpu_profile_config *config,
                    const struct cp_slot_stats *stats, uint64_t limit, char *text, size_t size)
{
    double periods = config->period == 0 ? 0 : (double)stats->count / (double)config->period;
    double seconds = ((double)stats->time_running - (double)stats->throttled_ns) / 1e9;

    text[0] = '\0';
    if (event->kind != CP_EVENT_CLOCK && event->kind != CP_EVENT_TIMER && limit != 0 &&
        periods > (double)limit * seconds && seconds > 0)
        snprintf(
            text, size,
            "A sample of %.100s every %" PRIu64 " came to %.0f a second, and the kernel stops at %" PRIu64
            " (kernel.perf_event_max_sample_rate). Take a period of %.0f or more, or raise that with sysctl.",
            event->name, config->period, periods / seconds, limit,
            (double)stats->count / seconds / (double)limit + 0.5);
}
