/* The list of the program's tests. */
#include "test.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

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

/* Adds an underscore before a lower-case letter: tools that read Go's reports expect no lower-case letter
 * after "Test" or * "Benchmark". */
char *cp__test_case_name(const struct cp_test_case *test)
{
    char *name;
    if (asprintf(&name, "%s%s%s", test->is_benchmark ? "Benchmark" : "Test",
                 islower((unsigned char)test->name[0]) ? "_" : "", test->name) < 0)
        abort();
    return name;
}
