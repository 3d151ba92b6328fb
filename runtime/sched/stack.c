/*
 * Stacks, and the tasks that own them.
 *
 * Stacks come in slabs, and each slab is one mapping: first the tasks of all its stacks, then guard, stack,
 * guard, stack ... The tasks lie close together, so that they can be listed, and a slab is never unmapped
 * while the scheduler runs. Guards are made with MADV_GUARD_INSTALL if the kernel has it (Linux 6.13); a slab
 * then stays one mapping. Otherwise guards are made with mprotect(), which makes two mappings of each stack,
 * so vm.max_map_count (65530) limits the number of stacks to about 32 000.
 *
 * A task that has ended goes to its M's cache, and its stack keeps its memory. Tasks that do not fit into the
 * cache give the memory of their stacks back and go to a list that all Ms share.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"
#include "runtime/base/fail.h"
#include "runtime/base/sys_linux.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

#define CACHE_MAX 64u
#define CACHE_BATCH 32u
#define GUARD_SIZE 16384u /* a function with more locals than this can step over the guard */
/* The beginnings of stacks differ by this, so that the first frames of many stacks do not fall into the same
 * lines of the cache. With 10 to 40 Gs that yield, cachegrind finds no misses of a 32 KiB cache, instead of
 * two for each yield. */
#define COLOUR_SIZE 128u
#define COLOURS 8u

static struct {
    struct cp__lock lock;
    /* Guarded by the lock. */
    struct cp__slab *slabs;
    struct cp__task *free_tasks;

    /* Immutable while the scheduler runs. */
    size_t stack_size;
    size_t guard_size;
    size_t head_size; /* the size of struct cp__slab, in whole pages */
    bool use_mprotect;
} stacks = {.lock = CP__LOCK_INIT(CP__RANK_SCHED)};

/* ---- Slabs ----------------------------------------------------------------------------------- */

static size_t round_up_size(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static size_t slab_size(void)
{
    return stacks.head_size + CP__SLAB_TASKS * (stacks.guard_size + stacks.stack_size);
}

/* Makes a guard at place. */
static int guard(char *place)
{
    if (!stacks.use_mprotect)
        return madvise(place, stacks.guard_size, MADV_GUARD_INSTALL);
    return mprotect(place, stacks.guard_size, PROT_NONE);
}

/* Lays out the stacks of a slab and links their tasks. Returns -1 if the kernel refuses a guard. */
static int divide(struct cp__slab *slab)
{
    char *place = (char *)slab + stacks.head_size;

    for (unsigned i = 0; i < CP__SLAB_TASKS; i++) {
        struct cp__task *task = &slab->tasks[i];

        if (guard(place) < 0)
            return -1;
        place += stacks.guard_size;
        task->stack_lo = place;
        place += stacks.stack_size;
        task->stack_hi = place - i % COLOURS * COLOUR_SIZE;
        task->next = i + 1 < CP__SLAB_TASKS ? task + 1 : NULL;
    }
    return 0;
}

/* Returns a slab whose tasks are linked; NULL: no memory. */
static struct cp__slab *new_slab(void)
{
    void *map = mmap(NULL, slab_size(), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);

    if (map == MAP_FAILED)
        return NULL;
    madvise(map, slab_size(), MADV_NOHUGEPAGE); /* a huge page would make many stacks resident at once */
    if (divide(map) < 0) {
        munmap(map, slab_size());
        return NULL;
    }
    return map;
}

/* Returns whether guards must be made with mprotect(). */
static bool must_use_mprotect(void)
{
    void *map = cp__sys_map(stacks.guard_size);
    bool refused = map == NULL || madvise(map, stacks.guard_size, MADV_GUARD_INSTALL) < 0;

    if (map != NULL)
        munmap(map, stacks.guard_size);
    return refused;
}

int cp__stacks_start(size_t stack_size, struct cp_error *err)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    if (stack_size == 0)
        stack_size = CP_SCHED_STACK_SIZE;
    if (stack_size < CP_SCHED_STACK_MIN || stack_size > SIZE_MAX / 2 / CP__SLAB_TASKS - GUARD_SIZE - page)
        return cp__error(err, -EINVAL,
                         "A stack of %zu bytes for each G is too %s; 0 means the default of %d.", stack_size,
                         stack_size < CP_SCHED_STACK_MIN ? "small" : "large", CP_SCHED_STACK_SIZE);
    stacks.stack_size = round_up_size(stack_size, page);
    stacks.guard_size = round_up_size(GUARD_SIZE, page);
    stacks.head_size = round_up_size(sizeof(struct cp__slab), page);
    stacks.use_mprotect = must_use_mprotect();
    return 0;
}

void cp__stacks_stop(void)
{
    struct cp__slab *slab, *next;

    cp__lock(&cp__list_lock);
    for (slab = stacks.slabs; slab != NULL; slab = next) {
        next = slab->next;
        munmap(slab, slab_size());
    }
    stacks.slabs = NULL;
    cp__unlock(&cp__list_lock);
    stacks.free_tasks = NULL;
}

void cp__stacks_forget(void)
{
    cp__lock_reset(&cp__list_lock);
    cp__lock_reset(&stacks.lock);
    stacks.slabs = NULL;
    stacks.free_tasks = NULL;
}

struct cp__slab *cp__slabs(void)
{
    struct cp__slab *first;

    cp__lock(&stacks.lock);
    first = stacks.slabs;
    cp__unlock(&stacks.lock);
    return first;
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

/* Takes up to n free tasks, linked; makes a slab if there are none. NULL: no memory. */
static struct cp__task *take_free(unsigned n, unsigned *taken)
{
    struct cp__task *first, **link;

    cp__lock(&stacks.lock);
    if (stacks.free_tasks == NULL) {
        struct cp__slab *slab = new_slab();

        if (slab != NULL) {
            slab->next = stacks.slabs;
            stacks.slabs = slab;
            stacks.free_tasks = slab->tasks;
        }
    }
    first = stacks.free_tasks;
    link = &stacks.free_tasks;
    for (*taken = 0; *taken < n && *link != NULL; ++*taken)
        link = &(*link)->next;
    stacks.free_tasks = *link;
    *link = NULL;
    cp__unlock(&stacks.lock);
    return first;
}

struct cp__task *cp__task_alloc(struct cp__worker *w)
{
    struct cp__task *task;
    unsigned taken;

    if (w == NULL)
        return take_free(1, &taken);
    if (w->free_tasks == NULL)
        w->free_tasks = take_free(CACHE_BATCH, &w->free_count);
    task = w->free_tasks;
    if (task != NULL) {
        w->free_tasks = task->next;
        w->free_count--;
    }
    return task;
}

/* Keeps the newest CACHE_BATCH tasks of w's cache. The others give the memory of their stacks back and go to
 * the shared list. */
static void trim(struct cp__worker *w)
{
    struct cp__task *last = w->free_tasks, *first, *task;

    for (unsigned i = 1; i < CACHE_BATCH; i++)
        last = last->next;
    first = last->next;
    last->next = NULL;
    w->free_count = CACHE_BATCH;
    for (task = first; task != NULL; last = task, task = task->next)
        madvise(task->stack_lo, stacks.stack_size, MADV_DONTNEED);
    cp__lock(&stacks.lock);
    last->next = stacks.free_tasks;
    stacks.free_tasks = first;
    cp__unlock(&stacks.lock);
}

void cp__task_free(struct cp__worker *w, struct cp__task *task)
{
    task->next = w->free_tasks;
    w->free_tasks = task;
    if (++w->free_count > CACHE_MAX)
        trim(w);
}
