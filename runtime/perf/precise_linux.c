/*
 * Finds out which level of precise_ip works.
 *
 * A kernel refuses the levels that its PMU does not have. But some kernels accept a level and then deliver no
 * sample. So the code below tries each level, from the requested one downwards, until a real sample arrives
 * on the calling thread.
 */
#include <errno.h>
#include <sys/mman.h>
#include <time.h>

#include "atomic.h"
#include "perf_linux.h"
#include "runtime/base/os.h"
#include "runtime/base/sys_linux.h"
#include "runtime/event/rows.h"

/* An attempt samples every PERIOD events. The attempt ends with the first sample, or after ATTEMPT_NS of CPU
 * time. */
#define PERIOD 1000
#define ATTEMPT_NS 2000000
/* After this many periods without a sample, none will come. */
#define PERIODS_WITHOUT 10
/* The first record is enough. The kernel disables the event after these, if the calling thread gets no time
 * to do that. */
#define MOST_RECORDS 64

/* Provokes whatever a processor counts: instructions, cycles, branches that are hard to predict, accesses to
 * more memory than the first-level cache holds. */
static void exert(void)
{
    static uint8_t memory[256 << 10];
    uint32_t random = 1;

    for (int i = 0; i < 2000; i++) {
        uint8_t *at = &memory[(random = random * 1664525 + 1013904223) >> 14];

        if ((random >> 13 & 1) != 0)
            cp_store_relaxed(at, (uint8_t)(*at + 1)); /* relaxed: nobody reads the memory */
    }
}

enum outcome {
    REFUSED,
    DELIVERS,
    DELIVERS_NOT,
    UNKNOWN, /* the event did not happen often enough */
};

/* Enables an event and waits for its first record. */
static enum outcome watch_level(int fd, uint64_t id, const struct perf_event_mmap_page *page)
{
    uint64_t start = cp__os_clock_ns_from_handler(CLOCK_THREAD_CPUTIME_ID);
    uint64_t count = 0;

    cp__perf_let_count_from_handler(fd, MOST_RECORDS);
    /* pairs with the kernel's barrier before the kernel stores data_head */
    while (cp_load_acquire(&page->data_head) == 0 &&
           cp__os_clock_ns_from_handler(CLOCK_THREAD_CPUTIME_ID) - start < ATTEMPT_NS)
        exert();
    if (cp__perf_is_event_from_handler(fd, id))
        cp__sys_ioctl_from_handler(fd, PERF_EVENT_IOC_DISABLE, 0);
    if (cp_load_acquire(&page->data_head) != 0) /* pairs with the same barrier */
        return DELIVERS;
    if (!cp__perf_is_event_from_handler(fd, id) ||
        cp__sys_read_from_handler(fd, &count, sizeof count) != sizeof count ||
        count < (uint64_t)PERIODS_WITHOUT * PERIOD)
        return UNKNOWN;
    return DELIVERS_NOT;
}

/* Tries one level of precise_ip. */
static enum outcome attempt(const struct cp_slot_request *request, unsigned level)
{
    struct perf_event_attr attr = cp__perf_sample_attr_from_handler(&request->config);
    enum outcome outcome = UNKNOWN;
    uint64_t id;
    void *ring;
    int fd;

    attr.precise_ip = level & 3;
    attr.sample_period = PERIOD;
    attr.read_format = 0;
    fd = cp__perf_open_event_from_handler(&attr, 0);
    if (fd < 0)
        return REFUSED;
    id = cp__perf_id_from_handler(fd);
    if (id == 0)
        return UNKNOWN;
    ring = mmap(NULL, 2 * cp__perf_page_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (ring != MAP_FAILED) {
        outcome = watch_level(fd, id, ring);
        munmap(ring, 2 * cp__perf_page_size);
    }
    cp__perf_close_from_handler(fd, id);
    return outcome;
}

enum cp_profile_pc_precision cp__perf_reach_precision(const struct cp_slot_request *request)
{
    unsigned level = request->config.precise_ip;

    if (cp__config_event(request->event, &request->config)->kind != CP_EVENT_HARDWARE)
        return CP_CPUPROF_IP_ARBITRARY_SKID; /* the kernel ignores precise_ip for other events */
    for (; level > 0; level--) {
        enum outcome outcome = attempt(request, level);

        if (outcome == DELIVERS || outcome == UNKNOWN)
            break;
    }
    return (enum cp_profile_pc_precision)level;
}
