#include "fork_gate.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "os.h"
#include "sys_linux.h"

/* ---- What forks wait for --------------------------------------------------------------------- */

/* Both words are atomic. A thread raises one word, then passes a fence, then reads the other word. So if a
 * fork and a delay come at the same time, at least one of them sees the other. */
static uint32_t delays; /* threads between cp__fork_delay() and cp__fork_allow() */
static uint32_t forks;  /* threads between cp__fork_begins() and cp__fork_ended() */
static uint32_t begun;  /* atomic: the number of forks that have begun */
/* Atomic. The number of threads between cp__linker_begin() and cp__linker_end(), none of which waits for a
 * fork. The number means nothing once linker_is_locked is true. */
static uint32_t askers;
static bool linker_is_locked; /* set in the fork handler of a child, never cleared */
/* The calling thread's share of `delays` and `forks`. A fork handler may use the profiler and a signal
 * handler may fork, so a thread subtracts its own share and never waits for itself. */
static _Thread_local struct {
    uint32_t delays;
    uint32_t forks;
    uint32_t vain; /* the value of `begun` when this thread waited for a fork that did not end in time */
    uint64_t mask; /* the signal mask before the outermost fork, while forks is not 0 */
} own __attribute__((tls_model("initial-exec")));

/*
 * Raises a word and the thread's share of the word. Both change while no signal handler can run on this
 * thread. If a handler forked between the two changes, the fork would wait for its own thread or fail to wait
 * for another one, and the child would keep a word that never becomes 0 again.
 */
static void raise_and_fence_from_handler(uint32_t *word, uint32_t *part)
{
    uint64_t mask = cp__os_block_all_from_handler();

    *part += 1;
    cp_fetch_add_acq_rel(word, 1u); /* acquire: pairs with the release in lower_from_handler() */
    cp_fence_seq_cst();             /* pairs with itself, on the thread that raises the other word */
    cp__os_unblock_from_handler(mask);
}

/* Undoes raise_and_fence_from_handler(), and wakes those who wait for the word. */
static void lower_from_handler(uint32_t *word, uint32_t *part)
{
    uint64_t mask = cp__os_block_all_from_handler();

    *part -= 1;
    cp_fetch_sub_acq_rel(word, 1u); /* release: pairs with the acquires of it in this file */
    cp__os_unblock_from_handler(mask);
    cp__os_futex_wake_from_handler(word);
}

/* Waits until the word is at most `least`. Returns false if that takes longer than ms milliseconds. */
static bool wait_for(uint32_t *word, uint32_t least, unsigned ms)
{
    uint64_t deadline = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) + (uint64_t)ms * 1000000u;
    uint32_t n;

    while ((n = cp_load_acquire(word)) > least) { /* pairs with the release in lower_from_handler() */
        uint64_t now = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC);

        if (now >= deadline)
            return false;
        cp__os_futex_wait(word, n, (int)((deadline - now) / 1000000u) + 1);
    }
    return true;
}

/* Waits for the forks of other threads, but only once for a fork that does not end in time. */
static void wait_for_forks(void)
{
    uint32_t number = cp_load_relaxed(&begun); /* relaxed: who sees it late waits once more */

    if (number != own.vain && !wait_for(&forks, own.forks, CP__FORK_LONGEST_MS))
        own.vain = number;
}

/* If this thread delays forks already, a fork that has begun waits for this thread. */
bool cp__fork_delay_from_handler(void)
{
    raise_and_fence_from_handler(&delays, &own.delays);
    /* acquire: pairs with the release in lower_from_handler() */
    if (own.delays > 1 || cp_load_acquire(&forks) <= own.forks)
        return true;
    lower_from_handler(&delays, &own.delays);
    return false;
}

void cp__fork_allow_from_handler(void)
{
    lower_from_handler(&delays, &own.delays);
}

void cp__fork_delay(void)
{
    if (cp__fork_delay_from_handler())
        return;
    wait_for_forks();
    raise_and_fence_from_handler(&delays, &own.delays);
}

void cp__fork_allow(void)
{
    cp__fork_allow_from_handler();
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

/* Maps a page of which the kernel makes a zeroed copy in every child. */
void cp__fork_mark_prepare(void)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    uint32_t *made = cp__sys_map(size);

    if (made == NULL)
        return;
    *made = 1;
    if (madvise(made, size, MADV_WIPEONFORK) < 0) {
        munmap(made, size);
        return;
    }
    page = made;
    cp_store_relaxed(&cp__fork_mark, made); /* relaxed: pthread_once() orders the store before the first M */
}

/* The word behind the mark is 0 in every child, too. */
bool cp__fork_mark_take(void)
{
    /* relaxed, both: of several callers, one gets 0 */
    return cp__is_raw_child_from_handler() && cp_load_relaxed(page + 1) == 0 &&
           cp_fetch_add_relaxed(page + 1, 1u) == 0;
}

/* ---- For the fork handlers ------------------------------------------------------------------- */

/* The handler of another signal may fork before this fork has ended. Such an inner fork ends first, and
 * leaves SIGPROF blocked. Prepare handlers of the program run with no other signal blocked. */
void cp__fork_begins(void)
{
    uint64_t mask = cp__os_hold_samples();

    cp_fetch_add_relaxed(&begun, 1u); /* relaxed: a number of its own */
    raise_and_fence_from_handler(&forks, &own.forks);
    if (own.forks == 1)
        own.mask = mask;
    wait_for(&delays, own.delays, CP__FORK_WAIT_MS);
}

void cp__fork_ended(void)
{
    uint64_t mask = own.mask;
    bool is_outermost = own.forks == 1;

    lower_from_handler(&forks, &own.forks);
    if (is_outermost)
        cp__os_open_samples(mask);
}

void cp__fork_made_child(void)
{
    if (page != NULL)
        cp_store_relaxed(page, 1); /* relaxed: of two writers, each writes the same */
    /* acquire: pairs with the releases in cp__linker_begin() and cp__linker_end(). Even if the forking thread
     * itself is among the askers, the linker's lock belongs to a thread of the parent. */
    if (cp_load_acquire(&askers) != 0)
        linker_is_locked = true;
    cp_store_relaxed(&delays, own.delays); /* relaxed, both stores: this is the only thread */
    cp_store_relaxed(&forks, own.forks);
}
