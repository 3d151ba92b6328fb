/* A program whose tests may be idle for a second: see runner_end_test.c. */
#include <sys/wait.h>
#include <unistd.h>

#include "testing.h"

/* All processes of this test only wait. */
CP_TEST(waits)
{
    fork();
    for (;;)
        pause();
}

/* Works in a child that has a process group of its own. */
static void work_a_little(void)
{
    for (int tenths = 0; tenths < 20; tenths++) {
        for (volatile int i = 0; i < 5000000; i++)
            continue;
        usleep(100000);
    }
}

/* Takes far longer than a second, but works a little in each. */
CP_TEST(works_a_little)
{
    pid_t child = fork();

    if (child == 0) {
        setpgid(0, 0);
        work_a_little();
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
    const struct cp_test_main_options options = {.size = sizeof(options), .idle_s = 1};

    return cp_test_main(argc, argv, &options);
}
