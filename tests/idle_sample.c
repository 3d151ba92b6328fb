/* A program whose tests may be idle for a second: see runner_end_test.c. */
#include <unistd.h>

#include "testing/testing.h"

/* What all of its processes do is wait. */
CP_TEST(waits)
{
    fork();
    for (;;)
        pause();
}

/* Far longer than a second, with something to do in each. */
CP_TEST(works_a_little)
{
    for (int tenths = 0; tenths < 20; tenths++) {
        for (volatile int i = 0; i < 5000000; i++)
            continue;
        usleep(100000);
    }
}

int main(int argc, char **argv)
{
    const struct cp_test_main_options options = {.size = sizeof(options), .idle_s = 1};

    return cp_test_main(argc, argv, &options);
}
