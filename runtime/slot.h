/*
 * The slots: what is being sampled, process-wide.
 *
 * A slot's config is published as in a seqlock whose reader never retries. seq is 0 while the slot is empty
 * or being written, and otherwise a number that no other config ever had or will have. A writer, under the
 * runtime lock, fills words while seq is 0, then stores seq with release. A stop stores 0.
 *
 * A reader is an M, possibly in its handler. It loads seq with acquire, copies the words, and looks at seq
 * again: if seq changed, the config was stopped meanwhile, and the copy is worthless. Each change is
 * followed by a new cp_generation, so the M will look again. So nothing that an M reads is ever freed, and a
 * config is known by its sequence number, never by an address.
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

/* Copies the config that slot holds; false if slot is empty. */
bool cp__slot_config_from_handler(int slot, struct cp__slot_config *config);
/* The sequence number of the config that slot holds, 0 if slot is empty. */
uint64_t cp__slot_seq_from_handler(int slot);
/* Whether seq may be a sequence number of this process. */
bool cp__slot_is_seq_from_handler(uint64_t seq);

/* The rest: under the runtime lock. */

/* Publishes the config of request in a slot that is free; rate is how many samples a second it can come
 * to (0: unknown). cp__slot_stop() takes the config back, and cp__slot_free() ends the reading of its
 * samples. */
void cp__slot_publish(int slot, const struct cp_slot_request *request, double rate);
void cp__slot_stop(int slot);
void cp__slot_free(int slot);
/* Says that the slots have changed. A thread that sees the new number sees the change, too. */
void cp__slots_next_generation(void);

bool cp__slot_is_free(int slot);
bool cp__slot_runs(int slot);
/* Whether any slot runs, and what those that run can come to in samples a second. */
bool cp__slots_running(void);
double cp__slots_rate(void);
/* The slots that run, and those that have been stopped and not released: their readers want the samples
 * that Ms leave behind. */
uint32_t cp__slots_with_reader(void);
/* The config that was started in slot last, until its release; 0: none. */
uint64_t cp__slot_run(int slot);
/* What Ms that are gone have counted for slot since its start. */
struct cp_slot_stats *cp__slot_kept_stats(int slot);
/* In the child of a fork: all slots are empty. */
void cp__slots_forget(void);

#endif
