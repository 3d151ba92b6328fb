/* Events that a table has: by their names, by the processor's own number, and by their encodings. */
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"

void cp__event_take_named(struct cp_event_spec *spec, const struct cp_event_encoding *encoding)
{
    const struct cp__event *row = cp__event(CP_CPUPROF_NAMED, encoding);

    spec->event = CP_CPUPROF_NAMED;
    spec->kind = row->kind;
    spec->encoding = *encoding;
    spec->preset_period = row->preset_period;
}

void cp__event_take_row(struct cp_event_spec *spec, size_t i)
{
    const struct cp__event *row = cp__event_row(i);

    if (i >= CP_CPUPROF_EVENT_COUNT) {
        cp__event_take_named(spec,
                             &(struct cp_event_encoding){.type = row->perf_type, .config = row->perf_config});
    } else {
        spec->event = (enum cp_cpu_event)i;
        spec->kind = row->kind;
        spec->preset_period = row->preset_period;
    }
    snprintf(spec->name, sizeof spec->name, "%s", row->name);
}

bool cp__event_take_encoding(struct cp_event_spec *spec, uint32_t type, uint64_t config)
{
    const struct cp__event *row;

    for (size_t i = CP_CPUPROF_HW_CPU_CYCLES; (row = cp__event_row(i)) != NULL; i++) {
        if (!cp__event_is_many(i) && row->kind != CP_EVENT_WAIT && row->perf_type == type &&
            row->perf_config == config) {
            cp__event_take_row(spec, i);
            return true;
        }
    }
    return type == PERF_TYPE_HW_CACHE && cp__event_take_cache(spec, config);
}

/* Finds a name among the rows. */
static bool parse_row(const char *name, struct cp_event_spec *spec)
{
    const struct cp__event *row;

    for (size_t i = 0; (row = cp__event_row(i)) != NULL; i++) {
        if (!cp__event_is_many(i) && cp__event_is_called(row, name)) {
            cp__event_take_row(spec, i);
            return true;
        }
    }
    return false;
}

/* Reads "r" and 1 to 16 hexadecimal digits. */
static bool parse_raw(const char *name, struct cp_event_spec *spec)
{
    size_t digits = name[0] == 'r' ? strspn(name + 1, "0123456789abcdefABCDEF") : 0;

    if (digits == 0 || digits > 16 || name[1 + digits] != '\0')
        return false;
    cp__event_take_row(spec, CP_CPUPROF_HW_RAW);
    spec->raw_event = strtoull(name + 1, NULL, 16);
    snprintf(spec->name, sizeof spec->name, "r%" PRIx64, spec->raw_event);
    return true;
}

int cp__event_parse_table(const char *base, struct cp_event_spec *spec, struct cp_error *err)
{
    if (parse_row(base, spec) || parse_raw(base, spec))
        return 0;
    return cp__event_parse_cache(base, spec, err);
}
