/*
 * A child of fork() starts unprofiled: its perf descriptors lead to the parent's events, its ring is not
 * mapped, its timers and all threads but one are gone. The child lets go of all that, touches nothing that it
 * shares with its parent, and can start afresh.
 *
 * No lock is held over the fork. Prepare handlers run in the reverse order of their registration, so foreign
 * ones may run after ours: one that waits for a thread which waits for a lock of ours would wait for ever. So
 * other threads may be in the midst of anything at the moment of the fork, and the child needs nothing of
 * what they may leave half done:
 *
 *   locks       are made anew (cp__lock_reset()).
 *   slots       are emptied; what was running or half published is the parent's.
 *   registry    Each change of the list is one store: an M is pushed when it is complete, and unlinked before
 *               anything of it is freed. So the child finds every M that it can reach whole. It keeps its own
 *               thread's, and frees the others when it first uses the profiler: the handler frees nothing,
 *               because the program's allocator may have a lock that another thread held. What was unlinked
 *               or not pushed yet is lost to the child: as much as one M for each thread that was just coming
 *               or going.
 *   references  are taken before, and given back after, what they are for is visible: a sample's label set is
 *               released when the buffer's tail has passed the sample. A fork in between leaks a reference
 *               in the child, and never lets one be given back twice.
 *   readers     An M that somebody holds (cp__m_next()) stays: the thread that forks may be the one, in a
 *               callback.
 *   descriptors A number that another thread was just closing may be a file of the program's by now: the
 *               child closes only what the kernel says is that very event (cp__perf_forget()).
 *   SIGPROF     is given back if ours is the handler in place. Whether a flag says so does not matter.
 *   libpfm4     is refused, in words, if another thread was just initialising it.
 *
 * Two things cannot be mended in the child: the dynamic linker's lock, and a descriptor that another thread
 * has been given and has not noted yet. So a fork waits for threads in these, but not for ever:
 * cp__linker_begin() and cp__fork_delay(). A handler does not wait; a descriptor that it is just opening may
 * stay open in the child until that executes a program: one of an event that its parent has disabled, or
 * will.
 *
 * This relies on the order in which the child sees another thread's stores. It is the order of any reader:
 * the kernel makes a page read-only before it shares the page with the child, and a thread that writes to
 * such a page waits in its page fault until the fork has ended; what it would have written after that it
 * writes after the fork. So the stores named above are releases, and the child's loads are acquires.
 *
 * The handlers are registered by a constructor: once, whatever threads do, and mostly before those of the
 * program. Child handlers run in the order of their registration, so the program's find the profiler usable.
 */
#include "fork.h"

#include <pthread.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "config.h"
#include "label.h"
#include "m.h"
#include "os.h"
#include "runtime/event/rows.h"
#include "runtime/unwind/code.h"
#include "slot.h"

/* ---- What forks wait for --------------------------------------------------------------------- */

/* Atomic. A thread raises one, then looks at the other, with a fence in between: of a fork and a delay that
 * come at once, one sees the other. */
static uint32_t delays; /* threads between cp__fork_delay() and cp__fork_allow() */
static uint32_t forks;  /* threads between before() and after() */
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
    cp_fetch_add_acq_rel(&askers, 1u); /* release: pairs with the acquire in after_in_child() */
    return !linker_is_locked;
}

void cp__linker_end(void)
{
    cp_fetch_sub_acq_rel(&askers, 1u); /* release: pairs with the acquire in after_in_child() */
    cp__fork_allow();
}

/* ---- Children whose handlers do not run ------------------------------------------------------ */

static const uint32_t is_known = 1;
const uint32_t *cp__fork_mark = &is_known;
static uint32_t *page; /* NULL: the mark is is_known */

/* A page that the kernel makes zero in every child. */
void cp__fork_prepare(void)
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

/* ---- The handlers ---------------------------------------------------------------------------- */

/* With SIGPROF blocked, the child cannot be interrupted before it has forgotten. The handler of another
 * signal may fork before this fork has ended: such a fork ends first, and leaves SIGPROF blocked. */
static void before(void)
{
    uint64_t mask = cp__os_block_from_handler();

    raise_and_fence(&forks, &own.forks);
    if (own.forks == 1)
        own.mask = mask;
    wait_for(&delays, own.delays);
}

static void after(void)
{
    uint64_t mask = own.mask;
    bool is_outermost = own.forks == 1;

    lower(&forks, &own.forks);
    if (is_outermost)
        cp__os_unblock_from_handler(mask);
}

static void after_in_child(void)
{
    if (page != NULL)
        *page = 1;
    /* acquire: pairs with the releases in cp__linker_begin() and cp__linker_end(). The thread itself may be
     * one of the askers: the linker's lock is that of a thread of the parent's, even so. */
    if (cp_load_acquire(&askers) != 0)
        linker_is_locked = true;
    cp_store_relaxed(&delays, own.delays); /* relaxed, both: this is the only thread */
    cp_store_relaxed(&forks, own.forks);
    cp__lock_reset(&cp__runtime_lock);
    cp__labels_forget();
    cp__pfm_forget();
    cp__configs_forget();
    cp__slots_forget();
    cp__ms_forget();
    cp__code_after_fork();
    after();
}

__attribute__((constructor)) static void register_handlers(void)
{
    pthread_atfork(before, after, after_in_child);
}
