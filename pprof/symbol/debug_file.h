/* Finding the debug information of an object that keeps it in a file of its own, on this machine only. */
#ifndef COUNTERPOINT_PPROF_SYMBOL_DEBUG_FILE_H
#define COUNTERPOINT_PPROF_SYMBOL_DEBUG_FILE_H

#include <elfutils/libdwfl.h>

/*
 * For Dwfl_Callbacks.find_debuginfo: looks for the file by the object's build id, then by the name that the
 * object gives. dwfl_standard_find_debuginfo() would go on to ask the debuginfod servers that the environment
 * names; nothing that runs in a host's process, or looks at one that has crashed, sends requests.
 */
int cp__find_debug_file(Dwfl_Module *module, void **user_data, const char *module_name, Dwarf_Addr base,
                        const char *file, const char *debuglink, GElf_Word checksum, char **found);

#endif
