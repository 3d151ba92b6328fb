/* Why a stall is told without its stack. */
#ifndef COUNTERPOINT_RUNTIME_STALL_LACK_H
#define COUNTERPOINT_RUNTIME_STALL_LACK_H

#include "stall.h"

/* Returns the reason as a clause; NULL for CP_STALL_NOT_RUN, because the stack would explain nothing. */
const char *cp__stall_lack(enum cp_stall_kind kind);

#endif
