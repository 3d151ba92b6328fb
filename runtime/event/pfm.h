/* libpfm4, for those who ask it. */
#ifndef COUNTERPOINT_RUNTIME_EVENT_PFM_H
#define COUNTERPOINT_RUNTIME_EVENT_PFM_H

#include <perfmon/pfmlib.h>

#include "rows.h"

/*
 * Initialises libpfm4 at the first call, and keeps other threads from it until cp__pfm_unlock(), which is
 * called whatever this returns: PFM_SUCCESS, or why it cannot be used. Do not parse names under it.
 */
pfm_err_t cp__pfm_lock(void);
void cp__pfm_unlock(void);

#endif
