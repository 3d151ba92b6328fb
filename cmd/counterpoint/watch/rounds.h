/*
 * Rounds of functions, from their entries to their returns.
 *
 * Each thread has a stack of the functions that it is in. A return ends the innermost entry of its function
 * that has the return's stack pointer: a call takes at most a word of the stack for the return address. All
 * entries inside it, which were left by longjmp(), by an exception or by a part of the kernel's that has no
 * room (the kernel notices 64 nested returns of a thread), end without a value: they are "dropped". So do
 * entries below the stack pointer of a new entry, because their frames are gone. Functions that call each
 * other last (tail calls) share a stack pointer, and each returns.
 *
 * If records are lost, nobody knows what was in them: each round that is open at that time, or begins before
 * records come again, is "lost". A return without an entry, of a function that ran already when the watch
 * began, is "unknown".
 *
 * The counts of a thread are the sum of what its CPUs count while it runs there. Between two records of a CPU
 * one thread runs: the thread of the second record, because each switch is a record of the thread that
 * leaves. The kernel has no such record of many of the times when its idle task leaves, so a record of the
 * thread that comes says from when on time is that thread's.
 *
 * A thread that calls fork() in a round ends the round twice, in the parent and in the child: see enum
 * cp_watch_side. The child's counts begin with the fork.
 */
#ifndef COUNTERPOINT_CMD_WATCH_ROUNDS_H
#define COUNTERPOINT_CMD_WATCH_ROUNDS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "record.h"
#include "runtime/watch/snapshot.h"

struct watch_rounds;

/* Makes an empty one for n functions with these names, whose rounds have time and n_counts quantities. NULL:
 * no memory. */
struct watch_rounds *watch_rounds_new(const char *const *names, size_t n,
                                      const struct cp__watch_quantity *counts, size_t n_counts,
                                      unsigned n_cpus);
void watch_rounds_free(struct watch_rounds *rounds);
/* Follows a thread from now on, and those that it starts. Returns 0 or -ENOMEM. */
int watch_rounds_follow(struct watch_rounds *rounds, pid_t pid, pid_t tid);
/* Takes the next record, in the order of time. Records of threads that are not followed are ignored, but for
 * what their CPU has counted. Returns 0 or -ENOMEM: the round is told as lost. */
int watch_rounds_take(struct watch_rounds *rounds, const struct watch_record *record);
/* Counts what is open: see watch_rounds_snapshot(). */
void watch_rounds_end(struct watch_rounds *rounds);
/* Returns what was measured so far, which belongs to the rounds. */
struct cp_watch_snapshot *watch_rounds_snapshot(struct watch_rounds *rounds);
/* Returns how many records were lost, as far as the kernel has told. */
uint64_t watch_rounds_lost_records(const struct watch_rounds *rounds);

#endif
