/* Functions and frames as people want to see them. */
#ifndef COUNTERPOINT_CMD_REPORT_NAMES_H
#define COUNTERPOINT_CMD_REPORT_NAMES_H

#include <regex.h>

#include "model.h"

/* Demangles names that are still the linker's, and removes parameters and template arguments from them, as
 * go tool pprof does; names that the profile's writer has demangled stay. */
void profile_demangle(struct profile *profile);

/* Removes the frames that the profile's writer asks to leave out (drop_frames). */
void profile_prune(struct profile *profile);

/* Puts '?' in place of control characters, which could do something to a terminal. */
void profile_make_printable(struct profile *profile);

/* Makes a POSIX expression of one in Go's syntax between two texts, as far as both syntaxes are alike: the
 * groups that capture nothing capture here. Returns 0 or regcomp()'s error. */
int expression_compile(regex_t *to, const char *before, const char *text, const char *after);
bool expression_matches(const regex_t *expression, const char *text);

#endif
