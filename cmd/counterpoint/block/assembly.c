/* Blocks that are given as assembly. The assembler that is there makes bytes of them. */
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "block_list.h"
#include "cmd/counterpoint/report/program.h"

/* The two files of one text, in a folder of their own. */
struct assembly {
    char folder[80], source[96], object[96];
};

static bool make_folder(struct assembly *assembly)
{
    const char *parent = getenv("TMPDIR");

    if (parent == NULL || parent[0] == '\0' || strlen(parent) > 50)
        parent = "/tmp";
    snprintf(assembly->folder, sizeof assembly->folder, "%s/counterpoint-XXXXXX", parent);
    if (mkdtemp(assembly->folder) == NULL)
        return false;
    snprintf(assembly->source, sizeof assembly->source, "%s/block.s", assembly->folder);
    snprintf(assembly->object, sizeof assembly->object, "%s/block.o", assembly->folder);
    return true;
}

static void remove_folder(const struct assembly *assembly)
{
    unlink(assembly->source);
    unlink(assembly->object);
    rmdir(assembly->folder);
}

/* Registers have a '%' in one of the two syntaxes. */
static bool write_source(const struct assembly *assembly, const char *text)
{
    FILE *file = fopen(assembly->source, "we");
    bool is_written;

    if (file == NULL)
        return false;
    if (strchr(text, '%') == NULL)
        fputs(".intel_syntax noprefix\n", file);
    fprintf(file, "%s\n", text);
    is_written = ferror(file) == 0;
    return fclose(file) == 0 && is_written;
}

static enum status run_assembler(const struct assembly *assembly, const char *text)
{
    const char *const arguments[] = {"as", "--64", "-o", assembly->object, assembly->source, NULL};
    struct printed printed;
    const int result = program_run(arguments, &printed);
    enum status status = STATUS_OK;

    if (result == PROGRAM_IS_ABSENT)
        status = complain(STATUS_USAGE,
                          "There is no assembler, 'as' of binutils. Give the block's bytes instead.");
    else if (result != 0)
        status = complain(STATUS_USAGE, "\"%.100s\" is no assembly: %s", text, last_line(printed.err));
    program_free(&printed);
    return status;
}

/* Finds the section .text. */
static Elf_Data *find_code(Elf *elf)
{
    size_t names;

    if (elf == NULL || elf_getshdrstrndx(elf, &names) < 0)
        return NULL;
    for (Elf_Scn *section = elf_nextscn(elf, NULL); section != NULL; section = elf_nextscn(elf, section)) {
        GElf_Shdr header;
        const char *name =
            gelf_getshdr(section, &header) != NULL ? elf_strptr(elf, names, header.sh_name) : NULL;

        if (name != NULL && strcmp(name, ".text") == 0)
            return elf_getdata(section, NULL);
    }
    return NULL;
}

static enum status add_bytes(struct block_list *list, const Elf_Data *code)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *bytes = code->d_buf;
    char *hex = malloc(2 * code->d_size + 1);
    enum status status;

    if (hex == NULL)
        return complain(STATUS_FAILURE, "There is not enough memory.");
    for (size_t i = 0; i < code->d_size; i++) {
        hex[2 * i] = digits[bytes[i] >> 4];
        hex[2 * i + 1] = digits[bytes[i] & 15];
    }
    hex[2 * code->d_size] = '\0';
    status = block_list_add(list, hex, 2 * code->d_size, "The assembly");
    free(hex);
    return status;
}

static enum status add_assembled(struct block_list *list, const struct assembly *assembly)
{
    const int file = open(assembly->object, O_RDONLY | O_CLOEXEC);
    Elf *elf;
    const Elf_Data *code;
    enum status status;

    elf_version(EV_CURRENT);
    elf = elf_begin(file, ELF_C_READ, NULL);
    code = find_code(elf);
    status = code != NULL && code->d_size > 0 ? add_bytes(list, code)
                                              : complain(STATUS_USAGE, "The assembly has no instruction.");
    elf_end(elf);
    close(file);
    return status;
}

enum status block_list_assemble(struct block_list *list, const char *text)
{
    struct assembly assembly;
    enum status status;

    if (!make_folder(&assembly))
        return complain(STATUS_FAILURE, "There is no folder for the assembler's files: %s.", strerror(errno));
    status = write_source(&assembly, text)
                 ? run_assembler(&assembly, text)
                 : complain(STATUS_FAILURE, "%s cannot be written: %s.", assembly.source, strerror(errno));
    if (status == STATUS_OK)
        status = add_assembled(list, &assembly);
    remove_folder(&assembly);
    return status;
}
