#include "loads.h"

#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>

#include "atomic.h"
#include "fork_gate.h"
#include "os.h"

/* The words that may be the linker's count. They are the linker's memory, which stays mapped. */
enum { MOST_WORDS = 8 };
static const uint64_t *words[MOST_WORDS]; /* set once */

/* Shared, atomic. */
static uint32_t in_use;     /* a bit for each of the words */
static uint64_t told;       /* the stamp for which a reader was woken last */
static uint64_t not_before; /* CLOCK_MONOTONIC at the end of the rest */

/* ---- Searching ------------------------------------------------------------------------------- */

/* The tables of the linker's symbols. */
struct symbols {
    const ElfW(Sym) * symbols;
    const char *names;
    const uint32_t *hashes; /* in the form of GNU */
};

/* Some systems relocate the pointers of the dynamic section in memory, and others do not. */
static const void *pointer(const struct dl_phdr_info *object, const ElfW(Dyn) * entry)
{
    return (const void *)(entry->d_un.d_ptr < object->dlpi_addr ? object->dlpi_addr + entry->d_un.d_ptr
                                                                : entry->d_un.d_ptr);
}

static struct symbols find_tables(const struct dl_phdr_info *object)
{
    struct symbols tables = {0};

    for (int i = 0; i < object->dlpi_phnum; i++) {
        if (object->dlpi_phdr[i].p_type != PT_DYNAMIC)
            continue;
        for (const ElfW(Dyn) *entry = (const ElfW(Dyn) *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
             entry->d_tag != DT_NULL; entry++) {
            if (entry->d_tag == DT_SYMTAB)
                tables.symbols = pointer(object, entry);
            else if (entry->d_tag == DT_STRTAB)
                tables.names = pointer(object, entry);
            else if (entry->d_tag == DT_GNU_HASH)
                tables.hashes = pointer(object, entry);
        }
    }
    return tables;
}

static uint32_t hash_name(const char *name)
{
    uint32_t hash = 5381;

    for (; *name != '\0'; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

/* The table has four words (the number of buckets, of the first symbol and of the filter's words, and a
 * shift), the filter, the buckets with the numbers of their first symbols, and the hashes of all symbols, of
 * which the last one in a bucket is odd. Returns the symbol's number; 0: there is none. */
static uint32_t find_symbol(const struct symbols *tables, const char *name)
{
    const uint32_t hash = hash_name(name);
    const uint32_t *buckets, *chains;
    uint32_t i;

    if (tables->symbols == NULL || tables->names == NULL || tables->hashes == NULL || tables->hashes[0] == 0)
        return 0;
    buckets = tables->hashes + 4 + tables->hashes[2] * (sizeof(ElfW(Addr)) / sizeof *buckets);
    chains = buckets + tables->hashes[0] - tables->hashes[1];
    i = buckets[hash % tables->hashes[0]];
    for (; i != 0; i = (chains[i] & 1) != 0 ? 0 : i + 1)
        if ((chains[i] | 1) == (hash | 1) && strcmp(tables->names + tables->symbols[i].st_name, name) == 0)
            return i;
    return 0;
}

static void search_words(const uint64_t *lo, size_t n, uint64_t count)
{
    uint32_t found = 0;

    for (size_t i = 0; i < n; i++) {
        if (cp_load_relaxed(&lo[i]) != count) /* relaxed: the linker's lock is held */
            continue;
        if (found == MOST_WORDS)
            return;
        words[found++] = &lo[i];
    }
    cp_store_release(&in_use, (1u << found) - 1); /* pairs with the acquire in cp__loads_from_handler() */
}

static int search_linker(struct dl_phdr_info *object, size_t size, void *context)
{
    struct symbols tables;
    const ElfW(Sym) * symbol;
    uint32_t number;

    (void)size;
    (void)context;
    if (object->dlpi_addr == 0 || object->dlpi_addr != getauxval(AT_BASE))
        return 0;
    tables = find_tables(object);
    number = find_symbol(&tables, "_rtld_global");
    if (number == 0)
        return 1;
    symbol = &tables.symbols[number];
    if (ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT && symbol->st_value % 8 == 0)
        search_words((const uint64_t *)(object->dlpi_addr + symbol->st_value), symbol->st_size / 8,
                     object->dlpi_adds);
    return 1;
}

void cp__loads_prepare(void)
{
    if (cp__linker_begin())
        dl_iterate_phdr(search_linker, NULL);
    cp__linker_end();
    cp_store_relaxed(&told, cp__loads_from_handler()); /* relaxed: a hint */
}

/* ---- Stamps ---------------------------------------------------------------------------------- */

static uint64_t stamp_from_handler(uint32_t set)
{
    uint64_t stamp = 0;

    for (; set != 0; set &= set - 1)
        stamp =
            stamp * 0x9e3779b97f4a7c15u + cp_load_relaxed(words[__builtin_ctz(set)]); /* each one counts */
    return stamp;
}

uint64_t cp__loads_from_handler(void)
{
    return stamp_from_handler(cp_load_acquire(&in_use)); /* pairs with the release in search_words() */
}

void cp__loads_compare(uint64_t count, uint64_t stamps[2])
{
    const uint32_t set = cp_load_acquire(&in_use); /* pairs with the release in search_words() */
    uint32_t left = set;

    for (unsigned i = 0; i < MOST_WORDS; i++)
        if ((set >> i & 1) != 0 && cp_load_relaxed(words[i]) != count) /* relaxed: see search_words() */
            left &= ~(1u << i);
    stamps[0] = stamp_from_handler(set);
    stamps[1] = stamp_from_handler(left);
    if (left != set)
        cp_store_relaxed(&in_use, left); /* relaxed: the words themselves do not change */
}

/* ---- Waking ---------------------------------------------------------------------------------- */

/* Noting the mappings takes at most a twentieth of a CPU, if the linker loads objects all the time. */
#define REST_FOR 20

bool cp__loads_are_news_from_handler(uint64_t stamp)
{
    /* relaxed, here and below: hints */
    if (stamp == cp_load_relaxed(&told) ||
        cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) < cp_load_relaxed(&not_before))
        return false;
    return cp_exchange_acq_rel(&told, stamp) != stamp;
}

void cp__loads_rest(uint64_t cpu_ns)
{
    cp_store_relaxed(&not_before, cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) + REST_FOR * cpu_ns);
}
