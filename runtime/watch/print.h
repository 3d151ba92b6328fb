/* The forms of a snapshot: see cp_watch_print(). */
#ifndef COUNTERPOINT_RUNTIME_WATCH_PRINT_H
#define COUNTERPOINT_RUNTIME_WATCH_PRINT_H

#include <stdio.h>

#include "snapshot.h"

/* Each is called with the locale "C". What writing to out brings is looked at afterwards. Two return 0 or
 * -ENOMEM, and then have printed nothing. */
int cp__watch_print_text(const struct cp_watch_snapshot *snapshot, FILE *out);
void cp__watch_print_json(const struct cp_watch_snapshot *snapshot, FILE *out);
int cp__watch_print_prometheus(const struct cp_watch_snapshot *snapshot, FILE *out);

/* Prints a number with as many digits as it takes to read the same number again. */
void cp__watch_print_number(FILE *out, double number);

/* The percentiles that people and programs get. */
#define CP__WATCH_PERCENTILES 4
extern const double cp__watch_percentiles[CP__WATCH_PERCENTILES];

/* Returns "" for rounds without a fork, "parent" or "child". */
const char *cp__watch_side_name(enum cp_watch_side side);

/* ---- Names for Prometheus -------------------------------------------------------------------- */

#define CP__PROMETHEUS_NAME_MAX (8 * CP_WATCH_NAME_MAX + 64)

/* Makes a metric's name of a quantity's: in snake case, without what Prometheus keeps for itself. */
void cp__prometheus_metric(char name[CP__PROMETHEUS_NAME_MAX], const char *quantity);
/* Makes labels' names of the n keys. None has the name of another, or one of those that are taken, whose list
 * ends with NULL. */
void cp__prometheus_labels(char (*names)[CP__PROMETHEUS_NAME_MAX], char *const *keys, size_t n,
                           const char *const *taken);
/* Prints text as a label's value, without the quotes, or as a help. A byte that is not UTF-8 becomes \xHH. */
void cp__prometheus_text(FILE *out, const char *text, bool is_value);

#endif
