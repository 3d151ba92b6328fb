/* Cuts profiles to the rounds of a watch. docs/embedding.md says which labels samples in rounds have. */
#ifndef COUNTERPOINT_CMD_REPORT_ROUNDS_H
#define COUNTERPOINT_CMD_REPORT_ROUNDS_H

#include "cmd/counterpoint/commands.h"
#include "model.h"

/* Keeps the samples in rounds of the watch. Returns STATUS_NO, and says which watches there are, if there is
 * no such sample. */
enum status rounds_keep_watch(struct profile *profile, const char *watch);

/*
 * Keeps the samples in the slowest rounds of a watch: of a share, as "1%". If that is 1 % and the profile
 * tells the bound for all rounds of the watch (watch_slowest), that is the bound; else it is that of the
 * share of the rounds that have samples. Samples in rounds that had not ended are left out. Says which bound
 * that is. Returns STATUS_USAGE for a bad share, and STATUS_NO if there is no duration.
 */
enum status rounds_keep_slowest(struct profile *profile, const char *watch, const char *share);

#endif
