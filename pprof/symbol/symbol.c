/* Combines debug information and symbol tables into answers about addresses. See symbol.h. */
#include "symbol.h"

#include <errno.h>
#include <stdlib.h>

#include "part.h"
#include "runtime/base/table.h"

/* The answer for one address; reused for the next. */
struct answer {
    struct cp__symbol_line *lines;
    size_t n;
    size_t capacity;
    uint64_t entry;
};

/* Appends a function to the answer. */
static int answer_line(struct answer *answer, const char *function, unsigned start_line, const char *file,
                       unsigned line)
{
    if (CP__RESERVE(answer->lines, answer->capacity, answer->n + 1) < 0)
        return -ENOMEM;
    answer->lines[answer->n++] =
        (struct cp__symbol_line){.function = function, .file = file, .line = line, .start_line = start_line};
    return 0;
}

/* Appends the place's scopes, from the inside to the outside. Each scope's line is where the scope before it
 * was inlined. */
static int answer_scopes(struct answer *answer, const struct cp__dwarf *dwarf,
                         const struct cp__dwarf_place *place)
{
    const struct cp__dwarf_scope *scope;
    const char *file = place->file;
    unsigned line = place->line;
    uint32_t i;

    for (i = place->scope; i != 0; i = scope->outer) {
        scope = &dwarf->scopes[i];
        if (answer_line(answer, scope->name, scope->start_line, file, line) < 0)
            return -ENOMEM;
        file = scope->call_file;
        line = scope->call_line;
    }
    return 0;
}

/* The context of cp__symbolise(). */
struct search {
    const uint64_t *addresses;
    size_t n;
    cp__symbol_fn *fn;
    void *context;
    Dwfl_Module *module;
    struct cp__dwarf dwarf;
    struct cp__elf_symbols symbols;
    bool are_symbols_read;
    struct answer answer;
};

/* Answers from the symbol tables. Assembly has lines but no functions in the debug information, and code
 * without any debug information may have symbols, too. */
static int answer_symbol(struct search *search, size_t i)
{
    const struct cp__dwarf_place *place = &search->dwarf.places[i];
    const char *name;

    if (!search->are_symbols_read && cp__elf_symbols_read(&search->symbols, search->module) < 0)
        return -ENOMEM;
    search->are_symbols_read = true;
    name = cp__elf_symbols_find(&search->symbols, search->addresses[i], &search->answer.entry);
    if (name == NULL && place->file == NULL)
        return 0;
    return answer_line(&search->answer, name, 0, place->file, place->line);
}

/* Calls fn() with what is known about the i-th address. */
static int answer_address(struct search *search, size_t i)
{
    const struct cp__dwarf_place *place = &search->dwarf.places[i];
    struct answer *answer = &search->answer;
    int result;

    answer->n = 0;
    answer->entry = place->entry;
    result = place->scope != 0 ? answer_scopes(answer, &search->dwarf, place) : answer_symbol(search, i);
    if (result == 0 && answer->n > 0)
        result = search->fn(search->context, i,
                            &(struct cp__symbol){.lines = answer->lines,
                                                 .n = answer->n,
                                                 .entry = answer->entry,
                                                 .is_inlining_known = place->scope != 0});
    return result;
}

/* Returns whether there is more memory than libdw takes. Without memory, libdw 0.188 ends the process, by
 * exit() or by a crash, so it is not called then. */
static bool is_memory_left(void)
{
    void *volatile memory = malloc((size_t)64 << 20);

    free(memory);
    return memory != NULL;
}

int cp__symbolise(const struct cp__mapping *mapping, const uint64_t *addresses, size_t n, cp__symbol_fn *fn,
                  void *context)
{
    struct search search = {.addresses = addresses, .n = n, .fn = fn, .context = context};
    Dwfl *dwfl;
    int result;
    size_t i;

    if (!is_memory_left())
        return -ENOMEM;
    search.module = cp__module_open(mapping, &dwfl);
    if (search.module == NULL)
        return 0;
    result = cp__dwarf_find(&search.dwarf, search.module, addresses, n);
    for (i = 0; i < n && result == 0; i++)
        result = answer_address(&search, i);
    free(search.answer.lines);
    cp__elf_symbols_free(&search.symbols);
    cp__dwarf_free(&search.dwarf);
    dwfl_end(dwfl);
    return result;
}
