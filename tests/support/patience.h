/*
 * Waiting for other threads and for children, with an end. On a busy machine each look takes longer, and so
 * does what is waited for, so the number of looks is limited. If a CPU is lost to a thread that its events
 * leave no time, a look may take milliseconds, and what is waited for may never come, so the time is limited,
 * too. A test that gives up says what its threads did meanwhile, how long they waited for a CPU, and who used
 * the CPUs.
 */
#ifndef COUNTERPOINT_TESTS_PATIENCE_H
#define COUNTERPOINT_TESTS_PATIENCE_H

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "test.h"
#include "testing/processes.h"

#define NAP_US 200
#define ENOUGH_NAPS (50000 * TEST_SLOWDOWN)
#define PATIENCE_API __attribute__((unused)) static

/* Seconds of one wait. */
PATIENCE_API double enough_s = 15 * TEST_SLOWDOWN;

/* Returns seconds of the machine, on the simulated kernel, too. */
PATIENCE_API double real_s(void)
{
    return (double)clock_ns(CLOCK_MONOTONIC_RAW) / 1e9;
}

/* Prints what each thread of a process has done, with its state as in proc(5). */
PATIENCE_API void print_threads(pid_t pid)
{
    char path[64];
    unsigned long long ran, waited;
    struct cp__processes threads;

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    threads = cp__processes_read(path);
    for (size_t i = 0; i < threads.n; i++) {
        const struct cp__process *thread = &threads.at[i];
        FILE *file;

        snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", (int)pid, (int)thread->pid);
        file = fopen(path, "re");
        if (file != NULL && fscanf(file, "%llu %llu", &ran, &waited) == 2)
            printf("thread %d (%s): state %c, has run for %llu ms and waited for a CPU for %llu ms\n",
                   (int)thread->pid, thread->name, thread->state, ran / 1000000, waited / 1000000);
        if (file != NULL)
            fclose(file);
    }
    free(threads.at);
}

/* Prints which processes have used CPU time between two looks, with their shares of one CPU. */
PATIENCE_API void print_shares(const struct cp__processes *before, const struct cp__processes *now,
                               double seconds)
{
    const double ticks = seconds * (double)sysconf(_SC_CLK_TCK);

    for (size_t i = 0; i < now->n; i++)
        for (size_t j = 0; j < before->n; j++)
            if (now->at[i].pid == before->at[j].pid &&
                (double)(now->at[i].cpu - before->at[j].cpu) > 0.3 * ticks)
                printf("process %d (%s) takes %.0f %% of a CPU\n", (int)now->at[i].pid, now->at[i].name,
                       100 * (double)(now->at[i].cpu - before->at[j].cpu) / ticks);
}

/* Prints why something may be late: what the threads of this process and of another one (0: none) have done,
 * and which processes of the machine use the CPUs. */
PATIENCE_API void print_reasons(pid_t other)
{
    double start = real_s();
    struct cp__processes before = cp__processes_read("/proc"), now;

    print_threads(getpid());
    if (other != 0)
        print_threads(other);
    usleep(300000);
    now = cp__processes_read("/proc");
    print_shares(&before, &now, real_s() - start);
    free(before.at);
    free(now.at);
}

struct patience {
    int looks;
    double since;
};

/* Returns whether to look again, for as long as `seconds`. If not, prints why. */
PATIENCE_API bool may_look(struct patience *patience, int most, double seconds)
{
    double now = real_s();

    if (patience->looks++ == 0)
        patience->since = now;
    if (patience->looks <= most && now - patience->since < seconds)
        return true;
    printf("%d looks in %.1f s\n", patience->looks, now - patience->since);
    print_reasons(0);
    return false;
}

/* For a thread that naps between two looks. */
PATIENCE_API bool has_patience(struct patience *patience)
{
    return may_look(patience, ENOUGH_NAPS, enough_s);
}

/* For a thread that works between two looks. Another limit ends the work if the thread has a CPU. */
PATIENCE_API bool has_time(struct patience *patience)
{
    return may_look(patience, INT_MAX, 4 * enough_s);
}

/* Waits for a thread that has been told to end. */
PATIENCE_API void join_soon(pthread_t thread)
{
    const uint64_t end = clock_ns(CLOCK_REALTIME) + (uint64_t)(enough_s * 1e9);
    int result = pthread_timedjoin_np(
        thread, NULL,
        &(struct timespec){.tv_sec = (time_t)(end / 1000000000), .tv_nsec = (long)(end % 1000000000)});

    if (result != 0)
        print_reasons(0);
    CHECKF(result == 0, "a thread has been told to end, and has not ended in %g s: %s", enough_s,
           strerror(result));
}

/* Returns whether the child ends in time. */
PATIENCE_API bool ends_in_time(pid_t child)
{
    struct pollfd ready = {.fd = pidfd_open(child, 0), .events = POLLIN};
    double end = real_s() + enough_s, left = enough_s;
    int n = 0;

    CHECKF(ready.fd >= 0, "pidfd_open: %s", strerror(errno));
    for (; n <= 0 && left > 0; left = end - real_s())
        n = poll(&ready, 1, (int)(left * 1000) + 1); /* signals may interrupt it */
    /* Not close(): ThreadSanitizer takes the number for that of an event which the library closed so, too. */
    syscall(SYS_close, ready.fd);
    return n > 0;
}

/* Waits for a child, which must have exited with status 0. A child that does not end in time is killed. */
PATIENCE_API void await_child(pid_t child)
{
    int status;

    CHECK(child > 0);
    if (!ends_in_time(child)) {
        print_reasons(child);
        kill(child, SIGKILL);
        TEST_FAIL("child %d has not ended in %g s", (int)child, enough_s);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECKF(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %#x", (unsigned)status);
}

#endif
