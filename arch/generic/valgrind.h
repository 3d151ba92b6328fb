/* Nothing is known of how to ask valgrind on this processor. */
#ifndef COUNTERPOINT_ARCH_VALGRIND_H
#define COUNTERPOINT_ARCH_VALGRIND_H

#include <stdbool.h>

static inline bool cp__runs_under_valgrind(void)
{
    return false;
}

#endif
