/* What the files of this folder share. */
#ifndef COUNTERPOINT_TESTING_INTERNAL_H
#define COUNTERPOINT_TESTING_INTERNAL_H

#include "testing.h"

/* All tests and benchmarks of the program, in the order in which they were added. */
struct cp_test_case *cp__test_cases(void);

#endif
