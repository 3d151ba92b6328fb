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
 */
#ifndef COUNTERPOINT_RUNTIME_SLOT_H
#define COUNTERPOINT_RUNTIME_SLOT_H

#include "runtime.h"

struct cp__slot_config {
    uint64_t seq;
    enum cp_event_kind kind;
    struct cp_cpu_profile_config config; /* encoding is set, whatever the event; see cp__request_encode() */
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

/* The rest: under the runtime lock. */

/* Publishes the config of request, which can come to rate samples a second (0: unknown), in a slot that is
 * free; takes it back; ends what its reader has to read. */
void cp__slot_publish(int slot, const struct cp_slot_request *request, double rate);
void cp__slot_stop(int slot);
void cp__slot_free(int slot);
/* Says that the slots have changed: what has changed is seen by whoever sees the new number. */
void cp__slots_next_generation(void);

bool cp__slot_is_free(int slot);
bool cp__slot_runs(int slot);
/* Whether any slot runs, and what those that run can come to in samples a second. */
bool cp__slots_running(void);
double cp__slots_rate(void);
/* The slots that run, or have been stopped and not released: their readers want what Ms leave behind. */
uint32_t cp__slots_with_reader(void);
/* The config that was started in slot last, until its release; 0: none. */
uint64_t cp__slot_run(int slot);
/* What Ms that are gone have counted for slot since its start. */
struct cp_slot_stats *cp__slot_kept_stats(int slot);
/* In the child of a fork: all slots are empty. */
void cp__slots_forget(void);

#endif
