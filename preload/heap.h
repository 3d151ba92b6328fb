/*
 * Memory for what is recorded at the end of a wait. The program may have waited in its allocator, whose locks
 * may be pthread's, or in a signal handler that has interrupted the allocator: to allocate there would wait
 * for what the very thread holds. So the linker puts functions of heap.c in the place of the library's own
 * calls of malloc(), calloc(), realloc() and free() (--wrap in the Makefile). On a thread that is telling,
 * they take memory from the system, and leave the program's allocator alone.
 */
#ifndef COUNTERPOINT_PRELOAD_HEAP_H
#define COUNTERPOINT_PRELOAD_HEAP_H

#include <stdbool.h>

/* Whether the calling thread tells of the end of a wait. */
extern _Thread_local bool cp__heap_is_own __attribute__((tls_model("initial-exec")));

/* Frees what could not be freed where the last user was done with it. On a thread that has just begun. */
void cp__heap_settle(void);
/* In the child of a fork: nobody holds the heap's lock. */
void cp__heap_forget(void);

#endif
