/* Builds what perf_event_open(2) is asked for, and opens events. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "arch/arch.h"
#include "core_pmu_linux.h"
#include "perf_linux.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/sys_linux.h"

/* set once, before the first event */
bool cp__perf_has_lost_count, cp__perf_has_limits;
size_t cp__perf_page_size;

/* ---- Opening --------------------------------------------------------------------------------- */

/* Raises the soft limit of descriptors to the hard one; returns whether the limit rose. The soft limit exists
 * for programs that put descriptors into an fd_set, and the profiler does not; so it raises the limit only
 * when it reaches it. */
static bool raise_descriptor_limit_from_handler(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= limit.rlim_max)
        return false;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

int cp__perf_open_from_handler(const struct perf_event_attr *attr, pid_t tid)
{
    int fd = cp__sys_perf_event_open_from_handler(attr, tid);

    if (fd == -EMFILE && raise_descriptor_limit_from_handler())
        fd = cp__sys_perf_event_open_from_handler(attr, tid);
    return fd;
}

/* A program with so few descriptors is not left some of them: it has few threads, too. */
#define FEW_DESCRIPTORS 256
#define MOST_LEFT 1024

/* Returns the first descriptor that is left to the program: an eighth of all. */
static rlim_t first_left(rlim_t limit)
{
    if (limit < FEW_DESCRIPTORS)
        return limit;
    return limit - (limit / 8 < MOST_LEFT ? limit / 8 : MOST_LEFT);
}

bool cp__perf_is_left_from_handler(int fd)
{
    static uint32_t plenty; /* shared, atomic: descriptors below that are not left to the program */
    struct rlimit limit;
    rlim_t first;

    if ((uint32_t)fd < cp_load_relaxed(&plenty)) /* relaxed: a number of its own */
        return false;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return false;
    first = first_left(limit.rlim_cur);
    if ((rlim_t)fd >= first && raise_descriptor_limit_from_handler())
        first = first_left(limit.rlim_max);
    cp_store_relaxed(&plenty, first < INT_MAX ? (uint32_t)first : INT_MAX); /* relaxed: the same */
    return (rlim_t)fd >= first;
}

struct perf_event_attr cp__perf_dummy_attr_from_handler(void)
{
    return (struct perf_event_attr){.size = sizeof(struct perf_event_attr),
                                    .type = PERF_TYPE_SOFTWARE,
                                    .config = PERF_COUNT_SW_DUMMY,
                                    .disabled = 1,
                                    .exclude_kernel = 1,
                                    .exclude_hv = 1};
}

int cp__perf_try_open(const struct perf_event_attr *attr)
{
    int fd = cp__perf_open_from_handler(attr, 0);

    if (fd >= 0)
        cp__sys_close_from_handler(fd);
    return fd < 0 ? fd : 0;
}

/* Opens an event, without exclude_idle if the PMU refuses that bit, as arm64's PMU does. A thread's event
 * never counts in the idle task, so nothing is lost. */
int cp__perf_open_event_from_handler(struct perf_event_attr *attr, pid_t tid)
{
    int fd = cp__perf_open_from_handler(attr, tid);

    if (fd == -EOPNOTSUPP && attr->exclude_idle) {
        attr->exclude_idle = 0;
        fd = cp__perf_open_from_handler(attr, tid);
    }
    return fd;
}

/* Returns whether a descriptor is an event's, by its name in /proc. Slashes before the number do no harm. */
static bool is_named_event_from_handler(int fd)
{
    static const char wanted[] = "anon_inode:[perf_event]";
    char path[] = "/proc/self/fd//////////", name[sizeof wanted];
    size_t at = sizeof path - 1, same = 0;
    unsigned left = (unsigned)fd;

    do {
        path[--at] = (char)('0' + left % 10);
        left /= 10;
    } while (left != 0);
    if (cp__sys_readlink_from_handler(path, name, sizeof name) != (long)sizeof wanted - 1)
        return false;
    while (same < sizeof wanted - 1 && name[same] == wanted[same])
        same++;
    return same == sizeof wanted - 1;
}

/* If the program has installed a filter of system calls that refuses ioctl(2), nobody tells the id. An event
 * with that number is then taken for the library's: the program would hardly have closed the library's, and
 * opened one of its own. An event that is not closed would end the program by a SIGPROF later. */
bool cp__perf_is_event_from_handler(int fd, uint64_t id)
{
    uint64_t found;
    int result = cp__sys_ioctl_from_handler(fd, PERF_EVENT_IOC_ID, (unsigned long)&found);

    if (result < 0)
        return result != -EBADF && is_named_event_from_handler(fd);
    return found == id;
}

void cp__perf_close_from_handler(int fd, uint64_t id)
{
    if (cp__perf_is_event_from_handler(fd, id))
        cp__sys_close_from_handler(fd);
}

uint64_t cp__perf_id_from_handler(int fd)
{
    uint64_t id = 0;

    cp__sys_ioctl_from_handler(fd, PERF_EVENT_IOC_ID, (unsigned long)&id);
    return id;
}

int cp__perf_let_count_from_handler(int fd, uint64_t samples)
{
    if (!cp__perf_has_limits)
        return cp__sys_ioctl_from_handler(fd, PERF_EVENT_IOC_ENABLE, 0);
    return cp__sys_ioctl_from_handler(fd, PERF_EVENT_IOC_REFRESH, (unsigned long)samples);
}

struct perf_event_attr cp__perf_attr_from_handler(const struct cp_cpu_profile_config *config)
{
    const struct cp_event_encoding *encoding = &config->encoding;

    return (struct perf_event_attr){
        .size = sizeof(struct perf_event_attr),
        .type = encoding->type,
        .config = encoding->config,
        .bp_type = encoding->bp_type,
        .config1 = encoding->config1,
        .config2 = encoding->config2,
        .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
        .disabled = 1,
        .exclude_user = config->is_user_excluded,
        .exclude_kernel = !config->is_kernel_included,
        .exclude_hv = !config->is_hv_included,
    };
}

struct perf_event_attr cp__perf_sample_attr_from_handler(const struct cp_cpu_profile_config *config)
{
    struct perf_event_attr attr = cp__perf_attr_from_handler(config);

    attr.sample_period = config->period;
    attr.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_READ |
                       (config->is_sample_ip_included ? PERF_SAMPLE_IP : 0) |
                       (config->is_sample_addr_included ? PERF_SAMPLE_ADDR : 0) |
                       (config->is_sample_callchain_included ? PERF_SAMPLE_CALLCHAIN : 0) |
                       (CP__PERF_REGS != 0 ? PERF_SAMPLE_REGS_USER : 0);
    attr.sample_regs_user = CP__PERF_REGS;
    attr.read_format |= cp__perf_has_lost_count ? PERF_FORMAT_LOST : 0;
    attr.exclude_idle = !config->is_idle_included;
    attr.exclude_callchain_kernel = !config->is_callchain_kernel_included;
    attr.exclude_callchain_user = !config->is_callchain_user_included;
    attr.precise_ip = config->precise_ip & 3;
    attr.wakeup_events = 1;
    return attr;
}

/* ---- What the kernel knows ------------------------------------------------------------------- */

/* Returns whether the kernel knows PERF_FORMAT_LOST. Only a kernel that does not know the flag returns EINVAL
 * here. */
static bool knows_lost_count(void)
{
    struct perf_event_attr attr = cp__perf_dummy_attr_from_handler();

    attr.read_format = PERF_FORMAT_LOST;
    return cp__perf_try_open(&attr) != -EINVAL;
}

static void find_out(void)
{
    int cancel_state;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state); /* reading files is a cancellation point */
    cp__perf_page_size = (size_t)sysconf(_SC_PAGESIZE);
    cp__fork_delay(); /* knows_lost_count() opens an event and closes it */
    cp__perf_has_lost_count = knows_lost_count();
    cp__perf_has_limits = cp__perf_find_fault(CP__FAULT_LIMITS) == NULL;
    cp__fork_allow();
    cp__core_pmus_find("/sys/bus/event_source/devices", &cp__core_pmus);
    pthread_setcancelstate(cancel_state, NULL);
}

void cp__perf_prepare(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, find_out);
}
