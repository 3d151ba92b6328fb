/*
 * The slots: what is being sampled in the whole process.
 *
 * A slot's config is published by a seqlock whose reader never retries. seq is 0 while the slot is empty or
 * being written, and otherwise a number that no other config ever has. A writer, under the runtime lock,
 * fills words while seq is 0, and then stores seq with release. A stop stores 0.
 *
 * A reader is an M, possibly in its handler. The M loads seq with acquire, copies the words, and loads seq
 * again: if seq has changed, the config was stopped meanwhile, and the copy is not used. Each change is
 * followed by a new cp_generation, so the M looks again. So nothing that an M reads is ever freed, and a
 * config is identified by its sequence number, never by an address.
 */
#ifndef COUNTERPOINT_RUNTIME_SLOT_H
#define COUNTERPOINT_RUNTIME_SLOT_H

#include "runtime.h"

struct cp__engine;

struct cp__slot_config {
    uint64_t seq;
    const struct cp__engine *engine; /* which samples the event */
    enum cp_event_kind kind;
    /* after so many samples that nothing renews, the kernel disables the event; set by the M that arms it */
    uint32_t limit;
    struct cp_cpu_profile_config config; /* encoding is set, whatever the event; see cp__request_encode() */
};

/* Sequence numbers of one process have the same upper bits, by which a timer's signal is told from a foreign
 * signal. */
#define CP__SEQ_BITS 36

/* Copies the config that slot holds. Returns false if slot is empty. */
bool cp__slot_config_from_handler(int slot, struct cp__slot_config *config);
/* Returns the sequence number of the config that slot holds, or 0 if slot is empty. */
uint64_t cp__slot_seq_from_handler(int slot);
/* Returns a bit for each of the n slots. */
static inline uint32_t cp__slots_mask(const int *slots, size_t n)
{
    uint32_t mask = 0;

    while (n-- > 0)
        mask |= 1u << slots[n];
    return mask;
}
/* Returns whether seq may be a sequence number of this process. */
bool cp__slot_is_seq_from_handler(uint64_t seq);

/* All functions below are called under the runtime lock. */

/* Publishes the config of request in a free slot, whose event that engine samples. rate is how many samples a
 * second the config allows (0: unknown). cp__slot_stop() withdraws the config, and cp__slot_free() ends the
 * reading of its samples. */
void cp__slot_publish(int slot, const struct cp_slot_request *request, const struct cp__engine *engine,
                      double rate);
void cp__slot_stop(int slot);
void cp__slot_free(int slot);
/* Announces that the slots have changed. A thread that loads the new number sees the change, too. */
void cp__slots_next_generation(void);

bool cp__slot_is_free(int slot);
bool cp__slot_runs(int slot);
/* Return whether any slot runs, and how many samples a second the running slots allow. */
bool cp__slots_running(void);
/* How many slots are not free. */
unsigned cp__slots_in_use(void);
double cp__slots_rate(void);
/* Returns the slots that run, and those that have been stopped and not released: their readers want the
 * samples that Ms leave behind. */
uint32_t cp__slots_with_reader(void);
/* Returns the config that was started last in slot, until its release; 0: none. */
uint64_t cp__slot_run(int slot);
/* Returns the figures that Ms which are gone have counted for slot since its start. */
struct cp_slot_stats *cp__slot_kept_stats(int slot);
/* In the child of a fork: all slots are empty. */
void cp__slots_forget(void);

#endif
