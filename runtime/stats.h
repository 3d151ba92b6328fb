/* What happened in the slots, for cp_slots_stats() and cp_runtime_stats(). All calls are made under the
 * runtime lock. */
#ifndef COUNTERPOINT_RUNTIME_STATS_H
#define COUNTERPOINT_RUNTIME_STATS_H

struct cp__m;

/* Adds what m, which is gone, has counted for slot to what is kept of such Ms. */
void cp__slot_keep_stats(int slot, const struct cp__m *m);
/* Keeps what m, which has exited, has counted for itself. */
void cp__stats_m_gone(const struct cp__m *m);
/* Adds what slot counted to what is kept of those that are free again, before it becomes free. */
void cp__slot_release_stats(int slot);

#endif
