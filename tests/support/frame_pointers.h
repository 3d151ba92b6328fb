/* Values that a frame pointer may have in code that keeps none. */
#ifndef COUNTERPOINT_TESTS_FRAME_POINTERS_H
#define COUNTERPOINT_TESTS_FRAME_POINTERS_H

#include <pthread.h>
#include <stdint.h>

/* Calls fn with each value. Returns how many there are. */
static inline int with_bad_frame_pointers(void (*fn)(uintptr_t))
{
    uintptr_t loop[2] = {(uintptr_t)loop, (uintptr_t)with_bad_frame_pointers};
    uintptr_t low[2] = {(uintptr_t)loop - 4096, 12};
    uintptr_t high[2] = {UINTPTR_MAX - 7, (uintptr_t)with_bad_frame_pointers};
    pthread_attr_t attributes;
    void *stack;
    size_t size;

    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &stack, &size);
    pthread_attr_destroy(&attributes);
    const uintptr_t values[] = {0,
                                1,
                                8,
                                UINTPTR_MAX,
                                UINTPTR_MAX - 7,
                                UINTPTR_MAX - 15,
                                (uintptr_t)1 << 63,
                                (uintptr_t)with_bad_frame_pointers,
                                (uintptr_t)loop,
                                (uintptr_t)low,
                                (uintptr_t)high,
                                (uintptr_t)loop + 1,
                                (uintptr_t)stack,
                                (uintptr_t)stack - 8,
                                (uintptr_t)stack + size,
                                (uintptr_t)stack + size - 8,
                                (uintptr_t)stack + size - 16};

    const int n = sizeof values / sizeof values[0];

    for (int i = 0; i < n; i++)
        fn(values[i]);
    return n;
}

#endif
