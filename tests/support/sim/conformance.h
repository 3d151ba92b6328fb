/*
 * What the simulated kernel does as Linux does. One source is two programs: tests/unit/sim_test.c asks the
 * simulated kernel, and tests/live/kernel_test.c asks the machine's. The including file defines
 *
 *     KERNEL_TEST(name)                     how a test begins
 *     CHECK_NUMBER(number, exact, lo, hi)   the number when simulated, and its bounds on a busy machine
 */
#include "ask.h"
#include "runtime/base/os.h"

/* ---- Samples --------------------------------------------------------------------------------- */

KERNEL_TEST(a_sample_is_a_record_and_a_signal)
{
    int fd = open_clock(PERIOD);
    struct perf_event_mmap_page *page = map_ring(fd, 1);
    uint64_t n;

    handle(SIGPROF);
    send_signals(fd, SIGPROF);
    run_a(fd, 20 * PERIOD);
    n = page->data_head / RECORD_SIZE;
    CHECK_NUMBER(n, 20, 2, 1000);
    CHECK_NUMBER(signals, 20, 2, (int)n);
    CHECK_EQ(page->data_head % RECORD_SIZE, 0);
    CHECK_EQ(header_at(page, 0).type, PERF_RECORD_SAMPLE);
    CHECK_EQ(header_at(page, 0).misc & PERF_RECORD_MISC_CPUMODE_MASK, PERF_RECORD_MISC_USER);
    CHECK_EQ(header_at(page, 0).size, RECORD_SIZE);
    CHECK_EQ(word_at(page, 8), id_of(fd));
    for (int i = 0; i < signals && i < NOTED; i++)
        CHECK(noted[i].code == POLL_IN && noted[i].fd == fd && noted[i].band == 0x41);
}

KERNEL_TEST(records_count_up)
{
    int fd = open_clock(PERIOD);
    const struct perf_event_mmap_page *page = map_ring(fd, 1);
    uint64_t count = 0;

    run_a(fd, 20 * PERIOD);
    CHECK_NUMBER(page->data_head / RECORD_SIZE, 20, 2, 1000);
    for (uint64_t at = 0; at < page->data_head; at += RECORD_SIZE) {
        CHECK_NUMBER(word_at(page, at + 24) - count, PERIOD, 1, 1000 * PERIOD);
        count = word_at(page, at + 24);
        CHECK(word_at(page, at + 32) >= count && word_at(page, at + 40) == word_at(page, at + 32));
    }
    CHECK_NUMBER(count_of(fd), 20 * PERIOD, count, 1000 * PERIOD);
}

KERNEL_TEST(a_count_is_read_whole_or_not)
{
    int fd = open_clock(PERIOD);
    uint64_t words[3];

    CHECK_EQ(syscall(SYS_read, fd, words, 2 * sizeof words[0]), -1);
    CHECK_EQ(errno, ENOSPC);
    CHECK_EQ(syscall(SYS_read, fd, words, sizeof words), sizeof words);
    CHECK(words[0] == 0 && words[1] == 0 && words[2] == 0);
}

KERNEL_TEST(the_record_says_where_the_signal_comes)
{
    int fd = open_clock(PERIOD);
    const struct perf_event_mmap_page *page = map_ring(fd, 1);
    int same = 0;

    handle(SIGPROF);
    send_signals(fd, SIGPROF);
    run_a(fd, 20 * PERIOD);
    for (uint64_t at = 0; at < page->data_head; at += RECORD_SIZE) {
        int here = 0;

        for (int i = 0; i < signals && i < NOTED; i++)
            here |= word_at(page, at + 16) == noted[i].pc;
        same += here;
    }
    CHECK_NUMBER(same, 20, signals / 2, 1000);
    if (sim_is_on())
        CHECK(is_in(IN_A, word_at(page, 16)));
}

KERNEL_TEST(a_blocked_signal_is_pending_once)
{
    int fd = open_clock(PERIOD);
    const struct perf_event_mmap_page *page = map_ring(fd, 1);

    handle(SIGPROF);
    send_signals(fd, SIGPROF);
    set_blocked(SIGPROF, true);
    run_a(fd, 10 * PERIOD);
    CHECK_EQ(signals, 0);
    set_blocked(SIGPROF, false);
    CHECK_EQ(signals, 1);
    CHECK_NUMBER(page->data_head / RECORD_SIZE, 10, 2, 1000);
}

KERNEL_TEST(an_event_without_async_sends_nothing)
{
    int fd = open_clock(PERIOD);
    const struct perf_event_mmap_page *page = map_ring(fd, 1);

    handle(SIGPROF);
    handle(SIGIO);
    run_a(fd, 5 * PERIOD);
    CHECK_EQ(signals, 0);
    CHECK_NUMBER(page->data_head / RECORD_SIZE, 5, 1, 1000);
}

KERNEL_TEST(an_event_without_a_ring_sends_signals)
{
    int fd = open_clock(PERIOD);

    handle(SIGPROF);
    send_signals(fd, SIGPROF);
    run_a(fd, 5 * PERIOD);
    CHECK_NUMBER(signals, 5, 1, 1000);
}

KERNEL_TEST(what_is_left_of_a_period_is_kept)
{
    int fd = open_clock(20 * PERIOD);

    handle(SIGPROF);
    send_signals(fd, SIGPROF);
    for (int i = 0; i < 4; i++)
        run_a(fd, 4 * PERIOD);
    CHECK_NUMBER(signals, 0, 0, 100);
    do { /* a thread that often loses its CPU loses some of what is left */
        run_a(fd, 8 * PERIOD);
    } while (signals == 0 && !sim_is_on());
    CHECK_NUMBER(signals, 1, 1, 100);
}

/* ---- Rings ----------------------------------------------------------------------------------- */

KERNEL_TEST(a_full_ring_loses_and_says_so)
{
    struct perf_event_attr attr = clock_attr(PERIOD / 5);
    struct perf_event_mmap_page *page;
    uint64_t words[4], head, lost;
    uint64_t room;
    int fd;

    attr.read_format |= PERF_FORMAT_LOST;
    fd = open_event(&attr);
    page = map_ring(fd, 1);
    room = ((uint64_t)sysconf(_SC_PAGESIZE) - 1) / (RECORD_SIZE + 8);
    do { /* a virtual machine that stands still has fewer samples */
        run_a(fd, (room + 20) * PERIOD / 5);
        CHECK_EQ(syscall(SYS_read, fd, words, sizeof words), sizeof words);
        lost = words[3];
    } while (lost < 3);
    CHECK_NUMBER(lost, 20, 3, 10000);
    head = page->data_head;
    CHECK_EQ(head, room * (RECORD_SIZE + 8));
    CHECK(room + lost <= words[0] / (PERIOD / 5));
    page->data_tail = head;
    do
        run_a(fd, PERIOD);
    while (page->data_head == head);
    CHECK_EQ(header_at(page, head).type, PERF_RECORD_LOST);
    CHECK_EQ(header_at(page, head).size, 24);
    CHECK_EQ(word_at(page, head + 8), id_of(fd));
    CHECK_EQ(word_at(page, head + 16), lost);
    CHECK_EQ(header_at(page, head + 24).type, PERF_RECORD_SAMPLE);
}

KERNEL_TEST(events_share_a_ring_and_name_themselves)
{
    int fd = open_clock(PERIOD), other = open_clock(2 * PERIOD);
    const struct perf_event_mmap_page *page = map_ring(fd, 1);
    uint64_t of_other = 0;

    control(other, PERF_EVENT_IOC_SET_OUTPUT, (unsigned long)fd);
    control(other, PERF_EVENT_IOC_ENABLE, 0);
    run_a(fd, 10 * PERIOD);
    control(other, PERF_EVENT_IOC_DISABLE, 0);
    for (uint64_t at = 0; at < page->data_head; at += RECORD_SIZE)
        of_other += word_at(page, at + 8) == id_of(other);
    CHECK_NUMBER(of_other, 5, 1, 1000);
    CHECK_NUMBER(page->data_head / RECORD_SIZE, 15, 2, 1000);
}

static void *open_for_another(void *arg)
{
    *(int *)arg = open_clock(PERIOD);
    return NULL;
}

KERNEL_TEST(events_of_two_threads_share_no_ring)
{
    int fd = open_clock(PERIOD), other = -1;
    pthread_t thread;

    map_ring(fd, 1);
    CHECK_EQ(pthread_create(&thread, NULL, open_for_another, &other), 0);
    pthread_join(thread, NULL);
    CHECK_EQ(syscall(SYS_ioctl, other, PERF_EVENT_IOC_SET_OUTPUT, fd), -1);
    CHECK_EQ(errno, EINVAL);
}

/* A ring keeps its event: this is why the library unmaps first. */
KERNEL_TEST(a_closed_event_goes_on_while_its_ring_is_mapped)
{
    int fd = open_clock(PERIOD);
    struct perf_event_mmap_page *page = map_ring(fd, 1);

    handle(SIGPROF);
    send_signals(fd, SIGPROF);
    control(fd, PERF_EVENT_IOC_ENABLE, 0);
    CHECK_EQ(syscall(SYS_close, fd), 0);
    burn_a(10 * PERIOD);
    CHECK_NUMBER(signals, 10, 1, 1000);
    CHECK_EQ(munmap(page, 2 * (size_t)sysconf(_SC_PAGESIZE)), 0);
    signals = 0;
    burn_a(10 * PERIOD);
    CHECK_EQ(signals, 0);
}

/* ---- Limits ---------------------------------------------------------------------------------- */

KERNEL_TEST(a_refresh_is_so_many_overflows)
{
    int fd = open_clock(PERIOD);

    handle(SIGPROF);
    send_signals(fd, SIGPROF);
    control(fd, PERF_EVENT_IOC_REFRESH, 3);
    for (int i = 0; i < 100 && signals < 3; i++)
        burn_a(5 * PERIOD);
    CHECK_EQ(signals, 3);
    CHECK(noted[0].code == POLL_IN && noted[1].code == POLL_IN && noted[2].code == POLL_HUP);
    CHECK_NUMBER(count_of(fd), 3 * PERIOD, 2 * PERIOD, 400 * PERIOD);
    burn_a(5 * PERIOD);
    CHECK_EQ(signals, 3);
    control(fd, PERF_EVENT_IOC_REFRESH, 1);
    for (int i = 0; i < 100 && signals < 4; i++)
        burn_a(5 * PERIOD);
    CHECK(signals == 4 && noted[3].code == POLL_HUP);
}

KERNEL_TEST(a_new_period_begins_at_once)
{
    int fd = open_clock(1000 * PERIOD);
    uint64_t period = 2 * PERIOD;

    handle(SIGPROF);
    send_signals(fd, SIGPROF);
    run_a(fd, 3 * PERIOD);
    CHECK_EQ(signals, 0);
    control(fd, PERF_EVENT_IOC_PERIOD, (unsigned long)&period);
    run_a(fd, 10 * PERIOD);
    CHECK_NUMBER(signals, 5, 1, 1000);
}

/* ---- Traps ----------------------------------------------------------------------------------- */

static struct perf_event_attr trap_attr(void)
{
    struct perf_event_attr attr = clock_attr(PERIOD);

    attr.sigtrap = 1;
    attr.remove_on_exec = 1;
    attr.sig_data = 0x1234567890;
    attr.wakeup_events = 0;
    return attr;
}

KERNEL_TEST(traps_are_raised_at_once_or_pending)
{
    struct perf_event_attr attr = trap_attr();
    int fd = open_event(&attr);

    handle(SIGTRAP);
    control(fd, PERF_EVENT_IOC_ENABLE, 0);
    burn_a(10 * PERIOD);
    CHECK_NUMBER(signals, 10, 1, 1000);
    CHECK(noted[0].code == 6 && noted[0].data == 0x1234567890);
    set_blocked(SIGTRAP, true);
    signals = 0;
    burn_a(10 * PERIOD);
    control(fd, PERF_EVENT_IOC_DISABLE, 0);
    CHECK_EQ(signals, 0);
    set_blocked(SIGTRAP, false);
    CHECK_EQ(signals, 1);
    CHECK(noted[0].code == 6 && noted[0].data == 0x1234567890);
    if (sim_is_on())
        CHECK(noted[0].flags == 1 && noted[1].flags == 0);
}

KERNEL_TEST(traps_must_end_at_exec)
{
    struct perf_event_attr attr = trap_attr();

    close(open_event(&attr));
    attr.remove_on_exec = 0;
    CHECK_EQ(syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0), -1);
    CHECK_EQ(errno, EINVAL);
}

/* ---- Timers ---------------------------------------------------------------------------------- */

static int start_timer(long ns)
{
    const struct itimerspec when = {{0, ns}, {0, ns}};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF};
    int timer = 0;

    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    event.sigev_value.sival_ptr = &signals;
    CHECK_EQ(syscall(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, &event, &timer), 0);
    CHECK_EQ(syscall(SYS_timer_settime, timer, 0, &when, NULL), 0);
    return timer;
}

KERNEL_TEST(a_timer_expires_by_the_threads_cpu_time)
{
    int timer;

    handle(SIGPROF);
    timer = start_timer(10 * MS);
    sleep_ms(30);
    CHECK_EQ(signals, 0);
    for (int i = 0; i < 100 && signals == 0; i++) /* a thread that shares its CPU may get no tick for long */
        burn_a(55 * MS);
    CHECK_NUMBER(signals, 5, 1, 1000);
    CHECK_EQ(noted[0].code, SI_TIMER);
    CHECK_EQ(syscall(SYS_timer_delete, timer), 0);
    signals = 0;
    burn_a(20 * MS);
    CHECK_EQ(signals, 0);
}

KERNEL_TEST(a_timers_pending_signal_counts_the_others)
{
    int timer;

    handle(SIGPROF);
    timer = start_timer(10 * MS);
    set_blocked(SIGPROF, true);
    for (int i = 0; i < 100 && !is_pending(SIGPROF); i++)
        burn_a(65 * MS);
    set_blocked(SIGPROF, false);
    CHECK_EQ(signals, 1);
    CHECK_NUMBER(noted[0].overrun, 5, 1, 1000);
    CHECK_EQ(syscall(SYS_timer_delete, timer), 0);
}

/* Earlier versions than Linux 6.13 deliver the signal. */
KERNEL_TEST(a_timers_pending_signal_goes_with_the_timer)
{
    int timer;

    handle(SIGPROF);
    timer = start_timer(10 * MS);
    set_blocked(SIGPROF, true);
    for (int i = 0; i < 100 && !is_pending(SIGPROF); i++)
        burn_a(15 * MS);
    CHECK(is_pending(SIGPROF));
    CHECK_EQ(syscall(SYS_timer_delete, timer), 0);
    set_blocked(SIGPROF, false);
    CHECK_NUMBER(signals, 0, 0, 1);
}

/* ---- Other events ---------------------------------------------------------------------------- */

CODE(a) void switch_a(void)
{
    if (sim_is_on())
        SIM_SWITCH(1);
    else
        usleep(50);
}

KERNEL_TEST(context_switches_are_events)
{
    struct perf_event_attr attr = clock_attr(3);
    struct perf_event_mmap_page *page;
    int fd;

    attr.config = PERF_COUNT_SW_CONTEXT_SWITCHES;
    attr.exclude_kernel = 0;
    if (!counts_the_kernel())
        SKIP("this user may not count what the kernel does");
    fd = open_event(&attr);
    page = map_ring(fd, 1);
    control(fd, PERF_EVENT_IOC_ENABLE, 0);
    for (int i = 0; i < 30; i++)
        switch_a();
    control(fd, PERF_EVENT_IOC_DISABLE, 0);
    CHECK_NUMBER(count_of(fd), 30, 30, 10000);
    CHECK_NUMBER(page->data_head / RECORD_SIZE, 10, 10, 1000);
}

KERNEL_TEST(a_threads_file_tells_its_switches)
{
    uint64_t before, after, cpu_ns;

    if (!cp__os_switches_of(cp__os_tid(), &before, &cpu_ns))
        SKIP("this kernel does not tell a thread's switches");
    for (int i = 0; i < 30; i++)
        switch_a();
    CHECK(cp__os_switches_of(cp__os_tid(), &after, &cpu_ns));
    CHECK_NUMBER(after - before, 30, 30, 10000);
}

CODE(a) void fault_a(char *page)
{
    if (sim_is_on())
        SIM_FAULT(page);
    else
        *(volatile char *)page = 1;
}

KERNEL_TEST(page_faults_are_events_with_addresses)
{
    const size_t size = 20 * (size_t)sysconf(_SC_PAGESIZE);
    struct perf_event_attr attr = clock_attr(1);
    struct perf_event_mmap_page *page;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t found = 0;
    int fd;

    attr.config = PERF_COUNT_SW_PAGE_FAULTS;
    attr.sample_type |= PERF_SAMPLE_ADDR;
    madvise(memory, size, MADV_NOHUGEPAGE);
    fd = open_event(&attr);
    page = map_ring(fd, 1);
    control(fd, PERF_EVENT_IOC_ENABLE, 0);
    for (size_t at = 0; at < size; at += size / 20)
        fault_a(memory + at);
    control(fd, PERF_EVENT_IOC_DISABLE, 0);
    CHECK_NUMBER(count_of(fd), 20, 20, 1000);
    for (uint64_t at = 0; at < page->data_head; at += RECORD_SIZE + 8)
        found += word_at(page, at + 24) - (uintptr_t)memory < size && is_in(IN_A, word_at(page, at + 16));
    CHECK_NUMBER(found, 20, 20, 20);
}

KERNEL_TEST(a_software_event_with_a_new_period_overflows_at_once)
{
    const size_t size = 20 * (size_t)sysconf(_SC_PAGESIZE);
    struct perf_event_attr attr = clock_attr(1000);
    const struct perf_event_mmap_page *page;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t period = 2000;
    int fd;

    attr.config = PERF_COUNT_SW_PAGE_FAULTS;
    madvise(memory, size, MADV_NOHUGEPAGE);
    fd = open_event(&attr);
    page = map_ring(fd, 1);
    control(fd, PERF_EVENT_IOC_ENABLE, 0);
    fault_a(memory);
    CHECK_EQ(page->data_head, 0);
    control(fd, PERF_EVENT_IOC_PERIOD, (unsigned long)&period);
    for (size_t at = size / 20; at < size; at += size / 20)
        fault_a(memory + at);
    control(fd, PERF_EVENT_IOC_DISABLE, 0);
    CHECK_EQ(page->data_head, RECORD_SIZE);
}

#include "conformance_threads.h"
