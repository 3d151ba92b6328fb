/* Disassembles by running objdump: it knows the instructions that the compiler of this machine makes, and
 * says what calls lead to. perf annotate and go tool pprof run it, too, so people have it. libcapstone would
 * have to be linked, and knows the instructions of its own year only. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "code.h"
#include "code_file.h"
#include "runtime/base/fail.h"

extern char **environ;

/* ---- Running objdump ------------------------------------------------------------------------- */

struct objdump {
    pid_t pid;
    FILE *out;
};

/* Returns the objdump for the file's processor that Debian has beside that of this machine; NULL: there is
 * none. */
static const char *objdump_for(const struct code *code)
{
    switch (code->header.e_machine) {
    case EM_X86_64:
        return "x86_64-linux-gnu-objdump";
    case EM_AARCH64:
        return "aarch64-linux-gnu-objdump";
    default:
        return NULL;
    }
}

/* Starts a program with its output in a pipe. Returns 0 or a negative errno value. */
static int start_program(struct objdump *objdump, const char *program, char *const *arguments)
{
    posix_spawn_file_actions_t actions;
    int fds[2], result;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
    result = -posix_spawnp(&objdump->pid, program, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(fds[1]);
    objdump->out = result == 0 ? fdopen(fds[0], "r") : NULL;
    if (objdump->out == NULL)
        close(fds[0]);
    return result;
}

static int start_objdump(struct objdump *objdump, const struct code *code, const struct code_symbol *symbol)
{
    const char *programs[] = {objdump_for(code), "objdump"};
    char start[64], end[64],
        *arguments[] = {(char[]){"objdump"},
                        (char[]){"-dwC"},
                        (char[]){"--no-show-raw-insn"},
                        start,
                        end,
                        (char[]){"--"},
                        (char *)(uintptr_t)code->file,
                        NULL};
    int result = -ENOENT;

    unsetenv("DEBUGINFOD_URLS"); /* a report sends no requests, and what we show needs no debug information */
    snprintf(start, sizeof start, "--start-address=0x%" PRIx64, symbol->start);
    snprintf(end, sizeof end, "--stop-address=0x%" PRIx64, symbol->end);
    for (size_t i = 0; i < sizeof programs / sizeof programs[0] && result == -ENOENT; i++) {
        if (programs[i] != NULL)
            result = start_program(objdump, programs[i], arguments);
    }
    return result;
}

/* Returns whether objdump says that it succeeded. */
static bool end_objdump(struct objdump *objdump)
{
    int status = -1;

    if (objdump->out != NULL)
        fclose(objdump->out);
    while (waitpid(objdump->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- Reading what it prints ------------------------------------------------------------------ */

/* Reads a line "  1139:\tpush   %rbp". Returns false for other lines. */
static bool read_instruction(char *line, struct arena *arena, struct instruction *instruction)
{
    char *end, *text;

    line[strcspn(line, "\n")] = '\0';
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

static size_t read_instructions(FILE *in, struct arena *arena, struct instruction **instructions)
{
    struct instruction *list = NULL;
    char *line = NULL;
    size_t size = 0, n = 0, room = 0;

    while (in != NULL && getline(&line, &size, in) > 0) {
        list = grow_array(list, n, &room, sizeof *list);
        list[n] = (struct instruction){0};
        n += (size_t)read_instruction(line, arena, &list[n]);
    }
    free(line);
    *instructions = arena_array(arena, n, sizeof *list);
    if (n > 0)
        memcpy(*instructions, list, n * sizeof *list);
    free(list);
    return n;
}

int code_disassemble(const struct code *code, const struct code_symbol *symbol, struct arena *arena,
                     struct instruction **instructions, size_t *n, struct cp_error *err)
{
    struct objdump objdump;
    int result = start_objdump(&objdump, code, symbol);
    bool is_well;

    if (result == -ENOENT)
        return cp__error(err, result, "there is no program objdump, which disassembles: install binutils.");
    if (result < 0)
        return cp__error(err, result, "objdump cannot be run: %s.", strerror(-result));
    *n = read_instructions(objdump.out, arena, instructions);
    is_well = end_objdump(&objdump);
    if (is_well && *n > 0)
        return 0;
    return cp__error(err, -ENOEXEC,
                     "objdump has disassembled nothing of %.200s in %.200s. That file may be for "
                     "another processor: binutils-multiarch knows others.",
                     symbol->name, code->file);
}
