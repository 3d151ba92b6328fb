/* Values with units, scaled and written as pprof does. */
#ifndef COUNTERPOINT_CMD_REPORT_MEASURE_H
#define COUNTERPOINT_CMD_REPORT_MEASURE_H

#include <stdint.h>

enum { MEASURE_SIZE = 160 };

/* Returns a value without its sign. The least value stays negative, as in Go: C's llabs() has no result for
 * it, and clang makes use of that. */
static inline int64_t measure_abs(int64_t value)
{
    return value < 0 ? -value : value;
}

/* Converts a value from a unit to another; "minimum" and "auto" choose the largest unit in which the value is
 * at least 1. Returns the value, and the name of its unit in *unit: "" for counts and the like. *unit lives
 * as long as both arguments. */
double measure_scale(int64_t value, const char *from, const char *to, const char **unit);

/* Writes a value in a unit, with at most two digits behind the point: "1.23s". Returns text. */
const char *measure_label(char text[MEASURE_SIZE], int64_t value, const char *from, const char *to);

/* Writes a share of a total, as "12.34%", right-aligned in six columns. Returns text. */
const char *measure_percentage(char text[MEASURE_SIZE], int64_t value, int64_t total);

/* Returns whether values in the unit are time. */
int measure_is_time(const char *unit);

#endif
