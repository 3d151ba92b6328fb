/* The part of conformance.h, which includes it, about other processes and threads: who has an event, who
 * switches it off or closes it, and whose time the clocks tell. */
#include <semaphore.h>

/* ---- Forks, other threads -------------------------------------------------------------------- */

KERNEL_TEST(a_childs_descriptor_is_the_parents_event)
{
    int fd = open_clock(PERIOD), status;
    pid_t child;

    handle(SIGPROF);
    send_signals(fd, SIGPROF);
    control(fd, PERF_EVENT_IOC_ENABLE, 0);
    burn_a(5 * PERIOD);
    CHECK_NUMBER(signals, 5, 1, 1000);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        signals = 0;
        burn_a(5 * PERIOD);
        _exit(signals != 0 ? 1 : syscall(SYS_ioctl, fd, PERF_EVENT_IOC_DISABLE, 0) == 0 ? 0 : 2);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    signals = 0;
    burn_a(5 * PERIOD);
    CHECK_EQ(signals, 0);
}

static sem_t go_on;

/* A thread that waits for a semaphore runs for no time meanwhile. */
static void body_waits_then_burns(struct worker *worker)
{
    (void)worker;
    sem_wait(&go_on);
    burn_b(5 * PERIOD);
}

/* Somebody else opens the event, and its signals come to the thread that it counts on. */
KERNEL_TEST(an_event_counts_on_the_thread_that_it_was_opened_for)
{
    struct perf_event_attr attr = clock_attr(PERIOD);
    struct worker worker;
    struct f_owner_ex owner = {.type = F_OWNER_TID};
    int fd;

    test_need_events();
    handle(SIGPROF);
    sem_init(&go_on, 0, 0);
    start_worker(&worker, body_waits_then_burns, NULL);
    fd = (int)syscall(SYS_perf_event_open, &attr, worker.tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
    CHECK(fd >= 0);
    owner.pid = worker.tid;
    CHECK_EQ(syscall(SYS_fcntl, fd, F_SETOWN_EX, &owner), 0);
    CHECK_EQ(syscall(SYS_fcntl, fd, F_SETSIG, SIGPROF), 0);
    CHECK_EQ(syscall(SYS_fcntl, fd, F_SETFL, O_ASYNC), 0);
    control(fd, PERF_EVENT_IOC_ENABLE, 0);
    burn_a(5 * PERIOD);
    CHECK_EQ(signals, 0);
    sem_post(&go_on);
    join_worker(&worker);
    CHECK_NUMBER(signals, 5, 1, 1000);
    CHECK_NUMBER(count_of(fd), 5 * PERIOD, 4 * PERIOD, 1000 * PERIOD);
}

static void *burn_later(void *unused)
{
    burn_b(5 * PERIOD);
    return unused;
}

/* Burns on a thread that is started now, and in a child. */
static void burn_with_heirs(void)
{
    pthread_t thread;
    pid_t child;
    int status;

    CHECK_EQ(pthread_create(&thread, NULL, burn_later, NULL), 0);
    pthread_join(thread, NULL);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        burn_a(20 * PERIOD);
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

KERNEL_TEST(an_inherited_event_counts_on_threads_and_maybe_in_children)
{
    struct perf_event_attr attr = clock_attr(0);
    int with_children, of_threads;

    attr.sample_type = 0;
    attr.inherit = 1;
    with_children = open_event(&attr);
    attr.inherit_thread = 1;
    of_threads = open_event(&attr);
    control(with_children, PERF_EVENT_IOC_ENABLE, 0);
    control(of_threads, PERF_EVENT_IOC_ENABLE, 0);
    burn_with_heirs();
    CHECK_NUMBER(count_of(with_children), 25 * PERIOD, 24 * PERIOD, 1000 * PERIOD);
    CHECK_NUMBER(count_of(of_threads), 5 * PERIOD, 4 * PERIOD, count_of(with_children) - 15 * PERIOD);
}

/* ---- Off, and closed by somebody else -------------------------------------------------------- */

static void *open_for_thread(void *arg)
{
    struct perf_event_attr attr = clock_attr(PERIOD);
    const pid_t tid = *(const int *)arg;

    *(int *)arg = (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
    return NULL;
}

/* It is the thread that has opened the events, and not the one that they count on. */
KERNEL_TEST(a_thread_switches_off_what_it_has_opened)
{
    int fd = open_clock(PERIOD), other = (int)syscall(SYS_gettid);
    pthread_t thread;
    uint64_t count;

    CHECK_EQ(pthread_create(&thread, NULL, open_for_thread, &other), 0);
    pthread_join(thread, NULL);
    CHECK(other >= 0);
    control(fd, PERF_EVENT_IOC_ENABLE, 0);
    control(other, PERF_EVENT_IOC_ENABLE, 0);
    CHECK_EQ(syscall(SYS_prctl, PR_TASK_PERF_EVENTS_DISABLE), 0);
    count = count_of(fd);
    burn_a(5 * PERIOD);
    CHECK_EQ(count_of(fd), count);
    CHECK_NUMBER(count_of(other), 5 * PERIOD, 4 * PERIOD, 1000 * PERIOD);
    CHECK_EQ(syscall(SYS_prctl, PR_TASK_PERF_EVENTS_ENABLE), 0);
    burn_a(5 * PERIOD);
    CHECK_NUMBER(count_of(fd) - count, 5 * PERIOD, 4 * PERIOD, 1000 * PERIOD);
}

/* The ring keeps the event, and the number may become another file's. */
KERNEL_TEST(events_may_be_closed_by_the_range)
{
    int fd = open_clock(PERIOD), other = open_clock(PERIOD);
    const struct perf_event_mmap_page *page = map_ring(fd, 1);
    uint64_t words[3];

    control(fd, PERF_EVENT_IOC_ENABLE, 0);
    CHECK_EQ(other, fd + 1);
    CHECK_EQ(syscall(SYS_close_range, fd, other, 0), 0);
    CHECK(syscall(SYS_read, fd, words, sizeof words) < 0 && errno == EBADF);
    CHECK(syscall(SYS_ioctl, other, PERF_EVENT_IOC_DISABLE, 0) < 0 && errno == EBADF);
    burn_a(10 * PERIOD);
    CHECK_NUMBER(page->data_head / RECORD_SIZE, 10, 1, 1000);
    CHECK_EQ(open("/dev/null", O_RDONLY | O_CLOEXEC), fd);
    CHECK(syscall(SYS_ioctl, fd, PERF_EVENT_IOC_ID, words) < 0 && errno == ENOTTY);
}

/* ---- CPU clocks ------------------------------------------------------------------------------ */

static void *run_and_tell(void *arg)
{
    burn_b(5 * PERIOD);
    CHECK_EQ(pthread_getcpuclockid(pthread_self(), arg), 0);
    return NULL;
}

KERNEL_TEST(the_process_has_the_time_of_threads_that_have_ended)
{
    uint64_t before = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    struct timespec at;
    clockid_t clock;
    pthread_t thread;

    for (int i = 0; i < 3; i++) {
        CHECK_EQ(pthread_create(&thread, NULL, run_and_tell, &clock), 0);
        pthread_join(thread, NULL);
    }
    for (int i = 0; i < 1000 && clock_gettime(clock, &at) == 0; i++)
        usleep(1000); /* a thread that was joined may not have ended */
    CHECK(clock_gettime(clock, &at) < 0);
    CHECK_NUMBER(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - before, 15 * PERIOD, 15 * PERIOD, 1000 * PERIOD);
}
