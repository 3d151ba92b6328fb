#include "fork_gate.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "os.h"

/* ---- What forks wait for --------------------------------------------------------------------- */

/* Atomic. A thread raises one, then looks at the other, with a fence in between: of a fork and a delay that
 * come at once, one sees the other. */
static uint32_t delays; /* threads between cp__fork_delay() and cp__fork_allow() */
static uint32_t forks;  /* threads between cp__fork_begins() and cp__fork_ended() */
/* Atomic: threads between cp__linker_begin() and cp__linker_end() that do not wait for a fork. Says nothing
 * any more when linker_is_locked. */
static uint32_t askers;
static bool linker_is_locked; /* set in the fork handler of a child, for good */
/* The calling thread's part of delays and forks: a handler that a fork runs may use the profiler, and a
 * signal handler may fork. Nobody waits for itself. */
static _Thread_local struct {
    uint32_t delays;
    uint32_t forks;
    uint64_t mask; /* the signal mask before the outermost fork, while forks is not 0 */
} own __attribute__((tls_model("initial-exec")));

/*
 * A word and the thread's part of it change together, while no signal handler can run: if a handler forked in
 * between, the fork would wait for its own thread or not wait for another one, and the child would go on with
 * a word that never becomes 0 again.
 */
static void raise_and_fence(uint32_t *word, uint32_t *part)
{
    uint64_t mask = cp__os_block_all_from_handler();

    *part += 1;
    cp_fetch_add_acq_rel(word, 1u); /* acquire: pairs with the release in lower() */
    cp_fence_seq_cst();             /* pairs with itself, on the thread that raises the other word */
    cp__os_unblock_all_from_handler(mask);
}

static void lower(uint32_t *word, uint32_t *part)
{
    uint64_t mask = cp__os_block_all_from_handler();

    *part -= 1;
    cp_fetch_sub_acq_rel(word, 1u); /* release: pairs with the acquires of it in this file */
    cp__os_unblock_all_from_handler(mask);
    cp__os_futex_wake_from_handler(word);
}

/* Waits until the word is no more than least, or for CP__FORK_WAIT_MS. */
static void wait_for(uint32_t *word, uint32_t least)
{
    uint64_t deadline = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) + (uint64_t)CP__FORK_WAIT_MS * 1000000u;
    uint32_t n;

    while ((n = cp_load_acquire(word)) > least) { /* pairs with the release in lower() */
        uint64_t now = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC);

        if (now >= deadline)
            return;
        cp__os_futex_wait(word, n, (int)((deadline - now) / 1000000u) + 1);
    }
}

void cp__fork_delay(void)
{
    raise_and_fence(&delays, &own.delays);
    if (cp_load_acquire(&forks) <= own.forks) /* pairs with the release in lower() */
        return;
    lower(&delays, &own.delays);
    wait_for(&forks, own.forks);
    raise_and_fence(&delays, &own.delays);
}

void cp__fork_allow(void)
{
    lower(&delays, &own.delays);
}

bool cp__linker_begin(void)
{
    cp__fork_delay();
    cp_fetch_add_acq_rel(&askers, 1u); /* release: pairs with the acquire in cp__fork_made_child() */
    return !linker_is_locked;
}

void cp__linker_end(void)
{
    cp_fetch_sub_acq_rel(&askers, 1u); /* release: pairs with the acquire in cp__fork_made_child() */
    cp__fork_allow();
}

/* ---- Children whose handlers do not run ------------------------------------------------------ */

static const uint32_t is_known = 1;
const uint32_t *cp__fork_mark = &is_known;
static uint32_t *page; /* NULL: the mark is is_known */

/* A page that the kernel makes zero in every child. */
void cp__fork_mark_prepare(void)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    uint32_t *made = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (made == MAP_FAILED)
        return;
    *made = 1;
    if (madvise(made, size, MADV_WIPEONFORK) < 0) {
        munmap(made, size);
        return;
    }
    page = made;
    cp_store_relaxed(&cp__fork_mark, made); /* relaxed: pthread_once() orders it, before the first M */
}

/* ---- For the fork handlers ------------------------------------------------------------------- */

/* The handler of another signal may fork before this fork has ended: such a fork ends first, and leaves
 * SIGPROF blocked. */
void cp__fork_begins(void)
{
    uint64_t mask = cp__os_block_from_handler();

    raise_and_fence(&forks, &own.forks);
    if (own.forks == 1)
        own.mask = mask;
    wait_for(&delays, own.delays);
}

void cp__fork_ended(void)
{
    uint64_t mask = own.mask;
    bool is_outermost = own.forks == 1;

    lower(&forks, &own.forks);
    if (is_outermost)
        cp__os_unblock_from_handler(mask);
}

void cp__fork_made_child(void)
{
    if (page != NULL)
        *page = 1;
    /* acquire: pairs with the releases in cp__linker_begin() and cp__linker_end(). The thread itself may be
     * one of the askers: the linker's lock is that of a thread of the parent's, even so. */
    if (cp_load_acquire(&askers) != 0)
        linker_is_locked = true;
    cp_store_relaxed(&delays, own.delays); /* relaxed, both: this is the only thread */
    cp_store_relaxed(&forks, own.forks);
}
