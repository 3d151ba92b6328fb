/* Disassembles by running objdump: it knows the instructions that the compiler of this machine makes, and
 * says what calls lead to. perf annotate and go tool pprof run it, too, so people have it. libcapstone would
 * have to be linked, and knows the instructions of its own year only. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "code.h"
#include "code_file.h"
#include "program.h"
#include "runtime/base/fail.h"

/* ---- Running objdump ------------------------------------------------------------------------- */

/* Returns the objdump for the file's processor that Debian has beside that of this machine. */
static const char *objdump_for(const struct code *code)
{
    switch (code->header.e_machine) {
    case EM_X86_64:
        return "x86_64-linux-gnu-objdump";
    case EM_AARCH64:
        return "aarch64-linux-gnu-objdump";
    default:
        return "objdump";
    }
}

/* Runs objdump for the instructions of a symbol. Returns what program_run() does. */
static int run_objdump(struct printed *printed, const struct code *code, const struct code_symbol *symbol)
{
    const char *programs[] = {objdump_for(code), "objdump"};
    char start[64], end[64];
    int status = PROGRAM_IS_ABSENT;

    unsetenv("DEBUGINFOD_URLS"); /* a report sends no requests, and what we show needs no debug information */
    snprintf(start, sizeof start, "--start-address=0x%" PRIx64, symbol->start);
    snprintf(end, sizeof end, "--stop-address=0x%" PRIx64, symbol->end);
    *printed = (struct printed){0};
    for (size_t i = 0; i < sizeof programs / sizeof programs[0] && status == PROGRAM_IS_ABSENT; i++) {
        const char *const arguments[] = {programs[i], "-dwC", "--no-show-raw-insn", start,
                                         end,         "--",   code->file,           NULL};

        program_free(printed);
        *printed = (struct printed){0};
        status = program_run(arguments, printed);
    }
    return status;
}

/* ---- Reading what it prints ------------------------------------------------------------------ */

/* Reads a line "  1139:\tpush   %rbp". Returns false for other lines. */
static bool read_instruction(char *line, struct arena *arena, struct instruction *instruction)
{
    char *end, *text;

    errno = 0;
    instruction->address = strtoull(line, &end, 16);
    if (end == line || errno != 0 || end[0] != ':' || end[1] != '\t')
        return false;
    text = end + 2;
    for (char *c = text; *c != '\0'; c++)
        *c = *c == '\t' ? ' ' : (unsigned char)*c < ' ' || *c == 0x7f ? '?' : *c;
    for (size_t n = strlen(text); n > 0 && text[n - 1] == ' '; n--)
        text[n - 1] = '\0';
    instruction->text = arena_copy(arena, text, strlen(text));
    return true;
}

/* Changes the text. */
static size_t read_instructions(char *text, struct arena *arena, struct instruction **instructions)
{
    struct instruction *list = NULL;
    size_t n = 0, room = 0;

    for (char *line; (line = strsep(&text, "\n")) != NULL;) {
        list = grow_array(list, n, &room, sizeof *list);
        list[n] = (struct instruction){0};
        n += (size_t)read_instruction(line, arena, &list[n]);
    }
    *instructions = arena_array(arena, n, sizeof *list);
    if (n > 0)
        memcpy(*instructions, list, n * sizeof *list);
    free(list);
    return n;
}

int code_disassemble(const struct code *code, const struct code_symbol *symbol, struct arena *arena,
                     struct instruction **instructions, size_t *n, struct cp_error *err)
{
    struct printed printed;
    int status = run_objdump(&printed, code, symbol), result = 0;
    const char *said = last_line(printed.err);

    *n = status == 0 ? read_instructions(printed.out, arena, instructions) : 0;
    if (status == PROGRAM_IS_ABSENT)
        result =
            cp__error(err, -ENOENT, "there is no program objdump, which disassembles: install binutils.");
    else if (*n == 0)
        result =
            cp__error(err, -ENOEXEC,
                      "objdump has disassembled nothing of %.120s in %.120s: %.120s. That file may be for "
                      "another processor: binutils-multiarch knows others.",
                      symbol->name, code->file, *said != '\0' ? said : "it does not say why");
    program_free(&printed);
    return result;
}
