/* The scheduler: sleeping, and waiting for descriptors. */
#include "runtime/sched/internal.h"
#include "tests/support/gs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static unsigned done;

/* ---- Sleeping -------------------------------------------------------------------------------- */

static const unsigned naps_ms[] = {50, 10, 40, 20, 30, 0};
static unsigned woke[6], woken;

static void naps(void *arg)
{
    uint64_t start = wall_ns();

    CHECK_EQ(cp_sleep(*(const unsigned *)arg * MS), 0);
    CHECK(wall_ns() - start >= *(const unsigned *)arg * MS);
    woke[woken++] = *(const unsigned *)arg;
}

static void start_naps(void *arg)
{
    static unsigned ms[6];

    (void)arg;
    memcpy(ms, naps_ms, sizeof ms);
    for (int i = 0; i < 6; i++)
        go(naps, &ms[i]);
}

CP_TEST(sleeps_end_in_order)
{
    run(1, start_naps, NULL);
    CHECK_EQ(woken, 6);
    for (unsigned i = 0; i < 6; i++)
        CHECK_EQ(woke[i], 10 * i);
}

/* ---- The queue of deadlines ------------------------------------------------------------------ */

#define TIMERS 200u
#define TIMES 7u /* few values, so that many timers have the same */

/* Takes the first timer out of the queue and returns it. last is the timer that was taken before; NULL:
 * none. */
static const struct cp__timer *take_first(struct cp__timers *queue, const struct cp__timer *last)
{
    struct cp__timer *first = queue->first;

    CHECK(first != NULL);
    CHECK(last == NULL || first->when > last->when || (first->when == last->when && first > last));
    cp__timers_remove(queue, first);
    return first;
}

/* Timers are added in the order of the array, so of two with equal deadlines the later one has the higher
 * address. */
CP_TEST(equal_deadlines_come_in_the_order_of_adding)
{
    struct cp__timers queue = {0};
    struct cp__timer timers[TIMERS] = {{0}};
    const struct cp__timer *last = NULL;

    for (unsigned i = 0; i < TIMERS; i++) {
        timers[i].when = 1000 + i * 5 % TIMES;
        cp__timers_add(&queue, &timers[i]);
    }
    for (unsigned i = 0; i < TIMERS; i += 3) /* every third timer is removed before its deadline */
        cp__timers_remove(&queue, &timers[i]);
    for (unsigned i = 0; i < TIMERS - (TIMERS + 2) / 3; i++)
        last = take_first(&queue, last);
    CHECK(queue.first == NULL);
}

/* ---- Sleeping, of many ----------------------------------------------------------------------- */

#define SLEEPERS (TEST_TSAN ? 500 : 3000)
static uint64_t latest;

static void sleeps_at_random(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;

    for (int i = 0; i < 5; i++) {
        uint64_t ns = (uint64_t)rand_r(&seed) % (30 * MS), start = wall_ns(), late;

        CHECK_EQ(cp_sleep(ns), 0);
        CHECK(wall_ns() - start >= ns);
        late = wall_ns() - start - ns;
        if (late > cp_load_relaxed(&latest))
            cp_store_relaxed(&latest, late);
    }
    add_one(&done);
}

static void start_sleepers(void *arg)
{
    (void)arg;
    for (uintptr_t i = 0; i < SLEEPERS; i++)
        go(sleeps_at_random, (void *)i);
}

CP_TEST(no_sleep_is_lost_or_too_short)
{
    for (unsigned threads = 1; threads <= 4; threads *= 2) {
        done = 0;
        latest = 0;
        run(threads, start_sleepers, NULL);
        CHECK_EQ(done, SLEEPERS);
        printf("%u Ms: the latest wake-up came %.3f ms late\n", threads, (double)latest * 1e-6);
    }
}

static unsigned busy_until;

static void is_busy(void *arg)
{
    (void)arg;
    while (cp_load_relaxed(&busy_until) == 0)
        cp_yield();
}

static void sleeps_among_the_busy(void *arg)
{
    unsigned *late_ms = arg;

    for (int i = 0; i < 8; i++)
        go(is_busy, NULL);
    for (int i = 0; i < 20; i++) {
        uint64_t start = wall_ns();

        cp_sleep(5 * MS);
        *late_ms += (unsigned)((wall_ns() - start) / MS) - 5;
    }
    cp_store_relaxed(&busy_until, 1u);
}

/* If no M is idle, no M waits in epoll_wait(). */
CP_TEST(a_sleep_ends_while_all_ms_are_busy)
{
    for (unsigned threads = 1; threads <= 2; threads++) {
        unsigned late_ms = 0;

        busy_until = 0;
        run(threads, sleeps_among_the_busy, &late_ms);
        CHECKF(late_ms < 5000u * TEST_SLOWDOWN, "20 sleeps of 5 ms ended %u ms late in all", late_ms);
    }
}

static unsigned slept_meanwhile;

static void sleeps_often(void *arg)
{
    (void)arg;
    cp_sleep(20 * MS); /* the other M wakes up as the poller */
    for (int i = 0; i < 20; i++)
        cp_sleep(MS);
    cp_store_release(&slept_meanwhile, 1u);
}

/* The G keeps its M busy while the other G sleeps. The other G's M must go on as the poller. */
static void works_long(void *arg)
{
    uint64_t start = wall_ns();

    (void)arg;
    go(sleeps_often, NULL);
    cp_sleep(MS);
    while (cp_load_acquire(&slept_meanwhile) == 0)
        CHECK(wall_ns() - start < 5000 * MS * TEST_SLOWDOWN);
}

CP_TEST(a_busy_m_leaves_the_poller_to_another)
{
    for (int i = 0; i < 10; i++) {
        slept_meanwhile = 0;
        run(2, works_long, NULL);
    }
}

/* ---- Descriptors ----------------------------------------------------------------------------- */

/* Returns -errno. The function is not inlined, so that the address of errno, which belongs to a thread, is
 * not kept over a wait that changes the thread. */
static __attribute__((noinline)) int read_now(int fd, void *data, size_t size)
{
    ssize_t n = read(fd, data, size);

    return n < 0 ? -errno : (int)n;
}

static __attribute__((noinline)) int write_now(int fd, const void *data, size_t size)
{
    ssize_t n = write(fd, data, size);

    return n < 0 ? -errno : (int)n;
}

static int read_some(int fd, void *data, size_t size)
{
    int n;

    while ((n = read_now(fd, data, size)) == -EAGAIN)
        CHECK(cp_wait_fd(fd, EPOLLIN, -1) > 0);
    return n;
}

static void write_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        int n = write_now(fd, data, size);

        if (n == -EAGAIN) {
            CHECK(cp_wait_fd(fd, EPOLLOUT, -1) > 0);
            continue;
        }
        CHECK(n > 0);
        data += n;
        size -= (size_t)n;
    }
}

static void make_socketpair(int fds[2])
{
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
}

#define PAIRS 50
#define ECHOES (TEST_TSAN ? 50 : 200)

static void echoes(void *arg)
{
    int fd = *(int *)arg;
    char c;

    while (read_some(fd, &c, 1) == 1)
        write_all(fd, &c, 1);
    close(fd);
    add_one(&done);
}

static void asks(void *arg)
{
    int fd = *(int *)arg;

    for (int i = 0; i < ECHOES; i++) {
        char sent = (char)i, got = (char)~sent;

        write_all(fd, &sent, 1);
        CHECK_EQ(read_some(fd, &got, 1), 1);
        CHECK_EQ(got, sent);
    }
    close(fd);
    add_one(&done);
}

static void start_echoes(void *arg)
{
    int(*fds)[2] = arg;

    for (int i = 0; i < PAIRS; i++) {
        make_socketpair(fds[i]);
        go(echoes, &fds[i][0]);
        go(asks, &fds[i][1]);
    }
}

CP_TEST(sockets_echo)
{
    int fds[PAIRS][2];

    for (unsigned threads = 1; threads <= 4; threads *= 2) {
        done = 0;
        run(threads, start_echoes, fds);
        CHECK_EQ(done, 2 * PAIRS);
    }
}

#define BULK 300000
static int both[2];

static void sends_bulk(void *arg)
{
    char *data = malloc(BULK);

    memset(data, *(char *)arg, BULK);
    write_all(both[0], data, BULK);
    free(data);
    add_one(&done);
}

static void receives_bulk(void *arg)
{
    int fd = *(int *)arg, got = 0;
    char data[1000];

    while (got < BULK) {
        int n = read_some(fd, data, sizeof data);

        CHECK(n > 0);
        got += n;
    }
    CHECK_EQ(got, BULK);
    add_one(&done);
}

static void sends_bulk_back(void *arg)
{
    char *data = calloc(1, BULK);

    (void)arg;
    write_all(both[1], data, BULK);
    free(data);
    add_one(&done);
}

static void start_bulk(void *arg)
{
    static char letter = 'x';

    (void)arg;
    make_socketpair(both);
    go(sends_bulk, &letter);
    go(sends_bulk_back, NULL);
    go(receives_bulk, &both[0]);
    go(receives_bulk, &both[1]);
}

/* One G waits to read a descriptor while another waits to write it. */
CP_TEST(two_gs_wait_for_one_descriptor)
{
    run(3, start_bulk, NULL);
    CHECK_EQ(done, 4);
}

#define PATIENCE (5000 * MS * TEST_SLOWDOWN) /* a G that has waited for so long was forgotten */

static void waits_to_read(void *arg)
{
    (void)arg;
    CHECK_EQ(cp_wait_fd(both[0], EPOLLIN, PATIENCE), EPOLLIN);
    add_one(&done);
}

/* When the second G gets its event, the first G has waited for longer. */
static void waits_to_write_meanwhile(void *arg)
{
    (void)arg;
    make_socketpair(both);
    go(waits_to_read, NULL);
    cp_yield();
    CHECK_EQ(cp_wait_fd(both[0], EPOLLOUT, PATIENCE), EPOLLOUT);
    CHECK_EQ(done, 0);
    CHECK_EQ(write_now(both[1], "x", 1), 1);
}

CP_TEST(one_gs_event_leaves_the_descriptor_armed_for_the_other)
{
    run(1, waits_to_write_meanwhile, NULL);
    CHECK_EQ(done, 1);
}

static void waits_in_all_ways(void *arg)
{
    uint64_t start = wall_ns();
    FILE *file = tmpfile();
    int fds[2];

    (void)arg;
    make_socketpair(fds);
    CHECK_EQ(cp_wait_fd(fds[0], EPOLLIN, 20 * MS), -ETIMEDOUT);
    CHECK(wall_ns() - start >= 20 * MS);
    CHECK_EQ(cp_wait_fd(fds[0], EPOLLIN, 0), -ETIMEDOUT);
    CHECK_EQ(cp_wait_fd(fds[0], EPOLLIN | EPOLLOUT, 1000 * MS), EPOLLOUT);
    CHECK_EQ(cp_wait_fd(fds[0], EPOLLOUT, -1), EPOLLOUT);
    CHECK_EQ(write_now(fds[1], "x", 1), 1);
    CHECK_EQ(cp_wait_fd(fds[0], EPOLLIN, -1), EPOLLIN);
    close(fds[1]);
    CHECK((cp_wait_fd(fds[0], EPOLLIN, -1) & (EPOLLIN | EPOLLHUP)) == (EPOLLIN | EPOLLHUP));
    CHECK_EQ(cp_wait_fd(fds[0], 0, -1), EPOLLHUP);
    close(fds[0]);
    CHECK_EQ(cp_wait_fd(fds[0], EPOLLIN, -1), -EBADF);
    CHECK_EQ(cp_wait_fd(-1, EPOLLIN, -1), -EBADF);
    CHECK(file != NULL);
    CHECK_EQ(cp_wait_fd(fileno(file), EPOLLIN, -1), EPOLLIN); /* a regular file is always ready */
    fclose(file);
    make_socketpair(fds); /* gets the same descriptors again */
    CHECK_EQ(cp_wait_fd(fds[0], EPOLLIN, MS), -ETIMEDOUT);
    close(fds[0]);
    close(fds[1]);
    add_one(&done);
}

CP_TEST(waiting_for_a_descriptor_has_every_outcome)
{
    run(1, waits_in_all_ways, NULL);
    run(2, waits_in_all_ways, NULL);
    CHECK_EQ(done, 2);
}

/* ---- Signals --------------------------------------------------------------------------------- */

CP_TEST(signals_interrupt_no_wait)
{
    int fds[PAIRS][2];

    begin_storm();
    run(1, start_naps, NULL);
    CHECK_EQ(woken, 6);
    for (unsigned threads = 1; threads <= 4; threads++) {
        done = 0;
        run(threads, start_echoes, fds);
        run(threads, waits_in_all_ways, NULL);
        CHECK_EQ(done, 2 * PAIRS + 1);
    }
    end_storm();
}
