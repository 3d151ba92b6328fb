/* Threads of the libraries' own. cp__thread_start() is inline, so that each library has it in itself. */
#ifndef COUNTERPOINT_RUNTIME_BASE_THREAD_H
#define COUNTERPOINT_RUNTIME_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>

/* Runs fn(arg) on a thread with every signal blocked and so large a stack, whatever G or thread calls. Joined
 * by the caller. 0 or a negative errno value. */
static inline int cp__thread_start(pthread_t *thread, size_t stack_size, void *(*fn)(void *), void *arg)
{
    pthread_attr_t attributes;
    sigset_t all, old;
    int result;

    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack_size);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    result = pthread_create(thread, &attributes, fn, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
    return -result;
}

#define CP__DEEP_STACK ((size_t)2 << 20) /* symbolising fits in: libdw's parsers recurse */

/* The same with a deep stack, and waits for the end of fn(). */
int cp__thread_run(void *(*fn)(void *), void *arg);

#endif
