/* What is done once in a process: before the first M, or before a start or a probe that comes first. */
#ifndef COUNTERPOINT_RUNTIME_PREPARE_H
#define COUNTERPOINT_RUNTIME_PREPARE_H

void cp__prepare(void);

#endif
