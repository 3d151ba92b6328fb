/* Functions and frames as people want to see them. */
#ifndef COUNTERPOINT_CMD_REPORT_NAMES_H
#define COUNTERPOINT_CMD_REPORT_NAMES_H

#include <regex.h>

#include "cmd/counterpoint/commands.h"
#include "model.h"

/* Demangles names that are still the linker's, and removes parameters and template arguments from them, as
 * go tool pprof does; names that the profile's writer has demangled stay. */
void profile_demangle(struct profile *profile);

/* Removes the frames that the profile's writer asks to leave out (drop_frames), unless the expression could
 * take all memory. */
void profile_prune(struct profile *profile);

/* Puts '?' in place of control characters, which could do something to a terminal. */
void profile_make_printable(struct profile *profile);

/* Compiles a regular expression of the command line. Returns STATUS_USAGE and says why if it is none, and
 * there is nothing to free then. */
enum status expression_read(regex_t *to, const char *text);
bool expression_matches(const regex_t *expression, const char *text);

#endif
