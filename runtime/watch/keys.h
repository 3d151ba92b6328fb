/* What the registry of all watches calls for a watch for keys, a struct cp_watch_keys: see keys.c. */
#ifndef COUNTERPOINT_RUNTIME_WATCH_KEYS_H
#define COUNTERPOINT_RUNTIME_WATCH_KEYS_H

#include "snapshot.h"

/* Appends the watch to a snapshot: a series with the stage "" for the time from begin to end, and one for
 * each stage. Returns 0, or -ENOMEM; then the snapshot may have a part of the watch. */
int cp__watch_keys_fill(const void *watch_for_keys, struct cp_watch_snapshot *snapshot);
/* Empties the watch in the child of a fork, without a call to the allocator. */
void cp__watch_keys_forget(void *watch_for_keys);

#endif
