/* Configs and requests say how an event is to run. This file fills and checks both. */
#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

#include "rows.h"
#include "runtime/base/fail.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/sized.h"
#include "runtime/base/sys_linux.h"

static int no_event(enum cp_cpu_event event, struct cp_error *err)
{
    return cp__error(err, -EINVAL, "There is no event number %d. Use one of enum cp_cpu_event, 0 to %d.",
                     (int)event, CP_CPUPROF_EVENT_COUNT - 1);
}

/* Refuses a period that the event cannot have. */
static int check_config_period(const struct cp__event *row, const char *name, uint64_t period,
                               struct cp_error *err)
{
    char preset[48] = "";
    const char *unit = cp__event_kind_is_time(row->kind) ? " ns" : "";

    if (period == 0 && row->preset_period != 0)
        return cp__error(err, -EINVAL,
                         "The config for %s has a period of 0. Set a period; cp_cpu_profile_config_init() "
                         "sets the preset, %" PRIu64 "%s.",
                         name, row->preset_period, unit);
    if (period == 0)
        return cp__error(err, -EINVAL,
                         "The event %s has no preset period, because programs differ too much in how often "
                         "the event happens. Give a period: 1 samples every occurrence, 100 every hundredth.",
                         name);
    if (row->preset_period != 0)
        snprintf(preset, sizeof preset, ", and the preset %" PRIu64 "%s", row->preset_period, unit);
    if (period < row->min_period)
        return cp__error(err, -EINVAL,
                         "A period of %" PRIu64 "%s is too small for %s: the smallest is %" PRIu64 "%s%s.",
                         period, unit, name, row->min_period, unit, preset);
    if (period > INT64_MAX)
        return cp__error(err, -EINVAL,
                         "A period of %" PRIu64 "%s is too large for %s: the largest is %" PRId64 "%s.",
                         period, unit, name, INT64_MAX, unit);
    return 0;
}

bool cp__event_may_count_kernel(void)
{
    const struct perf_event_attr attr = {
        .size = sizeof attr, .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_TASK_CLOCK, .disabled = 1};
    int fd;

    cp__fork_delay();
    fd = cp__sys_perf_event_open_from_handler(&attr, 0);
    if (fd >= 0)
        cp__sys_close_from_handler(fd);
    cp__fork_allow();
    return fd >= 0;
}

/* Returns whether a config that this library makes lets an event count in the kernel. A thread's CPU clock
 * always counts there. */
static bool counts_kernel(const struct cp__event *row)
{
    if (row->kernel_mode == CP__KERNEL_PREFERRED)
        return row->kind == CP_EVENT_TIMER || cp__event_may_count_kernel();
    return row->kernel_mode == CP__KERNEL_REQUIRED;
}

struct cp__event_text cp__request_name(const struct cp_slot_request *request)
{
    struct cp__event_text name;

    if (request->name != NULL)
        snprintf(name.text, sizeof name.text, "%s", request->name);
    else if (request->event == CP_CPUPROF_HW_RAW)
        snprintf(name.text, sizeof name.text, "r%" PRIx64, request->config.raw_event);
    else
        snprintf(name.text, sizeof name.text, "%s", cp__config_event(request->event, &request->config)->name);
    return name;
}

int cp__request_check(const struct cp_slot_request *request, struct cp_error *err)
{
    const struct cp_cpu_profile_config *config = &request->config;
    const struct cp__event *row = cp__config_event(request->event, config);
    struct cp__event_text text;
    const char *name = text.text;

    if (row == NULL)
        return no_event(request->event, err);
    text = cp__request_name(request);
    if (config->precise_ip > CP_CPUPROF_IP_NO_SKID)
        return cp__error(err, -EINVAL,
                         "The precision level %d for %s is not one of 0 to %d. Set precise_ip to one of "
                         "these.",
                         (int)config->precise_ip, name, CP_CPUPROF_IP_NO_SKID);
    if (config->is_user_excluded && !config->is_kernel_included && !config->is_hv_included)
        return cp__error(err, -EINVAL,
                         "The config for %s lets the event count in no mode. Include a mode: clear "
                         "is_user_excluded, or set is_kernel_included or is_hv_included.",
                         name);
    if (row->kernel_mode == CP__KERNEL_REQUIRED && !config->is_kernel_included)
        return cp__error(err, -EINVAL,
                         "The event %s happens in the kernel only, and the config does not include the "
                         "kernel. Set is_kernel_included.",
                         name);
    if (config->engine > CP_ENGINE_SIGNAL)
        return cp__error(err, -EINVAL, "The engine %d for %s is not one of enum cp_engine, 0 to %d.",
                         (int)config->engine, name, CP_ENGINE_SIGNAL);
    if (row->kind != CP_EVENT_TIMER)
        return check_config_period(row, name, config->period, err);
    if (config->hz == 0 || config->hz > CP__NS_PER_SECOND / row->min_period)
        return cp__error(err, -EINVAL,
                         "The timer has no rate of %" PRIu64 " Hz. Set hz to a rate from 1 to %" PRIu64 ".",
                         config->hz, CP__NS_PER_SECOND / row->min_period);
    return 0;
}

static int make_config(struct cp_cpu_profile_config *config, const struct cp_event_spec *spec,
                       uint64_t period, struct cp_error *err)
{
    const struct cp__event *row = cp__event(spec->event, &spec->encoding);
    bool in_kernel;
    int result;

    if (row == NULL)
        return no_event(spec->event, err);
    if (period == 0)
        period = spec->preset_period != 0 ? spec->preset_period : row->preset_period;
    result = check_config_period(row, spec->name, period, err);
    if (result < 0)
        return result;
    in_kernel = spec->modes != 0 ? (spec->modes & CP_EVENT_KERNEL) != 0 : counts_kernel(row);
    *config = (struct cp_cpu_profile_config){
        .size = sizeof *config,
        .period = period,
        .raw_event = spec->raw_event,
        .precise_ip = spec->precise_ip,
        .is_sample_ip_included = true,
        .is_kernel_included = in_kernel,
        .is_hv_included = (spec->modes & CP_EVENT_HV) != 0,
        .is_sample_callchain_included = (spec->modes & CP_EVENT_KERNEL) != 0,
        .is_callchain_kernel_included = (spec->modes & CP_EVENT_KERNEL) != 0,
        .is_user_excluded = spec->modes != 0 && (spec->modes & CP_EVENT_USER) == 0,
        .encoding = spec->encoding,
    };
    if (row->kind == CP_EVENT_TIMER)
        config->hz = period >= CP__NS_PER_SECOND ? 1 : CP__NS_PER_SECOND / period;
    return 0;
}

int cp_cpu_profile_config_init(struct cp_cpu_profile_config *config, const struct cp_event_spec *spec,
                               uint64_t period, struct cp_error *err)
{
    struct cp_cpu_profile_config made;
    struct cp_event_spec own;
    int result = CP__TAKE(cp_event_spec, &own, spec, err);

    if (result == 0)
        result = make_config(&made, &own, period, err);
    return result < 0 ? result : CP__GIVE(cp_cpu_profile_config, config, &made, err);
}

/* Returns the encoding by which perf_event_open(2) knows an event. raw is the number of a CP_CPUPROF_HW_RAW
 * event, and named the encoding of a CP_CPUPROF_NAMED event. perf_event_open(2) does not know the timer and
 * waits, so these keep named. */
static struct cp_event_encoding encoding_of(enum cp_cpu_event event, uint64_t raw,
                                            const struct cp_event_encoding *named)
{
    const struct cp__event *row = cp__event(event, named);

    if (event == CP_CPUPROF_NAMED || !cp__event_kind_is_perf(row->kind))
        return *named;
    return (struct cp_event_encoding){.type = row->perf_type,
                                      .config = event == CP_CPUPROF_HW_RAW ? raw : row->perf_config};
}

int cp_event_encode(const struct cp_event_spec *spec, struct cp_event_encoding *encoding)
{
    struct cp_event_spec own;
    int result = CP__TAKE(cp_event_spec, &own, spec, NULL);
    const struct cp__event *row = result < 0 ? NULL : cp__event(own.event, &own.encoding);

    if (row == NULL || !cp__event_kind_is_perf(row->kind))
        return result < 0 ? result : -EINVAL;
    *encoding = encoding_of(own.event, own.raw_event, &own.encoding);
    return 0;
}

void cp__request_encode(struct cp_slot_request *request)
{
    struct cp_cpu_profile_config *config = &request->config;

    config->encoding = encoding_of(request->event, config->raw_event, &config->encoding);
}

int cp__spec_request(const struct cp_event_spec *spec, struct cp_slot_request *request, struct cp_error *err)
{
    const struct cp__event *row = cp__event(spec->event, &spec->encoding);
    bool has_preset = spec->preset_period != 0 || (row != NULL && row->preset_period != 0);
    int result;

    *request = (struct cp_slot_request){.event = spec->event, .name = spec->name};
    result = make_config(&request->config, spec, has_preset ? 0 : 1, err);
    if (result == 0)
        result = cp__request_check(request, err);
    if (result == 0)
        cp__request_encode(request);
    return result;
}

/* ---- Requests of a caller ---------------------------------------------------------------------- */

int cp__requests_take(struct cp_slot_request *to, const struct cp_slot_request *from, size_t n,
                      struct cp_error *err)
{
    const char *at = (const char *)from;

    for (size_t i = 0; i < n; i++) {
        const struct cp_slot_request *request = (const struct cp_slot_request *)(const void *)at;
        int result;

        if (request->config.size != from->config.size)
            return cp__error(err, -EINVAL,
                             "The configs of the requests have different sizes. Set the size of each to "
                             "sizeof(struct cp_cpu_profile_config).");
        result = CP__TAKE(cp_cpu_profile_config, &to[i].config, &request->config, err);
        if (result < 0)
            return result;
        to[i].event = request->event;
        to[i].name = request->name;
        memset(to[i].reserved, 0, sizeof to[i].reserved);
        at += offsetof(struct cp_slot_request, config) + request->config.size;
    }
    return 0;
}
