/* Which sanitizer the library is built with, for gcc and for clang: CP__ASAN and CP__TSAN are 1 or 0. */
#ifndef COUNTERPOINT_RUNTIME_BASE_SANITIZER_H
#define COUNTERPOINT_RUNTIME_BASE_SANITIZER_H

#if defined(__has_feature)
#define CP__HAS_FEATURE(x) __has_feature(x)
#else
#define CP__HAS_FEATURE(x) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || CP__HAS_FEATURE(address_sanitizer)
#define CP__ASAN 1
#else
#define CP__ASAN 0
#endif

#if defined(__SANITIZE_THREAD__) || CP__HAS_FEATURE(thread_sanitizer)
#define CP__TSAN 1
#else
#define CP__TSAN 0
#endif

#include <stdbool.h>

/* Returns whether the program is built with ThreadSanitizer. The library itself need not be. */
bool cp__has_thread_sanitizer(void);

/* ThreadSanitizer keeps a signal back until the thread calls a function of the C library that it replaces,
 * and calls the handler there, whatever the thread blocks by then. Lets what has been kept back come now:
 * whoever has just blocked a signal is not interrupted by it any more. */
void cp__let_deferred_come_from_handler(void);

/* If the library is not built with ThreadSanitizer, ThreadSanitizer does not see the library's atomic
 * operations, but sees when the library allocates, copies and frees. These calls tell that all that came
 * before a release of an address comes before all that follows an acquire of that address. */
void cp__sanitizer_release(void *at);
void cp__sanitizer_acquire(void *at);

#endif
