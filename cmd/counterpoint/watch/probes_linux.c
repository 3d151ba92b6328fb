/* Opens probes, and reads their records. See probes.h. */
#include "probes.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "arch/arch.h"
#include "atomic.h"
#include "runtime/base/clock.h"
#include "runtime/base/fail.h"
#include "runtime/base/sysctl_linux.h"
#include "runtime/base/table.h"
#include "runtime/perf/record.h"

#define PROBE_PMU "/sys/bus/event_source/devices/uprobe/"
/* The data of a ring, and the least that is tried. */
#define RING_BYTES ((size_t)1 << 20)
#define LEAST_RING_BYTES ((size_t)32 << 10)
/* A record is shorter. A ring that has less room may have lost some. */
#define LONGEST_RECORD 1024

/* The probes of one CPU. */
struct probe_ring {
    int cpu;
    int *fds;      /* the leader, what is counted, then the probes */
    uint64_t *ids; /* of the events that have the same places in fds */
    size_t n;
    struct perf_event_mmap_page *page;
    size_t mapped;
    uint64_t last_time; /* of the last record */
};

struct watch_probes {
    const struct watch_counts *counts;
    size_t n_functions;
    size_t n_before; /* of the descriptors of a CPU: those before the probes */
    uint32_t type;   /* of the kernel's PMU for probes, and how it tells returns from entries */
    unsigned return_bit;
    struct probe_ring *rings;
    size_t n_rings;
    struct watch_record *records; /* that were read and not given away */
    size_t n, capacity;
    uint64_t began_at; /* when the last CPU has begun */
    uint64_t ended_at; /* when the first probe was about to be removed; UINT64_MAX: not yet */
    uint64_t read_at;  /* when the last reading began */
    bool have_failed;
};

/* ---- Events ---------------------------------------------------------------------------------- */

static int open_on_cpu(const struct perf_event_attr *attr, int cpu, int leader)
{
    int fd = (int)syscall(SYS_perf_event_open, attr, -1, cpu, leader, PERF_FLAG_FD_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

/* Returns what all events have that write records. */
static struct perf_event_attr recording_attr(const struct watch_probes *probes)
{
    const bool is_counted = watch_counts_n(probes->counts) > 0;

    return (struct perf_event_attr){
        .size = sizeof(struct perf_event_attr),
        .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_REGS_USER |
                       (is_counted ? PERF_SAMPLE_READ : 0),
        .sample_regs_user = CP__PERF_REGS,
        .read_format = PERF_FORMAT_GROUP,
        .sample_id_all = 1,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
        .watermark = 1,
        .wakeup_watermark = RING_BYTES / 4,
    };
}

/* The leader writes a record for each switch between threads if something is counted. It is pinned, because a
 * group that shared the processor's counters with others would have no records while the others have them. */
static int open_leader(const struct watch_probes *probes, int cpu)
{
    const bool is_counted = watch_counts_n(probes->counts) > 0;
    struct perf_event_attr attr = recording_attr(probes);

    attr.type = PERF_TYPE_SOFTWARE;
    attr.config = is_counted ? PERF_COUNT_SW_CONTEXT_SWITCHES : PERF_COUNT_SW_DUMMY;
    attr.sample_period = is_counted;
    attr.context_switch = is_counted;
    attr.pinned = is_counted;
    attr.disabled = 1;
    attr.task = 1;
    attr.comm = 1;
    attr.comm_exec = 1;
    return open_on_cpu(&attr, cpu, -1);
}

static int open_probe(const struct watch_probes *probes, const struct watch_function *function,
                      bool is_return, const struct probe_ring *ring)
{
    struct perf_event_attr attr = recording_attr(probes);

    attr.type = probes->type;
    attr.config = is_return ? (uint64_t)1 << probes->return_bit : 0;
    attr.config1 = (uint64_t)(uintptr_t)function->path;
    attr.config2 = function->offset;
    attr.sample_period = 1;
    return open_on_cpu(&attr, ring->cpu, ring->fds[0]);
}

/* function: NULL if nothing can be recorded on a CPU at all. */
static int explain_probe(int code, const struct watch_function *function, struct cp_error *err)
{
    if (code == -EACCES || code == -EPERM)
        return cp__error(
            err, code,
            "The kernel lets only processes with CAP_SYS_ADMIN put probes at functions, whatever "
            "kernel.perf_event_paranoid is (%s; from Linux 5.8 to 2025, some kernels accept CAP_PERFMON). "
            "Run "
            "this command as root, with -p for a program that should not run as root. In a container, start "
            "that "
            "with --cap-add SYS_ADMIN; the right must be one of the host's.",
            strerror(-code));
    if (code == -EMFILE || code == -ENFILE)
        return cp__error(err, code,
                         "There are not enough file descriptors: two for each function and CPU are needed "
                         "(%s). Raise ulimit -n, or watch fewer functions.",
                         strerror(-code));
    return cp__error(
        err, code,
        "The kernel puts no probe at the function \"%.100s\" (%.200s, offset 0x%llx): %s. The "
        "file must be on a file system that can map it, and the function's first instruction one "
        "that the kernel can copy.",
        function->name, function->path, (unsigned long long)function->offset, strerror(-code));
}

/* ---- Rings ----------------------------------------------------------------------------------- */

static int map_ring(struct probe_ring *ring)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *memory = MAP_FAILED;

    for (size_t size = RING_BYTES; memory == MAP_FAILED && size >= LEAST_RING_BYTES && size >= page;
         size /= 2) {
        ring->mapped = page + size;
        memory = mmap(NULL, ring->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fds[0], 0);
    }
    if (memory == MAP_FAILED)
        return -errno;
    ring->page = memory;
    return 0;
}

/* Adds an event whose records go into the ring. */
static int add_to_ring(struct probe_ring *ring, int fd)
{
    uint64_t id = 0;

    if (fd < 0)
        return fd;
    ring->fds[ring->n] = fd;
    if (ioctl(fd, PERF_EVENT_IOC_ID, &id) < 0 ||
        (ring->n > 0 && ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring->fds[0]) < 0)) {
        close(fd);
        return -errno;
    }
    ring->ids[ring->n++] = id;
    return 0;
}

static void close_ring(struct probe_ring *ring)
{
    while (ring->n > 0)
        close(ring->fds[--ring->n]);
    if (ring->page != NULL)
        munmap(ring->page, ring->mapped);
    free(ring->fds);
    free(ring->ids);
}

/* Opens the leader, and what is counted. A CPU that is offline has no ring. */
static int open_ring(struct watch_probes *probes, int cpu, struct cp_error *err)
{
    struct probe_ring *ring = &probes->rings[probes->n_rings];
    const size_t n_most = 1 + WATCH_COUNTS + 2 * probes->n_functions;
    int result = open_leader(probes, cpu), n;

    if (result == -ENODEV)
        return 0;
    if (result < 0)
        return explain_probe(result, &(struct watch_function){.name = (char[]){""}, .path = (char[]){""}},
                             err);
    *ring = (struct probe_ring){
        .cpu = cpu, .fds = calloc(n_most, sizeof *ring->fds), .ids = calloc(n_most, sizeof *ring->ids)};
    probes->n_rings++;
    if (ring->fds == NULL || ring->ids == NULL) {
        close(result);
        return cp__error(err, -ENOMEM, "There is not enough memory for the probes.");
    }
    result = add_to_ring(ring, result);
    if (result == 0)
        result = map_ring(ring);
    if (result < 0)
        return cp__error(err, result,
                         "There is no memory for the records of CPU %d: %s. End other profilers, or raise "
                         "kernel.perf_event_mlock_kb or ulimit -l.",
                         cpu, strerror(-result));
    n = watch_counts_open(probes->counts, cpu, ring->fds[0], ring->fds + ring->n, err);
    if (n < 0)
        return n;
    ring->n += (size_t)n;
    probes->n_before = ring->n;
    return 0;
}

static int open_rings(struct watch_probes *probes, struct cp_error *err)
{
    const long n = sysconf(_SC_NPROCESSORS_CONF);
    int result = 0;

    probes->rings = calloc((size_t)n, sizeof *probes->rings);
    if (probes->rings == NULL)
        return cp__error(err, -ENOMEM, "There is not enough memory for the probes.");
    for (int cpu = 0; cpu < n && result == 0; cpu++)
        result = open_ring(probes, cpu, err);
    return result;
}

static int open_all_probes(struct watch_probes *probes, const struct watch_function *functions,
                           struct cp_error *err)
{
    for (size_t i = 0; i < probes->n_rings; i++)
        for (size_t p = 0; p < 2 * probes->n_functions; p++) {
            const struct watch_function *function = &functions[p / 2];
            struct probe_ring *ring = &probes->rings[i];
            int result = add_to_ring(ring, open_probe(probes, function, p % 2 == 1, ring));

            if (result < 0)
                return explain_probe(result, function, err);
        }
    return 0;
}

/* Lets the groups count. Events that are added to a group of several PMUs that counts already would count
 * nothing, so a group begins as a whole. What was recorded before all of them have begun is a part. */
static int let_groups_count(struct watch_probes *probes, struct cp_error *err)
{
    for (size_t i = 0; i < probes->n_rings; i++)
        if (ioctl(probes->rings[i].fds[0], PERF_EVENT_IOC_ENABLE, 0) < 0)
            return cp__error(err, -errno, "The probes cannot begin: %s.", strerror(errno));
    probes->began_at = (uint64_t)cp__clock_ns(CLOCK_MONOTONIC);
    return 0;
}

static int find_probe_pmu(struct watch_probes *probes, struct cp_error *err)
{
    const double type = cp__file_number(PROBE_PMU "type", "%lf", -1),
                 bit = cp__file_number(PROBE_PMU "format/retprobe", "config:%lf", -1);

    if (CP__PERF_REGS == 0)
        return cp__error(err, -ENOSYS, "Functions cannot be watched on this processor yet.");
    if (type < 0 || bit < 0)
        return cp__error(err, -ENODEV,
                         "This kernel has no probes for functions (" PROBE_PMU " is missing): it must be "
                         "Linux 4.17 or later with CONFIG_UPROBE_EVENTS, and /sys must be mounted.");
    probes->type = (uint32_t)type;
    probes->return_bit = (unsigned)bit;
    return 0;
}

static void raise_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int watch_probes_open(struct watch_probes **out, const struct watch_function *functions, size_t n,
                      const struct watch_counts *counts, struct cp_error *err)
{
    struct watch_probes *probes = calloc(1, sizeof *probes);
    int result;

    if (probes == NULL)
        return cp__error(err, -ENOMEM, "There is not enough memory for the probes.");
    probes->counts = counts;
    probes->n_functions = n;
    probes->ended_at = UINT64_MAX;
    raise_file_limit();
    result = find_probe_pmu(probes, err);
    if (result == 0)
        result = open_rings(probes, err);
    if (result == 0)
        result = open_all_probes(probes, functions, err);
    if (result == 0)
        result = let_groups_count(probes, err);
    if (result == 0)
        *out = probes;
    else
        watch_probes_free(probes);
    return result;
}

/* A pinned group that has lost its counters ends: a read says so. To remove a probe takes the kernel many ms,
 * so entries are recorded after their returns are not; what is recorded after the beginning is no round. */
void watch_probes_stop(struct watch_probes *probes)
{
    uint64_t values[2 + WATCH_COUNTS + 2 * WATCH_FUNCTIONS];

    if (probes->ended_at == UINT64_MAX)
        probes->ended_at = (uint64_t)cp__clock_ns(CLOCK_MONOTONIC);
    for (size_t i = 0; i < probes->n_rings; i++) {
        struct probe_ring *ring = &probes->rings[i];

        if (ring->n > 0 && read(ring->fds[0], values, sizeof values) == 0)
            probes->have_failed = true;
        while (ring->n > probes->n_before)
            close(ring->fds[--ring->n]);
    }
}

bool watch_probes_have_failed(const struct watch_probes *probes)
{
    return probes->have_failed;
}

void watch_probes_free(struct watch_probes *probes)
{
    if (probes == NULL)
        return;
    for (size_t i = 0; i < probes->n_rings; i++)
        close_ring(&probes->rings[i]);
    free(probes->rings);
    free(probes->records);
    free(probes);
}

/* ---- Records --------------------------------------------------------------------------------- */

/* Makes one of a SAMPLE: identifier, thread, time, values if something is counted, registers. Returns false
 * if the record is of no interest. */
static bool take_sample(const struct watch_probes *probes, const struct probe_ring *ring,
                        const struct cp__record *from, struct watch_record *to)
{
    const uint64_t thread = cp__record_word_from_handler(from, 2);
    size_t at = 4, event = 0;

    to->pid = (pid_t)(uint32_t)thread;
    to->tid = (pid_t)(thread >> 32);
    to->time = cp__record_word_from_handler(from, 3);
    if (watch_counts_n(probes->counts) > 0) {
        const size_t n = cp__record_word_from_handler(from, at++);
        uint64_t values[1 + WATCH_COUNTS] = {0};

        for (size_t i = 0; i < n && i < probes->n_before; i++)
            values[i] = cp__record_word_from_handler(from, at + i);
        at += n;
        watch_counts_take(probes->counts, values, probes->n_before, to);
    }
    if (at + 1 < from->n_words && cp__record_word_from_handler(from, at) != PERF_SAMPLE_REGS_ABI_NONE)
        to->sp = cp__record_word_from_handler(from, at + 1);
    while (event < probes->n_before + 2 * probes->n_functions && ring->ids[event] != from->id)
        event++;
    if (event < probes->n_before || to->time <= probes->began_at) {
        to->kind = WATCH_SWITCH; /* of a round, its counts alone are of use */
        return to->counted != 0;
    }
    event -= probes->n_before;
    to->kind = event % 2 == 0 ? WATCH_ENTRY : WATCH_RETURN;
    to->function = (uint32_t)(event / 2);
    return event < 2 * probes->n_functions;
}

/* Makes one of a FORK or EXIT: two words with ids, and the time. */
static void take_task(const struct cp__record *from, struct watch_record *to)
{
    const uint64_t pids = cp__record_word_from_handler(from, 1), tids = cp__record_word_from_handler(from, 2);

    to->kind = from->type == PERF_RECORD_FORK ? WATCH_FORK : WATCH_EXIT;
    to->pid = (pid_t)(uint32_t)pids;
    to->parent_pid = (pid_t)(pids >> 32);
    to->tid = (pid_t)(uint32_t)tids;
    to->parent_tid = (pid_t)(tids >> 32);
    to->time = cp__record_word_from_handler(from, 3);
}

/* Makes one of a SWITCH_CPU_WIDE: the other thread, and then the thread itself. */
static bool take_switch(const struct watch_probes *probes, const struct cp__record *from,
                        struct watch_record *to)
{
    const uint64_t thread = cp__record_word_from_handler(from, 2);

    to->kind = (from->misc & PERF_RECORD_MISC_SWITCH_OUT) != 0 ? WATCH_SWITCH : WATCH_RESUME;
    to->pid = (pid_t)(uint32_t)thread;
    to->tid = (pid_t)(thread >> 32);
    watch_counts_take_switch(probes->counts, to);
    return true;
}

/* Makes a record of the kernel's. Other records than samples end in thread, time and identifier. */
static bool take_record(const struct watch_probes *probes, const struct probe_ring *ring,
                        const struct cp__record *from, struct watch_record *to)
{
    const uint64_t time = from->n_words > 3 ? cp__record_word_from_handler(from, from->n_words - 2) : 0,
                   thread = from->n_words > 1 ? cp__record_word_from_handler(from, 1) : 0;

    *to = (struct watch_record){.cpu = (uint32_t)ring->cpu, .time = time};
    switch (from->type) {
    case PERF_RECORD_SAMPLE:
        return take_sample(probes, ring, from, to);
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT:
        take_task(from, to);
        return true;
    case PERF_RECORD_SWITCH_CPU_WIDE:
        return take_switch(probes, from, to);
    case PERF_RECORD_COMM:
        to->kind = WATCH_EXEC;
        to->pid = (pid_t)(uint32_t)thread;
        to->tid = (pid_t)(thread >> 32);
        return (from->misc & PERF_RECORD_MISC_COMM_EXEC) != 0;
    case PERF_RECORD_LOST:
        to->kind = WATCH_LOSS;
        to->time = ring->last_time;
        to->until = time;
        to->lost = cp__record_lost_from_handler(from);
        return true;
    default:
        return false;
    }
}

/* Returns whether a record is of no interest because the watch had ended. A loss may be one of earlier
 * records. */
static bool is_record_late(const struct watch_probes *probes, const struct watch_record *record)
{
    return record->kind != WATCH_LOSS && record->time > probes->ended_at;
}

static int read_ring(struct watch_probes *probes, struct probe_ring *ring)
{
    struct perf_event_mmap_page *page = ring->page;
    const size_t size = ring->mapped - (size_t)sysconf(_SC_PAGESIZE);
    struct cp__records records = {.words = (const uint64_t *)((const char *)page + (ring->mapped - size)),
                                  .n_words = size / sizeof(uint64_t),
                                  .at = page->data_tail,
                                  .end =
                                      cp_load_acquire(&page->data_head)}; /* pairs with the kernel's store */
    const bool is_full = size - (records.end - records.at) < LONGEST_RECORD;
    struct cp__record from;
    struct watch_record to;

    while (cp__record_next_from_handler(&records, &from)) {
        if (!take_record(probes, ring, &from, &to) || is_record_late(probes, &to))
            continue;
        if (CP__RESERVE(probes->records, probes->capacity, probes->n + 1) < 0)
            return -ENOMEM;
        probes->records[probes->n++] = to;
        ring->last_time = to.kind == WATCH_LOSS ? to.until : to.time;
    }
    /* pairs with the kernel's load, after which it writes over what was read */
    cp_store_release(&page->data_tail, records.end);
    if (!is_full)
        return 0;
    if (CP__RESERVE(probes->records, probes->capacity, probes->n + 1) < 0)
        return -ENOMEM;
    probes->records[probes->n++] = (struct watch_record){.kind = WATCH_LOSS,
                                                         .cpu = (uint32_t)ring->cpu,
                                                         .time = ring->last_time,
                                                         .until = (uint64_t)cp__clock_ns(CLOCK_MONOTONIC)};
    return 0;
}

/* By time; a loss begins after the record whose time it has. */
static int compare_records(const void *a, const void *b)
{
    const struct watch_record *x = a, *y = b;

    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return (x->kind == WATCH_LOSS) - (y->kind == WATCH_LOSS);
}

/* What happened before the reading before this one has been read by now. */
int watch_probes_read(struct watch_probes *probes, bool all, watch_record_fn *fn, void *context)
{
    const uint64_t before = all ? UINT64_MAX : probes->read_at;
    int result = 0, one;
    size_t n;

    probes->read_at = (uint64_t)cp__clock_ns(CLOCK_MONOTONIC);
    for (size_t i = 0; i < probes->n_rings; i++) {
        one = read_ring(probes, &probes->rings[i]);
        result = one != 0 ? one : result;
    }
    qsort(probes->records, probes->n, sizeof *probes->records, compare_records);
    for (n = 0; n < probes->n && probes->records[n].time < before; n++) {
        one = fn(context, &probes->records[n]);
        result = one != 0 ? one : result;
    }
    if (n > 0)
        memmove(probes->records, probes->records + n, (probes->n - n) * sizeof *probes->records);
    probes->n -= n;
    return result;
}

void watch_probes_wait(const struct watch_probes *probes, int extra_fd, int ms)
{
    const size_t n = probes->n_rings + 1;
    struct pollfd *fds = calloc(n, sizeof *fds);
    bool has_failed = fds == NULL;

    for (size_t i = 0; !has_failed && i < n; i++)
        fds[i] = (struct pollfd){.fd = i == 0 ? extra_fd : probes->rings[i - 1].fds[0], .events = POLLIN};
    if (!has_failed)
        poll(fds, n, ms);
    /* a group without its counters would never let this thread wait */
    for (size_t i = 1; fds != NULL && i < n; i++)
        has_failed = has_failed || (fds[i].revents & (POLLERR | POLLHUP)) != 0;
    if (has_failed)
        poll(NULL, 0, ms);
    free(fds);
}
