/*
 * The ring that an M's events write to, and what its records stand for.
 */
#include "ring_linux.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "descriptors_linux.h"
#include "first_linux.h"
#include "handler.h"
#include "limits_linux.h"
#include "periods_linux.h"
#include "runtime/base/sys_linux.h"
#include "runtime/configure.h"
#include "runtime/perf/perf_linux.h"

/* The kernel lets a user map perf_event_mlock_kb, 516 KiB for each CPU: at 8 KiB for an M, 64 Ms for each
 * CPU. The handler empties the ring at each signal, so the room for 51 records matters only while a thread
 * keeps SIGPROF blocked. */
#define DATA_PAGES 1
/* Records with chains of up to 127 frames (kernel.perf_event_max_stack) take 1 KiB each. */
#define DATA_PAGES_FOR_CHAINS 8

static size_t page_size; /* set once, before the first M */

void cp__ring_prepare(void)
{
    page_size = (size_t)sysconf(_SC_PAGESIZE);
}

/* ---- The ring -------------------------------------------------------------------------------- */

static size_t size_from_handler(const struct cp__ring *ring)
{
    return page_size + ring->n_words * sizeof *ring->words;
}

/* Opens the event that m's ring belongs to, on m's thread, and maps the ring. */
static int make_ring_from_handler(struct cp__m *m, size_t data_pages)
{
    const struct perf_event_attr attr = {.size = sizeof attr,
                                         .type = PERF_TYPE_SOFTWARE,
                                         .config = PERF_COUNT_SW_DUMMY,
                                         .sample_type = PERF_SAMPLE_IDENTIFIER,
                                         .disabled = 1,
                                         .exclude_kernel = 1,
                                         .exclude_hv = 1};
    int fd = cp__perf_open_from_handler(&attr, m->tid);
    uint64_t id;
    char *page;

    if (fd < 0)
        return fd;
    id = cp__perf_id_from_handler(fd);
    if (id == 0)
        return -EBADF;
    page = mmap(NULL, (1 + data_pages) * page_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        int result = -errno;

        cp__perf_close_from_handler(fd, id);
        return result;
    }
    m->ring = (struct cp__ring){.page = page,
                                .words = (uint64_t *)(void *)(page + page_size),
                                .n_words = data_pages * page_size / sizeof(uint64_t),
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

int cp__ring_join_from_handler(struct cp__m *m, int slot, int which, bool has_chains)
{
    int result = 0;

    if (m->ring.page == NULL)
        result = make_ring_from_handler(m, has_chains ? DATA_PAGES_FOR_CHAINS : DATA_PAGES);
    else if (!cp__perf_is_event_from_handler(m->ring.fd, m->ring.id))
        result = -EBADF; /* the program has closed it: only those that write to the ring already go on */
    if (result < 0)
        return result;
    m->ring.users++;
    result = cp__descriptor_control_from_handler(m, slot, which, PERF_EVENT_IOC_SET_OUTPUT,
                                                 (unsigned long)m->ring.fd);
    if (result < 0)
        cp__ring_leave_from_handler(&m->ring);
    return result;
}

/* ---- Reading records -------------------------------------------------------------------------- */

/* Returns the slot of the event that a record names, and in *which the event's number in the slot. -1:
 * the event's handle is gone. */
static int slot_of_from_handler(const struct cp__m *m, uint64_t id, int *which)
{
    /* relaxed: stored by this thread */
    for (uint32_t armed = cp_load_relaxed(&m->armed); armed != 0; armed &= armed - 1) {
        int slot = __builtin_ctz(armed);
        const struct cp__handle *handle = &m->handles[slot];

        for (int i = 0; i < handle->n_events; i++) {
            if (handle->events[i].id == id) {
                *which = i;
                return slot;
            }
        }
    }
    return -1;
}

/* A record. It begins at word at of the ring's data, modulo the size of the data, which is a power of 2.
 * Records are whole words, so none of them is torn. */
struct record {
    const struct cp__ring *ring;
    uint64_t at;
};

static uint64_t word_from_handler(const struct record *record, uint64_t i)
{
    return record->ring->words[(record->at + i) & (record->ring->n_words - 1)];
}

static struct perf_event_header header_from_handler(const struct record *record)
{
    uint64_t word = word_from_handler(record, 0);
    struct perf_event_header header;

    memcpy(&header, &word, sizeof header);
    return header;
}

/* ---- What records hold beside the count ------------------------------------------------------ */

/* Copies the kernel's part of a chain, and the program's part if has_user_chain. A marker
 * (PERF_CONTEXT_...) stands before each part; the parts of a guest and of the hypervisor are skipped. */
static void chain_from_handler(const struct record *record, unsigned at, bool has_user_chain,
                               struct cp__detail *detail)
{
    uint64_t n = word_from_handler(record, at);
    uint64_t context = 0;

    for (uint64_t i = 1; i <= n && detail->depth < CP_MAX_FRAMES; i++) {
        uint64_t entry = word_from_handler(record, at + i);

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
static bool is_user(const struct perf_event_header *header)
{
    return (header->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_USER;
}

__attribute__((noinline)) static void detail_from_handler(struct cp__m *m, const struct record *record,
                                                          const struct perf_event_header *header, int slot,
                                                          uint64_t periods, struct cp__moment *moment,
                                                          const struct cp__place *late)
{
    const struct cp__handle *handle = &m->handles[slot];
    struct cp__detail detail;

    detail.is_late = late != NULL;
    if (late != NULL)
        detail.where = *late;
    detail.ip = handle->is_precise && handle->layout.ip != 0 && is_user(header)
                    ? word_from_handler(record, handle->layout.ip)
                    : 0;
    detail.addr = handle->layout.addr != 0 ? word_from_handler(record, handle->layout.addr) : 0;
    detail.kernel_depth = 0;
    detail.depth = 0;
    detail.has_user_frames = false;
    if (handle->layout.chain != 0)
        chain_from_handler(record, handle->layout.chain, handle->has_user_chain, &detail);
    cp__moment_detail_from_handler(m, moment, slot, periods, &detail);
}

/* ---- Where a record was made ----------------------------------------------------------------- */

/* Finds where the program was in user mode; false if the record does not tell. The registers are the last
 * words of a record: the kind of registers (0: there are none), sp, pc. */
static bool place_from_handler(const struct cp__handle *handle, const struct record *record,
                               struct cp__place *place)
{
    uint64_t at = handle->layout.count + (cp__perf_has_lost_count ? 4 : 3);

    if (handle->layout.chain != 0)
        at += 1 + word_from_handler(record, at);
    if (CP__PERF_REGS == 0 || word_from_handler(record, at) == PERF_SAMPLE_REGS_ABI_NONE)
        return false;
    *place = (struct cp__place){.sp = (uintptr_t)word_from_handler(record, at + 1),
                                .pc = (uintptr_t)word_from_handler(record, at + 2)};
    return true;
}

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

static bool is_skid(const struct cp__handle *handle, const struct cp__place *place,
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
static bool is_here(const struct cp__handle *handle, const struct record *record,
                    const struct cp__place *place, const struct cp__moment *moment)
{
    const struct cp__registers *regs = moment->regs;
    uint64_t at = record->at * sizeof(uint64_t);

    if (at < record->ring->own_end || at >= record->ring->own_begin)
        return true;
    if (place->sp == regs->sp && (place->pc == regs->pc || place->pc == regs->pc + CP__SYSCALL_SIZE))
        return true;
    if (handle->kind == CP_EVENT_HARDWARE && is_skid(handle, place, regs))
        return true;
    return moment->signal_frame - place->sp <= sizeof(uintptr_t) || cp__is_in_handler(place->pc);
}

/* Whether the record was certainly made at another place than the moment's. That place is *place then. */
static bool is_late_from_handler(const struct cp__handle *handle, const struct record *record,
                                 const struct cp__moment *moment, struct cp__place *place)
{
    return moment->since != CP__SINCE_HERE && moment->since != CP__SINCE_TICKS_BLOCKED &&
           place_from_handler(handle, record, place) && !is_here(handle, record, place, moment);
}

/* ---- Records --------------------------------------------------------------------------------- */

/* Returns whether the handle's records have fields of their own besides count and place. */
static bool has_detail(const struct cp__handle *handle)
{
    return handle->layout.addr != 0 || handle->layout.chain != 0 ||
           (handle->is_precise && handle->layout.ip != 0);
}

/* Reads a sample's record: its counts, the periods that it stands for, and its place. Adds it to moment, or
 * appends a sample of its own if the record is late or has details. */
static void read_sample_from_handler(struct cp__m *m, const struct record *record,
                                     const struct perf_event_header *header, struct cp__moment *moment)
{
    int which;
    int slot = slot_of_from_handler(m, word_from_handler(record, 1), &which);
    struct cp__count count;
    struct cp__place place;
    uint64_t periods;
    uint64_t stalled;
    uint32_t at;
    bool is_late;

    if (slot < 0)
        return;
    cp_add_single_writer(&m->stats[slot].interrupts, 1);
    at = m->handles[slot].layout.count;
    count = (struct cp__count){.value = word_from_handler(record, at),
                               .time_enabled = word_from_handler(record, at + 1),
                               .time_running = word_from_handler(record, at + 2),
                               .lost = cp__perf_has_lost_count ? word_from_handler(record, at + 3) : 0};
    cp__periods_note_count_from_handler(m, slot, which, &count);
    cp__limits_take_from_handler(&m->handles[slot], which, 1);
    periods = cp__periods_of_record_from_handler(m, slot, &count, &stalled);
    if (cp_load_relaxed(&m->handles[slot].events[which].first) != 0) /* relaxed: looked at again */
        cp__first_over_from_handler(m, slot, which);
    if (periods == 0)
        return;
    moment->stalled[slot] += stalled;
    moment->any = moment->any || stalled != 0;
    is_late = is_late_from_handler(&m->handles[slot], record, moment, &place);
    if (is_late || has_detail(&m->handles[slot]))
        detail_from_handler(m, record, header, slot, periods, moment, is_late ? &place : NULL);
    else
        cp__moment_add_from_handler(moment, slot, periods);
}

/* Counts a LOST record. The kernel counts such losses for the ring as a whole, and names whichever event
 * writes to the ring next. */
static void lost_from_handler(struct cp__m *m, const struct record *record)
{
    int which;
    int slot = slot_of_from_handler(m, word_from_handler(record, 1), &which);
    uint64_t lost = word_from_handler(record, 2);

    if (slot < 0 || cp__perf_has_lost_count)
        return;
    cp__limits_take_from_handler(&m->handles[slot], which, lost);
    cp_add_single_writer(&m->stats[slot].interrupts, lost);
    cp__periods_add_lost_from_handler(m, slot, lost * cp__handle_stretch(&m->handles[slot]));
}

/* A THROTTLE or UNTHROTTLE record: header, time, id, stream id. */
static void throttled_from_handler(struct cp__m *m, const struct record *record, bool begins)
{
    int which;
    int slot = slot_of_from_handler(m, word_from_handler(record, 2), &which);

    if (slot >= 0)
        cp__periods_throttled_from_handler(m, slot, which, begins, word_from_handler(record, 1));
}

static void record_from_handler(struct cp__m *m, const struct record *record,
                                const struct perf_event_header *header, struct cp__moment *moment)
{
    switch (header->type) {
    case PERF_RECORD_SAMPLE:
        read_sample_from_handler(m, record, header, moment);
        break;
    case PERF_RECORD_LOST: /* header, id, how many */
        lost_from_handler(m, record);
        break;
    case PERF_RECORD_THROTTLE:
    case PERF_RECORD_UNTHROTTLE:
        throttled_from_handler(m, record, header->type == PERF_RECORD_THROTTLE);
        break;
    default:
        break;
    }
}

uint32_t cp__ring_throttled_from_handler(const struct cp__m *m)
{
    const struct perf_event_mmap_page *page = m->ring.page;
    uint64_t head = page != NULL ? cp_load_acquire(&page->data_head) : 0; /* as in draining */
    uint32_t throttled = 0;
    struct perf_event_header header;
    int which;

    /* relaxed: stored by this thread */
    for (uint32_t armed = cp_load_relaxed(&m->armed); armed != 0; armed &= armed - 1)
        throttled |= (uint32_t)m->handles[__builtin_ctz(armed)].periods.is_throttled << __builtin_ctz(armed);
    for (uint64_t at = page != NULL ? page->data_tail : 0; at != head; at += header.size) {
        struct record record = {.ring = &m->ring, .at = at / sizeof(uint64_t)};
        bool begins;
        int slot;

        header = header_from_handler(&record);
        if (header.size == 0)
            break;
        begins = header.type == PERF_RECORD_THROTTLE;
        if (!begins && header.type != PERF_RECORD_UNTHROTTLE)
            continue;
        slot = slot_of_from_handler(m, word_from_handler(&record, 2), &which);
        if (slot >= 0)
            throttled = (throttled & ~(1u << slot)) | (uint32_t)begins << slot;
    }
    return throttled;
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
 * over them. A record of size 0 would be read for ever, so it ends the loop. */
void cp__ring_drain_from_handler(struct cp__m *m, struct cp__moment *moment)
{
    struct perf_event_mmap_page *page = m->ring.page;
    uint64_t head;
    uint64_t tail;

    if (page == NULL)
        return;
    head =
        cp_load_acquire(&page->data_head); /* pairs with the kernel's barrier in perf_output_put_handle() */
    tail = page->data_tail;
    m->ring.crowded += 2 * (head - tail) > m->ring.n_words * sizeof *m->ring.words;
    while (tail != head) {
        struct record record = {.ring = &m->ring, .at = tail / sizeof(uint64_t)};
        struct perf_event_header header = header_from_handler(&record);

        if (header.size == 0)
            break;
        record_from_handler(m, &record, &header, moment);
        tail += header.size;
    }
    cp_store_release(&page->data_tail, tail); /* pairs with the kernel's reading of it before it writes */
    cp__limits_renew_from_handler(m);
}
