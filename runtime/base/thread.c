#include "thread.h"

int cp__thread_run(void *(*fn)(void *), void *arg)
{
    pthread_t thread;
    int result = cp__thread_start(&thread, CP__DEEP_STACK, fn, arg);

    if (result == 0)
        pthread_join(thread, NULL);
    return result;
}
