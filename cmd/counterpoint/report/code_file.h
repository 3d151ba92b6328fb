/* What code.c and disassemble.c know of an object file. */
#ifndef COUNTERPOINT_CMD_REPORT_CODE_FILE_H
#define COUNTERPOINT_CMD_REPORT_CODE_FILE_H

#include <elfutils/libdwfl.h>
#include <gelf.h>
#include <stdbool.h>

struct code {
    const char *file;
    Dwfl *dwfl;
    Dwfl_Module *module;
    Elf *elf; /* of the module */
    GElf_Ehdr header;
    GElf_Addr bias; /* between the file's addresses and those that libdwfl takes */
    bool is_sure;
    Dwarf_Die *unit; /* in which a line was found; NULL: none */
    Dwarf_Addr unit_bias;
};

#endif
