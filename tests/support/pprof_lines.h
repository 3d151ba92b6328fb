/* Numbers in what go tool pprof prints with the option -unit=ms. */
#ifndef COUNTERPOINT_TESTS_PPROF_LINES_H
#define COUNTERPOINT_TESTS_PPROF_LINES_H

#include <stdlib.h>

#include "test.h"

/* Reads "0 0% 100% 100.12ms 5.2% wait_for_lock" of -top: the cumulated time is the fourth column. Returns 0
 * if the function has no line. */
static inline double ms_in(const char *top, const char *function)
{
    char *line = test_command(NULL, "awk '$NF == \"%s\" { print $4 + 0 }' <<'END'\n%s\nEND", function, top);
    double ms = atof(line);

    free(line);
    return ms;
}

/* Reads "812.5ms (40.00%): waiting" of -tags. */
static inline double ms_of_tag(const char *tags, const char *value)
{
    char *line = test_command(NULL, "awk '$NF == \"%s\" { print $1 + 0 }' <<'END'\n%s\nEND", value, tags);
    double ms = atof(line);

    free(line);
    return ms;
}

#endif
