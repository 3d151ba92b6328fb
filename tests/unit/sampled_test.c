/* How long the rounds took in which samples were taken. */
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/rounds.h"
#include "runtime/watch/round.h"
#include "runtime/watch/sampled.h"
#include "tests/support/stopwatch.h"

static uint64_t round_of(uint64_t watch, uint64_t id)
{
    return watch << CP__ROUND_ID_BITS | id;
}

CP_TEST(a_round_that_has_ended_is_found)
{
    uint64_t ns = 77;

    CHECK(!cp__sampled_find(0, &ns));
    CHECK(!cp__sampled_find(round_of(1, 5), &ns));
    CHECK_EQ(ns, 77);
    cp__sampled_ended(round_of(1, 5), 1000);
    cp__sampled_ended(round_of(2, 6), 0);
    CHECK(cp__sampled_find(round_of(1, 5), &ns));
    CHECK_EQ(ns, 1000);
    CHECK(cp__sampled_find(round_of(2, 6), &ns));
    CHECK_EQ(ns, 1); /* no round takes no time */
    CHECK(!cp__sampled_find(round_of(2, 5), &ns));
    CHECK(!cp__sampled_find(round_of(1, 5 + CP__SAMPLED), &ns));
}

CP_TEST(the_last_rounds_are_kept)
{
    const uint64_t first = CP__SAMPLED / 3 + 1, n = 3 * CP__SAMPLED;
    uint64_t ns = 0;

    for (uint64_t id = first; id < first + n; id++)
        cp__sampled_ended(round_of(id % 7 + 1, id), id);
    for (uint64_t id = first; id < first + n; id++) {
        CHECK_EQ(cp__sampled_find(round_of(id % 7 + 1, id), &ns), id >= first + n - CP__SAMPLED);
        CHECK(ns == id || id < first + n - CP__SAMPLED);
    }
}

/* The child's only thread takes the lock that another thread may have had. */
CP_TEST(a_child_begins_without_rounds)
{
    uint64_t ns;
    int status;
    pid_t pid;

    cp__rounds_prepare();
    for (uint64_t id = 1; id < 3; id++)
        cp__sampled_ended(round_of(1, id * CP__SAMPLED + 9), 1000);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        const bool is_empty = !cp__sampled_find(round_of(1, 2 * CP__SAMPLED + 9), &ns);

        cp__sampled_ended(round_of(1, 8), 1);
        _exit(is_empty && cp__sampled_find(round_of(1, 8), &ns) ? 0 : 1);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    CHECK(cp__sampled_find(round_of(1, 2 * CP__SAMPLED + 9), &ns));
    CHECK(!cp__sampled_find(round_of(1, 8), &ns));
}

/* No fork handler runs in a child of clone(2). Its first round makes it forget. */
CP_TEST(a_child_of_clone_begins_with_an_empty_table_too)
{
    struct cp_m *m = attach_m();
    struct cp_watch *watch = open_watch("clone", NULL);
    uint64_t ns;
    int status;
    pid_t pid;

    cp__sampled_ended(round_of(1, 7), 1000);
    pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    CHECK(pid >= 0);
    if (pid == 0) {
        CP_WATCH(watch)
        {
        }
        _exit(cp__sampled_find(round_of(1, 7), &ns));
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    CHECK(cp__sampled_find(round_of(1, 7), &ns));
    cp_watch_close(watch);
    cp_m_detach(m);
}
