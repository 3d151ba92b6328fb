/*
 * A program of pthreads that knows nothing of the profiler, for run_waits_test.c to run under
 * `counterpoint run -e wait`. Its argument says what it does: "causes" waits 100 ms in each of a few
 * functions, "lives" sleeps, waits and computes at once, "gives" waits for a condition while another thread
 * waits for the mutex, "crowd" has 32 wait for it, "unknown" has one wait that no profiler has seen begin,
 * "forks" forks while one waits, "torture" has 8 threads take one lock, "jumps" jumps out of waits, "tosses"
 * does so all the time, "allocator" waits in its own malloc() and in handlers, and "alone" waits for nobody.
 * Prints only what it would print without a profiler, too.
 */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "let_pass.h"

#define KNOWN_MS 100
/* Not inline, and not the last call, so that the profile has the function. */
#define CAUSE __attribute__((noinline, noipa)) static void

static volatile int sink;

/* ---- Causes ---------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    pthread_rwlock_t rwlock;
    pthread_cond_t condition;
    pthread_barrier_t barrier;
    sem_t semaphore, is_held;
    bool is_ready;
    int pipe[2], other[2];
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER,
            .rwlock = PTHREAD_RWLOCK_INITIALIZER,
            .condition = PTHREAD_COND_INITIALIZER};

CAUSE wait_for_lock(void)
{
    pthread_mutex_lock(&shared.lock);
    sink = pthread_mutex_unlock(&shared.lock);
}

CAUSE wait_for_reader(void)
{
    pthread_rwlock_wrlock(&shared.rwlock);
    sink = pthread_rwlock_unlock(&shared.rwlock);
}

CAUSE wait_for_condition(void)
{
    pthread_mutex_lock(&shared.lock);
    while (!shared.is_ready)
        pthread_cond_wait(&shared.condition, &shared.lock);
    sink = pthread_mutex_unlock(&shared.lock);
}

CAUSE wait_for_semaphore(void)
{
    sink = sem_wait(&shared.semaphore);
}

CAUSE wait_at_barrier(void)
{
    sink = pthread_barrier_wait(&shared.barrier);
}

CAUSE wait_for_pipe(void)
{
    char byte;

    sink = (int)read(shared.pipe[0], &byte, 1);
}

CAUSE wait_for_poll(void)
{
    struct pollfd fd = {.fd = shared.other[0], .events = POLLIN};

    sink = poll(&fd, 1, -1);
}

CAUSE wait_for_child(void)
{
    const pid_t child = fork();

    if (child == 0) {
        let_pass(KNOWN_MS);
        _exit(0);
    }
    sink = waitpid(child, NULL, 0);
}

CAUSE wait_asleep(void)
{
    const struct timespec time = {.tv_nsec = KNOWN_MS * 1000000};

    sink = nanosleep(&time, NULL);
}

CAUSE wait_for_thread(pthread_t thread)
{
    sink = pthread_join(thread, NULL);
}

/* Ends each of main()'s waits when it has lasted for a while, in their order. */
static void *end_waits(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&shared.lock);
    pthread_rwlock_rdlock(&shared.rwlock);
    sem_post(&shared.is_held);
    let_pass(KNOWN_MS);
    pthread_mutex_unlock(&shared.lock);
    let_pass(KNOWN_MS);
    pthread_rwlock_unlock(&shared.rwlock);
    let_pass(KNOWN_MS);
    pthread_mutex_lock(&shared.lock);
    shared.is_ready = true;
    pthread_cond_signal(&shared.condition);
    pthread_mutex_unlock(&shared.lock);
    let_pass(KNOWN_MS);
    sem_post(&shared.semaphore);
    let_pass(KNOWN_MS);
    pthread_barrier_wait(&shared.barrier);
    let_pass(KNOWN_MS);
    sink = (int)write(shared.pipe[1], "", 1);
    let_pass(KNOWN_MS);
    sink = (int)write(shared.other[1], "", 1);
    let_pass(KNOWN_MS);
    return NULL;
}

static void known_causes(void)
{
    pthread_t thread;

    sem_init(&shared.semaphore, 0, 0);
    sem_init(&shared.is_held, 0, 0);
    pthread_barrier_init(&shared.barrier, NULL, 2);
    if (pipe(shared.pipe) < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, shared.other) < 0 ||
        pthread_create(&thread, NULL, end_waits, NULL) != 0)
        abort();
    while (sem_trywait(&shared.is_held) < 0)
        let_pass(1);
    wait_for_lock();
    wait_for_reader();
    wait_for_condition();
    wait_for_semaphore();
    wait_at_barrier();
    wait_for_pipe();
    wait_for_poll();
    wait_for_thread(thread);
    wait_for_child();
    wait_asleep();
}

/* ---- A second of each -------------------------------------------------------------------------- */

CAUSE sleep_long(void)
{
    const struct timespec time = {.tv_sec = 1};

    sink = nanosleep(&time, NULL);
}

static void *sleep_for_long(void *unused)
{
    sleep_long();
    return unused;
}

static void *lock_for_long(void *unused)
{
    wait_for_lock();
    return unused;
}

CAUSE compute_long(void)
{
    const struct timespec end = in_ms(CLOCK_MONOTONIC, 1000);
    struct timespec now;

    do {
        for (int i = 0; i < 10000; i++)
            sink = i;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
}

static void live_in_three_ways(void)
{
    pthread_t threads[2];

    pthread_mutex_lock(&shared.lock);
    if (pthread_create(&threads[0], NULL, sleep_for_long, NULL) != 0 ||
        pthread_create(&threads[1], NULL, lock_for_long, NULL) != 0)
        abort();
    compute_long();
    pthread_mutex_unlock(&shared.lock);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

/* ---- Another one waits ----------------------------------------------------------------------- */

static void *wait_for_main(void *unused)
{
    sem_post(&shared.is_held);
    wait_for_lock();
    return unused;
}

/* Takes the lock, has a thread wait for it, and returns when that has waited for a while. */
static pthread_t make_one_wait(void)
{
    pthread_t thread;

    sem_init(&shared.is_held, 0, 0);
    pthread_mutex_lock(&shared.lock);
    if (pthread_create(&thread, NULL, wait_for_main, NULL) != 0)
        abort();
    sem_wait(&shared.is_held);
    let_pass(KNOWN_MS / 2);
    return thread;
}

CAUSE give_back_by_waiting(void)
{
    const struct timespec soon = in_ms(CLOCK_REALTIME, KNOWN_MS);

    sink = pthread_cond_timedwait(&shared.condition, &shared.lock, &soon);
}

static void wait_while_one_waits(void)
{
    const pthread_t thread = make_one_wait();

    give_back_by_waiting();
    pthread_mutex_unlock(&shared.lock);
    pthread_join(thread, NULL);
}

enum { CROWD = 32 };

CAUSE unlock_for_crowd(void)
{
    sink = pthread_mutex_unlock(&shared.lock);
}

static void make_many_wait(void)
{
    pthread_t threads[CROWD];

    sem_init(&shared.is_held, 0, 0);
    pthread_mutex_lock(&shared.lock);
    for (int i = 0; i < CROWD; i++)
        if (pthread_create(&threads[i], NULL, wait_for_main, NULL) != 0)
            abort();
    for (int i = 0; i < CROWD; i++)
        sem_wait(&shared.is_held);
    let_pass(KNOWN_MS);
    unlock_for_crowd();
    for (int i = 0; i < CROWD; i++)
        pthread_join(threads[i], NULL);
}

/* The thread is made by a function that the profiler does not see, as jemalloc makes its own. */
static void make_unknown_wait(void)
{
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
        dlsym(dlopen("libc.so.6", RTLD_LAZY), "pthread_create");
    pthread_t thread;

    sem_init(&shared.is_held, 0, 0);
    pthread_mutex_lock(&shared.lock);
    if (create == NULL || create(&thread, NULL, wait_for_main, NULL) != 0)
        abort();
    sem_wait(&shared.is_held);
    let_pass(KNOWN_MS);
    unlock_for_crowd();
    pthread_join(thread, NULL);
}

CAUSE unlock_as_child(void)
{
    for (int i = 0; i < 3; i++) {
        let_pass(KNOWN_MS / 10);
        pthread_mutex_unlock(&shared.lock);
        sink = pthread_mutex_lock(&shared.lock);
    }
}

CAUSE unlock_as_parent(void)
{
    let_pass(KNOWN_MS);
    sink = pthread_mutex_unlock(&shared.lock);
}

static void fork_while_one_waits(void)
{
    const pthread_t thread = make_one_wait();
    const pid_t child = fork();

    if (child == 0) {
        unlock_as_child();
        exit(0);
    }
    waitpid(child, NULL, 0);
    unlock_as_parent();
    pthread_join(thread, NULL);
}

/* ---- Torture --------------------------------------------------------------------------------- */

static long counted; /* under shared.lock */

static void *count_up(void *unused)
{
    (void)unused;
    for (int i = 0; i < 20000; i++) {
        pthread_mutex_lock(&shared.lock);
        counted++;
        if (i % 64 == 0)
            pthread_cond_broadcast(&shared.condition);
        pthread_mutex_unlock(&shared.lock);
    }
    return NULL;
}

static void torture(void)
{
    pthread_t threads[8];

    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, count_up, NULL);
    pthread_mutex_lock(&shared.lock);
    while (counted < 8 * 20000) {
        const struct timespec soon = in_ms(CLOCK_REALTIME, 1);

        pthread_cond_timedwait(&shared.condition, &shared.lock, &soon);
    }
    pthread_mutex_unlock(&shared.lock);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    printf("%ld\n", counted);
}

/* ---- Handlers -------------------------------------------------------------------------------- */

static void set_alarm(void (*handler)(int), long us)
{
    const struct itimerval times = {.it_interval = {.tv_usec = us}, .it_value = {.tv_usec = us}};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &times, NULL);
}

static sigjmp_buf place;

static void jump_away(int number)
{
    (void)number;
    siglongjmp(place, 1);
}

CAUSE wait_until_jump(void)
{
    sink = (int)sleep(100);
}

static void jump_out_of_waits(void)
{
    volatile int jumps = 0;

    set_alarm(jump_away, KNOWN_MS * 1000);
    if (sigsetjmp(place, 1) != 0)
        jumps++;
    if (jumps < 2)
        wait_until_jump();
    set_alarm(SIG_IGN, 0);
    wait_asleep();
    printf("%d\n", jumps);
}

/* Has a handler jump out of calls that wait, and of whatever the library does there, 3000 times. */
static void jump_out_of_all(void)
{
    static volatile int jumps;

    if (sigsetjmp(place, 1) != 0)
        jumps++;
    else
        set_alarm(jump_away, 150);
    while (jumps < 3000) {
        let_pass(0);
        sink = poll(NULL, 0, 0);
        usleep(10);
    }
    set_alarm(SIG_IGN, 0);
    wait_asleep();
    puts("done");
}

/* ---- An allocator of the program's own -------------------------------------------------------- */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);
void __libc_free(void *memory);

static pthread_mutex_t heap_lock = PTHREAD_MUTEX_INITIALIZER;

/* Waits with the lock now and then, so that others wait for it. */
static void lock_heap(void)
{
    static unsigned calls;

    pthread_mutex_lock(&heap_lock);
    if (++calls % 4096 == 0)
        poll(NULL, 0, 1);
}

void *malloc(size_t size)
{
    void *memory;

    lock_heap();
    memory = __libc_malloc(size);
    pthread_mutex_unlock(&heap_lock);
    return memory;
}

void *calloc(size_t n, size_t size)
{
    void *memory;

    lock_heap();
    memory = __libc_calloc(n, size);
    pthread_mutex_unlock(&heap_lock);
    return memory;
}

void *realloc(void *old, size_t size)
{
    void *memory;

    lock_heap();
    memory = __libc_realloc(old, size);
    pthread_mutex_unlock(&heap_lock);
    return memory;
}

void free(void *memory)
{
    lock_heap();
    __libc_free(memory);
    pthread_mutex_unlock(&heap_lock);
}

static void wait_in_handler(int number)
{
    const int saved_errno = errno;

    (void)number;
    poll(NULL, 0, 1);
    errno = saved_errno;
}

static void *allocate_much(void *unused)
{
    for (int i = 0; i < 10000; i++) {
        void *volatile memory = malloc((size_t)i % 5000); /* else there would be no call */

        free(memory);
    }
    return unused;
}

static void allocate_and_wait(void)
{
    pthread_t threads[4];

    set_alarm(wait_in_handler, 5000);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, allocate_much, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    set_alarm(SIG_IGN, 0);
    puts("done");
}

/* ---- What does not wait ----------------------------------------------------------------------- */

static void be_alone(void)
{
    sem_init(&shared.semaphore, 0, 1000);
    for (int i = 0; i < 1000; i++) {
        pthread_mutex_lock(&shared.lock);
        sem_wait(&shared.semaphore);
        pthread_mutex_unlock(&shared.lock);
    }
    wait_asleep();
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (strcmp(what, "causes") == 0) {
        known_causes();
    } else if (strcmp(what, "gives") == 0) {
        wait_while_one_waits();
    } else if (strcmp(what, "crowd") == 0) {
        make_many_wait();
    } else if (strcmp(what, "unknown") == 0) {
        make_unknown_wait();
    } else if (strcmp(what, "lives") == 0) {
        live_in_three_ways();
    } else if (strcmp(what, "forks") == 0) {
        fork_while_one_waits();
    } else if (strcmp(what, "torture") == 0) {
        torture();
    } else if (strcmp(what, "jumps") == 0) {
        jump_out_of_waits();
    } else if (strcmp(what, "tosses") == 0) {
        jump_out_of_all();
    } else if (strcmp(what, "allocator") == 0) {
        allocate_and_wait();
    } else if (strcmp(what, "alone") == 0) {
        be_alone();
    } else {
        return 1;
    }
    return 0;
}
