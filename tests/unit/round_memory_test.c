/* Rounds on Ms that get no memory. */
#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/stopwatch.h"

#if TEST_ASAN || TEST_TSAN

CP_TEST(rounds_without_memory)
{
    SKIP("A sanitizer has the allocator that these tests take the place of.");
}

#else

#include "tests/support/failing_memory.h"

enum { ALL = 1000000 };

static struct cp_watch *watch;
static struct cp_watch_round round_of_g;
static struct cp_g g;

static void begin_in_g(const char *quantities)
{
    struct cp_m *m = attach_m();

    watch = open_watch("memory", quantities);
    cp_g_init(&g, NULL, NULL, NULL);
    cp_execute(m, &g);
    CHECK_EQ(cp_watch_begin(watch, &round_of_g), 0);
    cp_execute(m, NULL);
    cp_m_detach(m);
}

static void end_all(void)
{
    cp_g_fini(&g);
    cp_watch_close(watch);
}

/* Runs the body on an M that has begun no rounds yet. */
static void run_on_new_m(void *(*body)(void *m))
{
    struct cp_m *m = attach_m();

    body(m);
    cp_execute(m, NULL);
    cp_m_detach(m);
}

static void *end_without_memory(void *m)
{
    cp_execute(m, &g);
    fail_calls(1, ALL);
    CHECK_EQ(cp_watch_end(&round_of_g), -ENOMEM);
    CHECK(have_failed());
    return NULL;
}

CP_TEST(a_round_that_ends_without_memory_is_lost)
{
    struct cp_watch_state state;

    begin_in_g(NULL);
    run_on_new_m(end_without_memory);
    state = state_of_watch(watch);
    CHECK_EQ(state.lost, 1);
    CHECK_EQ(state.refused, 0);
    CHECK_EQ(state.open, 0);
    end_all();
}

static void *drop_without_memory(void *m)
{
    cp_execute(m, &g);
    fail_calls(1, ALL);
    cp_watch_drop(&round_of_g);
    CHECK(have_failed());
    return NULL;
}

CP_TEST(a_round_is_dropped_without_memory)
{
    struct cp_watch_state state;

    begin_in_g(NULL);
    run_on_new_m(drop_without_memory);
    state = state_of_watch(watch);
    CHECK_EQ(state.dropped, 1);
    CHECK_EQ(state.lost, 0);
    CHECK_EQ(state.open, 0);
    end_all();
}

/* Forks while the G's counts have no place on the M. */
static void *go_on_without_memory(void *m)
{
    int status;
    pid_t pid;

    fail_calls(1, ALL);
    cp_execute(m, &g);
    CHECK(have_failed());
    pid = fork();
    if (pid == 0)
        _exit(0);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    CHECK_EQ(cp_watch_end(&round_of_g), 0);
    return NULL;
}

CP_TEST(a_round_whose_m_has_no_memory_is_partial)
{
    begin_in_g("cpuTime");
    run_on_new_m(go_on_without_memory);
    CHECK_EQ(state_of_watch(watch).partial, 1);
    CHECK_EQ(find_row_of(watch, "time", NULL, CP_WATCH_PARENT).count, 1);
    CHECK_EQ(find_row_of(watch, "cpuTime", NULL, CP_WATCH_PARENT).count, 0);
    end_all();
}

CP_TEST(a_begin_fails_as_a_whole)
{
    unsigned refused = 0;

    watch = open_watch("memory", "cpuTime");
    for (unsigned n = 1;; n++) {
        struct cp_m *m = attach_m();
        struct cp_watch_round round;
        int result;

        fail_calls(n, n);
        result = cp_watch_begin(watch, &round);
        refused += result == -ENOMEM;
        CHECK(result == 0 || result == -ENOMEM);
        if (!have_failed() && result == 0)
            n = 0;
        CHECK_EQ(cp_watch_end(&round), 0);
        cp_m_detach(m);
        if (n == 0)
            break;
    }
    CHECK(refused > 0);
    CHECK_EQ(state_of_watch(watch).refused, refused);
    CHECK_EQ(state_of_watch(watch).open, 0);
    cp_watch_close(watch);
}

#endif
