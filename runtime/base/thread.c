#include "thread.h"

#include <signal.h>

#define STACK_SIZE ((size_t)2 << 20) /* libdw's parsers recurse */

int cp__thread_start(pthread_t *thread, void *(*fn)(void *), void *arg)
{
    pthread_attr_t attributes;
    sigset_t all;
    sigset_t old;
    int result;

    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    result = pthread_create(thread, &attributes, fn, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
    return -result;
}

int cp__thread_run(void *(*fn)(void *), void *arg)
{
    pthread_t thread;
    int result = cp__thread_start(&thread, fn, arg);

    if (result == 0)
        pthread_join(thread, NULL);
    return result;
}
