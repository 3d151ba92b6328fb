/* Limits the memory of the process. */
#ifndef COUNTERPOINT_TESTS_MEMORY_LIMIT_H
#define COUNTERPOINT_TESTS_MEMORY_LIMIT_H

#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "test.h"

/* Lets the process have size more bytes of address space; UINT64_MAX: no limit. */
static inline void limit_memory(uint64_t size)
{
    struct rlimit limit;
    unsigned long pages;
    FILE *file = fopen("/proc/self/statm", "r");

    CHECK(file != NULL && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    CHECK_EQ(getrlimit(RLIMIT_AS, &limit), 0);
    limit.rlim_cur = size == UINT64_MAX ? limit.rlim_max : pages * (size_t)sysconf(_SC_PAGESIZE) + size;
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
}

#endif
