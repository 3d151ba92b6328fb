/* Which samples a report is of. */
#ifndef COUNTERPOINT_CMD_REPORT_FILTER_H
#define COUNTERPOINT_CMD_REPORT_FILTER_H

#include "cmd/counterpoint/commands.h"
#include "model.h"

/* Regular expressions, as options of these names have them, after the name of a watch and a share of its
 * rounds; NULL: no condition. */
enum filter {
    FILTER_WATCH,
    FILTER_SLOWEST, /* only together with FILTER_WATCH */
    FILTER_FOCUS,
    FILTER_IGNORE,
    FILTER_TAG_FOCUS,
    FILTER_TAG_IGNORE,
    N_FILTERS
};

struct filters {
    const char *of[N_FILTERS];
};

/* Returns the option's name, without dashes. */
const char *filter_name(enum filter filter);
/* Returns whether there is a condition; *first is the first one. */
bool filters_any(const struct filters *filters, enum filter *first);

/* Keeps the samples in the watch's rounds, or in its slowest ones; then those with a function, file or module
 * that matches focus, and with the label that tagfocus ("KEY=REGEX") asks for; leaves out those that ignore
 * and tagignore match. Returns STATUS_USAGE and says why if an expression or a share is none, and STATUS_NO
 * if the watch has no samples. */
enum status filters_apply(const struct filters *filters, struct profile *profile);

#endif
