/*
 * How processes are ended that a test has started: first their events are taken, and what does not end is
 * named. The events are clocks with a period of a second and no signal, which leave their threads all
 * their time.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "atomic.h"
#include "testing/disarm.h"
#include "testing/end.h"
#include "tests/support/clock.h"
#include "tests/support/test.h"

/* What a child shows of itself. */
struct shown {
    uint64_t count;  /* of its event, in ns */
    uint32_t rounds; /* how often it has read the count */
    uint32_t others; /* processes that it has started */
};

static struct shown *shown;

static int open_clock(void)
{
    struct perf_event_attr attr = {.size = sizeof attr,
                                   .type = PERF_TYPE_SOFTWARE,
                                   .config = PERF_COUNT_SW_TASK_CLOCK,
                                   .sample_period = 1000000000,
                                   .exclude_kernel = 1};

    return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* Runs under a clock, and shows what the clock has counted. */
static void run_under_clock(void)
{
    int fd = open_clock();
    uint64_t count = 0;

    for (; fd >= 0 && read(fd, &count, sizeof count) == sizeof count;) {
        cp_store_relaxed(&shown->count, count); /* relaxed: whoever reads the count only compares it */
        cp_store_release(&shown->rounds, cp_load_relaxed(&shown->rounds) + 1); /* pairs with await_rounds() */
    }
    _exit(1);
}

static void await_rounds(uint32_t n)
{
    for (n += cp_load_acquire(&shown->rounds);
         cp_load_acquire(&shown->rounds) < n;) /* pairs with run_under_clock() */
        usleep(1000);
}

/* Returns whether the child's clock stands still while the child runs. */
static bool is_disarmed(void)
{
    uint64_t before;

    await_rounds(2); /* the count that a round shows may have been read before */
    before = cp_load_relaxed(&shown->count);
    await_rounds(10);
    return cp_load_relaxed(&shown->count) == before;
}

/* Starts a child, which leads a process group and does not end by SIGTERM. */
static pid_t start(void (*body)(void))
{
    pid_t pid;

    test_need_events();
    shown = mmap(NULL, sizeof *shown, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shown != MAP_FAILED);
    pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        signal(SIGTERM, SIG_IGN);
        body();
        _exit(0);
    }
    setpgid(pid, pid);
    return pid;
}

/* Disarms the child, and checks that the child is disarmed and alive. Ends it. */
static void check_disarm(pid_t pid)
{
    struct cp__ending ending = {.child = pid, .patience_s = 10};

    await_rounds(10);
    CHECK(!is_disarmed());
    CHECK_STR(cp__end_disarm(&ending), NULL);
    CHECK(is_disarmed());
    CHECK(cp__end(&ending) == NULL);
    CHECK(ending.is_reaped);
}

CP_TEST(the_events_of_another_process_are_taken)
{
    check_disarm(start(run_under_clock));
}

static void *run_after_first_thread(void *arg)
{
    char path[64], state = 0;

    while (state != 'Z') {
        FILE *file;

        snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)getpid());
        file = fopen(path, "re");
        if (file == NULL || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
            _exit(1);
        fclose(file);
    }
    run_under_clock();
    return arg;
}

static void leave_to_second_thread(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, run_after_first_thread, NULL) == 0)
        pthread_exit(NULL);
}

/* A process that is killed while one of its threads starves has a first thread that has ended. */
CP_TEST(the_events_of_a_process_without_its_first_thread_are_taken)
{
    int pidfd = (int)syscall(SYS_pidfd_open, getpid(), O_EXCL);

    if (pidfd < 0)
        SKIP("the kernel has no descriptors of threads (Linux 6.9)");
    close(pidfd);
    if (TEST_TSAN)
        SKIP("ThreadSanitizer lets a process that was forked from one with threads start none");
    check_disarm(start(leave_to_second_thread));
}

/* How pidfd_getfd() is not like Linux's: some containers refuse it, and it waits for a lock that a thread may
 * hold. */
static bool is_refused, is_waiting;

/* The runner's calls come here, not to the C library. */
int pidfd_getfd(int pidfd, int fd, unsigned flags);
int pidfd_getfd(int pidfd, int fd, unsigned flags)
{
    if (is_refused || getenv("END_SAMPLES") != NULL) {
        errno = EPERM;
        return -1;
    }
    if (is_waiting)
        usleep(60000000);
    return (int)syscall(SYS_pidfd_getfd, pidfd, fd, flags);
}

CP_TEST(events_that_cannot_be_taken_are_told)
{
    struct cp__ending ending = {.child = start(run_under_clock), .patience_s = 10};
    char line[200], *refused;

    await_rounds(10);
    is_refused = true;
    refused = cp__end_disarm(&ending);
    is_refused = false;
    snprintf(line, sizeof line,
             "The perf events of process %d (end_test) could not be taken: this user may not reach its "
             "descriptors (pidfd_getfd: Operation not permitted).\n",
             (int)ending.child);
    CHECK_STR(refused, line);
    CHECK(!ending.is_late && !is_disarmed());
    CHECK(cp__end(&ending) == NULL);
    free(refused);
}

CP_TEST(events_that_cannot_be_reached_hold_nothing_up)
{
    struct cp__ending ending = {.child = start(run_under_clock), .patience_s = 0.5};
    char *refused;

    await_rounds(10);
    is_waiting = true;
    refused = cp__end_disarm(&ending);
    CHECK_STR(refused,
              "Perf events could not be taken within 0.25 s: a thread holds what the kernel needs for "
              "that.\n");
    CHECK(ending.is_late);
    CHECK_STR(cp__end_disarm(&ending), NULL);
    ending.patience_s = 10;
    CHECK(cp__end(&ending) == NULL);
    CHECK(ending.is_reaped);
    free(refused);
}

static void sample_hangs(struct cp_t *t)
{
    (void)t;
    shown = mmap(NULL, sizeof *shown, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    run_under_clock();
}

static struct cp_test_case sample = {.name = "sample_hangs", .run = sample_hangs, .timeout_s = 1};

__attribute__((constructor)) static void add_sample(void)
{
    if (getenv("END_SAMPLES") != NULL)
        cp_test_add(&sample);
}

/* This program runs itself, and pidfd_getfd() is refused there. */
CP_TEST(a_report_tells_whose_events_could_not_be_taken)
{
    int status;
    char *output;

    test_need_events();
    output = test_command(&status, "END_SAMPLES=1 %s/tests/end_test -run sample_hangs", test_build_dir());
    CHECK_EQ(status, 1);
    CHECK_CONTAINS(output, "panic: the test timed out after 1 s\nThe perf events of process ");
    CHECK_CONTAINS(output, " (end_test) could not be taken: this user may not reach ");
    CHECK_CONTAINS(output, "\n    sample_hangs\n");
    free(output);
}

/* ---- The end --------------------------------------------------------------------------------- */

static pid_t watched;       /* the child for whose signals kill() looks */
static int signals_seen[2]; /* the first two of them that differ */
static bool was_armed;      /* when the first one was sent */

/* The runner's calls come here, not to the C library. */
int kill(pid_t pid, int signal_number)
{
    if (watched != 0 && (pid == watched || pid == -watched)) {
        if (signals_seen[0] == 0) {
            signals_seen[0] = signal_number;
            was_armed = !is_disarmed();
        } else if (signals_seen[1] == 0 && signal_number != signals_seen[0])
            signals_seen[1] = signal_number;
    }
    return (int)syscall(SYS_kill, pid, signal_number);
}

/* Checks which signals a child gets that ignores SIGTERM, and that its events have been taken before. */
static void check_signals(double ask_s, int first, int second)
{
    struct cp__ending ending = {.child = start(run_under_clock), .ask_s = ask_s, .patience_s = 10};

    await_rounds(10);
    watched = ending.child;
    signals_seen[0] = signals_seen[1] = 0;
    CHECK(cp__end(&ending) == NULL);
    CHECK(!was_armed);
    CHECK_EQ(signals_seen[0], first);
    CHECK_EQ(signals_seen[1], second);
    CHECK(ending.is_reaped && WIFSIGNALED(ending.status) && WTERMSIG(ending.status) == SIGKILL);
}

CP_TEST(events_are_taken_before_the_first_signal)
{
    check_signals(0, SIGKILL, 0);
    check_signals(0.1, SIGTERM, SIGKILL);
}

static void leave_from_handler(int signal_number)
{
    _exit(signal_number);
}

static void leave_if_asked(void)
{
    signal(SIGTERM, leave_from_handler);
    cp_store_release(&shown->rounds, 1); /* pairs with the acquire of the test */
    for (;;)
        pause();
}

CP_TEST(who_ends_if_asked_is_not_killed)
{
    struct cp__ending ending = {.child = start(leave_if_asked), .ask_s = 60, .patience_s = 10};

    while (cp_load_acquire(&shown->rounds) == 0) /* pairs with the release in leave_if_asked() */
        usleep(1000);
    CHECK(cp__end(&ending) == NULL);
    CHECK(ending.is_reaped && WIFEXITED(ending.status) && WEXITSTATUS(ending.status) == SIGTERM);
}

/* Starts a process in a group of its own, whose parent then ends. */
static void leave_a_daemon(void)
{
    if (fork() == 0) {
        setsid();
        prctl(PR_SET_NAME, "a) S 1 (b");                      /* as a program may be called */
        alarm(20);                                            /* ends the process if nothing else does */
        cp_store_release(&shown->others, (uint32_t)getpid()); /* pairs with the acquire of the test */
        for (;;)
            pause();
    }
    while (cp_load_acquire(&shown->others) == 0) /* pairs with the release above */
        usleep(1000);
}

CP_TEST(what_has_left_the_group_ends_too)
{
    struct cp__ending ending = {.patience_s = 10};

    cp__end_adopt();
    ending.child = start(leave_a_daemon);
    while (cp_load_acquire(&shown->others) == 0) /* pairs with the release in leave_a_daemon() */
        usleep(1000);
    CHECK(cp__end(&ending) == NULL);
    CHECK(ending.is_reaped);
    CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1);
    CHECK_EQ(syscall(SYS_kill, shown->others, 0), -1);
    cp__end_release();
}

static void *stay(void *arg)
{
    cp_store_release(&shown->others, (uint32_t)getpid()); /* pairs with the acquire of the test */
    for (;;)
        pause();
    return arg;
}

/* The first thread of the process ends before the process does. */
static void leave_a_second_thread(void)
{
    pthread_t thread;

    if (fork() == 0) {
        setsid();
        alarm(20); /* ends the process if nothing else does */
        if (pthread_create(&thread, NULL, stay, NULL) == 0)
            pthread_exit(NULL);
        _exit(1);
    }
    while (cp_load_acquire(&shown->others) == 0) /* pairs with the release in stay() */
        usleep(1000);
}

/* In /proc, such a process looks like one that has ended. */
CP_TEST(what_has_lost_its_first_thread_ends_too)
{
    struct cp__ending ending = {.patience_s = 10};
    char path[40], state = 0;

    if (TEST_TSAN)
        SKIP("ThreadSanitizer lets a process that was forked from one with threads start none");
    cp__end_adopt();
    ending.child = start(leave_a_second_thread);
    while (cp_load_acquire(&shown->others) == 0) /* pairs with the release in stay() */
        usleep(1000);
    snprintf(path, sizeof path, "/proc/%u/stat", shown->others);
    for (int naps = 0; state != 'Z'; naps++) {
        FILE *file = fopen(path, "re");

        CHECK(file != NULL && fscanf(file, "%*d (%*[^)]) %c", &state) == 1 && naps < 10000);
        fclose(file);
        usleep(1000);
    }
    CHECK(cp__end(&ending) == NULL);
    CHECK_EQ(syscall(SYS_kill, shown->others, 0), -1);
    cp__end_release();
}

static void wait_for_ever(void)
{
    for (;;)
        pause();
}

/* A process that has been killed stays for as long as its tracer does not take its exit status. */
CP_TEST(what_does_not_end_is_named)
{
    struct cp__ending ending = {.child = start(wait_for_ever), .patience_s = 0.2};
    int ready[2];
    char byte = 0, line[200], *left;
    pid_t tracer;

    cp__end_release(); /* the runner's own adopting: the tracer would be ended, too */
    CHECK_EQ(pipe(ready), 0);
    tracer = fork();
    if (tracer == 0) {
        if (ptrace(PTRACE_SEIZE, ending.child, NULL, NULL) < 0)
            _exit(1);
        CHECK_EQ(write(ready[1], "", 1), 1);
        wait_for_ever();
    }
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1) {
        CHECK(cp__end(&ending) == NULL);
        SKIP("this machine lets no process trace another");
    }
    left = cp__end(&ending);
    CHECK(left != NULL && !ending.is_reaped);
    snprintf(line, sizeof line,
             "thread %d (%s) of process %d has ended, and nobody has taken its exit status\n",
             (int)ending.child, "end_test", (int)ending.child);
    CHECK_STR(left, line);
    free(left);
    kill(tracer, SIGKILL);
    waitpid(tracer, NULL, 0);
    ending.patience_s = 10;
    CHECK(cp__end(&ending) == NULL);
    CHECK(ending.is_reaped);
}
