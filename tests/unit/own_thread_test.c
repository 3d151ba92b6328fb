/* Threads of the library's own, and what the child of a fork knows of them. */
#include <stdio.h>
#include <unistd.h>

#include "runtime/base/thread.h"
#include "tests/support/patience.h"
#include "tests/support/test.h"

static void *fork_here(void *child)
{
    *(pid_t *)child = fork();
    return NULL;
}

/* A callback of the program's may do so. The child's only thread is the one that forked, so the child ends
 * with it. */
CP_TEST(a_child_ends_with_the_thread_that_forked)
{
    pid_t child = -1;

    if (TEST_TSAN)
        SKIP("ThreadSanitizer has forgotten the thread when the C library runs the functions of atexit() on "
             "it");
    if (TEST_ASAN)
        SKIP("LeakSanitizer does not look at the stack of main() in the child, whose thread is another one");
    fflush(NULL);
    CHECK_EQ(cp__thread_run(fork_here, &child), 0);
    await_child(child);
}
