/*
 * What tests of a kernel ask it by: events, their rings, and their signals. The kernel is the simulated
 * one in a SIM_TEST(), and the machine's in a CP_TEST().
 */
#ifndef COUNTERPOINT_TESTS_SIM_ASK_H
#define COUNTERPOINT_TESTS_SIM_ASK_H

#include "tests/support/burn.h"
#include "tests/support/resources.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <ucontext.h>

#define PERIOD MS

/* ---- Signals --------------------------------------------------------------------------------- */

#define NOTED 64

/* What the last signals brought. */
static struct {
    int code, fd;
    long band;
    int overrun;
    uint64_t data;
    unsigned flags;
    uintptr_t pc;
} noted[NOTED];
static int signals; /* atomic */

static uintptr_t pc_of(const ucontext_t *uc)
{
#if defined(__x86_64__)
    return (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return uc->uc_mcontext.pc;
#else
    (void)uc;
    return 0;
#endif
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
    int i = cp_fetch_add_relaxed(&signals, 1) % NOTED; /* relaxed: the test's own thread reads it */

    (void)signal;
    noted[i].code = info->si_code;
    noted[i].fd = info->si_fd;
    noted[i].band = info->si_band;
    noted[i].overrun = info->si_overrun;
    memcpy(&noted[i].data, (char *)&info->si_addr + sizeof(void *), sizeof noted[i].data);
    memcpy(&noted[i].flags, (char *)&info->si_addr + sizeof(void *) + 12, sizeof noted[i].flags);
    noted[i].pc = pc_of(context);
}

static void handle(int signal)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};

    if (TEST_TSAN && !sim_is_on())
        SKIP("ThreadSanitizer delivers signals late: what they tell means nothing");
    CHECK_EQ(sigaction(signal, &action, NULL), 0);
    signals = 0;
}

static void set_blocked(int signal, bool is_blocked)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, signal);
    pthread_sigmask(is_blocked ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

static bool is_pending(int signal)
{
    sigset_t set;

    CHECK_EQ(sigpending(&set), 0);
    return sigismember(&set, signal) == 1;
}

/* ---- Events ---------------------------------------------------------------------------------- */

static struct perf_event_attr clock_attr(uint64_t period)
{
    return (struct perf_event_attr){.size = sizeof(struct perf_event_attr),
                                    .type = PERF_TYPE_SOFTWARE,
                                    .config = PERF_COUNT_SW_TASK_CLOCK,
                                    .sample_period = period,
                                    .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_READ,
                                    .read_format =
                                        PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
                                    .disabled = 1,
                                    .exclude_kernel = 1,
                                    .exclude_hv = 1,
                                    .wakeup_events = 1};
}

/* A record of such an event: header, id, place, count, time enabled, time running. */
#define RECORD_WORDS 6
#define RECORD_SIZE (RECORD_WORDS * sizeof(uint64_t))

static int open_event(struct perf_event_attr *attr)
{
    int fd;

    test_need_events();
    if (attr->sample_period != 0)
        test_need_rate(attr->config == PERF_COUNT_SW_TASK_CLOCK ? 1000 * MS / attr->sample_period : 10000);
    fd = (int)syscall(SYS_perf_event_open, attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0 && (errno == EINVAL || errno == E2BIG) && !sim_is_on())
        SKIP("this kernel is too old for the event");
    CHECKF(fd >= 0, "%s", strerror(errno));
    return fd;
}

static int open_clock(uint64_t period)
{
    struct perf_event_attr attr = clock_attr(period);

    return open_event(&attr);
}

static void control(int fd, unsigned long request, unsigned long argument)
{
    long result = syscall(SYS_ioctl, fd, request, argument);

    CHECKF(result == 0, "%#lx: %s", request, strerror(errno));
}

/* Sends the event's signals to the calling thread. */
static void send_signals(int fd, int signal)
{
    const struct f_owner_ex owner = {F_OWNER_TID, (pid_t)syscall(SYS_gettid)};

    CHECK_EQ(syscall(SYS_fcntl, fd, F_SETOWN_EX, &owner), 0);
    CHECK_EQ(syscall(SYS_fcntl, fd, F_SETSIG, signal), 0);
    CHECK_EQ(syscall(SYS_fcntl, fd, F_SETFL, O_ASYNC), 0);
}

static void run_a(int fd, uint64_t ns)
{
    control(fd, PERF_EVENT_IOC_ENABLE, 0);
    burn_a(ns);
    control(fd, PERF_EVENT_IOC_DISABLE, 0);
}

static struct perf_event_mmap_page *map_ring(int fd, size_t pages)
{
    void *page =
        mmap(NULL, (1 + pages) * (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (page == MAP_FAILED && errno == EPERM && !sim_is_on())
        SKIP("this user has no ring memory left");
    CHECKF(page != MAP_FAILED, "%s", strerror(errno));
    return page;
}

static uint64_t word_at(const struct perf_event_mmap_page *page, uint64_t at)
{
    uint64_t word;

    memcpy(&word, (const char *)page + page->data_offset + at % page->data_size, sizeof word);
    return word;
}

static struct perf_event_header header_at(const struct perf_event_mmap_page *page, uint64_t at)
{
    struct perf_event_header header;
    uint64_t word = word_at(page, at);

    memcpy(&header, &word, sizeof header);
    return header;
}

static uint64_t id_of(int fd)
{
    uint64_t id = 0;

    control(fd, PERF_EVENT_IOC_ID, (unsigned long)&id);
    return id;
}

static uint64_t count_of(int fd)
{
    uint64_t words[3];

    CHECK_EQ(syscall(SYS_read, fd, words, sizeof words), sizeof words);
    return words[0];
}

#endif
