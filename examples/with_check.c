/*
 * Tests with Check, which forks a process for each test (with CK_FORK=no: for none), and the profile's flags:
 *
 *     build/examples/with_check -cpuprofile x.pb.gz -cpuprofileevent taskClock -cpuprofileperiod 1000000
 *     go tool pprof -top x.pb.gz
 *
 * One profile contains the samples of all processes.
 */
#include <check.h>
#include <stdint.h>
#include <stdlib.h>

#include "testing.h"

/* The volatile variable forces a stack frame: gcc makes none for a function that does not need one. */
__attribute__((noinline)) static unsigned count_divisors(unsigned n)
{
    volatile unsigned count = 0;

    for (unsigned i = 1; i <= n; i++)
        count = count + (n % i == 0);
    return count;
}

__attribute__((noinline)) static uint64_t sum_of_squares(uint64_t n)
{
    volatile uint64_t sum = 0;

    for (uint64_t i = 1; i <= n; i++)
        sum = sum + i * i;
    return sum;
}

START_TEST(divisors)
{
    ck_assert_uint_eq(count_divisors(100000000), 81);
}
END_TEST

START_TEST(squares)
{
    const uint64_t n = 100000000;

    ck_assert_uint_eq(sum_of_squares(n) % 1000000007, n * (n + 1) / 2 * (2 * n + 1) / 3 % 1000000007);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("numbers");
    TCase *tests = tcase_create("slow ones");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, cp_testing_child_start, cp_testing_child_stop);
    tcase_add_test(tests, divisors);
    tcase_add_test(tests, squares);
    suite_add_tcase(suite, tests);

    cp_testing_start(&argc, argv);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return cp_testing_stop() != 0 || failed != 0;
}
