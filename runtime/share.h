/* Who has an event if there are not enough of them for all Ms. */
#ifndef COUNTERPOINT_RUNTIME_SHARE_H
#define COUNTERPOINT_RUNTIME_SHARE_H

#include "m.h"

/* A pass begins, which may look at so many Ms for one that sleeps. Under the runtime lock. */
void cp__share_begin(uint64_t n);
/* If an event was refused to m, whose thread runs and whose CPU clock shows cpu_ns, because the system has no
 * descriptors or memory left, tries again after each millisecond of m's time, and takes for it the event of
 * an M that has slept since it was armed. m is not the calling thread's. Under the runtime lock. The caller
 * delays forks. */
void cp__share_look(struct cp__m *m, uint64_t cpu_ns);

#endif
