/* Watches and forks: both sides of a round are told apart, and a child begins with nothing. */
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/stopwatch.h"

/* Runs in the child, whose exit status says whether the checks passed. */
static void wait_for(pid_t pid)
{
    int status;

    CHECK(pid > 0);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECKF(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned)status);
}

static bool has(const struct cp_watch *watch, enum cp_watch_side side, uint64_t n)
{
    return find_row_of(watch, "time", NULL, side).count == n &&
           find_row_of(watch, "cpuTime", NULL, side).count == n;
}

CP_TEST(both_sides_of_a_fork_are_told_apart)
{
    struct cp_m *m = attach_m();
    struct cp_watch *watch = open_watch("fork", "cpuTime");
    struct cp_watch_round round;
    pid_t pid;

    CP_WATCH(watch)
    {
    }
    CHECK_EQ(cp_watch_begin(watch, &round), 0);
    pid = fork();
    CHECK_EQ(cp_watch_end(&round), 0);
    CP_WATCH(watch)
    {
    }
    if (pid == 0)
        _exit(!(has(watch, CP_WATCH_CHILD, 1) && has(watch, CP_WATCH_UNFORKED, 1) &&
                has(watch, CP_WATCH_PARENT, 0)));
    CHECK(has(watch, CP_WATCH_PARENT, 1));
    CHECK(has(watch, CP_WATCH_UNFORKED, 2));
    CHECK(has(watch, CP_WATCH_CHILD, 0));
    wait_for(pid);
    cp_watch_close(watch);
    cp_m_detach(m);
}

enum { PAGES = 50 };

static void touch(volatile char (*pages)[4096])
{
    for (int i = 0; i < PAGES; i++)
        pages[i][0] = 1;
}

/* An event is opened anew in the child, and what it counts there goes on from what it had counted. */
CP_TEST(a_child_counts_events_of_its_own)
{
    static volatile char before[PAGES][4096] __attribute__((aligned(4096)));
    static volatile char after[PAGES][4096] __attribute__((aligned(4096)));
    struct cp_m *m = attach_m();
    struct cp_watch *watch;
    struct cp_watch_round round;
    pid_t pid;

    test_need_events();
    watch = open_watch("fork", "pageFaults");
    CHECK_EQ(cp_watch_begin(watch, &round), 0);
    touch(before);
    pid = fork();
    if (pid == 0) {
        struct found found;

        touch(after);
        if (cp_watch_end(&round) != 0)
            _exit(2);
        found = find_row_of(watch, "pageFaults", NULL, CP_WATCH_CHILD);
        _exit(found.count == 1 && found.sum >= 2 * PAGES ? 0 : 3);
    }
    CHECK_EQ(cp_watch_end(&round), 0);
    CHECK(find_row_of(watch, "pageFaults", NULL, CP_WATCH_PARENT).sum >= PAGES);
    CHECK_EQ(state_of_watch(watch).partial, 0);
    wait_for(pid);
    cp_watch_close(watch);
    cp_m_detach(m);
}

/* A round of another thread's is not a round of the child. */
struct other {
    struct cp_watch *watch;
    pthread_barrier_t begun, forked;
};

static void *round_of_other(void *arg)
{
    struct other *other = arg;
    struct cp_m *m = attach_m();
    struct cp_watch_round round;

    CHECK_EQ(cp_watch_begin(other->watch, &round), 0);
    pthread_barrier_wait(&other->begun);
    pthread_barrier_wait(&other->forked);
    CHECK_EQ(cp_watch_end(&round), 0);
    cp_m_detach(m);
    return NULL;
}

CP_TEST(rounds_of_other_threads_stay_in_the_parent)
{
    struct cp_m *m = attach_m();
    struct other other = {.watch = open_watch("other", "cpuTime")};
    pthread_t thread;
    pid_t pid;

    pthread_barrier_init(&other.begun, NULL, 2);
    pthread_barrier_init(&other.forked, NULL, 2);
    CHECK_EQ(pthread_create(&thread, NULL, round_of_other, &other), 0);
    pthread_barrier_wait(&other.begun);
    pid = fork();
    if (pid == 0) {
        const struct cp_watch_state state = state_of_watch(other.watch);

        CP_WATCH(other.watch)
        {
        }
        _exit(!(state.open == 0 && has(other.watch, CP_WATCH_UNFORKED, 1)));
    }
    pthread_barrier_wait(&other.forked);
    pthread_join(thread, NULL);
    CHECK(has(other.watch, CP_WATCH_UNFORKED, 1));
    CHECK(has(other.watch, CP_WATCH_PARENT, 0));
    wait_for(pid);
    cp_watch_close(other.watch);
    cp_m_detach(m);
}

/* The round that the fork splits has begun in the parent. */
CP_TEST(a_child_tells_which_of_its_rounds_are_open)
{
    struct cp_m *m = attach_m();
    struct cp_watch *watch = open_watch("open", NULL);
    struct cp_watch_round ended, dropped, begun;
    pid_t pid;

    CHECK_EQ(cp_watch_begin(watch, &ended), 0);
    CHECK_EQ(cp_watch_begin(watch, &dropped), 0);
    pid = fork();
    if (pid == 0) {
        CHECK_EQ(cp_watch_end(&ended), 0);
        cp_watch_drop(&dropped);
        CHECK_EQ(cp_watch_begin(watch, &begun), 0);
        if (state_of_watch(watch).open != 1)
            _exit(1);
        CHECK_EQ(cp_watch_end(&begun), 0);
        _exit(state_of_watch(watch).open == 0 && state_of_watch(watch).dropped == 1 ? 0 : 2);
    }
    CHECK_EQ(cp_watch_end(&ended), 0);
    CHECK_EQ(state_of_watch(watch).open, 1);
    cp_watch_drop(&dropped);
    CHECK_EQ(state_of_watch(watch).open, 0);
    wait_for(pid);
    cp_watch_close(watch);
    cp_m_detach(m);
}

/* A child of a child: the last fork decides. */
CP_TEST(a_child_may_be_a_parent)
{
    struct cp_m *m = attach_m();
    struct cp_watch *watch = open_watch("generations", "cpuTime");
    struct cp_watch_round round;
    pid_t pid = fork();

    if (pid == 0) {
        CHECK_EQ(cp_watch_begin(watch, &round), 0);
        pid = fork();
        CHECK_EQ(cp_watch_end(&round), 0);
        if (pid == 0)
            _exit(!has(watch, CP_WATCH_CHILD, 1));
        wait_for(pid);
        _exit(!has(watch, CP_WATCH_PARENT, 1));
    }
    wait_for(pid);
    cp_watch_close(watch);
    cp_m_detach(m);
}

/* No fork handler runs in a child that clone(2) has made. */
CP_TEST(a_child_of_clone_is_told_apart)
{
    struct cp_m *m = attach_m();
    struct cp_watch *watch = open_watch("clone", NULL);
    struct cp_watch_round round;
    pid_t pid;

    CP_WATCH(watch)
    {
    }
    CHECK_EQ(cp_watch_begin(watch, &round), 0);
    pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        struct cp_watch_snapshot *snapshot;
        struct found child = {.quantity = "time", .side = CP_WATCH_CHILD};
        struct found other = {.quantity = "time", .side = CP_WATCH_UNFORKED};

        if (cp_watch_end(&round) != 0 || cp_watch_take(&snapshot, watch, NULL) != 0)
            _exit(2);
        cp_watch_each(snapshot, look_at_row, &child);
        cp_watch_each(snapshot, look_at_row, &other);
        _exit(child.count == 1 && other.count == 0 ? 0 : 3);
    }
    CHECK_EQ(cp_watch_end(&round), 0);
    CHECK_EQ(find_row(watch, "time").count, 2); /* the parent cannot know */
    wait_for(pid);
    cp_watch_close(watch);
    cp_m_detach(m);
}

/* What was counted since the begin is the parent's, and nobody knows how much it was. */
CP_TEST(rounds_that_are_open_in_a_clone_are_partial_in_the_child)
{
    static volatile char before[PAGES][4096] __attribute__((aligned(4096)));
    struct cp_m *m = attach_m();
    struct cp_watch *watch;
    struct cp_watch_round outer, inner;
    pid_t pid;

    test_need_events();
    watch = open_watch("clone", "pageFaults");
    CHECK_EQ(cp_watch_begin(watch, &outer), 0);
    touch(before);
    CHECK_EQ(cp_watch_begin(watch, &inner), 0);
    pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        if (cp_watch_end(&inner) != 0 || cp_watch_end(&outer) != 0)
            _exit(2);
        if (state_of_watch(watch).partial != 2)
            _exit(3);
        _exit(find_row_of(watch, "pageFaults", NULL, CP_WATCH_CHILD).count == 0 ? 0 : 4);
    }
    CHECK_EQ(cp_watch_end(&inner), 0);
    CHECK_EQ(cp_watch_end(&outer), 0);
    CHECK_EQ(state_of_watch(watch).partial, 0);
    wait_for(pid);
    cp_watch_close(watch);
    cp_m_detach(m);
}

/* A G of a child of clone(2) has a round while another one touches pages; returns how many faults the round
 * has counted. */
static double count_beside_a_neighbour(struct cp_m *m, struct cp_watch *watch)
{
    static volatile char pages[PAGES][4096] __attribute__((aligned(4096)));
    static char stack[64];
    struct cp_watch_round round;
    struct cp_g counted, neighbour;
    struct found found;

    cp_g_init(&counted, stack, stack + sizeof stack, NULL);
    cp_g_init(&neighbour, stack, stack + sizeof stack, NULL);
    cp_execute(m, &counted);
    if (cp_watch_begin(watch, &round) != 0)
        _exit(2);
    cp_execute(m, &neighbour);
    touch(pages);
    cp_execute(m, &counted);
    if (cp_watch_end(&round) != 0)
        _exit(3);
    cp_execute(m, NULL);
    found = find_row(watch, "pageFaults");
    if (found.count != 1)
        _exit(4);
    return found.sum;
}

CP_TEST(gs_of_a_child_of_clone_count_nothing_of_their_neighbours)
{
    struct cp_m *m = attach_m();
    struct cp_watch *watch;
    pid_t pid;

    test_need_events();
    watch = open_watch("clone", "pageFaults");
    pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0)
        _exit(count_beside_a_neighbour(m, watch) < PAGES ? 0 : 1);
    wait_for(pid);
    cp_watch_close(watch);
    cp_m_detach(m);
}
