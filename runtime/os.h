/*
 * What the profiler core asks of the operating system. os_linux.c and engine/ answer; a port brings
 * files of its own beside them.
 *
 * The proposal's two hooks, setThreadPMUProfilerFunc and sigprofPMUHandlerFunc, are
 * cp__set_thread_pmu_profiler and cp__sigprof_pmu_handler: a platform with perf events registers them in
 * cp__os_start(). While they are NULL, every event but the timer is refused.
 */
#ifndef COUNTERPOINT_RUNTIME_OS_H
#define COUNTERPOINT_RUNTIME_OS_H

#include <signal.h>
#include <sys/types.h>
#include <time.h>

#include "m.h"
#include "runtime.h"
#include "slot.h"

/* ---- Hooks ----------------------------------------------------------------------------------- */

struct cp__moment; /* moment.h */

/*
 * On the calling M, with SIGPROF blocked: opens the event of config in slot, disabled, or with config NULL
 * disables and closes it, adding to moment what the ring still held, for any slot. 0 or a negative errno
 * value.
 */
typedef int cp__set_thread_pmu_profiler_fn(struct cp__m *m, int slot, const struct cp__slot_config *config,
                                           struct cp__moment *moment);
/* On the calling M: adds to moment what its ring holds, and the signal itself where that is all there is to
 * count. True where the signal is of one of the M's events. */
typedef bool cp__sigprof_pmu_handler_fn(struct cp__m *m, const siginfo_t *info, struct cp__moment *moment);

extern cp__set_thread_pmu_profiler_fn *cp__set_thread_pmu_profiler;
extern cp__sigprof_pmu_handler_fn *cp__sigprof_pmu_handler;

/* Lets the event that the hook has opened in slot count; if it does not, it is closed. On the calling M. */
int cp__os_enable_from_handler(struct cp__m *m, int slot);
/* What m's event in slot has counted, from any thread, which has the claim on m; 0 if that cannot be read. */
uint64_t cp__os_count(const struct cp__m *m, int slot);
/* Ends the counting of m's event in slot from any thread, which has the claim on m. */
void cp__os_disable(struct cp__m *m, int slot);

/* Called when the handler begins and when it ends. In between, the calling M's events that are not to count
 * the handler do not count, and what other events record belongs to the interrupted place. */
void cp__os_pause_from_handler(struct cp__m *m);
void cp__os_resume_from_handler(struct cp__m *m);
/* What has been recorded so far belongs to where the next signal finds the M: it was in the library, with
 * SIGPROF blocked. */
void cp__os_own_from_handler(struct cp__m *m);

/* Registers the platform's hooks; called once, before the first M. */
void cp__os_start(void);

/* Opens the events on the calling thread as an M would, all at once, and closes them; the reason if one
 * fails, or opens and counts nothing (-ENODATA). Lowers each config's precise_ip to what can be reached. */
int cp__perf_probe(struct cp_slot_request *requests, size_t n, struct cp_error *err);
/* In the child of a fork: closes m's descriptors, touching neither the events nor the ring behind them. */
void cp__perf_forget(struct cp__m *m);

/* ---- Threads and clocks ---------------------------------------------------------------------- */

/* Whether perf_event_paranoid and this process's capabilities let events count in kernel mode. */
bool cp__os_may_count_kernel(void);

pid_t cp__os_tid(void);
/* Every thread of this process that runs passes a full memory barrier before it returns: what a thread wrote
 * before something that the caller does not see after it is seen. -ENOSYS or other where the system has no
 * such thing, or forbids it. */
int cp__os_barrier(void);
/* The CPU clock of a thread of this process; usable from every thread of it. */
clockid_t cp__os_thread_clock(pid_t tid);
uint64_t cp__os_clock_ns_from_handler(clockid_t clock);
/* How often the calling thread has given up a CPU or lost one. */
uint64_t cp__os_thread_switches(void);
/* Whether the thread runs or waits for a CPU; true where that cannot be told. */
bool cp__os_thread_is_runnable(pid_t tid);
/* Where the calling thread's stack is. */
struct cp__stack cp__os_thread_stack(void);
/* Sees to it that the calling thread has an alternate signal stack; what it mapped for that, or NULL in
 * *mapped. */
int cp__os_altstack_make(void **mapped, struct cp_error *err);
void cp__os_altstack_free(void *mapped);
/* Makes the part of the alternate stack that a signal takes resident, if the system can do that. Does nothing
 * with NULL. */
void cp__os_altstack_populate_from_handler(void *mapped);

void cp__os_futex_wait(uint32_t *word, uint32_t value, int timeout_ms);
void cp__os_futex_wake_from_handler(uint32_t *word);

/* ---- The M's own timer ----------------------------------------------------------------------- */

/* Creates and arms a timer on the calling thread's CPU clock whose SIGPROFs carry value. */
int cp__os_timer_start_from_handler(int *timer, uint64_t value, uint64_t first_ns, uint64_t period_ns);
void cp__os_timer_stop_from_handler(int timer);
/* Whether such a timer can be had; the reason where not. */
int cp__os_timer_probe(struct cp_error *err);

/* ---- SIGPROF --------------------------------------------------------------------------------- */

/* Installs the handler; under the runtime lock. */
int cp__os_signal_install(void (*handler)(int, siginfo_t *, void *), struct cp_error *err);
/* Puts back what was there before. Under the runtime lock, when no SIGPROF of ours can come any more. */
void cp__os_signal_restore(void);
/* Whether ours is the handler that is in place. */
bool cp__os_signal_is_ours(void);
/* Hands a SIGPROF that is not ours to the handler that was there before, if any. */
void cp__os_signal_chain_from_handler(int signal, siginfo_t *info, void *ucontext);

/* SIGPROF kept from the calling thread; returns what to pass to cp__os_unblock_from_handler. */
uint64_t cp__os_block_from_handler(void);
void cp__os_unblock_from_handler(uint64_t old);
/* All signals kept from the calling thread; returns what to pass to cp__os_unblock_all_from_handler(). */
uint64_t cp__os_block_all_from_handler(void);
void cp__os_unblock_all_from_handler(uint64_t old);
/* Takes a pending SIGPROF off the calling thread, which has it blocked; false where none is pending. */
bool cp__os_take_pending_from_handler(siginfo_t *info);
/* Makes it pending again. */
void cp__os_requeue_from_handler(siginfo_t *info);

/* Kicks are numbered modulo this. */
#define CP__OS_KICKS 256
/* Sends a kick, which cp__os_is_kick_from_handler() knows and tells the number of; 0 or a negative errno
 * value. */
int cp__os_kick(pid_t tid, uint32_t number);
bool cp__os_is_kick_from_handler(const siginfo_t *info, uint32_t *number);

#endif
