#include "quantity.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/fail.h"

/* Ratios are recorded in millionths. */
#define RATIO_SCALE 1e-6

static const char per[] = " per ";

/* Finds an event among the meters of the watch, or adds it. Returns its number there, or a negative errno
 * value. */
static int find_meter(struct cp_watch *watch, const char *name, struct cp_error *err)
{
    int meter = cp__meter_take(name, err);

    if (meter < 0)
        return meter;
    for (unsigned i = 0; i < watch->n_meters; i++) {
        if (watch->meters[i] == meter) {
            cp__meter_release((unsigned)meter);
            return (int)i;
        }
    }
    if (watch->n_meters == CP__WATCH_METERS) {
        cp__meter_release((unsigned)meter);
        return cp__error(
            err, -EINVAL,
            "A watch counts at most %d different events, and %s is one more: open a second watch.",
            CP__WATCH_METERS, name);
    }
    watch->meters[watch->n_meters] = (uint8_t)meter;
    return (int)watch->n_meters++;
}

static const char *unit_of_meter(const struct cp__meter *meter)
{
    const struct cp_event_encoding *encoding = &meter->request.config.encoding;

    if (meter->kind == CP__METER_CPU_TIME)
        return "ns";
    return meter->kind == CP__METER_EVENT && encoding->type == PERF_TYPE_SOFTWARE &&
                   (encoding->config == PERF_COUNT_SW_CPU_CLOCK ||
                    encoding->config == PERF_COUNT_SW_TASK_CLOCK)
               ? "ns"
               : "count";
}

static int add_counted(struct cp_watch *watch, const char *name, struct cp_error *err)
{
    struct cp__watch_quantity *quantity = &watch->quantities[watch->n_quantities];
    int meter = find_meter(watch, name, err);

    if (meter < 0)
        return meter;
    snprintf(quantity->name, sizeof quantity->name, "%s", cp__meters[watch->meters[meter]].name);
    quantity->unit = unit_of_meter(&cp__meters[watch->meters[meter]]);
    quantity->scale = 1;
    watch->measures[watch->n_quantities++] =
        (struct cp__measure){.kind = CP__MEASURE_METER, .meter = (unsigned)meter};
    return 0;
}

static int add_ratio(struct cp_watch *watch, const char *name, const char *over, const char *under,
                     struct cp_error *err)
{
    struct cp__watch_quantity *quantity = &watch->quantities[watch->n_quantities];
    int meter = find_meter(watch, over, err);
    int divisor = meter < 0 ? meter : find_meter(watch, under, err);

    if (divisor < 0)
        return divisor;
    snprintf(quantity->name, sizeof quantity->name, "%s", name);
    quantity->unit = "ratio";
    quantity->scale = RATIO_SCALE;
    watch->measures[watch->n_quantities++] =
        (struct cp__measure){.kind = CP__MEASURE_RATIO, .meter = (unsigned)meter, .per = (unsigned)divisor};
    return 0;
}

/* Takes the spaces off both ends of a name. */
static char *trim_name(char *name)
{
    size_t size;

    name += strspn(name, " ");
    for (size = strlen(name); size > 0 && name[size - 1] == ' ';)
        name[--size] = '\0';
    return name;
}

static int add_quantity(struct cp_watch *watch, char *name, struct cp_error *err)
{
    char over[CP_WATCH_NAME_MAX * 4];
    char *middle;

    name = trim_name(name);
    if (watch->n_quantities == CP_WATCH_QUANTITIES)
        return cp__error(
            err, -EINVAL,
            "A watch has at most %d quantities, time included, and %s is one more: open a second "
            "watch.",
            CP_WATCH_QUANTITIES, name);
    if (strcmp(name, "time") == 0)
        return cp__error(err, -EINVAL, "The time is always measured: leave \"time\" out.");
    if (strcmp(name, "ipc") == 0)
        return add_ratio(watch, name, "instructions", "cycles", err);
    if (strcmp(name, "cpi") == 0)
        return add_ratio(watch, name, "cycles", "instructions", err);
    middle = strstr(name, per);
    if (middle == NULL)
        return add_counted(watch, name, err);
    if ((size_t)(middle - name) >= sizeof over || strlen(name) >= sizeof watch->quantities[0].name)
        return cp__error(err, -EINVAL, "The name of a quantity has at most %zu bytes: \"%s\" has more.",
                         sizeof over - 1, name);
    snprintf(over, sizeof over, "%.*s", (int)(middle - name), name);
    return add_ratio(watch, name, trim_name(over), trim_name(middle + strlen(per)), err);
}

/* Returns whether the quantity that was added last is there twice. */
static bool is_twice(const struct cp_watch *watch)
{
    const struct cp__watch_quantity *last = &watch->quantities[watch->n_quantities - 1];

    for (unsigned i = 0; i + 1 < watch->n_quantities; i++) {
        if (strcmp(watch->quantities[i].name, last->name) == 0)
            return true;
    }
    return false;
}

static int parse_list(struct cp_watch *watch, char *list, struct cp_error *err)
{
    int result = 0;
    char *name;

    while (result == 0 && (name = cp_event_next(&list)) != NULL) {
        result = add_quantity(watch, name, err);
        if (result == 0 && is_twice(watch))
            result = cp__error(err, -EINVAL, "A watch has each quantity once, and %s stands there twice%s.",
                               trim_name(name),
                               strcmp(trim_name(name), "time") == 0 ? "" : ", perhaps by two names");
    }
    return result;
}

int cp__quantities_parse(struct cp_watch *watch, const char *list, struct cp_error *err)
{
    char *copy;
    int result;

    watch->quantities[0] = (struct cp__watch_quantity){.name = "time", .unit = "ns", .scale = 1};
    watch->measures[0] = (struct cp__measure){.kind = CP__MEASURE_TIME};
    watch->n_quantities = 1;
    if (list == NULL)
        return 0;
    copy = strdup(list);
    if (copy == NULL)
        return cp__error(err, -ENOMEM, "There is no memory for a watch's quantities.");
    result = parse_list(watch, copy, err);
    free(copy);
    return result;
}
