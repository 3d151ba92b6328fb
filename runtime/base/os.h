/* Threads, clocks and the signal mask. os_linux.c answers; a port brings a file of its own beside it. */
#ifndef COUNTERPOINT_RUNTIME_BASE_OS_H
#define COUNTERPOINT_RUNTIME_BASE_OS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

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
void cp__os_futex_wait(uint32_t *word, uint32_t value, int timeout_ms);
void cp__os_futex_wake_from_handler(uint32_t *word);

/* SIGPROF kept from the calling thread; returns what to pass to cp__os_unblock_from_handler. */
uint64_t cp__os_block_from_handler(void);
void cp__os_unblock_from_handler(uint64_t old);
/* All signals kept from the calling thread; returns what to pass to cp__os_unblock_all_from_handler(). */
uint64_t cp__os_block_all_from_handler(void);
void cp__os_unblock_all_from_handler(uint64_t old);

#endif
