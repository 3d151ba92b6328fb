#include "sanitizer.h"

#include <stddef.h>

/* Begins ThreadSanitizer's runtime, if the program has one. */
extern void __tsan_init(void) __attribute__((weak));

bool cp__has_thread_sanitizer(void)
{
    return __tsan_init != NULL;
}
