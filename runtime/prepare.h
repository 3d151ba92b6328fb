/* What is done once in a process: before the first M, and before a start or a probe, which may come first. */
#ifndef COUNTERPOINT_RUNTIME_PREPARE_H
#define COUNTERPOINT_RUNTIME_PREPARE_H

void cp__prepare(void);

#endif
