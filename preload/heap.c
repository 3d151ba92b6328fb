/* See heap.h. Blocks have sizes of powers of two, and lie in a few pieces of memory, each twice as large as
 * the one before, which are never given back. */
#include "heap.h"

#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "atomic.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/lock.h"

#define FIRST_PIECE ((size_t)1 << 20)
#define PIECES_MAX 30u
#define CLASSES 40u

/* In front of each block. */
struct heap_block {
    uint64_t order; /* the block with this is 1 << order bytes; immutable */
    struct heap_block *next;
};

/* A piece is immutable once n_pieces counts it. */
static struct heap_piece {
    uintptr_t start, end;
} pieces[PIECES_MAX];
static uint32_t n_pieces; /* atomic; written under the lock */

/* Under the lock. */
static struct {
    struct cp__lock lock;
    uintptr_t unused; /* up to the last piece's end */
    struct heap_block *free[CLASSES];
    void *late; /* the program's, to be freed elsewhere; each begins with the next */
} heap = {.lock = CP__LOCK_INIT(CP__RANK_HEAP)};

_Thread_local bool cp__heap_is_own;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *memory);

/* ---- Blocks ---------------------------------------------------------------------------------- */

static void lock_heap(void)
{
    cp__fork_delay(); /* a child must find the lists whole */
    cp__lock(&heap.lock);
}

static void unlock_heap(void)
{
    cp__unlock(&heap.lock);
    cp__fork_allow();
}

static bool is_in_heap(const void *memory)
{
    const uint32_t n = cp_load_acquire(&n_pieces); /* pairs with the release in add_heap_piece() */

    for (uint32_t i = 0; i < n; i++) {
        if ((uintptr_t)memory - pieces[i].start < pieces[i].end - pieces[i].start)
            return true;
    }
    return false;
}

/* Under the lock. */
static bool add_heap_piece(size_t least)
{
    const uint32_t n = n_pieces;
    size_t size = FIRST_PIECE << n;
    void *memory;

    if (n == PIECES_MAX)
        return false;
    if (size < least)
        size = least;
    memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    pieces[n] = (struct heap_piece){(uintptr_t)memory, (uintptr_t)memory + size};
    heap.unused = (uintptr_t)memory;
    cp_store_release(&n_pieces, n + 1); /* pairs with the acquire in is_in_heap() */
    return true;
}

/* Under the lock. *is_zero: the block was never used. */
static struct heap_block *take_block(uint64_t order, bool *is_zero)
{
    const size_t size = (size_t)1 << order;
    struct heap_block *block = heap.free[order];

    *is_zero = block == NULL;
    if (block != NULL) {
        heap.free[order] = block->next;
        return block;
    }
    if ((n_pieces == 0 || pieces[n_pieces - 1].end - heap.unused < size) && !add_heap_piece(size))
        return NULL;
    block = (struct heap_block *)heap.unused;
    heap.unused += size;
    block->order = order;
    return block;
}

static void *allocate_apart(size_t size)
{
    uint64_t order = 5;
    struct heap_block *block = NULL;
    bool is_zero = true;

    while (order < CLASSES && ((size_t)1 << order) - sizeof *block < size)
        order++;
    if (order == CLASSES)
        return NULL;
    lock_heap();
    block = take_block(order, &is_zero);
    unlock_heap();
    if (block == NULL)
        return NULL;
    if (!is_zero)
        memset(block + 1, 0, size);
    return block + 1;
}

static size_t room_of(const void *memory)
{
    const struct heap_block *block = (const struct heap_block *)memory - 1;

    return ((size_t)1 << block->order) - sizeof *block;
}

static void give_block(void *memory)
{
    struct heap_block *block = (struct heap_block *)memory - 1;

    lock_heap();
    block->next = heap.free[block->order];
    heap.free[block->order] = block;
    unlock_heap();
}

/* ---- What must wait -------------------------------------------------------------------------- */

static void free_late(void *memory)
{
    lock_heap();
    *(void **)memory = heap.late;
    heap.late = memory;
    unlock_heap();
}

void cp__heap_settle(void)
{
    void *late, *next;

    lock_heap();
    late = heap.late;
    heap.late = NULL;
    unlock_heap();
    for (; late != NULL; late = next) {
        next = *(void **)late;
        __real_free(late);
    }
}

void cp__heap_forget(void)
{
    cp__lock_reset(&heap.lock);
}

/* ---- What the linker puts in the place of the library's own calls ----------------------------- */

void *__wrap_malloc(size_t size)
{
    return cp__heap_is_own ? allocate_apart(size) : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    size_t all;

    if (!cp__heap_is_own)
        return __real_calloc(n, size);
    return __builtin_mul_overflow(n, size, &all) ? NULL : allocate_apart(all);
}

void __wrap_free(void *memory)
{
    if (memory == NULL)
        return;
    if (is_in_heap(memory))
        give_block(memory);
    else if (cp__heap_is_own)
        free_late(memory);
    else
        __real_free(memory);
}

void *__wrap_realloc(void *old, size_t size)
{
    const bool is_ours = old != NULL && is_in_heap(old);
    size_t had;
    void *memory;

    if (!cp__heap_is_own && !is_ours)
        return __real_realloc(old, size);
    had = old == NULL ? 0 : is_ours ? room_of(old) : malloc_usable_size(old);
    if (is_ours && size <= had)
        return old;
    memory = __wrap_malloc(size);
    if (memory == NULL)
        return NULL;
    if (old != NULL)
        memcpy(memory, old, had < size ? had : size);
    __wrap_free(old);
    return memory;
}
