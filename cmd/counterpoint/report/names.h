/* Functions and frames as people want to see them. */
#ifndef COUNTERPOINT_CMD_REPORT_NAMES_H
#define COUNTERPOINT_CMD_REPORT_NAMES_H

#include "cmd/counterpoint/commands.h"
#include "model.h"

/* Demangles names that are still the linker's, and removes parameters and template arguments from them, as
 * go tool pprof does; names that the profile's writer has demangled stay. */
void profile_demangle(struct profile *profile);

/* Removes the frames that the profile's writer asks to leave out (drop_frames). */
void profile_prune(struct profile *profile);

/* Puts '?' in place of control characters, which could do something to a terminal. */
void profile_make_printable(struct profile *profile);

/* Keeps the samples with a function, file or module that matches focus, and none that matches ignore; NULL:
 * no condition. Returns STATUS_USAGE and says why if an expression is none. */
enum status profile_filter(struct profile *profile, const char *focus, const char *ignore);

#endif
