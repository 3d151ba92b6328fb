/*
 * Tests with Criterion, which starts a process for each test, and the profile's flags beside Criterion's own:
 *
 *     build/examples/with_criterion -cpuprofile x.pb.gz -cpuprofileevent taskClock -cpuprofileperiod 1000000
 *     go tool pprof -top x.pb.gz
 *
 * One profile contains the samples of all processes.
 */
#include <criterion/criterion.h>
#include <stdint.h>

#include "testing.h"

TestSuite(numbers, .init = cp_testing_child_start, .fini = cp_testing_child_stop);

/* The volatile variable forces a stack frame: gcc makes none for a function that does not need one. */
__attribute__((noinline)) static uint64_t power_mod(uint64_t base, uint64_t exponent, uint64_t modulus)
{
    volatile uint64_t power = 1;

    for (; exponent > 0; exponent--)
        power = power * base % modulus;
    return power;
}

__attribute__((noinline)) static uint64_t fibonacci_mod(uint64_t n, uint64_t modulus)
{
    volatile uint64_t a = 0, b = 1;

    for (; n > 0; n--) {
        uint64_t sum = (a + b) % modulus;

        a = b;
        b = sum;
    }
    return a;
}

/* Fermat's little theorem. */
Test(numbers, powers)
{
    cr_assert_eq(power_mod(3, 40000002, 40000003), 1);
}

/* The Fibonacci numbers modulo 10^9 repeat after 1 500 000 000 of them, modulo 10^7 after 15 000 000. */
Test(numbers, fibonacci)
{
    cr_assert_eq(fibonacci_mod(30000000, 10000000), 0);
}

int main(int argc, char **argv)
{
    struct criterion_test_set *tests;
    int failed = 0;

    cp_testing_start(&argc, argv);
    tests = criterion_initialize();
    if (criterion_handle_args(argc, argv, true))
        failed = !criterion_run_all_tests(tests);
    criterion_finalize(tests);
    return cp_testing_stop() != 0 || failed != 0;
}
