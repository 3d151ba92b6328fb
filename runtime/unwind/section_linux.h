/* Where the program's sections are mapped, by its file. Not for signal handlers. */
#ifndef COUNTERPOINT_RUNTIME_UNWIND_SECTION_LINUX_H
#define COUNTERPOINT_RUNTIME_UNWIND_SECTION_LINUX_H

#include <stdbool.h>
#include <stdint.h>

/* Finds the section of the running program that has a name, at [*lo, *hi) before the program was relocated.
 * Returns false if the file has no such section, or no list of sections. */
bool cp__section_find(const char *name, uint64_t *lo, uint64_t *hi);

#endif
