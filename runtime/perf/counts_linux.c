/*
 * Finds out whether an event that opens also counts.
 *
 * A virtual machine may have a PMU whose counters stay at 0, or debug registers that its host does not pass
 * on: perf_event_open(2) succeeds there, but the event never happens. So the code below makes the event
 * happen once, on the calling thread, and reads the count. If the event cannot be provoked reliably (a miss
 * of some cache), the cycles of the same PMU are tried instead. The kernel's own events are not tried,
 * because the kernel counts every one of them that it opens.
 */
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <stdint.h>
#include <time.h>

#include "core_pmu_linux.h"
#include "perf_linux.h"
#include "runtime/base/fail.h"
#include "runtime/base/os.h"
#include "runtime/base/sys_linux.h"
#include "runtime/event/rows.h"

/* If a PMU has counted nothing in this much CPU time, it counts nothing at all. A PMU that works counts in
 * the first microseconds. */
#define ENOUGH_NS 2000000

/* The events of one trial, on the PMU of each kind of core, and the function that makes them happen. */
struct trial {
    const struct perf_event_attr *attr;
    void (*trigger)(const struct perf_event_attr *attr);
    struct {
        int fd;
        uint64_t id;
    } events[CP__CORE_PMUS];
    int n;
};

/* ---- Making it happen ------------------------------------------------------------------------ */

/* Runs some thousand instructions, cycles and branches in user mode, and some system calls. */
static void work_a_little(const struct perf_event_attr *attr)
{
    volatile unsigned sum = 0;

    (void)attr;
    for (unsigned i = 0; i < 2000; i++)
        sum += i;
    (void)sum; /* clang warns about a variable that is only written */
    for (unsigned i = 0; i < 10; i++)
        cp__os_tid();
}

/* Accesses the watched word, which is on this thread's own stack. */
static void access_word(const struct perf_event_attr *attr)
{
    volatile uint64_t *word = (volatile uint64_t *)(uintptr_t)attr->bp_addr;

    *word = *word + 1;
}

/* The function that a trial's watchpoint for execution watches. */
__attribute__((noinline)) static void execute(const struct perf_event_attr *attr)
{
    __asm__ volatile("" ::"r"(attr));
}

/* ---- Looking --------------------------------------------------------------------------------- */

static int add_trial_from_handler(void *context, struct perf_event_attr *attr)
{
    struct trial *trial = context;
    int fd = cp__perf_open_from_handler(attr, 0);

    if (fd < 0)
        return fd;
    trial->events[trial->n].fd = fd;
    trial->events[trial->n++].id = cp__perf_id_from_handler(fd);
    return 0;
}

static bool is_trial_open(const struct trial *trial, int i)
{
    return cp__perf_is_event_from_handler(trial->events[i].fd, trial->events[i].id);
}

/* Returns false only if every event had a counter and none of them counted. If an event never had a counter,
 * it may count later; so may one that the program has closed, when it is opened again. */
static bool counts(const struct trial *trial)
{
    bool has_run = false;

    for (int i = 0; i < trial->n; i++) {
        struct cp__count count;

        if (!is_trial_open(trial, i) ||
            cp__sys_read_from_handler(trial->events[i].fd, &count, sizeof count) <= 0 || count.value != 0)
            return true;
        has_run = has_run || count.time_running != 0;
    }
    return !has_run;
}

/* Enables the events and provokes them until one counts; returns false after ENOUGH_NS of CPU time. */
static bool happens(const struct trial *trial)
{
    uint64_t start = cp__os_clock_ns_from_handler(CLOCK_THREAD_CPUTIME_ID);

    for (int i = 0; i < trial->n; i++) {
        if (is_trial_open(trial, i))
            cp__sys_ioctl_from_handler(trial->events[i].fd, PERF_EVENT_IOC_ENABLE, 0);
    }
    do {
        trial->trigger(trial->attr);
        if (counts(trial))
            return true;
    } while (cp__os_clock_ns_from_handler(CLOCK_THREAD_CPUTIME_ID) - start < ENOUGH_NS);
    return false;
}

/* Returns false only if the event opens and does not count when it is provoked. If the event does not open,
 * the result is true: opening the caller's own event will report the reason. */
static bool try_event(const struct perf_event_attr *attr, void (*trigger)(const struct perf_event_attr *attr))
{
    struct trial trial = {.attr = attr, .trigger = trigger};
    bool result = cp__core_pmus_add_from_handler(attr, add_trial_from_handler, &trial) < 0 || happens(&trial);

    for (int i = 0; i < trial.n; i++)
        cp__perf_close_from_handler(trial.events[i].fd, trial.events[i].id);
    return result;
}

/* ---- What to try ----------------------------------------------------------------------------- */

/* Tries the same kind of access on a word of this function's own, in user mode. Whether debug registers work
 * does not depend on the address in them, and the program's own word must not be touched. */
static bool try_watchpoint(struct perf_event_attr *attr)
{
    volatile uint64_t word = 0;
    bool is_code = attr->bp_type == HW_BREAKPOINT_X;

    attr->bp_addr = is_code ? (uintptr_t)execute : (uintptr_t)&word;
    attr->exclude_user = 0;
    attr->exclude_kernel = 1;
    attr->exclude_hv = 1;
    return try_event(attr, is_code ? execute : access_word);
}

/* Returns whether the event happens in any program that runs for a moment. */
static bool is_certain(const struct perf_event_attr *attr)
{
    if (attr->type != PERF_TYPE_HARDWARE)
        return false;
    switch ((uint32_t)attr->config) { /* the upper half names a kind of core */
    case PERF_COUNT_HW_CPU_CYCLES:
    case PERF_COUNT_HW_INSTRUCTIONS:
    case PERF_COUNT_HW_BRANCH_INSTRUCTIONS:
    case PERF_COUNT_HW_BUS_CYCLES:
    case PERF_COUNT_HW_REF_CPU_CYCLES:
        return true;
    default:
        return false;
    }
}

/* Changes attr to the cycles of the same PMU, in the same modes. */
static void turn_to_cycles(struct perf_event_attr *attr)
{
    uint64_t pmu = 0;

    if (attr->type == PERF_TYPE_HARDWARE || attr->type == PERF_TYPE_HW_CACHE)
        pmu = attr->config >> 32; /* PERF_PMU_TYPE_SHIFT, Linux 5.13 */
    else if (attr->type >= PERF_TYPE_MAX)
        pmu = attr->type;
    attr->type = PERF_TYPE_HARDWARE;
    attr->config = pmu << 32 | PERF_COUNT_HW_CPU_CYCLES;
    attr->config1 = attr->config2 = 0;
}

static bool try_hardware(struct perf_event_attr *attr)
{
    if (attr->exclude_user && attr->exclude_kernel)
        return true; /* a hypervisor's work cannot be provoked */
    if (!is_certain(attr))
        turn_to_cycles(attr);
    return try_event(attr, work_a_little);
}

int cp__perf_try_count(const struct cp_slot_request *request)
{
    struct perf_event_attr attr = cp__perf_attr_from_handler(&request->config);
    bool result = true;

    switch (cp__config_event(request->event, &request->config)->kind) {
    case CP_EVENT_WATCHPOINT:
        result = try_watchpoint(&attr);
        break;
    case CP_EVENT_HARDWARE:
        result = try_hardware(&attr);
        break;
    default:
        break;
    }
    return result ? 0 : -ENODATA;
}
