#include "sanitizer.h"

#include <stddef.h>
#include <time.h>

#include "clock.h"

/* Begins ThreadSanitizer's runtime, if the program has one. */
extern void __tsan_init(void) __attribute__((weak));

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
