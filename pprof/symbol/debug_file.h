/* Finds the file with the debug information of an object that keeps it in a separate file. Looks only on
 * this machine. */
#ifndef COUNTERPOINT_PPROF_SYMBOL_DEBUG_FILE_H
#define COUNTERPOINT_PPROF_SYMBOL_DEBUG_FILE_H

#include <elfutils/libdwfl.h>

/*
 * A function for Dwfl_Callbacks.find_debuginfo. Looks for the file by the object's build id, then by the
 * name that the object gives. dwfl_standard_find_debuginfo() would then ask the debuginfod servers that the
 * environment names; but code that runs in a host's process, or examines a crashed one, must not send
 * requests.
 */
int cp__find_debug_file(Dwfl_Module *module, void **user_data, const char *module_name, Dwarf_Addr base,
                        const char *file, const char *debuglink, GElf_Word checksum, char **found);

#endif
