#include "chunk.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "atomic.h"
#include "runtime/base/lock.h"

/*
 * Chunks are mapped in slabs of SLAB_CHUNKS pages, at a multiple of a slab's size. The first page has the
 * struct below, and the others are chunks. A slab whose chunks are all free is unmapped. So a process has few
 * mappings, whatever order chunks come back in.
 */
#define SLAB_CHUNKS 64
#define ALL_FREE (~(uint64_t)1) /* bit 0 is the slab's own page */

struct slab {
    struct slab *next; /* the next slab that has free chunks */
    struct slab **place;
    uint64_t free;  /* a bit for each page */
    uint64_t dirty; /* those of the free pages whose memory the system does not have back yet */
    uint64_t age;
};

size_t cp__chunk_size;

static struct {
    struct cp__lock lock;

    /* Shared; see chunk.h. */
    uint64_t taken;
    uint64_t provided;
    struct cp__chunk *chunks[CP__POOL_CHUNKS];
    uint64_t half; /* a pool of so many chunks is half empty; written under the lock */

    /* Under the lock. */
    uint64_t target;
    struct slab *slabs; /* those that have free chunks */
    uint64_t age; /* how many forks have led to this process: the slabs of a parent are left as they are */
} pool = {.lock = CP__LOCK_INIT(CP__RANK_CHUNKS)};

/* ---- Slabs, under the lock ------------------------------------------------------------------- */

static size_t size_of_slab(void)
{
    return SLAB_CHUNKS * cp__chunk_size;
}

/* Maps a slab's pages; NULL if there is no memory. A huge page would make many chunks resident with the first
 * one that is used. */
static void *map_pages(void)
{
    const size_t size = size_of_slab();
    char *pages =
        mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    size_t before;

    if (pages == MAP_FAILED)
        return NULL;
    before = -(uintptr_t)pages & (size - 1);
    if (before != 0)
        munmap(pages, before);
    munmap(pages + before + size, size - before);
    madvise(pages + before, size, MADV_NOHUGEPAGE);
    return pages + before;
}

static void link_slab(struct slab *slab)
{
    slab->next = pool.slabs;
    slab->place = &pool.slabs;
    if (slab->next != NULL)
        slab->next->place = &slab->next;
    pool.slabs = slab;
}

static void unlink_slab(struct slab *slab)
{
    *slab->place = slab->next;
    if (slab->next != NULL)
        slab->next->place = slab->place;
}

static struct slab *add_slab(void)
{
    struct slab *slab;

    if (cp__chunk_size == 0)
        cp__chunk_size = (size_t)sysconf(_SC_PAGESIZE);
    slab = map_pages();
    if (slab == NULL)
        return NULL;
    slab->free = ALL_FREE;
    slab->age = pool.age;
    link_slab(slab);
    return slab;
}

static struct cp__chunk *new_chunk(void)
{
    struct slab *slab = pool.slabs != NULL ? pool.slabs : add_slab();
    int i;

    if (slab == NULL)
        return NULL;
    i = __builtin_ctzll(slab->free);
    slab->free &= slab->free - 1;
    if (slab->free == 0)
        unlink_slab(slab);
    return (struct cp__chunk *)(void *)((char *)slab + (size_t)i * cp__chunk_size);
}

/* Gives the memory of dirty pages back, which are 0 then: one call for those that follow each other. */
static void clean_slab(struct slab *slab)
{
    while (slab->dirty != 0) {
        int first = __builtin_ctzll(slab->dirty);
        uint64_t after = ~(slab->dirty >> first);
        int n = after != 0 ? __builtin_ctzll(after) : SLAB_CHUNKS - first;

        madvise((char *)slab + (size_t)first * cp__chunk_size, (size_t)n * cp__chunk_size, MADV_DONTNEED);
        slab->dirty &= first + n < SLAB_CHUNKS ? ~(uint64_t)0 << (first + n) : 0;
    }
}

/* Puts a chunk back into its slab. Returns the slab if it is still there: if the chunk is dirty, the slab is
 * to be cleaned before the lock is released. A slab that is all free is unmapped, and one of a fork's parent
 * is left as it is. */
static struct slab *return_chunk(struct cp__chunk *chunk, bool is_dirty)
{
    struct slab *slab = (struct slab *)((uintptr_t)chunk & -size_of_slab());
    uint64_t bit = (uint64_t)1 << ((uintptr_t)chunk - (uintptr_t)slab) / cp__chunk_size;

    if (slab->age != pool.age) {
        madvise(chunk, cp__chunk_size, MADV_DONTNEED);
        return NULL;
    }
    if (slab->free == 0)
        link_slab(slab);
    slab->free |= bit;
    slab->dirty |= is_dirty ? bit : 0;
    if (slab->free != ALL_FREE)
        return slab;
    unlink_slab(slab);
    munmap(slab, size_of_slab());
    return NULL;
}

static void free_chunk(struct cp__chunk *chunk)
{
    struct slab *slab = return_chunk(chunk, true);

    if (slab != NULL)
        clean_slab(slab);
}

/* ---- The pool -------------------------------------------------------------------------------- */

size_t cp__pool_level(void)
{
    /* acquire: pairs with the exchange in cp__chunk_take_from_handler(): after it a place may be written */
    uint64_t taken = cp_load_acquire(&pool.taken);

    return cp_load_relaxed(&pool.provided) - taken; /* relaxed: written under the lock */
}

static void provide(struct cp__chunk *chunk)
{
    uint64_t number = cp_load_relaxed(&pool.provided); /* relaxed: written under the lock */

    cp_store_relaxed(&pool.chunks[number % CP__POOL_CHUNKS], chunk); /* relaxed: ordered by the release */
    cp_store_release(&pool.provided,
                     number + 1); /* pairs with the acquire in cp__chunk_take_from_handler() */
}

struct cp__chunk *cp__chunk_take_from_handler(bool *low)
{
    /* acquire: pairs with the exchange of another M */
    uint64_t taken = cp_load_acquire(&pool.taken), provided;
    struct cp__chunk *chunk;

    do {
        provided = cp_load_acquire(&pool.provided); /* pairs with the release in provide() */
        if (taken == provided)
            return NULL;
        chunk = cp_load_relaxed(&pool.chunks[taken % CP__POOL_CHUNKS]); /* relaxed: the exchange checks it */
        /* pairs with the acquire in cp__pool_level() */
    } while (!cp_compare_exchange(&pool.taken, &taken, taken + 1));
    *low = provided - taken == cp_load_relaxed(&pool.half); /* relaxed: a number of its own */
    return chunk;
}

static int fill_up(void)
{
    while (cp__pool_level() < pool.target) {
        struct cp__chunk *chunk = new_chunk();

        if (chunk == NULL)
            return -ENOMEM;
        provide(chunk);
    }
    return 0;
}

static void empty_down(void)
{
    struct cp__chunk *chunk;
    bool low;

    while (cp__pool_level() > pool.target && (chunk = cp__chunk_take_from_handler(&low)) != NULL)
        return_chunk(chunk, true);
    for (struct slab *slab = pool.slabs; slab != NULL; slab = slab->next)
        clean_slab(slab);
}

struct cp__chunk *cp__chunk_new(void)
{
    struct cp__chunk *chunk;

    cp__lock(&pool.lock);
    chunk = new_chunk();
    cp__unlock(&pool.lock);
    return chunk;
}

void cp__chunk_give(struct cp__chunk *chunk)
{
    cp__lock(&pool.lock);
    if (cp__pool_level() < pool.target)
        provide(chunk);
    else
        free_chunk(chunk);
    cp__unlock(&pool.lock);
}

void cp__chunk_give_unused(struct cp__chunk *chunk)
{
    cp__lock(&pool.lock);
    return_chunk(chunk, false);
    cp__unlock(&pool.lock);
}

static uint64_t chunks_for(unsigned slots)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint64_t n = (uint64_t)slots * (uint64_t)(cpus < 1 ? 1 : cpus) * (CP__POOL_BYTES / page);

    return n > CP__POOL_CHUNKS ? CP__POOL_CHUNKS : n;
}

int cp__pool_resize(unsigned slots)
{
    uint64_t target = chunks_for(slots);
    int result;

    cp__lock(&pool.lock);
    pool.target = target;
    cp_store_relaxed(&pool.half, target / 2); /* relaxed: a number of its own */
    result = fill_up();
    empty_down();
    cp__unlock(&pool.lock);
    return result;
}

void cp__pool_fill(void)
{
    cp__lock(&pool.lock);
    fill_up();
    cp__unlock(&pool.lock);
}

size_t cp__pool_target(void)
{
    size_t n;

    cp__lock(&pool.lock);
    n = pool.target;
    cp__unlock(&pool.lock);
    return n;
}

/* Another thread may have been changing the slabs at the fork. Chunks of these go back to the pool, or stay
 * without memory. */
void cp__pool_forget(void)
{
    cp__lock_reset(&pool.lock);
    pool.slabs = NULL;
    pool.age++;
}
