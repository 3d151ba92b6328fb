/* Threads of the library's own. */
#ifndef COUNTERPOINT_RUNTIME_BASE_THREAD_H
#define COUNTERPOINT_RUNTIME_BASE_THREAD_H

#include <pthread.h>

/* Runs fn(arg) on a thread with every signal blocked and a stack that symbolising fits in, whatever G or
 * thread calls. Joined by the caller. 0 or a negative errno value. */
int cp__thread_start(pthread_t *thread, void *(*fn)(void *), void *arg);
/* The same, and waits for its end. */
int cp__thread_run(void *(*fn)(void *), void *arg);

#endif
