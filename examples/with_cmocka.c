/*
 * Tests with cmocka, which runs them in the program's own process, and the profile's flags:
 *
 *     build/examples/with_cmocka -cpuprofile x.pb.gz -cpuprofileevent taskClock -cpuprofileperiod 1000000
 *     go tool pprof -top x.pb.gz
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "testing.h"

/* Returns the number of steps from n to 1. A step halves an even number and makes 3n + 1 of an odd one. */
__attribute__((noinline)) static unsigned collatz_steps(uint64_t n)
{
    /* forces a stack frame: gcc makes none for a function that does not need one */
    volatile unsigned steps = 0;

    for (; n != 1; n = n % 2 == 0 ? n / 2 : 3 * n + 1)
        steps = steps + 1;
    return steps;
}

static void longest_below_a_million(void **state)
{
    unsigned longest = 0;

    (void)state;
    for (uint64_t n = 1; n < 1000000; n++)
        longest = collatz_steps(n) > longest ? collatz_steps(n) : longest;
    assert_int_equal(longest, 524);
}

static void one_needs_none(void **state)
{
    (void)state;
    assert_int_equal(collatz_steps(1), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_needs_none),
        cmocka_unit_test(longest_below_a_million),
    };
    int failed;

    cp_testing_start(&argc, argv);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    return cp_testing_stop() != 0 || failed != 0;
}
