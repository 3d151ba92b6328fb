/*
 * The slots: what is being sampled, process-wide.
 *
 * A slot's config is published as in a seqlock whose reader never retries. seq is 0 while the slot is empty
 * or being written, and otherwise a number that no other config ever has or had. A writer, under the runtime
 * lock, fills words while seq is 0, then stores seq with release; a stop stores 0. A reader (an M, possibly
 * in its handler) loads seq with acquire, copies the words, and looks at seq again: where it changed, the
 * config was stopped meanwhile and what was copied is worthless. Each change is followed by a new
 * cp_generation, so the M will look again. So nothing that an M reads is ever freed, and identity is the
 * sequence number, never an address.
 *
 * The queue of a slot holds the Ms that have appended samples for it since its reader took them off, so that
 * a pass of the reader costs what was sampled, not how many Ms there are. An M appends, then exchanges its
 * is_in for 1, and if that was 0 pushes itself: a compare-and-swap of the queue's head. The reader takes the
 * whole queue off with one exchange, so that there is no ABA; for each M it takes next, exchanges is_in for
 * 0, then reads the buffer. Of the two exchanges of is_in one comes first: if the reader's does, the M
 * pushes itself once more; if the M's does, the reader sees what the M has appended. An M in a queue is not
 * freed; the queues of slots that are free, whose Ms were late, are emptied whenever an M may be freed.
 */
#ifndef COUNTERPOINT_RUNTIME_SLOT_H
#define COUNTERPOINT_RUNTIME_SLOT_H

#include "runtime.h"

struct cp__slot_config {
    uint64_t seq;
    uint64_t event; /* enum cp_cpu_event */
    struct cp_cpu_profile_config config;
};

/* Sequence numbers of one process share their upper bits, so that a timer's signal can be told from a foreign
 * one. */
#define CP__SEQ_BITS 36

/* Copies what slot holds; false where it is empty. */
bool cp__slot_config_from_handler(int slot, struct cp__slot_config *config);
/* The sequence number that it holds, 0 where it is empty. */
uint64_t cp__slot_seq_from_handler(int slot);
/* Whether seq could be one of this process's. */
bool cp__slot_is_seq_from_handler(uint64_t seq);

/* Wakes the readers in cp_slots_wait(). */
void cp__slots_wake_from_handler(void);

struct cp__m;

/* m, the calling thread's, has appended samples for slot: the slot's next reader is to look at it. */
void cp__slot_queue_from_handler(struct cp__m *m, int slot);

/* Puts the handler in place for samples that belong to no slot, and lets it go; any thread may. */
int cp__slots_hold_handler(struct cp_error *err);
void cp__slots_drop_handler(void);

/* The rest: under the runtime lock. */

/* Whether any slot runs; whether the handler is in place. */
bool cp__slots_running(void);
bool cp__slots_have_handler(void);
/* The slots that run, or have been stopped and not released: their readers want what Ms leave behind. */
uint32_t cp__slots_with_reader(void);
/* The config that was started in slot last, until its release; 0: none. */
uint64_t cp__slot_run(int slot);
/* What Ms that are gone have counted for slot since its start, and adding such an M's part to it; stats.c. */
struct cp_slot_stats *cp__slot_kept_stats(int slot);
void cp__slot_keep_stats(int slot, const struct cp__m *m);
/* What m, which has exited, has counted for itself is kept. */
void cp__stats_m_gone(const struct cp__m *m);
/* Adds what slot counted to what is kept of those that are free again, before it becomes free. */
void cp__slot_release_stats(int slot);
/* Puts SIGPROF's disposition back where nothing runs and nothing more can come. */
void cp__slots_settle(void);
/* Takes the Ms off the queues of slots that have no reader. */
void cp__slots_empty_free_queues(void);
/* In the child of a fork: all slots are empty, and SIGPROF's disposition is what it was. */
void cp__slots_forget(void);

#endif
