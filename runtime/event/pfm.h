/* libpfm4, for the files that ask it. */
#ifndef COUNTERPOINT_RUNTIME_EVENT_PFM_H
#define COUNTERPOINT_RUNTIME_EVENT_PFM_H

#include <perfmon/pfmlib.h>

#include "rows.h"

/*
 * Initialises libpfm4 at the first call, and keeps other threads from libpfm4 until cp__pfm_unlock(). The
 * caller calls cp__pfm_unlock() whatever the result is: PFM_SUCCESS, or the reason why libpfm4 cannot be
 * used. Do not parse names between the two calls.
 */
pfm_err_t cp__pfm_lock(void);
void cp__pfm_unlock(void);

#endif
