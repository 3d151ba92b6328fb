/* The machine code of a profile's mappings, in the files that are on this machine. */
#ifndef COUNTERPOINT_CMD_REPORT_CODE_H
#define COUNTERPOINT_CMD_REPORT_CODE_H

#include "model.h"

/* An object file. Addresses in it are those of its symbols, which objdump prints, too. */
struct code;

/* The linker's function, or a part of it that the compiler has placed elsewhere ("work.cold"). */
struct code_symbol {
    const char *name;    /* lives as long as the code */
    uint64_t start, end; /* addresses in the file */
};

struct instruction {
    uint64_t address; /* in the file */
    const char *text;
    int64_t flat, cum; /* for the caller, 0 at first */
    size_t seen;       /* for the caller, 0 at first */
};

/* Opens the file that was mapped, if it is the same build still. Returns NULL, and says in *err why there is
 * no code to show. */
struct code *code_open(const struct profile_mapping *mapping, struct cp_error *err);
void code_close(struct code *code);
const char *code_file(const struct code *code);
/* Whether the file and the profile have a build id, so that this is the build that was profiled. */
bool code_is_sure(const struct code *code);

/* Finds the address in the file of an address in the mapping. Returns false if it is in no segment. */
bool code_address(const struct code *code, const struct profile_mapping *mapping, uint64_t address,
                  uint64_t *in_file);
/* Finds the symbol that an address of the file is in. Returns false if the file has none there. */
bool code_symbol(const struct code *code, uint64_t in_file, struct code_symbol *symbol);
/* Returns the source file that an address of the file is from, and stores the line; NULL: unknown. */
const char *code_line(struct code *code, uint64_t in_file, int *line);

/* Returns what the file was compiled for: a constant EM_... of <elf.h>. */
int code_machine(const struct code *code);
/* Returns the file's bytes at these addresses, which live as long as the code; NULL: it has none there. */
const uint8_t *code_bytes(const struct code *code, uint64_t start, uint64_t end);

/* Disassembles a symbol by objdump. Stores the instructions, by ascending addresses, for as long as the arena
 * lives. Returns 0 or a negative errno value, and the sentence. */
int code_disassemble(const struct code *code, const struct code_symbol *symbol, struct arena *arena,
                     struct instruction **instructions, size_t *n, struct cp_error *err);

#endif
