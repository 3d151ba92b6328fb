#include "sanitizer.h"

#include <stddef.h>
#include <time.h>

#include "clock.h"

/* ThreadSanitizer's runtime, if the program has one: these are the functions that begin it, and that tell of
 * an order between threads. */
extern void __tsan_init(void) __attribute__((weak));
extern void __tsan_release(void *at) __attribute__((weak));
extern void __tsan_acquire(void *at) __attribute__((weak));

bool cp__has_thread_sanitizer(void)
{
    return __tsan_init != NULL;
}

/* clock_gettime() is one of the functions that ThreadSanitizer replaces. */
void cp__let_deferred_come_from_handler(void)
{
    if (__tsan_init != NULL)
        cp__clock_ns(CLOCK_MONOTONIC);
}

void cp__sanitizer_release(void *at)
{
    if (!CP__TSAN && __tsan_release != NULL)
        __tsan_release(at);
}

void cp__sanitizer_acquire(void *at)
{
    if (!CP__TSAN && __tsan_acquire != NULL)
        __tsan_acquire(at);
}
