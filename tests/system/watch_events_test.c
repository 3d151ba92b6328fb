/* Watches whose events the program, or the system, takes away. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/stopwatch.h"

static bool is_event(int fd)
{
    static const char event[] = "anon_inode:[perf_event]";
    char path[32], name[sizeof event];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return readlink(path, name, sizeof name) == sizeof event - 1 &&
           memcmp(name, event, sizeof event - 1) == 0;
}

/* Returns how many descriptors of events the process has; with a descriptor, puts it in the place of each. */
static int count_events(int replacement)
{
    int n = 0;

    for (int fd = 3; fd < 1024; fd++) {
        if (!is_event(fd))
            continue;
        n++;
        if (replacement >= 0)
            CHECK_EQ(dup2(replacement, fd), fd);
    }
    return n;
}

CP_TEST(a_round_whose_event_was_closed_is_partial)
{
    struct cp_m *m = attach_m();
    struct cp_watch *watch;
    struct cp_watch_round round;
    char byte = 0;
    int ends[2];

    test_need_events();
    watch = open_watch("closed", "pageFaults");
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK_EQ(cp_watch_begin(watch, &round), 0);
    CHECK(count_events(ends[0]) >= 1);
    CHECK_EQ(cp_watch_end(&round), 0);
    CHECK_EQ(state_of_watch(watch).partial, 1);
    CHECK_EQ(find_row(watch, "time").count, 1);
    CHECK_EQ(find_row(watch, "pageFaults").count, 0);
    CHECK_EQ(read(ends[0], &byte, 1), 1); /* nobody has read what is the program's */
    CHECK_EQ(byte, 'x');

    CP_WATCH(watch)
    {
    } /* the event is opened again */
    CHECK_EQ(state_of_watch(watch).partial, 1);
    CHECK_EQ(find_row(watch, "pageFaults").count, 1);
    cp_watch_close(watch);
    cp_m_detach(m);
}

CP_TEST(a_begin_without_a_descriptor_is_refused)
{
    struct cp_m *m = attach_m();
    struct rlimit none;
    struct cp_watch *watch;
    struct cp_watch_round round;
    int spare[8], fd; /* for what looks at the process when it ends, as a sanitizer does */

    test_need_events();
    watch = open_watch("refused", "pageFaults");
    for (int i = 0; i < 8; i++)
        spare[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    close(fd);
    none = (struct rlimit){.rlim_cur = (rlim_t)fd, .rlim_max = (rlim_t)fd};
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    CHECK_EQ(cp_watch_begin(watch, &round), -EMFILE);
    CHECK_EQ(cp_watch_end(&round), 0);
    CHECK_EQ(state_of_watch(watch).refused, 1);
    CHECK_EQ(state_of_watch(watch).open, 0);
    cp_watch_close(watch);
    cp_m_detach(m);
    for (int i = 0; i < 8; i++)
        close(spare[i]);
}

CP_TEST(events_are_closed_when_no_watch_counts_them)
{
    struct cp_m *m = attach_m();
    struct cp_watch *watch;

    test_need_events();
    for (int i = 0; i < 40; i++) { /* more than can be counted at once */
        watch = open_watch("again", "pageFaults,minorFaults");
        CP_WATCH(watch)
        {
        }
        CHECK_EQ(count_events(-1), 2);
        cp_watch_close(watch);
        watch = open_watch("without events", "cpuTime");
        CP_WATCH(watch)
        {
        }
        CHECK_EQ(count_events(-1), 0);
        cp_watch_close(watch);
    }
    cp_m_detach(m);
}

CP_TEST(events_are_closed_with_their_m)
{
    struct cp_m *m = attach_m();
    struct cp_watch *watch;

    test_need_events();
    watch = open_watch("m", "pageFaults");
    CP_WATCH(watch)
    {
    }
    CHECK_EQ(count_events(-1), 1);
    cp_m_detach(m);
    CHECK_EQ(count_events(-1), 0);
    cp_watch_close(watch);
}

/* Nobody can end the round that longjmp() has left. */
CP_TEST(a_round_that_longjmp_has_left_harms_no_other_watch)
{
    struct cp_m *m = attach_m();
    struct cp_watch *watch;
    jmp_buf place;

    test_need_events();
    watch = open_watch("left", "pageFaults");
    if (setjmp(place) == 0) {
        CP_WATCH(watch)
        {
            longjmp(place, 1);
        }
    }
    cp_watch_close(watch);
    watch = open_watch("others", "minorFaults");
    CP_WATCH(watch)
    {
    }
    CHECK_EQ(state_of_watch(watch).partial, 0);
    CHECK_EQ(find_row(watch, "minorFaults").count, 1);
    cp_watch_close(watch);
    cp_m_detach(m);
}

static void *vanish(void *watch)
{
    attach_m();
    CP_WATCH(watch)
    {
    }
    syscall(SYS_exit, 0);
    return NULL;
}

/* The thread runs no code at its end. The next start of a profile finds that it is gone. */
CP_TEST(events_of_a_thread_that_ends_by_a_system_call_are_closed)
{
    struct cp_watch *watch;
    pthread_t thread;

    if (TEST_ASAN || TEST_TSAN)
        SKIP("a sanitizer waits for the end of a thread that has not told it");
    test_need_events();
    watch = open_watch("gone", "pageFaults");
    CHECK_EQ(pthread_create(&thread, NULL, vanish, watch), 0);
    pthread_join(thread, NULL);
    CHECK_EQ(count_events(-1), 1);
    CHECK_EQ(cp_set_cpu_profile_rate(100, NULL), 0);
    CHECK_EQ(cp_set_cpu_profile_rate(0, NULL), 0);
    CHECK_EQ(count_events(-1), 0);
    cp_watch_close(watch);
}
