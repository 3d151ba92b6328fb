/* The figures of slots and of the process, for cp_slots_stats() and cp_runtime_stats(). All calls are made
 * under the runtime lock. */
#ifndef COUNTERPOINT_RUNTIME_STATS_H
#define COUNTERPOINT_RUNTIME_STATS_H

struct cp__m;

/* Adds what m, which is gone, has counted for slot to the kept figures of the slot. */
void cp__slot_keep_stats(int slot, const struct cp__m *m);
/* Moves what m has counted to the kept figures of the slots that run, before m begins anew with the same
 * configs; m will count itself again. */
void cp__slots_keep_stats_of(struct cp__m *m);
/* The same of one slot, without a gap in the thread's time. */
void cp__slot_keep_stats_of(int slot, struct cp__m *m);
/* Adds m's own figures to those that are kept of Ms which are gone. */
void cp__stats_m_gone(const struct cp__m *m);
/* Adds the slot's figures to those of all slots that are free again, before the slot becomes free. */
void cp__slot_release_stats(int slot);

#endif
