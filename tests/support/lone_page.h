/* A page for what must not be left: a test that reads or writes beyond either of its ends crashes. */
#ifndef COUNTERPOINT_TESTS_LONE_PAGE_H
#define COUNTERPOINT_TESTS_LONE_PAGE_H

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test.h"

#define WORDS 512 /* a page of them */

/* A page between two that nothing may touch. */
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
