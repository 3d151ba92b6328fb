/*
 * See kernel.h. /proc/kallsyms has a line for each symbol of the kernel and its modules, and for code that
 * the kernel has made at run time (BPF programs, trampolines of ftrace and kprobes):
 *
 *     ffffffff81a3c0d0 T schedule
 *     ffffffffc0412340 t ext4_map_blocks<tab>[ext4]
 *
 * The file has no sizes, and is sorted only within one object. It may have 200 000 lines, of which few are
 * needed. So the search keeps only symbols that are next to an address: the addresses divide the kernel's
 * memory into gaps, and each gap remembers its lowest and its highest symbol.
 */
#include "kernel.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/sysctl_linux.h"
#include "runtime/base/table.h"

enum { PAGE = 4096 };

/* A line of the file. */
struct symbol {
    uint64_t address;
    bool is_code;
    const char *name;
    const char *module; /* "[MODULE]" or "" */
};

/* The symbols in one gap: above the address before the gap, up to and including the address that ends it. */
struct gap {
    uint64_t first; /* address of the lowest symbol; 0: the gap has no symbol */
    uint64_t last;  /* address of the highest symbol */
    uint32_t first_module;
    uint32_t last_module;
    bool is_code; /* the highest symbol is code */
    char *name;   /* of the highest symbol; owned by the gap */
    size_t name_capacity;
};

/* The context of cp__kernel_symbolise(). */
struct search {
    const uint64_t *addresses;
    size_t n;
    struct gap *gaps;           /* gaps[i] ends with addresses[i]; gaps[n] lies above all addresses */
    struct cp__strings modules; /* string 0 is "" */
    bool any;                   /* the file has shown an address of the kernel */
};

/* ---- Reading --------------------------------------------------------------------------------- */

/* Returns whether the symbol marks the end of a section. Such a symbol has the type of code, but no code
 * follows. */
static bool is_end(const char *name)
{
    return strcmp(name, "_etext") == 0 || strcmp(name, "_einittext") == 0 || strcmp(name, "_end") == 0;
}

/* Splits a line, which is changed. Returns false if the line has another form. */
static bool parse_kernel_symbol(char *line, struct symbol *symbol)
{
    char *at;

    symbol->address = strtoull(line, &at, 16);
    if (at == line || at[0] != ' ' || at[1] == '\0' || at[2] != ' ')
        return false;
    symbol->name = at + 3;
    symbol->is_code = strchr("tTwW", at[1]) != NULL;
    at += 3 + strcspn(at + 3, "\t\n");
    if (at[0] == '\t') {
        *at++ = '\0';
        symbol->module = at;
        at += strcspn(at, "\n");
    } else {
        symbol->module = "";
    }
    *at = '\0';
    symbol->is_code = symbol->is_code && !is_end(symbol->name);
    return true;
}

/* Returns the gap that an address lies in. */
static struct gap *find_gap(const struct search *search, uint64_t address)
{
    return &search->gaps[CP__COUNT_BEFORE(search->n, i, search->addresses[i] < address)];
}

/* Adds a symbol to its gap. Of several symbols with one address, the first is kept, because the kernel lists
 * weak names and names from its linker script after the others. */
static int take_symbol(struct search *search, const struct symbol *symbol)
{
    struct gap *gap = find_gap(search, symbol->address);
    size_t size = strlen(symbol->name) + 1;
    uint32_t module = 0;

    search->any = true;
    if (symbol->module[0] != '\0' && cp__strings_add(&search->modules, symbol->module, &module) < 0)
        return -ENOMEM;
    if (gap->first == 0 || symbol->address < gap->first) {
        gap->first = symbol->address;
        gap->first_module = module;
    }
    if (symbol->address < gap->last || (symbol->address == gap->last && (gap->is_code || !symbol->is_code)))
        return 0;
    if (CP__RESERVE(gap->name, gap->name_capacity, size) < 0)
        return -ENOMEM;
    memcpy(gap->name, symbol->name, size);
    gap->last = symbol->address;
    gap->last_module = module;
    gap->is_code = symbol->is_code;
    return 0;
}

/* Reads the file. Returns -EPERM if all addresses are hidden, which means 0 on each line. */
static int read_symbols(struct search *search, FILE *file)
{
    struct symbol symbol;
    char *line = NULL;
    size_t capacity = 0;
    int result = 0;

    errno = 0;
    while (result == 0 && getline(&line, &capacity, file) >= 0)
        if (parse_kernel_symbol(line, &symbol) && symbol.address >= CP__KERNEL_START)
            result = take_symbol(search, &symbol);
    if (result == 0 && !feof(file))
        result = errno != 0 ? -errno : -EIO;
    free(line);
    return result < 0 || search->any ? result : -EPERM;
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* Returns where the function at the highest symbol of a gap ends: at the next symbol or, if that symbol is
 * the last one of the kernel or of a module, at the end of the page after its own. */
static uint64_t find_end(const struct search *search, const struct gap *below, const struct gap *above)
{
    const uint64_t guess = (below->last / PAGE + 2) * PAGE;

    while (above < search->gaps + search->n && above->first == 0)
        above++;
    if (above->first == 0)
        return guess;
    return above->first_module == below->last_module || above->first < guess ? above->first : guess;
}

/* Calls fn() for each address that is in a function. */
static int answer(struct search *search, cp__kernel_symbol_fn *fn, void *context)
{
    const struct gap *below = NULL;
    int result = 0;

    for (size_t i = 0; i < search->n && result == 0; i++) {
        if (search->gaps[i].first != 0)
            below = &search->gaps[i];
        if (below != NULL && below->is_code &&
            search->addresses[i] < find_end(search, below, &search->gaps[i + 1]))
            result = fn(context, i, below->name, cp__strings_get(&search->modules, below->last_module));
    }
    return result;
}

int cp__kernel_symbolise(const char *kallsyms, const uint64_t *addresses, size_t n, cp__kernel_symbol_fn *fn,
                         void *context)
{
    struct search search = {.addresses = addresses, .n = n, .gaps = calloc(n + 1, sizeof(struct gap))};
    uint32_t kernel;
    FILE *file;
    int result;

    if (search.gaps == NULL)
        return -ENOMEM;
    file = fopen(kallsyms, "re");
    result = file == NULL ? -errno : cp__strings_add(&search.modules, "", &kernel);
    if (result == 0)
        result = read_symbols(&search, file);
    if (result == 0)
        result = answer(&search, fn, context);
    if (file != NULL)
        fclose(file);
    for (size_t i = 0; i <= n; i++)
        free(search.gaps[i].name);
    free(search.gaps);
    cp__strings_free(&search.modules);
    return result;
}

void cp__kernel_explain(int result, char *text, size_t size)
{
    int64_t restricted = cp__sysctl("kernel/kptr_restrict");

    if (result != -EPERM)
        snprintf(text, size,
                 "/proc/kallsyms cannot be read (%s). Make the file visible to this process, for "
                 "instance in its container, or use a kernel that has the file (CONFIG_KALLSYMS).",
                 strerror(-result));
    else if (restricted > 1)
        snprintf(text, size,
                 "/proc/kallsyms hides its addresses from everybody "
                 "(kernel.kptr_restrict=%" PRId64
                 "). Set that to 1 with sysctl, and give this process CAP_SYSLOG.",
                 restricted);
    else
        snprintf(
            text, size,
            "/proc/kallsyms hides its addresses from this process. Give it "
            "CAP_SYSLOG, or set kernel.kptr_restrict to 0 and kernel.perf_event_paranoid to 1 with sysctl.");
}
