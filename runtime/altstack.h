/* The alternate signal stack of an M's thread. */
#ifndef COUNTERPOINT_RUNTIME_ALTSTACK_H
#define COUNTERPOINT_RUNTIME_ALTSTACK_H

#include "error.h"

/* Makes sure that the calling thread has an alternate signal stack. *mapped is what was mapped for that, or
 * NULL. */
int cp__os_altstack_make(void **mapped, struct cp_error *err);
void cp__os_altstack_free(void *mapped);
/* Makes resident the part of the alternate stack that a signal uses, if the system can do that. Does nothing
 * with NULL. */
void cp__os_altstack_populate_from_handler(void *mapped);

#endif
