/* The units are those of github.com/google/pprof, internal/measurement. */
#include "measure.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct unit {
    const char *name;
    const char *aliases; /* in lower case, a space before and after each */
    double factor;
};

/* Units of one kind, the smallest first. */
struct unit_kind {
    struct unit fallback; /* if a value is smaller than the smallest unit, or the target is of another kind */
    const struct unit *units;
    size_t n;
};

#define UNITS(...)                                                                                           \
    .units = (const struct unit[]){__VA_ARGS__},                                                             \
    .n = sizeof((const struct unit[]){__VA_ARGS__}) / sizeof(struct unit)

static const struct unit_kind kinds[] = {
    {.fallback = {"B", "", 1},
     UNITS({"B", " b byte ", 1}, {"kB", " kb kbyte kilobyte ", 0x1p10}, {"MB", " mb mbyte megabyte ", 0x1p20},
           {"GB", " gb gbyte gigabyte ", 0x1p30}, {"TB", " tb tbyte terabyte ", 0x1p40},
           {"PB", " pb pbyte petabyte ", 0x1p50})},
    {.fallback = {"s", "", 1e9},
     UNITS({"ns", " ns nanosecond ", 1}, {"us", " \u03bcs us microsecond ", 1e3},
           {"ms", " ms millisecond ", 1e6}, {"s", " s sec second ", 1e9}, {"hrs", " hour hr ", 3600e9})},
    {.fallback = {"GCU", "", 1},
     UNITS({"n*GCU", " nanogcu ", 1e-9}, {"u*GCU", " microgcu ", 1e-6}, {"m*GCU", " milligcu ", 1e-3},
           {"GCU", " gcu ", 1}, {"k*GCU", " kilogcu ", 1e3}, {"M*GCU", " megagcu ", 1e6},
           {"G*GCU", " gigagcu ", 1e9}, {"T*GCU", " teragcu ", 1e12}, {"P*GCU", " petagcu ", 1e15})},
};

#define N_KINDS (sizeof kinds / sizeof kinds[0])
enum { TIME_KIND = 1 };

/* Returns the unit of that name, also in capitals and in the plural; NULL: the kind has none. */
static const struct unit *find_unit(const struct unit_kind *kind, const char *name)
{
    char word[32];
    size_t length = strlen(name);

    if (length == 0 || length + 3 > sizeof word)
        return NULL;
    snprintf(word, sizeof word, " %s", name);
    for (size_t i = 1; i <= length; i++)
        word[i] = (char)tolower((unsigned char)word[i]);
    if (length > 2 && word[length] == 's')
        length--;
    strcpy(word + length + 1, " ");
    for (size_t i = 0; i < kind->n; i++) {
        if (strstr(kind->units[i].aliases, word) != NULL)
            return &kind->units[i];
    }
    return NULL;
}

static const struct unit *choose_unit(const struct unit_kind *kind, double value)
{
    const struct unit *best = NULL;

    for (size_t i = 0; i < kind->n; i++) {
        if (value / kind->units[i].factor >= 1)
            best = &kind->units[i];
    }
    return best;
}

static bool is_automatic(const char *unit)
{
    return strcmp(unit, "minimum") == 0 || strcmp(unit, "auto") == 0;
}

static double scale_positive(int64_t value, const char *from, const char *to, const char **unit)
{
    for (size_t i = 0; i < N_KINDS; i++) {
        const struct unit *source = find_unit(&kinds[i], from), *target;
        double v;

        if (source == NULL)
            continue;
        v = (double)value * source->factor;
        target = is_automatic(to) ? choose_unit(&kinds[i], v) : find_unit(&kinds[i], to);
        if (target == NULL)
            target = &kinds[i].fallback;
        *unit = target->name;
        return v / target->factor;
    }
    *unit =
        is_automatic(to) || strcmp(to, "count") == 0 || strcmp(to, "sample") == 0 || strcmp(to, "unit") == 0
            ? ""
            : to;
    return (double)value;
}

double measure_scale(int64_t value, const char *from, const char *to, const char **unit)
{
    if (value < 0 && value != INT64_MIN)
        return -scale_positive(-value, from, to, unit);
    return scale_positive(value, from, to, unit);
}

const char *measure_label(char text[MEASURE_SIZE], int64_t value, const char *from, const char *to)
{
    const char *unit;
    double scaled = measure_scale(value, from, to, &unit);
    size_t length = (size_t)snprintf(text, MEASURE_SIZE, "%.2f", scaled);

    if (length > 3 && strcmp(text + length - 3, ".00") == 0)
        text[length -= 3] = '\0';
    if (strcmp(text, "0") == 0 || strcmp(text, "-0") == 0)
        return strcpy(text, "0");
    snprintf(text + length, MEASURE_SIZE - length, "%s", unit);
    return text;
}

const char *measure_percentage(char text[MEASURE_SIZE], int64_t value, int64_t total)
{
    double ratio = total != 0 ? fabs((double)value / (double)total) * 100 : 0;

    if (ratio >= 99.95 && ratio <= 100.05)
        strcpy(text, "  100%");
    else if (ratio >= 1)
        snprintf(text, MEASURE_SIZE, "%5.2f%%", ratio);
    else
        snprintf(text, MEASURE_SIZE, "%5.2g%%", ratio);
    return text;
}

int measure_is_time(const char *unit)
{
    return find_unit(&kinds[TIME_KIND], unit) != NULL;
}
