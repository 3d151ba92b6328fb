/* Names of the functions of names_target.c, by this library and by llvm-symbolizer. */
#ifndef COUNTERPOINT_TESTS_NAME_TOOLS_H
#define COUNTERPOINT_TESTS_NAME_TOOLS_H

#include "symbol_tools.h"

enum { MAX_ADDRESSES = 20000 };

static const char llvm_names[] = /* without what compilers add to the symbols of parts and copies */
    "names() { llvm-symbolizer-14 --output-style=GNU --no-demangle -a -f -i --basenames \"$@\" | "
    "sed '/:/!s/^\\([A-Za-z_][^.]*\\)\\.[a-z].*/\\1/' | c++filt; }; names";

/* Prints what people read, in addr2line's form. */
static inline int print_names(void *context, size_t i, const struct cp__symbol *symbol)
{
    struct answers *answers = context;
    const struct cp__symbol_line *line;
    const char *name;
    char *text;

    fprintf(answers->text, "0x%" PRIx64 "\n", answers->addresses[i] - answers->bias);
    for (line = symbol->lines; line < symbol->lines + symbol->n; line++) {
        CHECK(line->function != NULL);
        CHECK_EQ(cp__demangle(line->function, &text), 0);
        CHECK(text == NULL || line->qualified == NULL);
        name = cp__symbol_name(line);
        fprintf(answers->text, "%s\n%s:%u\n", text != NULL ? text : name, base_name(line->file), line->line);
        free(text);
    }
    return 0;
}

/* What is built from the source, and the addresses of its functions. */
struct target {
    char path[256];
    uint64_t addresses[MAX_ADDRESSES];
    size_t n;
};

static inline struct target *build_target(const char *compile)
{
    struct target *target = malloc(sizeof *target);

    snprintf(target->path, sizeof target->path, "%s/target", test_dir());
    free(test_command(NULL, "%s -o %s %s", compile, target->path, test_source("names_target.c")));
    target->n = list_functions(target->path, target->addresses, MAX_ADDRESSES, 1);
    return target;
}

/* Returns this library's answers for all addresses. */
static inline char *name_all(struct target *target)
{
    struct answers answers = {0};
    struct cp__mapping mapping = map_code(target->path, &answers.bias);
    uint64_t *loaded = malloc(target->n * sizeof *loaded);
    size_t size;
    char *text;

    for (size_t i = 0; i < target->n; i++)
        loaded[i] = target->addresses[i] + answers.bias;
    answers.addresses = loaded;
    answers.text = open_memstream(&text, &size);
    CHECK_EQ(cp__symbolise(&mapping, loaded, target->n, print_names, &answers), 0);
    fclose(answers.text);
    free(loaded);
    return text;
}

/* Whether the text, which begins behind a function's name, has no further function of that address. */
static inline bool is_outermost(const char *text)
{
    const char *next = text == NULL ? NULL : strchr(text, '\n');

    return next == NULL || next[1] == '\0' || strncmp(next + 1, "0x", 2) == 0;
}

/* Whether both say that there is no line: gcc says no place where the function behind a lambda's pointer has
 * the lambda inlined, and llvm-symbolizer takes the unit's file. */
static inline bool are_both_nowhere(const char *a, const char *b)
{
    const size_t n_a = strlen(a), n_b = strlen(b);

    return n_a > 2 && n_b > 2 && strcmp(a + n_a - 2, ":0") == 0 && strcmp(b + n_b - 2, ":0") == 0;
}

/* Whether a name is the given name with scopes and parameters. gcc's names of templates have arguments that a
 * demangler spells in another way. */
static inline bool is_name_with_scopes(const char *full, const char *name)
{
    char part[512];

    snprintf(part, sizeof part, "%.*s", (int)strcspn(name, "<"), name);
    return strstr(full, part) != NULL;
}

/* Compares line by line. llvm-symbolizer knows no scopes of inlined functions. */
static inline void check_names(const char *compile, char *ours, char *theirs)
{
    char *a, *b;

    while ((a = strsep(&ours, "\n")) != NULL && (b = strsep(&theirs, "\n")) != NULL)
        CHECKF(strcmp(a, b) == 0 || are_both_nowhere(a, b) ||
                   (!is_outermost(ours) && is_name_with_scopes(a, b)),
               "%s:\nours: %s\ntheirs: %s", compile, a, b);
    CHECK(ours == NULL && theirs == NULL);
}

#endif
