/* Blocks that are given as FILE:FUNCTION or FILE:0xADDRESS: found in an object file by decoding. */
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "block_list.h"
#include "cmd/counterpoint/annotate/blocks.h"

/* A part of the file's code. */
struct object_code {
    const char *path, *what; /* for people */
    Elf *elf;
    uint64_t start;
    const uint8_t *bytes;
    size_t size;
};

/* ---- Finding --------------------------------------------------------------------------------- */

/* Stores the bytes from the code's start on, as many as there are up to its size. */
static bool find_bytes(struct object_code *code)
{
    GElf_Phdr part;
    size_t n = 0;

    elf_getphdrnum(code->elf, &n);
    for (size_t i = 0; i < n; i++) {
        Elf_Data *data;
        uint64_t at;

        if (gelf_getphdr(code->elf, (int)i, &part) == NULL || part.p_type != PT_LOAD ||
            (part.p_flags & PF_X) == 0 || code->start < part.p_vaddr ||
            code->start - part.p_vaddr >= part.p_filesz)
            continue;
        at = code->start - part.p_vaddr;
        if (code->size > part.p_filesz - at)
            code->size = part.p_filesz - at;
        data = elf_getdata_rawchunk(code->elf, (int64_t)(part.p_offset + at), code->size, ELF_T_BYTE);
        code->bytes = data != NULL ? data->d_buf : NULL;
        return code->bytes != NULL;
    }
    return false;
}

static bool find_in_table(struct object_code *code, Elf_Scn *section, const GElf_Shdr *header,
                          const char *name)
{
    Elf_Data *table = elf_getdata(section, NULL);
    GElf_Sym symbol;

    for (int i = 0; table != NULL && gelf_getsym(table, i, &symbol) != NULL; i++) {
        const char *found = elf_strptr(code->elf, header->sh_link, symbol.st_name);

        if (GELF_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_size == 0 || symbol.st_shndx == SHN_UNDEF ||
            found == NULL || strcmp(found, name) != 0)
            continue;
        code->start = symbol.st_value;
        code->size = symbol.st_size;
        return true;
    }
    return false;
}

static bool find_symbol_of(struct object_code *code, const char *name)
{
    for (Elf_Scn *section = elf_nextscn(code->elf, NULL); section != NULL;
         section = elf_nextscn(code->elf, section)) {
        GElf_Shdr header;

        if (gelf_getshdr(section, &header) != NULL &&
            (header.sh_type == SHT_SYMTAB || header.sh_type == SHT_DYNSYM) &&
            find_in_table(code, section, &header, name))
            return true;
    }
    return false;
}

static enum status find_code_of(struct object_code *code)
{
    GElf_Ehdr header;
    char *end;

    if (gelf_getehdr(code->elf, &header) == NULL)
        return complain(STATUS_USAGE, "%s is no object file.", code->path);
    if (header.e_machine != EM_X86_64)
        return complain(STATUS_NO, "%s is for another processor: blocks can be measured on x86-64 only.",
                        code->path);
    if (strncmp(code->what, "0x", 2) == 0) {
        code->start = strtoull(code->what, &end, 16);
        code->size = 8192;
        if (*end != '\0')
            return complain(STATUS_USAGE, "\"%s\" is no address.", code->what);
    } else if (!find_symbol_of(code, code->what)) {
        return complain(STATUS_USAGE, "%s has no symbol of a function %s.", code->path, code->what);
    }
    if (!find_bytes(code))
        return complain(STATUS_USAGE, "%s has no code at %s.", code->path, code->what);
    return STATUS_OK;
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

static enum status add_block(struct block_list *list, const struct object_code *code, uint64_t start,
                             uint64_t end)
{
    const size_t size = end - start;
    char *hex = malloc(2 * size + 1);
    enum status status;

    if (hex == NULL)
        return complain(STATUS_FAILURE, "There is not enough memory.");
    for (size_t i = 0; i < size; i++)
        snprintf(hex + 2 * i, 3, "%02x", code->bytes[start - code->start + i]);
    status = block_list_add(list, hex, 2 * size, code->path);
    free(hex);
    return status;
}

/* Decodes up to the first branch, or all. Returns how many steps there are; the last bytes may be none. */
static size_t decode_code(const struct object_code *code, struct code_step *steps, bool is_one_block)
{
    size_t n = 0, at = 0;

    while (at < code->size &&
           cp__flow_decode(code->bytes + at, code->size - at, code->start + at, &steps[n].step)) {
        steps[n].address = code->start + at;
        at += steps[n].step.length;
        if (steps[n++].step.flow > CP__FLOW_CALL && is_one_block)
            break;
    }
    return n;
}

static enum status add_blocks(struct block_list *list, const struct object_code *code)
{
    struct arena arena = {.last = NULL};
    struct code_step *steps = arena_array(&arena, code->size, sizeof *steps);
    const bool is_one_block = strncmp(code->what, "0x", 2) == 0;
    const size_t n = decode_code(code, steps, is_one_block);
    enum status status = STATUS_OK;
    struct flow_graph graph;

    if (n == 0) {
        status = complain(STATUS_USAGE, "%s has no instruction at %s.", code->path, code->what);
    } else if (is_one_block) {
        status = add_block(list, code, code->start, steps[n - 1].address + steps[n - 1].step.length);
    } else {
        flow_graph_make(&graph, steps, n, &arena);
        for (size_t i = 0; i < graph.n && status == STATUS_OK; i++)
            if (!graph.blocks[i].is_padding)
                status = add_block(list, code, graph.blocks[i].start, graph.blocks[i].end);
    }
    arena_free(&arena);
    return status;
}

enum status block_list_decode(struct block_list *list, const char *argument)
{
    const char *colon = strrchr(argument, ':');
    char *path = strndup(argument, (size_t)(colon - argument));
    struct object_code code = {.path = path, .what = colon + 1};
    const int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    enum status status;

    elf_version(EV_CURRENT);
    if (file < 0) {
        status = complain(STATUS_USAGE, "%s cannot be opened: %s.", path != NULL ? path : argument,
                          strerror(errno));
    } else {
        code.elf = elf_begin(file, ELF_C_READ, NULL);
        status = find_code_of(&code);
        if (status == STATUS_OK)
            status = add_blocks(list, &code);
        elf_end(code.elf);
        close(file);
    }
    free(path);
    return status;
}
