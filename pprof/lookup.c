/* Looks up the names of single addresses. */
#include <errno.h>
#include <stdlib.h>

#include "pprof.h"
#include "pprof/symbol/jit.h"
#include "pprof/symbol/kernel.h"
#include "pprof/symbol/mapping.h"
#include "pprof/symbol/symbol.h"
#include "runtime/base/thread.h"

struct lookup {
    const uintptr_t *addresses;
    size_t n;
    cp_symbol_each_fn *fn;
    void *context;
    int result;
};

/* The addresses of one mapping, in ascending order. */
struct batch {
    const struct lookup *lookup;
    struct wanted {
        uint64_t address;
        size_t mapping; /* number of the mapping; mappings.n stands for the kernel, and for none */
        size_t i;
        bool is_named;
    } * wanted;
};

static int take_wanted_symbol(void *context, size_t i, const struct cp__symbol *symbol)
{
    const struct batch *batch = context;
    const char *name =
        cp__symbol_name(&symbol->lines[symbol->n - 1]); /* the outermost function is the linker's */

    batch->wanted[i].is_named = name != NULL;
    return name == NULL ? 0 : batch->lookup->fn(batch->lookup->context, batch->wanted[i].i, name);
}

static int take_kernel(void *context, size_t i, const char *name, const char *module)
{
    const struct batch *batch = context;

    (void)module;
    return batch->lookup->fn(batch->lookup->context, batch->wanted[i].i, name);
}

static int compare_wanted(const void *left, const void *right)
{
    const struct wanted *a = left, *b = right;

    if (a->mapping != b->mapping)
        return a->mapping < b->mapping ? -1 : 1;
    return a->address < b->address ? -1 : a->address > b->address;
}

/* Looks up a batch. If the kernel hides its symbols, its addresses have no names, and that is no error. */
static int look_up_batch(const struct batch *batch, size_t n, const struct cp__mappings *mappings)
{
    uint64_t *addresses = malloc(n * sizeof *addresses);
    int result = 0;
    size_t i;

    if (addresses == NULL)
        return -ENOMEM;
    for (i = 0; i < n; i++)
        addresses[i] = batch->wanted[i].address;
    if (batch->wanted[0].mapping < mappings->n)
        result = cp__symbolise(&mappings->items[batch->wanted[0].mapping], addresses, n, take_wanted_symbol,
                               (void *)(uintptr_t)batch);
    else if (addresses[n - 1] >= CP__KERNEL_START &&
             cp__kernel_symbolise("/proc/kallsyms", addresses, n, take_kernel, (void *)(uintptr_t)batch) ==
                 -ENOMEM)
        result = -ENOMEM;
    free(addresses);
    return result;
}

static int compare_addresses(const void *left, const void *right)
{
    const struct wanted *a = left, *b = right;

    return a->address < b->address ? -1 : a->address > b->address;
}

/* Looks up what has no name yet and may be code that a just-in-time compiler has made. Changes the order of
 * the wanted addresses. */
static int look_up_jit(const struct batch *batch, const struct cp__mappings *mappings)
{
    struct wanted *wanted = batch->wanted;
    uint64_t *addresses;
    size_t n = 0;
    int result;

    for (size_t i = 0; i < batch->lookup->n; i++)
        if (!wanted[i].is_named && wanted[i].address < CP__KERNEL_START &&
            (wanted[i].mapping == mappings->n || !mappings->items[wanted[i].mapping].is_linked))
            wanted[n++] = wanted[i];
    if (n == 0)
        return 0;
    qsort(wanted, n, sizeof *wanted, compare_addresses);
    addresses = malloc(n * sizeof *addresses);
    if (addresses == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        addresses[i] = wanted[i].address;
    result = cp__jit_symbolise(mappings, addresses, n, 0, take_wanted_symbol, (void *)(uintptr_t)batch);
    free(addresses);
    return result;
}

/* Sorts the addresses by mapping, and looks up the batches. */
static int look_up_wanted(const struct lookup *lookup, const struct cp__mappings *mappings,
                          struct wanted *wanted)
{
    struct batch batch = {.lookup = lookup};
    size_t first, end, i;
    int result = 0;

    for (i = 0; i < lookup->n; i++)
        wanted[i] = (struct wanted){.address = lookup->addresses[i],
                                    .mapping = cp__mappings_find(mappings, lookup->addresses[i]),
                                    .i = i};
    qsort(wanted, lookup->n, sizeof *wanted, compare_wanted);
    for (first = 0; first < lookup->n && result == 0; first = end) {
        for (end = first; end < lookup->n && wanted[end].mapping == wanted[first].mapping; end++)
            ;
        batch.wanted = wanted + first;
        result = look_up_batch(&batch, end - first, mappings);
    }
    batch.wanted = wanted;
    return result == 0 && cp__jit_is_used() ? look_up_jit(&batch, mappings) : result;
}

/* The thread that looks the addresses up, because the caller may be a G with a small stack. */
static void *run_lookup(void *arg)
{
    struct lookup *lookup = arg;
    struct cp__mappings mappings = {0};
    struct wanted *wanted = malloc(lookup->n * sizeof *wanted);

    lookup->result = -ENOMEM;
    if (wanted != NULL && cp__mappings_note(&mappings) != -ENOMEM)
        lookup->result = look_up_wanted(lookup, &mappings, wanted);
    cp__mappings_free(&mappings);
    free(wanted);
    return NULL;
}

void cp_symbol_use_jit(bool use)
{
    cp__jit_use(use);
}

int cp_symbol_each(const uintptr_t *addresses, size_t n, cp_symbol_each_fn *fn, void *context)
{
    struct lookup lookup = {.addresses = addresses, .n = n, .fn = fn, .context = context};
    int result;

    if (n == 0)
        return 0;
    result = cp__thread_run(run_lookup, &lookup);
    return result < 0 ? result : lookup.result;
}
