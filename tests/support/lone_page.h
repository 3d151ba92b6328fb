/* A page for data whose bounds code must keep to: a test that reads or writes beyond either end of the page
 * crashes. */
#ifndef COUNTERPOINT_TESTS_LONE_PAGE_H
#define COUNTERPOINT_TESTS_LONE_PAGE_H

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test.h"

#define WORDS 512 /* the words of a page */

/* Returns a page between two pages that nothing may access. */
static inline void *lone_page(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(memory != MAP_FAILED);
    CHECK_EQ(page, WORDS * sizeof(uintptr_t));
    CHECK_EQ(mprotect(memory + page, page, PROT_READ | PROT_WRITE), 0);
    return memory + page;
}

#endif
