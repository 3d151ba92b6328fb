/* Threads, clocks and the signal mask. os_linux.c implements them; a port to another system adds a file
 * beside os_linux.c. */
#ifndef COUNTERPOINT_RUNTIME_BASE_OS_H
#define COUNTERPOINT_RUNTIME_BASE_OS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "atomic.h"

pid_t cp__os_tid(void);
/* Returns whether a thread of this process has that id. */
bool cp__os_has_thread(pid_t tid);
/* Makes every running thread of this process pass a full memory barrier before the call returns. So if
 * another thread stores A and then loads B, and the caller stores B, calls this function and then loads A,
 * then at least one of the two sees the other's store. Returns 0, or a negative errno value if the system has
 * no such call (-ENOSYS) or forbids it. */
int cp__os_barrier(void);
/* The same for a handler that must not pay for a fence: the handler calls the first function between its
 * store and its load, and the other thread the second one. If the system has no such call, both are
 * fences. cp__os_barrier_prepare() finds that out, before the first handler runs. */
void cp__os_barrier_prepare(void);
/* Returns false if the system had such a call and refuses it now. */
bool cp__os_heavy_barrier(void);
extern bool cp__os_has_barrier;
static inline void cp__os_light_barrier_from_handler(void)
{
    if (cp__os_has_barrier)
        cp_fence_signal();
    else
        cp_fence_seq_cst(); /* pairs with the one in cp__os_heavy_barrier() */
}
/* Returns the CPU clock of a thread of this process. Every thread of the process can read the clock. */
clockid_t cp__os_thread_clock(pid_t tid);
/* Returns the clock's time in ns. */
uint64_t cp__os_clock_ns_from_handler(clockid_t clock);
/* What the system tells of a signal that is directed to a thread. */
struct cp__os_pending {
    bool is_pending; /* true if the system does not tell */
    bool is_blocked; /* the same; false if the thread is gone */
    bool runs;       /* whether the thread runs or waits for a CPU; false if the system does not tell */
    bool is_traced;  /* whether a debugger, or strace, traces the thread; the same */
};
struct cp__os_pending cp__os_thread_pending(pid_t tid, int signal);
/* Returns the distance of the kernel's ticks, at which timers of CPU clocks expire. */
uint64_t cp__os_tick_ns(void);
/* Returns how often threads of this process have been switched off their CPU, those that have ended
 * included. */
uint64_t cp__os_switches(void);
/* The same of one thread, and its CPU time. Returns false if the system does not tell. */
bool cp__os_switches_of(pid_t tid, uint64_t *switches, uint64_t *cpu_ns);
/* Calls fn for each thread of this process, as far as the system tells. */
void cp__os_each_thread(void (*fn)(void *context, pid_t tid), void *context);
/* Returns the signals that the thread has blocked, a bit each; 0 if the system does not tell. */
uint64_t cp__os_blocked_of(pid_t tid);
/* Waits until another thread wakes the word, or for timeout_ms. Returns at once if the word is not `value`,
 * and may return early. */
void cp__os_futex_wait(uint32_t *word, uint32_t value, int timeout_ms);
void cp__os_futex_wake_from_handler(uint32_t *word);

/*
 * A section of the library's: blocks all signals on the calling thread, because a handler of the program's
 * may leave the section by siglongjmp(), and a handler of the library's may find it half done. Signals that
 * an instruction raises stay unblocked, because the kernel ends a process that has such a signal blocked:
 * SIGTRAP as well before cp__os_use_traps(). Returns the signals that were blocked before, one bit each, to
 * pass to cp__os_unblock_from_handler(). The second function leaves no signal out: nothing in such a section
 * may raise one.
 */
uint64_t cp__os_block_from_handler(void);
uint64_t cp__os_block_all_from_handler(void);
void cp__os_unblock_from_handler(uint64_t old);
/* Blocks the library's signals alone, while code of the program's runs: SIGPROF and, after
 * cp__os_use_traps(), SIGTRAP. cp__os_open_samples() unblocks those of them that are not in old. */
uint64_t cp__os_hold_samples(void);
void cp__os_open_samples(uint64_t old);
void cp__os_use_traps(void);
/* Returns whether one of the library's signals is among those with a bit. */
bool cp__os_has_own_signal(uint64_t signals);
/* Returns the signals that the calling thread has blocked, one bit each, if SIGTRAP is one of them; else
 * 0. */
uint64_t cp__os_blocked_with_traps(void);
/* Whether a program would have SIGTRAP blocked that had the signals `before` blocked when the library
 * unblocked SIGTRAP, and has `now` blocked. It would not if it had all signals blocked, and has unblocked all
 * others since: runtimes start threads with all signals blocked, and unblock them on the new thread. 0 for
 * before: the library has unblocked nothing. */
bool cp__os_would_block_traps_from_handler(uint64_t before, uint64_t now);
/* Returns what the program would have blocked without the library, with the same parameters: a thread that
 * stops being an M passes that to cp__os_unblock_from_handler(), so that no SIGTRAP comes in between. */
uint64_t cp__os_mask_of_program(uint64_t before, uint64_t now);
/* Returns whether the library has unblocked SIGTRAP on some thread. Threads which that thread has created
 * since have SIGTRAP unblocked, too. */
bool cp__os_has_opened_traps_from_handler(void);
/* Unblocks SIGTRAP on the calling thread, and blocks it. */
void cp__os_open_traps(void);
void cp__os_close_traps(void);

#endif
