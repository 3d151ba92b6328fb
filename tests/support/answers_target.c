/*
 * A program that knows nothing of the profiler, for run_waits_test.c to run under `counterpoint run -e wait`:
 * prints what calls that wait return in cases that are not usual, which is the same with a profiler and
 * without.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "let_pass.h"

static volatile int sink;

/* ---- Locks ---------------------------------------------------------------------------------- */

#define SAY(call) (printf("%s: %d\n", #call, (int)(call)))
/* For calls that return -1. errno of a success is that of before. */
#define SAY_ERRNO(call)                                                                                      \
    do {                                                                                                     \
        int result_;                                                                                         \
                                                                                                             \
        errno = EXDEV;                                                                                       \
        result_ = (int)(call);                                                                               \
        printf("%s: %d, %s\n", #call, result_, strerror(errno));                                             \
    } while (0)

static pthread_mutex_t mutex;

static void make_mutex(int type, int protocol, int robust)
{
    pthread_mutexattr_t attributes;

    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, type);
    pthread_mutexattr_setprotocol(&attributes, protocol);
    pthread_mutexattr_setrobust(&attributes, robust);
    printf("mutex %d %d %d: %d\n", type, protocol, robust, pthread_mutex_init(&mutex, &attributes));
    pthread_mutexattr_destroy(&attributes);
}

static void *lock_and_leave(void *unused)
{
    (void)unused;
    return (void *)(intptr_t)pthread_mutex_lock(&mutex);
}

static void *lock_for_a_moment(void *unused)
{
    intptr_t result = pthread_mutex_lock(&mutex);

    (void)unused;
    if (result == 0)
        pthread_mutex_unlock(&mutex);
    return (void *)result;
}

static void in_thread(void *(*fn)(void *))
{
    pthread_t thread;
    void *result;

    pthread_create(&thread, NULL, fn, NULL);
    let_pass(5);
    pthread_join(thread, &result);
    printf("in a thread: %d\n", (int)(intptr_t)result);
}

static void try_robust(void)
{
    make_mutex(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST);
    in_thread(lock_and_leave);
    SAY(pthread_mutex_lock(&mutex) == EOWNERDEAD);
    SAY(pthread_mutex_consistent(&mutex));
    SAY(pthread_mutex_unlock(&mutex));
    in_thread(lock_for_a_moment);
    in_thread(lock_and_leave);
    SAY(pthread_mutex_lock(&mutex) == EOWNERDEAD);
    SAY(pthread_mutex_unlock(&mutex));
    SAY(pthread_mutex_lock(&mutex) == ENOTRECOVERABLE);
}

static void try_timed_locks(void)
{
    const struct timespec soon = in_ms(CLOCK_REALTIME, 5), bad = {.tv_nsec = 2000000000};
    struct timespec later = in_ms(CLOCK_MONOTONIC, 5);

    SAY(pthread_mutex_timedlock(&mutex, &soon));
    SAY(pthread_mutex_timedlock(&mutex, &bad));
    SAY(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &later));
    SAY(pthread_mutex_clocklock(&mutex, CLOCK_PROCESS_CPUTIME_ID, &later));
}

static void try_mutexes(void)
{
    static const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK,
                                PTHREAD_MUTEX_ADAPTIVE_NP};
    static const int protocols[] = {PTHREAD_PRIO_NONE, PTHREAD_PRIO_INHERIT};
    const struct timespec bad = {.tv_nsec = 2000000000};

    for (size_t i = 0; i < 8; i++) {
        make_mutex(types[i / 2], protocols[i % 2], PTHREAD_MUTEX_STALLED);
        SAY(pthread_mutex_clocklock(&mutex, 77, &bad));
        SAY(pthread_mutex_timedlock(&mutex, &bad));
        if (types[i / 2] == PTHREAD_MUTEX_RECURSIVE || types[i / 2] == PTHREAD_MUTEX_ERRORCHECK)
            SAY(pthread_mutex_lock(&mutex));
        if (types[i / 2] != PTHREAD_MUTEX_RECURSIVE)
            try_timed_locks();
        SAY(pthread_mutex_unlock(&mutex));
        SAY(pthread_mutex_unlock(&mutex));
        in_thread(lock_for_a_moment);
    }
    try_robust();
}

static void try_rwlocks(void)
{
    pthread_rwlock_t lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
    const struct timespec soon = in_ms(CLOCK_REALTIME, 5), bad = {.tv_nsec = 2000000000};

    SAY(pthread_rwlock_timedrdlock(&lock, &bad));
    SAY(pthread_rwlock_clockwrlock(&lock, 77, &soon));
    SAY(pthread_rwlock_rdlock(&lock));
    SAY(pthread_rwlock_rdlock(&lock));
    SAY(pthread_rwlock_timedwrlock(&lock, &soon));
    SAY(pthread_rwlock_unlock(&lock));
    SAY(pthread_rwlock_unlock(&lock));
    SAY(pthread_rwlock_wrlock(&lock));
    SAY(pthread_rwlock_wrlock(&lock));
    SAY(pthread_rwlock_rdlock(&lock));
    SAY(pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &(struct timespec){.tv_sec = 1}));
    SAY(pthread_rwlock_unlock(&lock));
}

/* ---- Meetings -------------------------------------------------------------------------------- */

static int c11_body(void *unused)
{
    (void)unused;
    return 11;
}

static void try_c11(void)
{
    mtx_t c11;
    cnd_t condition;
    thrd_t thread;
    int result = 0;
    struct timespec soon;

    mtx_init(&c11, mtx_timed | mtx_recursive);
    cnd_init(&condition);
    SAY(mtx_lock(&c11) == thrd_success);
    SAY(mtx_lock(&c11) == thrd_success);
    mtx_unlock(&c11);
    soon = in_ms(CLOCK_REALTIME, 5);
    SAY(cnd_timedwait(&condition, &c11, &soon) == thrd_timedout);
    SAY(mtx_timedlock(&c11, &soon) == thrd_success);
    thrd_create(&thread, c11_body, NULL);
    SAY(thrd_join(thread, &result) == thrd_success);
    SAY(result);
    SAY(thrd_sleep(&(struct timespec){.tv_nsec = 1000}, NULL));
}

static void try_conditions(void)
{
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct timespec soon = in_ms(CLOCK_REALTIME, 5);

    pthread_mutex_lock(&lock);
    SAY(pthread_cond_timedwait(&condition, &lock, &soon));
    soon = in_ms(CLOCK_MONOTONIC, 5);
    SAY(pthread_cond_clockwait(&condition, &lock, CLOCK_MONOTONIC, &soon));
    SAY(pthread_cond_timedwait(&condition, &lock, &(struct timespec){.tv_nsec = -1}));
    SAY(pthread_mutex_trylock(&lock));
    pthread_mutex_unlock(&lock);
}

static void try_semaphores(void)
{
    const struct timespec bad = {.tv_nsec = 2000000000};
    struct timespec soon = in_ms(CLOCK_REALTIME, 5);
    sem_t semaphore;

    sem_init(&semaphore, 0, 1);
    SAY_ERRNO(sem_timedwait(&semaphore, &bad));
    SAY_ERRNO(sem_wait(&semaphore));
    SAY_ERRNO(sem_timedwait(&semaphore, &soon));
    SAY_ERRNO(sem_clockwait(&semaphore, 77, &soon));
    SAY_ERRNO(sem_clockwait(&semaphore, CLOCK_MONOTONIC, &(struct timespec){.tv_sec = 1}));
}

static void try_joins(void)
{
    const struct timespec soon = in_ms(CLOCK_REALTIME, 5);

    SAY(pthread_join(pthread_self(), NULL));
    SAY(pthread_timedjoin_np(pthread_self(), NULL, &soon));
    SAY_ERRNO(waitpid(-1, NULL, 0));
    SAY_ERRNO(waitpid(-1, NULL, WNOHANG));
    SAY_ERRNO(wait(NULL));
}

/* ---- Descriptors and times ------------------------------------------------------------------- */

static void try_descriptors(void)
{
    int fds[2], poller = epoll_create1(0);
    char bytes[4] = "abc";
    struct epoll_event event = {.events = EPOLLIN};
    struct timeval soon = {.tv_usec = 2000};
    struct timespec now = {0};
    struct pollfd *volatile nowhere = NULL;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0)
        abort();
    SAY_ERRNO(read(-1, bytes, 1));
    SAY_ERRNO(write(-1, bytes, 1));
    SAY_ERRNO(send(fds[0], bytes, 3, 0));
    SAY_ERRNO(recv(fds[1], bytes, 2, 0));
    SAY_ERRNO(recv(fds[1], NULL, 2, 0));
    SAY_ERRNO(recvfrom(fds[1], bytes, 1, 0, NULL, NULL));
    SAY_ERRNO(recv(fds[1], bytes, 1, MSG_DONTWAIT));
    SAY_ERRNO(accept(fds[1], NULL, NULL));
    SAY_ERRNO(connect(-1, NULL, 0));
    SAY_ERRNO(poll(nowhere, 1, 5));
    SAY_ERRNO(poll(NULL, 0, 2));
    SAY_ERRNO(ppoll(NULL, 0, &now, NULL));
    SAY_ERRNO(select(0, NULL, NULL, NULL, &soon));
    SAY_ERRNO(epoll_ctl(poller, EPOLL_CTL_ADD, fds[1], &event));
    SAY_ERRNO(epoll_wait(poller, &event, 1, 2));
    SAY_ERRNO(epoll_wait(poller, &event, 0, 2));
    SAY_ERRNO(nanosleep(&(struct timespec){.tv_nsec = -1}, NULL));
    SAY(clock_nanosleep(77, 0, &now, NULL));
    SAY_ERRNO(usleep(1000));
    SAY_ERRNO(sleep(0));
    close(fds[0]);
    SAY_ERRNO(read(fds[1], bytes, 4));
    close(fds[1]);
    close(poller);
}

/* ---- Signals --------------------------------------------------------------------------------- */

static int in_handler[2];

/* What a handler may do, also while its thread waits. */
static void on_signal(int number)
{
    const int saved_errno = errno;

    (void)number;
    sink = (int)write(in_handler[1], "", 1);
    sink = poll(NULL, 0, 1);
    errno = saved_errno;
}

static sigjmp_buf place;

static void jump(int number)
{
    (void)number;
    siglongjmp(place, 1);
}

static void set_handler(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};

    sigaction(SIGALRM, &action, NULL);
}

static void alarm_in_ms(long ms)
{
    const struct timespec wanted = {.tv_nsec = ms * 1000000};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    static timer_t timer;
    static bool is_made;

    if (!is_made && timer_create(CLOCK_MONOTONIC, &event, &timer) < 0)
        abort();
    is_made = true;
    timer_settime(timer, 0, &(struct itimerspec){.it_value = wanted, .it_interval = wanted}, NULL);
}

static void try_interrupts(void)
{
    const struct timespec second = {.tv_sec = 1};
    sem_t semaphore;
    char byte;
    int fds[2];

    if (pipe(fds) < 0 || pipe(in_handler) < 0)
        abort();
    sem_init(&semaphore, 0, 0);
    set_handler(on_signal);
    alarm_in_ms(20);
    SAY_ERRNO(nanosleep(&second, NULL));
    SAY_ERRNO(sem_wait(&semaphore));
    SAY_ERRNO(read(fds[0], &byte, 1));
    SAY_ERRNO(poll(NULL, 0, 1000));
    SAY_ERRNO(sleep(5) >= 4);
    alarm_in_ms(0);
}

/* After a jump out of a wait, the next ones are as before. */
static void try_jumps(void)
{
    volatile int jumps = 0;

    set_handler(jump);
    if (sigsetjmp(place, 1) != 0)
        jumps++;
    if (jumps < 3) {
        alarm_in_ms(10);
        let_pass(1000);
    }
    alarm_in_ms(0);
    SAY(jumps);
}

/* ---- Threads that are cancelled --------------------------------------------------------------- */

static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t one_semaphore;
static int silent[2];

static void say_cleanup(void *lock)
{
    printf("cleanup: %d\n", lock == NULL ? 0 : pthread_mutex_unlock(lock));
}

static void *wait_on_condition(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(say_cleanup, &mutex);
    for (;;)
        pthread_cond_wait(&never, &mutex);
    pthread_cleanup_pop(0);
    return NULL;
}

static void *wait_in_read(void *unused)
{
    char byte;

    (void)unused;
    pthread_cleanup_push(say_cleanup, NULL);
    sink = (int)read(silent[0], &byte, 1);
    pthread_cleanup_pop(0);
    return NULL;
}

/* A thread that has been cancelled does not take the semaphore. */
static void *wait_when_cancelled(void *unused)
{
    (void)unused;
    pthread_cancel(pthread_self());
    sem_wait(&one_semaphore);
    return NULL;
}

static void *be_joined(void *unused)
{
    for (;;)
        pause();
    return unused;
}

static void *wait_in_join(void *thread)
{
    pthread_join(*(pthread_t *)thread, NULL);
    return NULL;
}

static void say_cancelled(const char *what, void *(*fn)(void *), void *arg)
{
    pthread_t thread;
    void *result;

    pthread_create(&thread, NULL, fn, arg);
    let_pass(5);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("%s: %d\n", what, result == PTHREAD_CANCELED);
}

static void try_cancellation(void)
{
    pthread_t joined;
    int value = -1;

    make_mutex(PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED);
    sem_init(&one_semaphore, 0, 1);
    if (pipe(silent) < 0)
        abort();
    say_cancelled("condition", wait_on_condition, NULL);
    say_cancelled("read", wait_in_read, NULL);
    say_cancelled("semaphore", wait_when_cancelled, NULL);
    sem_getvalue(&one_semaphore, &value);
    SAY(value);
    pthread_create(&joined, NULL, be_joined, NULL);
    say_cancelled("join", wait_in_join, &joined);
    pthread_cancel(joined);
    SAY(pthread_join(joined, NULL));
}

/* ---- Children -------------------------------------------------------------------------------- */

static void say_status(pid_t child)
{
    int status = 0;

    printf("child: %d", waitpid(child, &status, 0) == child);
    printf(" %d\n", status);
}

static void try_children(void)
{
    pid_t child;
    int fds[2];

    if (pipe(fds) < 0)
        abort();
    fflush(stdout);
    child = fork();
    if (child == 0) {
        char byte;

        close(fds[1]);
        let_pass(2);
        _exit((int)read(fds[0], &byte, 1) + 3);
    }
    close(fds[1]);
    say_status(child);
    child = vfork();
    if (child == 0) {
        sink = (int)write(-1, "", 1);
        execlp("sh", "sh", "-c", "sleep 0.01; exit 4", NULL);
        _exit(1);
    }
    say_status(child);
    fflush(stdout);
    SAY(system("exit 5"));
}

int main(void)
{
    try_mutexes();
    try_rwlocks();
    try_c11();
    try_conditions();
    try_semaphores();
    try_joins();
    try_descriptors();
    try_interrupts();
    try_jumps();
    try_cancellation();
    try_children();
    return 0;
}
