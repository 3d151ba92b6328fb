/*
 * A stamp of what the dynamic linker has loaded, for signal handlers.
 *
 * Two stamps are equal if the linker has loaded no object in between. So a sample that has the stamp of the
 * time at which the mappings were noted was taken in these mappings, however often objects are replaced.
 *
 * A handler must not call the linker. The linker counts the objects that it loads, and tells the count by
 * dl_iterate_phdr(), but not where in its memory the count is. So the words of its variable _rtld_global are
 * searched for the count, once. A few words may have that value at the time by chance, and the stamp is made
 * of all of them. Each time the mappings are noted, the words are compared with the count, and those that
 * differ are dropped. If none is left, or none was found, as in a static program, stamps are 0, which tells
 * nothing.
 */
#ifndef COUNTERPOINT_RUNTIME_BASE_LOADS_H
#define COUNTERPOINT_RUNTIME_BASE_LOADS_H

#include <stdbool.h>
#include <stdint.h>

/* Searches for the words, before the first M. */
void cp__loads_prepare(void);
/* Returns the stamp of now; 0: unknown. */
uint64_t cp__loads_from_handler(void);
/* Compares the words with the linker's count, and stores the stamps of now by the words before and by those
 * that are left. Called from a callback of dl_iterate_phdr(), so that nothing is loaded meanwhile. */
void cp__loads_compare(uint64_t count, uint64_t stamps[2]);

/* Returns whether a reader should be woken for a stamp, so that the mappings are noted soon: once a stamp,
 * and not before the rest is over that the reader needs. */
bool cp__loads_are_news_from_handler(uint64_t stamp);
/* Sets that rest, after the mappings were noted in so much CPU time. */
void cp__loads_rest(uint64_t cpu_ns);

#endif
