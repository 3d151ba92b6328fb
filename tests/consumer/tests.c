/* A program of tests. */
#include <counterpoint/testing.h>

CP_TEST(one, .timeout_s = 10)
{
    cp_t_log(t, "testing");
}

CP_TEST_MAIN()
