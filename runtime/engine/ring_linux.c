/*
 * The ring that an M's events write to, and what its records stand for.
 */
#include "ring_linux.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/mman.h>

#include "descriptors_linux.h"
#include "first_linux.h"
#include "limits_linux.h"
#include "periods_linux.h"
#include "runtime/base/os.h"
#include "runtime/base/sys_linux.h"
#include "runtime/configure.h"
#include "runtime/handler.h"
#include "runtime/perf/perf_linux.h"
#include "runtime/perf/record.h"

/* The kernel lets a user map perf_event_mlock_kb, 516 KiB for each CPU: at 8 KiB for an M, 64 Ms for each
 * CPU. The handler empties the ring at each signal, so the room for 51 records matters only while a thread
 * keeps SIGPROF blocked. */
#define DATA_PAGES 1
/* If a thread blocks its signal when its ring is made, only a reader's passes empty the ring. Records with
 * chains of up to 127 frames (kernel.perf_event_max_stack) take 1 KiB each. */
#define DATA_PAGES_LARGE 8

/* ---- The ring -------------------------------------------------------------------------------- */

static size_t size_from_handler(const struct cp__ring *ring)
{
    return cp__perf_page_size + ring->n_words * sizeof *ring->words;
}

/* Opens the event that m's ring belongs to, on m's thread, and maps the ring. */
static int make_ring_from_handler(struct cp__m *m, size_t data_pages)
{
    struct perf_event_attr attr = cp__perf_dummy_attr_from_handler();
    uint64_t id;
    char *page;
    int fd;

    attr.sample_type = PERF_SAMPLE_IDENTIFIER;
    fd = cp__perf_open_from_handler(&attr, m->tid);
    if (fd < 0)
        return fd;
    id = cp__perf_id_from_handler(fd);
    if (id == 0)
        return -EBADF;
    page = mmap(NULL, (1 + data_pages) * cp__perf_page_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        int result = -errno;

        cp__perf_close_from_handler(fd, id);
        return result;
    }
    cp__perf_of(m)->ring = (struct cp__ring){.page = page,
                                             .words = (uint64_t *)(void *)(page + cp__perf_page_size),
                                             .n_words = data_pages * cp__perf_page_size / sizeof(uint64_t),
                                             .own_begin = UINT64_MAX,
                                             .fd = fd,
                                             .id = id};
    return 0;
}

/* munmap() comes before close(). In the other order, signals may come that carry a number which the next
 * open() may be given. The ring is forgotten before both: in a program that is built with ThreadSanitizer,
 * the functions that it replaces call handlers of signals that came earlier, whatever is blocked. */
void cp__ring_leave_from_handler(struct cp__ring *ring)
{
    void *page = ring->page;

    if (page == NULL || --ring->users > 0)
        return;
    cp_store_relaxed(&ring->page, NULL); /* relaxed: for this thread's handler */
    cp__sys_munmap_from_handler(page, size_from_handler(ring));
    cp__perf_close_from_handler(ring->fd, ring->id);
}

int cp__ring_hold_from_handler(struct cp__m *m, bool is_large)
{
    int result = 0;

    if (cp__perf_of(m)->ring.page == NULL)
        result = make_ring_from_handler(m, is_large ? DATA_PAGES_LARGE : DATA_PAGES);
    else if (!cp__perf_is_event_from_handler(cp__perf_of(m)->ring.fd, cp__perf_of(m)->ring.id))
        result = -EBADF; /* the program has closed it: only those that write to the ring already go on */
    cp__perf_of(m)->ring.users += result == 0;
    return result;
}

int cp__ring_join_from_handler(struct cp__m *m, int slot, int which)
{
    struct cp__ring *ring = &cp__perf_of(m)->ring;
    int result = cp__descriptor_control_from_handler(m, slot, which, PERF_EVENT_IOC_SET_OUTPUT,
                                                     (unsigned long)ring->fd);

    ring->users += result >= 0;
    return result < 0 ? result : 0;
}

void cp__ring_part_from_handler(struct cp__m *m, int slot, int which)
{
    cp__descriptor_control_from_handler(m, slot, which, PERF_EVENT_IOC_SET_OUTPUT, -1ul);
    cp__ring_leave_from_handler(&cp__perf_of(m)->ring);
}

/* ---- Reading records -------------------------------------------------------------------------- */

/* Returns the slot of the event that a record names, and in *which the event's number in the slot. -1:
 * the event's handle is gone. */
static int slot_of_from_handler(const struct cp__m *m, uint64_t id, int *which)
{
    /* relaxed: stored by this thread */
    for (uint32_t armed = cp_load_relaxed(&m->armed); armed != 0; armed &= armed - 1) {
        int slot = __builtin_ctz(armed);
        const struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];

        for (int i = 0; i < handle->n_events; i++) {
            if (handle->events[i].id == id) {
                *which = i;
                return slot;
            }
        }
    }
    return -1;
}

/* Returns the ring's records from tail to head. */
static struct cp__records records_from_handler(const struct cp__ring *ring, uint64_t tail, uint64_t head)
{
    return (struct cp__records){.words = ring->words, .n_words = ring->n_words, .at = tail, .end = head};
}

/* ---- What records hold beside the count ------------------------------------------------------ */

/* Copies the kernel's part of a chain, and the program's part if has_user_chain. A marker
 * (PERF_CONTEXT_...) stands before each part; the parts of a guest and of the hypervisor are skipped. */
static void chain_from_handler(const struct cp__record *record, const struct cp__record_sample *sample,
                               bool has_user_chain, struct cp__detail *detail)
{
    uint64_t context = 0;

    for (size_t i = 0; i < sample->n_chain && detail->depth < CP_MAX_FRAMES; i++) {
        uint64_t entry = cp__record_word_from_handler(record, sample->chain + i);

        if (entry >= PERF_CONTEXT_MAX) {
            context = entry;
            continue;
        }
        if (context == PERF_CONTEXT_KERNEL)
            detail->kernel_depth++;
        else if (context != PERF_CONTEXT_USER || !has_user_chain)
            continue;
        detail->frames[detail->depth++] = (uintptr_t)entry;
    }
    detail->has_user_frames = detail->depth > detail->kernel_depth;
}

/* Whether the record was made in user mode. If not, its address is the kernel's, and the program's stack
 * cannot begin with it. */
static bool is_user(const struct cp__record *record)
{
    return (record->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_USER;
}

/* Appends a sample of its own for a record that is late (late is its place then) or has fields beside count
 * and place. */
__attribute__((noinline)) static void detail_from_handler(struct cp__m *m, int slot,
                                                          const struct cp__record *record,
                                                          const struct cp__record_sample *sample,
                                                          uint64_t periods, struct cp__moment *moment,
                                                          const struct cp__place *late)
{
    const struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    struct cp__detail detail;

    detail.is_late = late != NULL;
    if (late != NULL)
        detail.where = *late;
    detail.ip =
        handle->is_precise && is_user(record) ? cp__record_part_from_handler(record, handle->layout.ip) : 0;
    detail.addr = cp__record_part_from_handler(record, handle->layout.addr);
    detail.kernel_depth = 0;
    detail.depth = 0;
    detail.has_user_frames = false;
    chain_from_handler(record, sample, handle->has_user_chain, &detail);
    cp__moment_detail_from_handler(m, moment, slot, periods, &detail);
}

/* ---- Where a record was made ----------------------------------------------------------------- */

/* Whether a and b differ by distance at most. */
static bool is_near(uintptr_t a, uintptr_t b, uintptr_t distance)
{
    return a - b + distance <= 2 * distance;
}

/* The interrupt of a PMU comes some instructions after the event, and the signal may come some instructions
 * after the interrupt. A record is taken for one of this place if the stack pointer is the same (the same
 * call of a function), or if the two program counters are within SKID bytes. A precise event is recorded
 * before the interrupt, with a few calls and returns in between: then the stack pointers may differ by
 * SKID_OF_STACK bytes. */
#define SKID 256
#define SKID_OF_STACK 4096

static bool is_skid(const struct cp__perf_handle *handle, const struct cp__place *place,
                    const struct cp__registers *regs)
{
    return place->sp == regs->sp || is_near(place->pc, regs->pc, SKID) ||
           (handle->is_precise && is_near(place->sp, regs->sp, SKID_OF_STACK));
}

/*
 * Whether a record was made where the signal has found the program. The kernel raises the signal on its way
 * back to the very instruction, or to a system call that it restarts.
 *
 * Records that the library causes itself while SIGPROF is blocked belong to that place, too: those of the
 * last handler and of this one (own_end, own_begin), and those of the way into a handler and out of it. On
 * that way the program counter is in the handler's own code, or the stack pointer is where the kernel begins
 * and ends a handler.
 */
static bool is_here(const struct cp__m *m, const struct cp__perf_handle *handle, uint64_t position,
                    const struct cp__place *place, const struct cp__moment *moment)
{
    const struct cp__registers *regs = moment->regs;

    if (position < cp__perf_of(m)->ring.own_end || position >= cp__perf_of(m)->ring.own_begin)
        return true;
    if (place->sp == regs->sp && (place->pc == regs->pc || place->pc == regs->pc + CP__SYSCALL_SIZE))
        return true;
    if (handle->kind == CP_EVENT_HARDWARE && is_skid(handle, place, regs))
        return true;
    return moment->signal_frame - place->sp <= sizeof(uintptr_t) || cp__is_in_handler(place->pc);
}

/* Whether a record that was made at place, if that is known (not NULL), was certainly made at another place
 * than the moment's. */
static bool is_late_from_handler(const struct cp__m *m, int slot, uint64_t position,
                                 const struct cp__place *place, const struct cp__moment *moment)
{
    return place != NULL && moment->since != CP__SINCE_HERE && moment->since != CP__SINCE_TICKS_BLOCKED &&
           !is_here(m, &cp__perf_of(m)->handles[slot], position, place, moment);
}

/* ---- Records --------------------------------------------------------------------------------- */

/* Counts the sample, and finds out how many periods it stands for. */
static uint64_t count_from_handler(struct cp__m *m, int slot, int which, const struct cp__count *count,
                                   struct cp__moment *moment)
{
    uint64_t stalled, periods;

    cp_add_single_writer(&m->stats[slot].interrupts, 1);
    cp__periods_note_count_from_handler(m, slot, which, count);
    cp__limits_take_from_handler(&cp__perf_of(m)->handles[slot], which, 1);
    periods = cp__periods_of_record_from_handler(m, slot, count, &stalled);
    /* relaxed: looked at again */
    if (cp_load_relaxed(&cp__perf_of(m)->handles[slot].events[which].first) != 0)
        cp__first_over_from_handler(m, slot, which);
    moment->stalled[slot] += stalled;
    moment->any = moment->any || stalled != 0;
    return periods;
}

/* Adds a sample's record to moment, or appends a sample of its own if the record is late or has details. A
 * record that is not what its event was asked for is lost. */
static void sample_from_handler(struct cp__m *m, int slot, int which, const struct cp__record *record,
                                struct cp__moment *moment)
{
    const struct cp__perf_handle *handle = &cp__perf_of(m)->handles[slot];
    struct cp__record_sample sample;
    struct cp__place place;
    uint64_t periods;
    bool is_late;

    if (!cp__record_sample_from_handler(record, &handle->layout, &sample)) {
        cp__periods_add_lost_from_handler(m, slot, 1);
        return;
    }
    periods = count_from_handler(m, slot, which, &sample.count, moment);
    if (periods == 0)
        return;
    place = (struct cp__place){.pc = sample.user_pc, .sp = sample.user_sp};
    is_late = is_late_from_handler(m, slot, record->position, sample.has_user_pc ? &place : NULL, moment);
    if (is_late || cp__record_has_detail(&handle->layout, handle->is_precise))
        detail_from_handler(m, slot, record, &sample, periods, moment, is_late ? &place : NULL);
    else
        cp__moment_add_from_handler(moment, slot, periods);
}

/* Counts a LOST record. The kernel counts such losses for the ring as a whole, and names whichever event
 * writes to the ring next. */
static void lost_from_handler(struct cp__m *m, int slot, int which, uint64_t lost)
{
    if (cp__perf_has_lost_count)
        return;
    cp__limits_take_from_handler(&cp__perf_of(m)->handles[slot], which, lost);
    cp_add_single_writer(&m->stats[slot].interrupts, lost);
    cp__periods_add_lost_from_handler(m, slot, lost * cp__handle_stretch(&cp__perf_of(m)->handles[slot]));
}

/* Tells of what names no event: each slot whose events write to the ring has lost one, at least. A program
 * may have written such bytes, by mistake. The kernel writes no such record, except
 * PERF_RECORD_LOST_SAMPLES if a PMU could not tell which of several precise events had happened. */
__attribute__((noinline)) static void tell_garbage_from_handler(struct cp__m *m)
{
    /* relaxed, both: stored by this thread */
    for (uint32_t armed = cp_load_relaxed(&m->armed); armed != 0; armed &= armed - 1) {
        int slot = __builtin_ctz(armed);

        if (cp__perf_of(m)->handles[slot].n_events > 0 && cp_load_relaxed(&m->stats[slot].ringless) == 0)
            cp__periods_add_lost_from_handler(m, slot, 1);
    }
}

static void record_from_handler(struct cp__m *m, const struct cp__record *record, struct cp__moment *moment)
{
    int which;
    int slot = slot_of_from_handler(m, record->id, &which);

    if (record->id == 0)
        tell_garbage_from_handler(m);
    if (slot < 0)
        return;
    switch (record->type) {
    case PERF_RECORD_SAMPLE:
        sample_from_handler(m, slot, which, record, moment);
        break;
    case PERF_RECORD_LOST:
        lost_from_handler(m, slot, which, cp__record_lost_from_handler(record));
        break;
    case PERF_RECORD_THROTTLE:
    case PERF_RECORD_UNTHROTTLE:
        cp__periods_throttled_from_handler(m, slot, which, record->type == PERF_RECORD_THROTTLE,
                                           cp__record_time_from_handler(record));
        break;
    default:
        break;
    }
}

uint32_t cp__ring_throttled_from_handler(const struct cp__m *m)
{
    const struct perf_event_mmap_page *page = cp__perf_of(m)->ring.page;
    struct cp__records records = {.at = 0};
    struct cp__record record;
    uint32_t throttled = 0;
    int which;

    if (page != NULL) /* acquire: pairs with the kernel's barrier in perf_output_put_handle() */
        records =
            records_from_handler(&cp__perf_of(m)->ring, page->data_tail, cp_load_acquire(&page->data_head));
    /* relaxed: stored by this thread */
    for (uint32_t armed = cp_load_relaxed(&m->armed); armed != 0; armed &= armed - 1)
        throttled |= (uint32_t)cp__perf_of(m)->handles[__builtin_ctz(armed)].periods.is_throttled
                     << __builtin_ctz(armed);
    while (cp__record_next_from_handler(&records, &record)) {
        bool begins = record.type == PERF_RECORD_THROTTLE;
        int slot =
            begins || record.type == PERF_RECORD_UNTHROTTLE ? slot_of_from_handler(m, record.id, &which) : -1;

        if (slot >= 0)
            throttled = (throttled & ~(1u << slot)) | (uint32_t)begins << slot;
    }
    return throttled;
}

/* An event counts its time while its thread has a CPU. */
static bool has_waited(const struct cp__m *m, const struct cp__record *record)
{
    int which;
    const int slot = record->type == PERF_RECORD_SAMPLE ? slot_of_from_handler(m, record->id, &which) : -1;
    struct cp__record_sample sample;

    if (slot < 0 || !cp__record_sample_from_handler(record, &cp__perf_of(m)->handles[slot].layout, &sample))
        return false;
    /* relaxed: written with the claim */
    return cp__os_clock_ns_from_handler(m->cpu_clock) >=
           cp_load_relaxed(&m->stats[slot].armed_at) + sample.count.time_enabled + CP__MOMENT_NS;
}

bool cp__ring_is_overdue(const struct cp__m *m)
{
    const struct cp__ring *ring = &cp__perf_of(m)->ring;
    const struct perf_event_mmap_page *page = ring->page;
    struct cp__records records;
    struct cp__record record;
    bool found = false;

    if (page == NULL)
        return false;
    /* acquire: pairs with the kernel's barrier in perf_output_put_handle() */
    records = records_from_handler(ring, page->data_tail, cp_load_acquire(&page->data_head));
    while (!found && cp__record_next_from_handler(&records, &record))
        found = has_waited(m, &record);
    return found;
}

/* Returns the position up to which the kernel has written. The records before it are not read by this
 * call. */
static uint64_t head_from_handler(const struct cp__ring *ring)
{
    const struct perf_event_mmap_page *page = ring->page;

    return cp_load_relaxed(&page->data_head); /* relaxed: only the number itself is used */
}

void cp__ring_own_begins_from_handler(struct cp__ring *ring)
{
    if (ring->page != NULL)
        ring->own_begin = head_from_handler(ring);
}

void cp__ring_own_ends_from_handler(struct cp__ring *ring)
{
    if (ring->page == NULL)
        return;
    ring->own_end = head_from_handler(ring);
    ring->own_begin = UINT64_MAX;
}

/* Reads the records from data_tail to data_head. Only the store of data_tail at the end lets the kernel write
 * over them. */
void cp__ring_drain_from_handler(struct cp__m *m, struct cp__moment *moment)
{
    struct cp__ring *ring = &cp__perf_of(m)->ring;
    struct perf_event_mmap_page *page = ring->page;
    struct cp__records records;
    struct cp__record record;

    if (page == NULL)
        return;
    /* acquire: pairs with the kernel's barrier in perf_output_put_handle() */
    records = records_from_handler(ring, page->data_tail, cp_load_acquire(&page->data_head));
    ring->crowded += 2 * (records.end - records.at) > ring->n_words * sizeof *ring->words;
    while (cp__record_next_from_handler(&records, &record))
        record_from_handler(m, &record, moment);
    if (records.at != records.end)
        tell_garbage_from_handler(m);
    /* release: pairs with the kernel's reading of data_tail before it writes */
    cp_store_release(&page->data_tail, records.end);
    cp__limits_renew_from_handler(m);
}
