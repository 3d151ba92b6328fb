/*
 * What a slot should have seen: the CPU time of the process and of each M, from the slot's start to its stop.
 *
 * At both ends the CPU clock of each M is read, and then that of the process, because the kernel brings the
 * process's clock up to date for a thread that runs when that thread's own clock is read. The same is done
 * for an M at its attach and its detach. The difference to what the slot's events have counted, and to what
 * the samples stand for, is what the slot has missed: cp__coverage_add_m() says why, as far as it is known.
 *
 * All calls are made under the runtime lock.
 */
#ifndef COUNTERPOINT_RUNTIME_COVERAGE_H
#define COUNTERPOINT_RUNTIME_COVERAGE_H

#include <stdbool.h>
#include <stdint.h>

struct cp__count;
struct cp__m;
struct cp_slot_stats;

/* Before the Ms hear of slots that have been published: reads all clocks. slots has a bit for each. */
void cp__coverage_begin(uint32_t slots);
/* Before the slots are withdrawn: reads all clocks. */
void cp__coverage_end(uint32_t slots);
/* After that, if the Ms have let go of the slots: looks whether the signals of Ms are blocked that have
 * missed something, and counts the threads that are no Ms, if they had much CPU time. */
void cp__coverage_settle(uint32_t slots);

/* On the thread of m: before m opens the slots' events for the first time, and after it has closed them for
 * good, at this time of its CPU clock. mask has a bit for each signal that the program has blocked. */
void cp__coverage_attached(struct cp__m *m);
void cp__coverage_detached(struct cp__m *m, uint64_t cpu_ns, uint64_t mask);

/* Before m begins anew with a slot's config, from outside: ends m's account of the slot, now or when its
 * event was closed, and begins another one where the first has ended. The first call returns false if m's
 * thread has ended. */
bool cp__coverage_end_of(struct cp__m *m, int slot);
void cp__coverage_go_on(struct cp__m *m, int slot);

/* Returns what m's events in slot have counted: their sum, but time_enabled is that of the first. The value
 * of clocks is the time for which they ran, and that of a timer the CPU time since it was armed, both with
 * what the thread ran before its attach, if its first period began with it. */
struct cp__count cp__coverage_counted(const struct cp__m *m, int slot);
/* Adds to stats what the CPU time of m was, and why slot has missed a part of it. */
void cp__coverage_add_m(struct cp_slot_stats *stats, int slot, uint64_t run, const struct cp__m *m);
/* Adds what is known of the process as a whole, after all Ms have been added. */
void cp__coverage_add_process(struct cp_slot_stats *stats, int slot);

#endif
