/* Looks addresses of object files up, by this library and by tools that are not ours. */
#ifndef COUNTERPOINT_TESTS_SYMBOL_TOOLS_H
#define COUNTERPOINT_TESTS_SYMBOL_TOOLS_H

#include <elf.h>
#include <inttypes.h>

#include "pprof/symbol/demangle.h"
#include "pprof/symbol/symbol.h"
#include "profile_tools.h"

/* Makes a mapping of the file's code as if the file were loaded. *bias is the distance from the address that
 * the file asks for. */
static inline struct cp__mapping map_code(char *path, uint64_t *bias)
{
    struct cp__mapping mapping = {.file = path};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    Elf64_Ehdr header;
    Elf64_Phdr part;

    CHECK(pread(fd, &header, sizeof header, 0) == sizeof header);
    *bias = header.e_type == ET_DYN ? 0x7f1234560000 : 0;
    for (unsigned i = 0; i < header.e_phnum && mapping.limit == 0; i++) {
        CHECK(pread(fd, &part, sizeof part, (off_t)(header.e_phoff + i * sizeof part)) == sizeof part);
        if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0)
            continue;
        mapping.offset = part.p_offset & ~UINT64_C(4095);
        mapping.start = *bias + (part.p_vaddr & ~UINT64_C(4095));
        mapping.limit = *bias + ((part.p_vaddr + part.p_memsz + 4095) & ~UINT64_C(4095));
    }
    close(fd);
    CHECK(mapping.limit != 0);
    return mapping;
}

struct answers {
    const uint64_t *addresses;
    uint64_t bias;
    FILE *text;
    unsigned inlined;
};

static inline const char *base_name(const char *path)
{
    const char *slash = path == NULL ? NULL : strrchr(path, '/');

    return slash != NULL ? slash + 1 : path != NULL ? path : "??";
}

/* Prints an answer in addr2line's form. */
static inline int print_answer(void *context, size_t i, const struct cp__symbol *symbol)
{
    struct answers *answers = context;
    const struct cp__symbol_line *lines = symbol->lines;

    fprintf(answers->text, "0x%" PRIx64 "\n", answers->addresses[i] - answers->bias);
    for (size_t j = 0; j < symbol->n; j++)
        fprintf(answers->text, "%s\n%s:%u\n", lines[j].function != NULL ? lines[j].function : "??",
                base_name(lines[j].file), lines[j].line);
    answers->inlined += symbol->n > 1;
    return 0;
}

/* Returns everything that this library knows of the addresses. */
static inline char *look_up(char *path, const uint64_t *addresses, size_t n, unsigned *inlined)
{
    struct answers answers = {0};
    struct cp__mapping mapping = map_code(path, &answers.bias);
    uint64_t *loaded = malloc((n + 1) * sizeof *loaded);
    size_t size;
    char *text;

    for (size_t i = 0; i < n; i++)
        loaded[i] = addresses[i] + answers.bias;
    answers.addresses = loaded;
    answers.text = open_memstream(&text, &size);
    CHECK_EQ(cp__symbolise(&mapping, loaded, n, print_answer, &answers), 0);
    fclose(answers.text);
    free(loaded);
    *inlined = answers.inlined;
    return text;
}

/* Returns what a tool knows of the addresses, in one form for both tools. */
static inline char *ask(const char *tool, const char *path, const uint64_t *addresses, size_t n)
{
    char list[256];
    FILE *file;

    snprintf(list, sizeof list, "%s/addresses", test_dir());
    file = fopen(list, "w");
    for (size_t i = 0; i < n; i++)
        fprintf(file, "0x%" PRIx64 "\n", addresses[i]);
    fclose(file);
    return test_command(
        NULL,
        "%s -e %s < %s | sed 's/^0x0*/0x/; s/ (discriminator [0-9]*)$//; s/ (approximate)$//; s,^/.*/,,; "
        "s/:?$/:0/'",
        tool, path, list);
}

/* Lists the bytes of the functions that were compiled from the source, one in `step`, in ascending order. */
static inline size_t list_functions(const char *path, uint64_t *addresses, size_t capacity, unsigned step)
{
    char *text = test_command(NULL,
                              "nm -nS --defined-only %s | grep -E '^[^ ]+ [^ ]+ [tTwW] ' | "
                              "grep -vE ' (_start|_dl_relocate_static_pie)$'",
                              path);
    uint64_t start, size, next = 0;
    size_t n = 0;
    int length;

    for (char *at = text; sscanf(at, "%" SCNx64 " %" SCNx64 " %*s %*s %n", &start, &size, &length) == 2;
         at += length)
        for (next = start > next ? start : next; next < start + size && n < capacity; next += step)
            addresses[n++] = next;
    free(text);
    CHECK(n > 100 / step && n < capacity);
    return n;
}

static inline bool is_there(const char *program)
{
    int status;

    free(test_command(&status, "command -v %s", program));
    return status == 0;
}

static inline void check_equal(const char *ours, const char *theirs)
{
    size_t at = 0;

    if (strcmp(ours, theirs) == 0)
        return;
    while (ours[at] == theirs[at])
        at++;
    while (at > 0 && (ours[at] != '0' || ours[at + 1] != 'x'))
        at--;
    CHECKF(false, "ours:\n%.200s\ntheirs:\n%.200s", ours + at, theirs + at);
}

#endif
