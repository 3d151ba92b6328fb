/* Finds the object that each mapping belongs to. */
#ifndef COUNTERPOINT_PPROF_SYMBOL_LINKED_H
#define COUNTERPOINT_PPROF_SYMBOL_LINKED_H

#include "mapping.h"

/*
 * Says of each mapping what the dynamic linker knows of the object there: its build id, its bias, and whether
 * it is the program. The mappings are all that the process has now, in ascending order. Returns 0 or -ENOMEM.
 *
 * A program may have put other memory in the place of an object's code, such as huge pages with a copy of the
 * code. Then these mappings become mappings of the object's file, if their bytes are those of the file;
 * otherwise they stay what they are. If such a mapping reaches over an end of the code, it is cut there.
 *
 * The dynamic linker holds a lock of its own meanwhile. In a child that is forked at that time, nobody would
 * release this lock, and the child would wait for ever when it loads a library or takes a profile. Therefore
 * forks wait. A child for which they could not wait (see fork_gate.h) gets a profile without build ids.
 */
int cp__mappings_link(struct cp__mappings *mappings);

#endif
