/* Combines debug information and symbol tables into answers about addresses. See symbol.h. */
#include "symbol.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
static int answer_line(struct answer *answer, const struct cp__symbol_line *line)
{
    if (CP__RESERVE(answer->lines, answer->capacity, answer->n + 1) < 0)
        return -ENOMEM;
    answer->lines[answer->n++] = *line;
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
        if (answer_line(answer, &(struct cp__symbol_line){
                                    .function = scope->symbol != NULL ? scope->symbol : scope->name,
                                    .qualified = scope->symbol != NULL ? NULL : scope->qualified,
                                    .file = file,
                                    .directory = place->directory,
                                    .line = line,
                                    .start_line = scope->start_line}) < 0)
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
    bool is_any_unnamed;
    struct answer answer;
};

static int need_symbols(struct search *search)
{
    if (search->are_symbols_read)
        return 0;
    search->are_symbols_read = true;
    return cp__elf_symbols_read(&search->symbols, search->module);
}

/* Returns the part of a name in the source that the linker's name has as it is: "Type" of "~Type", "name" of
 * "name<int>". */
static size_t plain_part(const char **name)
{
    *name += **name == '~';
    return strcspn(*name, "<");
}

/* Returns whether a name in a symbol ends there. The name's length is before the name, but it may be behind
 * a digit of another name. */
static bool is_behind_name(const char *symbol, const char *at)
{
    enum { MAX_LENGTH = 300 };
    const char *number = at - symbol > MAX_LENGTH ? at - MAX_LENGTH : symbol;
    char *name;

    for (; number < at; number++)
        if (*number >= '0' && *number <= '9' && strtoul(number, &name, 10) == (size_t)(at - name) &&
            name < at)
            return true;
    return false;
}

/* Returns whether a number begins there in a symbol: in "13run_from_here" none does at "3run". The name
 * before may end in a digit, as in "7__cxx119to_string". */
static bool is_at_number(const char *symbol, const char *at)
{
    return at == symbol || at[-1] < '0' || at[-1] > '9' || is_behind_name(symbol, at);
}

/* Returns whether a symbol is the linker's name of the function with that name in the source. A symbol may
 * be another function's, because linkers fold functions of equal code together. */
static bool is_symbol_of(const char *symbol, const char *name)
{
    const size_t length = plain_part(&name);
    char part[256];
    const char *at = symbol;

    if (!cp__is_mangled(symbol)) /* a function of C */
        return strcspn(symbol, ".") == strlen(name) && strncmp(symbol, name, strlen(name)) == 0;
    if (length == 0 || strncmp(name, "operator", strlen("operator")) == 0)
        return true; /* "operator+" is "pl" there */
    if ((size_t)snprintf(part, sizeof part, "%zu%.*s", length, (int)length, name) >= sizeof part)
        return false;
    while ((at = strstr(at, part)) != NULL && !is_at_number(symbol, at))
        at++;
    return at != NULL;
}

/* Copies a symbol without what the compiler adds to the symbols of parts and copies, ".cold" or
 * ".constprop.0". A name may have a dot of its own: gcc's "18_Z8countingi.Frame" of a coroutine. Returns NULL
 * if there is no memory. */
static char *copy_plain(const char *symbol)
{
    enum { MAX_DOTS = 4 };
    const char *dot = strchr(symbol, '.');
    char *copy, *text = NULL;
    int n;

    for (n = 0; dot != NULL && n < MAX_DOTS && cp__is_mangled(symbol); n++) {
        copy = strndup(symbol, (size_t)(dot - symbol));
        if (copy == NULL || cp__demangle(copy, &text) < 0) {
            free(copy);
            return NULL;
        }
        free(text);
        if (text != NULL)
            return copy;
        free(copy);
        dot = strchr(dot + 1, '.');
    }
    return strndup(symbol, n > 0 && dot == NULL ? strlen(symbol) : strcspn(symbol, "."));
}

/* Gives the functions that the debug information has no linkage name for, and which were compiled on their
 * own, the name of their symbol. */
static int find_linker_names(struct search *search)
{
    for (size_t i = 1; i < search->dwarf.n_scopes; i++) {
        struct cp__dwarf_scope *scope = &search->dwarf.scopes[i];
        const char *symbol;
        uint64_t start;

        if (scope->symbol_at == 0)
            continue;
        if (need_symbols(search) < 0)
            return -ENOMEM;
        symbol = cp__elf_symbols_find(&search->symbols, scope->symbol_at, &start);
        if (symbol == NULL || start != scope->symbol_at || !is_symbol_of(symbol, scope->name))
            continue;
        scope->symbol = copy_plain(symbol);
        if (scope->symbol == NULL)
            return -ENOMEM;
    }
    return 0;
}

/* Answers from the symbol tables. Assembly has lines but no functions in the debug information, and code
 * without any debug information may have symbols, too. */
static int answer_symbol(struct search *search, size_t i)
{
    const struct cp__dwarf_place *place = &search->dwarf.places[i];
    const char *name;

    if (need_symbols(search) < 0)
        return -ENOMEM;
    name = cp__elf_symbols_find(&search->symbols, search->addresses[i], &search->answer.entry);
    if (name == NULL && place->file == NULL)
        return 0;
    return answer_line(&search->answer, &(struct cp__symbol_line){.function = name,
                                                                  .file = place->file,
                                                                  .directory = place->directory,
                                                                  .line = place->line});
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
    search->is_any_unnamed |= answer->n == 0 || answer->lines[answer->n - 1].function == NULL;
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

/* Stores why names are missing. Debug information that cannot be read is missed even if each function has a
 * name, because lines and inlined functions are missing. */
static void tell_missing(const struct search *search, enum cp__missing *missing)
{
    if (*missing == CP__MISSING_NOTHING && search->dwarf.is_part_missing)
        *missing = CP__MISSING_PART;
    if (*missing == CP__MISSING_NOTHING)
        *missing = cp__module_missing(search->module);
    if (!search->is_any_unnamed && *missing != CP__MISSING_COMPRESSED && *missing != CP__MISSING_PART)
        *missing = CP__MISSING_NOTHING;
}

int cp__symbolise_telling(const struct cp__mapping *mapping, const uint64_t *addresses, size_t n,
                          cp__symbol_fn *fn, void *context, enum cp__missing *missing)
{
    struct search search = {.addresses = addresses, .n = n, .fn = fn, .context = context};
    Dwfl *dwfl;
    int result;
    size_t i;

    *missing = CP__MISSING_NOTHING;
    if (!is_memory_left())
        return -ENOMEM;
    search.module = cp__module_open(mapping, &dwfl, missing);
    if (search.module == NULL)
        return 0;
    result = cp__dwarf_find(&search.dwarf, search.module, addresses, n);
    if (result == 0)
        result = find_linker_names(&search);
    for (i = 0; i < n && result == 0; i++)
        result = answer_address(&search, i);
    tell_missing(&search, missing);
    free(search.answer.lines);
    cp__elf_symbols_free(&search.symbols);
    cp__dwarf_free(&search.dwarf);
    dwfl_end(dwfl);
    return result;
}

int cp__symbolise(const struct cp__mapping *mapping, const uint64_t *addresses, size_t n, cp__symbol_fn *fn,
                  void *context)
{
    enum cp__missing missing;

    return cp__symbolise_telling(mapping, addresses, n, fn, context, &missing);
}
