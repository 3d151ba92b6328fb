#include "loads.h"

#include <dlfcn.h>
#include <link.h>
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

/* The linker's variable _rtld_global. */
struct variable {
    const uint64_t *lo;
    size_t n; /* words */
};

static int search_variable(struct dl_phdr_info *object, size_t size, void *context)
{
    const struct variable *variable = context;

    (void)size;
    search_words(variable->lo, variable->n, object->dlpi_adds);
    return 1;
}

void cp__loads_prepare(void)
{
    struct variable variable = {.lo = NULL};
    void *symbol = NULL;
    Dl_info object;

    if (cp__linker_begin()) {
        variable.lo = dlsym(RTLD_DEFAULT, "_rtld_global");
        if (variable.lo != NULL && (uintptr_t)variable.lo % sizeof *variable.lo == 0 &&
            dladdr1((void *)(uintptr_t)variable.lo, &object, &symbol, RTLD_DL_SYMENT) != 0 && symbol != NULL)
            variable.n = ((const ElfW(Sym) *)symbol)->st_size / sizeof *variable.lo;
        dl_iterate_phdr(search_variable, &variable);
    }
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
    /* relaxed, here and below: hints. Nothing is ordered by the exchange either. It picks one of the handlers
     * that see the stamp. */
    if (stamp == cp_load_relaxed(&told) ||
        cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) < cp_load_relaxed(&not_before))
        return false;
    return cp_exchange_acq_rel(&told, stamp) != stamp;
}

void cp__loads_rest(uint64_t cpu_ns)
{
    cp_store_relaxed(&not_before, cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) + REST_FOR * cpu_ns);
}
