/* Tests of runner_sample that hang in ways in which no instruction of their own is executed any more. */
#include "runner_sample.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

/* The parent of vfork() waits in the kernel until the child calls execve() or ends. No signal but
 * SIGKILL ends that, and nobody can look at the stack meanwhile. */
CP_TEST(hang_in_vfork, .timeout_s = 1)
{
    if (vfork() == 0) {
        alarm(12); /* ends the process if nothing else does */
        for (;;)
            pause();
    }
}

/* Goes on after its limit of CPU time. */
CP_TEST(hang_beyond_limit)
{
    setrlimit(RLIMIT_CPU, &(struct rlimit){1, 10});
    signal(SIGXCPU, SIG_IGN);
    for (;;)
        continue;
}
