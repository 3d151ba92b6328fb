/* How perf writes an event: by its name if it has one, or else by its numbers. */
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

#include "events.h"

#define TRACEPOINT "tracepoint:"

/* Writes the suffix: only what differs from perf's default, which counts user and kernel mode. */
static void spell_modes(const struct event *event, char *text, size_t size)
{
    const struct cp_cpu_profile_config *config = &event->config;
    bool all = !config->is_user_excluded && config->is_kernel_included;

    snprintf(text, size, "%s%s%s%s", config->is_user_excluded || all ? "" : "u",
             config->is_kernel_included && !all ? "k" : "", config->is_hv_included && !all ? "h" : "",
             &"ppp"[3 - (int)config->precise_ip]);
}

/* Writes "r1c2" or "cpu/config=0x1b7,config1=0x3f/". Returns false if the type belongs to a PMU with a name
 * of its own. */
static bool spell_numbers(const struct cp_event_encoding *encoding, char *text, size_t size)
{
    char more[64] = "";

    if (encoding->type != PERF_TYPE_RAW)
        return false;
    if (encoding->config2 != 0)
        snprintf(more, sizeof more, ",config2=%#" PRIx64, encoding->config2);
    if (encoding->config1 == 0 && encoding->config2 == 0)
        snprintf(text, size, "r%" PRIx64, encoding->config);
    else
        snprintf(text, size, "cpu/config=%#" PRIx64 ",config1=%#" PRIx64 "%s/", encoding->config,
                 encoding->config1, more);
    return true;
}

/* Writes the name without its suffix. A PMU's terms end in a slash. */
static void spell_name(const struct event *event, const char *name, char *text, size_t size)
{
    bool has_terms = event->spec.kind == CP_EVENT_HARDWARE && strchr(name, '/') != NULL;
    const char *end = strrchr(name, has_terms ? '/' : ':');
    bool has_suffix = event->spec.modes != 0 || event->spec.precise_ip != 0;

    snprintf(text, size, "%.*s",
             end != NULL && has_suffix ? (int)(end + has_terms - name) : (int)strlen(name), name);
}

/* Writes an event for which the list has no name of perf's. */
static bool spell_unlisted(const struct event *event, char *text, size_t size)
{
    const char *name = event->spec.name;
    struct cp_event_encoding encoding;

    if (cp_event_encode(&event->spec, &encoding) < 0)
        return false;
    if (encoding.type == PERF_TYPE_TRACEPOINT && strncmp(name, TRACEPOINT, strlen(TRACEPOINT)) == 0)
        name += strlen(TRACEPOINT);
    else if ((encoding.type == PERF_TYPE_RAW || encoding.type >= PERF_TYPE_MAX) && strchr(name, '/') == NULL)
        return spell_numbers(&encoding, text, size);
    spell_name(event, name, text, size);
    return true;
}

bool event_perf_spelling(const struct event *event, char *text, size_t size)
{
    char base[256];
    char modes[8];

    if (event->alias != NULL)
        snprintf(base, sizeof base, "%s", event->alias);
    else if (!spell_unlisted(event, base, sizeof base))
        return false;
    spell_modes(event, modes, sizeof modes);
    snprintf(text, size, "%s%s%s", base, modes[0] != '\0' && base[strlen(base) - 1] != '/' ? ":" : "", modes);
    return true;
}
