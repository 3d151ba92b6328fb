/* The tests that the program has. */
#include "testing_internal.h"

static struct cp_test_case *first, **last = &first;

void cp_test_add(struct cp_test_case *test)
{
    *last = test;
    last = &test->next;
}

struct cp_test_case *cp__test_cases(void)
{
    return first;
}
