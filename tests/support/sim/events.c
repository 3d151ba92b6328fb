/* perf_event_open(2), and what is done to an event. */
#include "kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* ---- Descriptors ----------------------------------------------------------------------------- */

/* Where the kernel keeps memory files. Whoever has opened one knows; all processes of a test have the
 * same. */
static dev_t memory_files;

/* What a descriptor of an event is called in /proc/PID/fd and its ring in /proc/PID/maps contains what the
 * machine's events are called. */
#define NAME "[perf_event]"

/* Returns the number of a memory file that has no name; 0: the descriptor is none. Any number may be asked
 * for, also one whose file another thread is just closing; ThreadSanitizer takes a call of fstat(2) for a use
 * of that file. */
static uint64_t id_of(int fd)
{
    struct stat status;

    if (fd < 0 || memory_files == 0 || sim_raw(SYS_fstat, fd, (long)&status, 0, 0, 0, 0) < 0)
        return 0;
    return status.st_dev == memory_files && S_ISREG(status.st_mode) && status.st_nlink == 0 ? status.st_ino
                                                                                            : 0;
}

struct sim_event *sim_event(int fd)
{
    int saved_errno = errno;
    uint64_t id = id_of(fd);

    errno = saved_errno;
    for (int i = 0; id != 0 && i < sim_state->n_events; i++) {
        struct sim_event *event = &sim_state->events[i];

        if (event->is_used && !event->is_closed && event->id == id)
            return event;
    }
    return NULL;
}

bool sim_tell_id(int fd, uint64_t *id)
{
    *id = id_of(fd);
    return *id != 0;
}

static long open_descriptor(bool closes_on_exec)
{
    long fd = sim_raw(SYS_memfd_create, (long)NAME, closes_on_exec ? MFD_CLOEXEC : 0, 0, 0, 0, 0);
    struct stat status;

    if (fd >= 0 && memory_files == 0 && fstat((int)fd, &status) == 0)
        memory_files = status.st_dev;
    return fd;
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* What the records have that the simulation writes. */
#define SAMPLE_TYPES                                                                                         \
    (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_ADDR | PERF_SAMPLE_READ | PERF_SAMPLE_CALLCHAIN | \
     PERF_SAMPLE_REGS_USER)
#define READ_FORMATS                                                                                         \
    (PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING | PERF_FORMAT_ID | PERF_FORMAT_LOST)

/* Checks what kernels refuse. */
static long check_attr(const struct perf_event_attr *attr, const long a[6])
{
    if ((attr->sample_type & ~SAMPLE_TYPES) != 0)
        sim_refuse("a sample type", attr->sample_type);
    if ((attr->read_format & ~READ_FORMATS) != 0)
        sim_refuse("a read format", attr->read_format);
    if (attr->freq)
        sim_refuse("a frequency", attr->sample_freq);
    if ((int)a[2] != -1 || (int)a[3] != -1 || (pid_t)a[1] < 0)
        sim_refuse("a CPU or a group", (uint64_t)a[2]);
    if (attr->sigtrap && !attr->remove_on_exec)
        return -EINVAL;
    if ((attr->sigtrap || attr->remove_on_exec || attr->inherit_thread) && sim->no_sigtrap)
        return -EINVAL;
    if ((attr->read_format & PERF_FORMAT_LOST) != 0 && sim->no_lost_count)
        return -EINVAL;
    return sim->paranoid > 2 || (sim->paranoid > 1 && !attr->exclude_kernel) ? -EACCES : 0;
}

/* The records of events whose ring is gone go nowhere, and not into the ring of the next event. */
static void forget_output(int i)
{
    for (int k = 0; k < sim_state->n_events; k++) {
        if (sim_state->events[k].output == i)
            sim_state->events[k].output = SIM_GONE;
    }
}

static struct sim_event *free_event(void)
{
    for (int i = 0; i < SIM_EVENTS; i++) {
        if (sim_state->events[i].is_used)
            continue;
        if (i >= sim_state->n_events)
            sim_state->n_events = i + 1;
        forget_output(i);
        return &sim_state->events[i];
    }
    sim_refuse("an event too many", SIM_EVENTS);
}

/* The kernel's clocks have no shorter period. */
#define LEAST_CLOCK_PERIOD 10000

static void set_period(struct sim_event *event, uint64_t period)
{
    if (event->attr.type == PERF_TYPE_SOFTWARE && event->what == SIM_TIME && period != 0 &&
        period < LEAST_CLOCK_PERIOD)
        period = LEAST_CLOCK_PERIOD;
    event->period = period;
    event->to_go = (int64_t)period;
}

/* The kernel takes the new period as just over, if no timer or counter is set anew. */
static void give_period(struct sim_event *event, uint64_t period)
{
    set_period(event, period);
    if (event->attr.type == PERF_TYPE_SOFTWARE && event->what != SIM_TIME)
        event->to_go = 1;
}

static long open_found(const struct sim_event *found, const long a[6])
{
    long fd = open_descriptor((a[4] & PERF_FLAG_FD_CLOEXEC) != 0);
    struct sim_event *event;

    if (fd < 0)
        return fd;
    event = free_event();
    *event = *found;
    event->is_used = true;
    event->is_enabled = !event->attr.disabled;
    event->pid = sim_pid();
    event->opener = sim_tid();
    event->tid = (pid_t)a[1] != 0 ? (pid_t)a[1] : event->opener;
    event->fd = (int)fd;
    event->id = id_of((int)fd);
    event->born = ++sim_state->births;
    event->output = SIM_OWN;
    set_period(event, event->attr.sample_period);
    return fd;
}

static void note_opened(struct sim_opened *opened, const struct perf_event_attr *attr)
{
    opened->n++;
    opened->last = *attr;
}

long sim_open_event(const long a[6])
{
    struct sim_event found = {.what = SIM_NEVER};
    uint64_t mask = sim_lock();
    long result;

    found.attr = *(const struct perf_event_attr *)a[0];
    result = check_attr(&found.attr, a);
    if (result == 0)
        result = sim_find_what(&found.attr, &found);
    if (result == 0)
        result = open_found(&found, a);
    if (result >= 0)
        note_opened(&sim_state->opened, &found.attr);
    if (result >= 0 && found.attr.type != PERF_TYPE_SOFTWARE)
        note_opened(&sim_state->opened_pmu, &found.attr);
    sim_unlock(mask);
    return result;
}

static int tell_opened(const struct sim_opened *opened, struct perf_event_attr *last)
{
    uint64_t mask = sim_lock();
    int n = opened->n;

    if (last != NULL)
        *last = opened->last;
    sim_unlock(mask);
    return n;
}

int sim_opened(struct perf_event_attr *last)
{
    return tell_opened(&sim_state->opened, last);
}

int sim_opened_pmu(struct perf_event_attr *last)
{
    return tell_opened(&sim_state->opened_pmu, last);
}

/* ---- Control --------------------------------------------------------------------------------- */

/* Whoever enables a throttled event ends the throttling. */
static void set_enabled(struct sim_event *event, bool is_enabled)
{
    if (is_enabled && !event->is_enabled && event->is_throttled) {
        event->is_throttled = false;
        event->interrupts = 0;
        sim_write_throttle(event, false);
    }
    event->is_enabled = is_enabled;
}

/* The events of one thread may share a ring. */
static long set_output(struct sim_event *event, int fd)
{
    const struct sim_event *other = fd < 0 ? NULL : sim_event(fd);

    if (fd >= 0 && other == NULL)
        return -EBADF;
    if (other == event || event->page != NULL || (other != NULL && other->tid != event->tid))
        return -EINVAL;
    event->output = other != NULL ? (int)(other - sim_state->events) : SIM_OWN;
    return 0;
}

static long refresh(struct sim_event *event, uint64_t more)
{
    if (event->attr.inherit || event->attr.sample_period == 0)
        return -EINVAL;
    event->limit += more;
    set_enabled(event, true);
    return 0;
}

long sim_control_event(struct sim_event *event, unsigned long request, unsigned long argument)
{
    switch (request) {
    case PERF_EVENT_IOC_ENABLE:
    case PERF_EVENT_IOC_DISABLE:
        set_enabled(event, request == PERF_EVENT_IOC_ENABLE);
        return 0;
    case PERF_EVENT_IOC_REFRESH:
        return refresh(event, argument);
    case PERF_EVENT_IOC_RESET:
        event->count = 0;
        return 0;
    case PERF_EVENT_IOC_PERIOD:
        give_period(event, *(const uint64_t *)argument);
        return 0;
    case PERF_EVENT_IOC_SET_OUTPUT:
        return set_output(event, (int)argument);
    case PERF_EVENT_IOC_ID:
        *(uint64_t *)argument = event->id;
        return 0;
    default:
        sim_refuse("what ioctl(2) asks of an event", request);
    }
}

long sim_fcntl_event(struct sim_event *event, int command, unsigned long argument)
{
    switch (command) {
    case F_SETOWN_EX:
        event->owner = ((const struct f_owner_ex *)argument)->pid;
        return 0;
    case F_SETSIG:
        event->sig = (int)argument;
        return 0;
    case F_SETFL:
        event->is_async = (argument & O_ASYNC) != 0;
        return 0;
    default:
        return sim_raw(SYS_fcntl, event->fd, command, (long)argument, 0, 0, 0);
    }
}

size_t sim_counts(const struct sim_event *event, uint64_t *to)
{
    const uint64_t format = event->attr.read_format;
    size_t n = 0;

    to[n++] = event->count;
    if ((format & PERF_FORMAT_TOTAL_TIME_ENABLED) != 0)
        to[n++] = event->time_enabled;
    if ((format & PERF_FORMAT_TOTAL_TIME_RUNNING) != 0)
        to[n++] = event->time_running;
    if ((format & PERF_FORMAT_ID) != 0)
        to[n++] = event->id;
    if ((format & PERF_FORMAT_LOST) != 0)
        to[n++] = event->lost;
    return n;
}

long sim_read_event(struct sim_event *event, void *to, size_t size)
{
    uint64_t words[8];
    size_t n = sizeof words[0] * sim_counts(event, words);

    if (sim->pmu.is_failed && event->attr.type != PERF_TYPE_SOFTWARE)
        return 0;
    if (n > size)
        return -ENOSPC;
    memcpy(to, words, n);
    return (long)n;
}

/* The ring keeps the event, as a mapping keeps its file. In a child, the event is the parent's. */
void sim_close_event(struct sim_event *event)
{
    if (event->pid != sim_pid())
        return;
    event->is_closed = true;
    event->is_used = event->page != NULL;
}

void sim_close_events(unsigned first, unsigned last)
{
    for (int i = 0; i < sim_state->n_events; i++) {
        struct sim_event *event = &sim_state->events[i];
        const unsigned fd = (unsigned)event->fd;

        if (event->is_used && !event->is_closed && fd >= first && fd <= last && sim_event(event->fd) == event)
            sim_close_event(event);
    }
}

void sim_switch_events(bool is_enabled)
{
    for (int i = 0; i < sim_state->n_events; i++) {
        struct sim_event *event = &sim_state->events[i];

        if (event->is_used && event->opener == sim_tid())
            set_enabled(event, is_enabled);
    }
}

/* ---- Where it counts ------------------------------------------------------------------------- */

/* An inherited event counts on the threads that were born later, which stands for those that its thread
 * has started. Without inherit_thread, it also counts on those of children. */
bool sim_counts_on(const struct sim_event *event, const struct sim_thread *thread)
{
    if (!event->is_used || !event->is_enabled)
        return false;
    return event->tid == thread->tid || (event->attr.inherit && thread->born > event->born &&
                                         (event->pid == thread->pid || !event->attr.inherit_thread));
}

/* The PMU of one kind of core counts nothing while the thread runs on another kind. */
static bool is_on_its_core(const struct sim_event *event)
{
    return event->kind == 0 || event->kind == sim->pmu.runs_on;
}

/* If a thread has more events of the PMU than there are counters, the events take turns: at each tick, the
 * first one gives its counter to the first one that has none, and becomes the last. */
bool sim_has_counter(const struct sim_event *event, const struct sim_thread *thread)
{
    const uint64_t tick = thread->ns / sim->tick_ns;
    uint64_t n = 0, place = 0;

    if (event->attr.type == PERF_TYPE_SOFTWARE)
        return true;
    if (!is_on_its_core(event))
        return false;
    if (sim->pmu.is_taken || sim->pmu.counters == 0)
        return !sim->pmu.is_taken;
    for (int i = 0; i < sim_state->n_events; i++) {
        const struct sim_event *other = &sim_state->events[i];

        if (other->attr.type == PERF_TYPE_SOFTWARE || !is_on_its_core(other) || !sim_counts_on(other, thread))
            continue;
        place = other == event ? n : place;
        n++;
    }
    return (place + n - tick % n) % n < sim->pmu.counters;
}
