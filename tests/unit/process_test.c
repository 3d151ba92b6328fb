/* When the runner takes a process for one that its events leave no time. This program is linked with the
 * runner's file that is included here, and its own tests run by it. */
#include "testing/process.c"

#include "tests/support/test.h"

static void set_limit(struct process *p, rlim_t seconds)
{
    CHECK_EQ(prlimit(p->pid, RLIMIT_CPU, &(struct rlimit){seconds, RLIM_INFINITY}, NULL), 0);
    look_whether_starved(p);
    CHECK(!p->is_starved);
}

/* The kernel raises the limit by a second at each SIGXCPU, and a program may set its own limit. */
CP_TEST(the_limit_of_cpu_time_is_the_one_that_the_program_has_set)
{
    struct process p = {.pid = fork()};

    if (p.pid == 0) {
        alarm(30); /* ends the process if nothing else does */
        for (;;)
            pause();
    }
    CHECK(p.pid > 0);
    set_limit(&p, 100);
    CHECK_EQ(p.cpu_s, 100);
    set_limit(&p, 101);
    CHECK_EQ(p.cpu_s, 100);
    set_limit(&p, 159);
    CHECK_EQ(p.cpu_s, 100);
    set_limit(&p, 160);
    CHECK_EQ(p.cpu_s, 160);
    set_limit(&p, 50);
    CHECK_EQ(p.cpu_s, 50);
    set_limit(&p, RLIM_INFINITY);
    CHECK_EQ(p.cpu_s, 50);
    kill(p.pid, SIGKILL);
    CHECK_EQ(waitpid(p.pid, NULL, 0), p.pid);
}
