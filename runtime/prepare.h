/* What is done once in a process: before the first M, or before a start or a probe that comes first. A
 * program that is linked statically has the fork handlers because it has this function: a constructor in the
 * same file (fork.c) registers them. */
#ifndef COUNTERPOINT_RUNTIME_PREPARE_H
#define COUNTERPOINT_RUNTIME_PREPARE_H

void cp__prepare(void);

#endif
