/* Watches and forks of programs with fork handlers and threads of their own. */
#include <pthread.h>
#include <stdio.h>
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

enum { PAGES = 50 };
typedef volatile char page[4096];

static void touch(page *pages)
{
    for (int i = 0; i < PAGES; i++)
        pages[i][0] = 1;
}

/* ---- Fork handlers --------------------------------------------------------------------------- */

static struct cp_watch *watch;
static struct cp_watch_round open_round;
static page before[PAGES] __attribute__((aligned(4096)));
static page in_prepare[PAGES] __attribute__((aligned(4096)));
static page in_child[PAGES] __attribute__((aligned(4096)));

static void pass_round(page *pages)
{
    struct cp_watch_round round;

    if (cp_watch_begin(watch, &round) != 0)
        return;
    touch(pages);
    cp_watch_end(&round);
}

static void prepare(void)
{
    if (watch == NULL)
        return;
    pass_round(in_prepare);
    cp_watch_end(&open_round);
}

static void child(void)
{
    if (watch != NULL)
        pass_round(in_child);
}

/* The program registers its handlers before it opens a watch. */
CP_TEST(rounds_in_fork_handlers_count_what_they_should)
{
    struct cp_m *m = attach_m();
    struct found found;
    pid_t pid;

    if (TEST_TSAN)
        SKIP("ThreadSanitizer's own pages are faults, too");
    test_need_events();
    CHECK_EQ(pthread_atfork(prepare, NULL, child), 0);
    watch = open_watch("handlers", "pageFaults");
    CHECK_EQ(cp_watch_begin(watch, &open_round), 0);
    touch(before);
    pid = fork();
    if (pid == 0) {
        found = find_row(watch, "pageFaults");
        if (state_of_watch(watch).partial != 0)
            _exit(2);
        _exit(found.count == 1 && found.sum >= PAGES && found.sum < 2 * PAGES ? 0 : 3);
    }
    found = find_row(watch, "pageFaults");
    CHECK_EQ(found.count, 2);
    CHECKF(found.min >= PAGES && found.min < 2 * PAGES, "%.0f faults", found.min);
    CHECKF(found.max >= 2 * PAGES && found.max < 3 * PAGES, "%.0f faults", found.max);
    wait_for(pid);
    cp_watch_close(watch);
    watch = NULL;
    cp_m_detach(m);
}

/* ---- Threads that are not there in the child --------------------------------------------------- */

static int count_descriptors_of_events(void)
{
    char path[32], name[32];
    int n = 0;

    for (int fd = 3; fd < 1024; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        n += readlink(path, name, sizeof name) > 11 && memcmp(name, "anon_inode:", 11) == 0 &&
             memcmp(name + 11, "[perf_event]", 12) == 0;
    }
    return n;
}

static pthread_barrier_t begun, forked;

static void *have_round(void *arg)
{
    struct cp_m *m = attach_m();

    CP_WATCH(arg)
    {
        pthread_barrier_wait(&begun);
        pthread_barrier_wait(&forked);
    }
    cp_m_detach(m);
    return NULL;
}

/* An event that a child holds open goes on to count on the parent's thread, even if the parent closes it. */
CP_TEST(a_child_keeps_no_events_of_other_threads)
{
    struct cp_watch *events;
    pthread_t thread;
    pid_t pid;

    test_need_events();
    events = open_watch("events", "pageFaults");
    pthread_barrier_init(&begun, NULL, 2);
    pthread_barrier_init(&forked, NULL, 2);
    CHECK_EQ(pthread_create(&thread, NULL, have_round, events), 0);
    pthread_barrier_wait(&begun);
    CHECK_EQ(count_descriptors_of_events(), 1);
    pid = fork();
    if (pid == 0) {
        struct cp_m *m;

        if (count_descriptors_of_events() != 0)
            _exit(2);
        _exit(cp_m_attach(&m, NULL) == 0 ? 0 : 3);
    }
    pthread_barrier_wait(&forked);
    pthread_join(thread, NULL);
    wait_for(pid);
    cp_watch_close(events);
}
