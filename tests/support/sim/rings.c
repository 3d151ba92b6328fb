/* Rings, and the records that overflows write into them. */
#include "kernel.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "atomic.h"

/* As kernel.perf_event_max_stack. */
#define MOST_FRAMES 127

/* ---- Mapping --------------------------------------------------------------------------------- */

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* The first page tells where the reader and the writer are; of the others, there is a power of 2. */
static bool is_ring_size(size_t size)
{
    size_t pages = size / page_size() - 1;

    return size % page_size() == 0 && pages != 0 && (pages & (pages - 1)) == 0;
}

static void *refuse_mapping(int error)
{
    errno = error;
    return MAP_FAILED;
}

void *__real_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);

/* The memory file is the ring. Both its reader and the simulation write to the one mapping. */
void *sim_map_ring(struct sim_event *event, size_t size)
{
    struct perf_event_mmap_page *page;

    if (!is_ring_size(size) || event->output != SIM_OWN || event->page != NULL || event->attr.inherit)
        return refuse_mapping(EINVAL);
    if (sim_state->rings + size > sim->ring_memory)
        return refuse_mapping(EPERM);
    if (ftruncate(event->fd, (off_t)size) < 0)
        return MAP_FAILED;
    page = __real_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, event->fd, 0);
    if (page == MAP_FAILED)
        return page;
    madvise(page, size, MADV_DONTFORK);
    event->page = (char *)page;
    event->ring_size = page->data_size = size - page_size();
    page->data_offset = page_size();
    sim_state->rings += size;
    return page;
}

void sim_unmap_ring(const void *at)
{
    for (int i = 0; i < sim_state->n_events; i++) {
        struct sim_event *event = &sim_state->events[i];

        if (!event->is_used || event->page == NULL || event->page != at || event->pid != sim_pid())
            continue;
        event->page = NULL;
        event->is_used = !event->is_closed;
        sim_state->rings -= event->ring_size + page_size();
    }
}

/* ---- Records --------------------------------------------------------------------------------- */

static void put(struct sim_event *ring, const uint64_t *words, uint64_t n)
{
    struct perf_event_mmap_page *page = (void *)ring->page;
    uint64_t *data = (void *)(ring->page + page_size());
    uint64_t head = page->data_head / sizeof *words;

    for (uint64_t i = 0; i < n; i++)
        data[(head + i) % (ring->ring_size / sizeof *words)] = words[i];
    cp_store_release(&page->data_head, (head + n) * sizeof *words); /* pairs with the reader's acquire */
}

static uint64_t header_of(unsigned type, unsigned misc, uint64_t n_words)
{
    const struct perf_event_header header = {
        .type = type, .misc = (uint16_t)misc, .size = (uint16_t)(n_words * sizeof(uint64_t))};
    uint64_t word;

    memcpy(&word, &header, sizeof word);
    return word;
}

static void put_lost(struct sim_event *ring, const struct sim_event *event)
{
    const uint64_t lost[] = {header_of(PERF_RECORD_LOST, 0, 3), event->id, ring->ring_lost};

    put(ring, lost, 3);
    ring->ring_lost = 0;
}

/* Writes a record as perf_output_begin() of the kernel does: one byte stays free, and a LOST record, which
 * names the event whose record comes next, tells of those that found no room. */
static void write_record(struct sim_event *event, const uint64_t *words, uint64_t n)
{
    struct sim_event *ring = event->output >= 0 ? &sim_state->events[event->output] : event;
    const struct perf_event_mmap_page *page = event->output != SIM_GONE ? (void *)ring->page : NULL;
    uint64_t used, lost_size = ring->ring_lost != 0 ? 3 : 0;

    if (!ring->is_used || page == NULL || ring->pid != sim_pid())
        return;
    used = page->data_head - cp_load_acquire(&page->data_tail); /* pairs with the reader's release */
    if (ring->ring_size - 1 - used < (n + lost_size) * sizeof *words) {
        ring->ring_lost++;
        event->lost++;
        return;
    }
    if (ring->ring_lost != 0)
        put_lost(ring, event);
    put(ring, words, n);
}

void sim_write_throttle(struct sim_event *event, bool begins)
{
    const uint64_t now = cp_load_relaxed(&sim_state->passed); /* relaxed: under the lock */
    const uint64_t words[] = {header_of(begins ? PERF_RECORD_THROTTLE : PERF_RECORD_UNTHROTTLE, 0, 4), now,
                              event->id, event->id};

    write_record(event, words, 4);
}

/* ---- Samples --------------------------------------------------------------------------------- */

/* Reads memory of this process that may not be there. */
static bool read_frame(uintptr_t at, uintptr_t frame[2])
{
    const struct iovec local = {frame, 2 * sizeof *frame}, remote = {(void *)at, 2 * sizeof *frame};

    return sim_raw(SYS_process_vm_readv, sim_pid(), (long)&local, 1, (long)&remote, 1, 0) ==
           (long)(2 * sizeof *frame);
}

/* Walks by frame pointers, as the kernel does. Returns the number of words. */
static uint64_t put_user_chain(uint64_t *to, const struct sim_place *place)
{
    uint64_t n = 0;
    uintptr_t frame[2], fp = place->fp;

    to[n++] = PERF_CONTEXT_USER;
    to[n++] = place->pc;
    while (n < MOST_FRAMES && fp != 0 && fp % sizeof fp == 0 && read_frame(fp, frame)) {
        to[n++] = frame[1];
        if (frame[0] <= fp)
            break;
        fp = frame[0];
    }
    return n;
}

static uint64_t put_chain(uint64_t *to, const struct perf_event_attr *attr, const struct sim_place *place)
{
    uint64_t n = 0;

    if (place->in_kernel && !attr->exclude_callchain_kernel) {
        to[n++] = PERF_CONTEXT_KERNEL;
        to[n++] = SIM_KERNEL_PC;
    }
    return attr->exclude_callchain_user ? n : n + put_user_chain(&to[n], place);
}

/* The registers that the library asks for: sp and pc, in the order of their numbers, which is this one on
 * amd64 (7, 8) and on arm64 (31, 32). */
static uint64_t put_registers(uint64_t *to, uintptr_t pc, uintptr_t sp)
{
    to[0] = PERF_SAMPLE_REGS_ABI_64;
    to[1] = sp;
    to[2] = pc;
    return 3;
}

void sim_write_sample(struct sim_event *event, const struct sim_place *place, uintptr_t address)
{
    const uint64_t type = event->attr.sample_type;
    const unsigned misc = (place->in_kernel ? PERF_RECORD_MISC_KERNEL : PERF_RECORD_MISC_USER) |
                          (event->attr.precise_ip != 0 ? PERF_RECORD_MISC_EXACT_IP : 0);
    uint64_t words[24 + MOST_FRAMES];
    uint64_t n = 1;

    if ((type & PERF_SAMPLE_IDENTIFIER) != 0)
        words[n++] = event->id;
    if ((type & PERF_SAMPLE_IP) != 0)
        words[n++] = place->in_kernel ? SIM_KERNEL_PC : place->pc;
    if ((type & PERF_SAMPLE_ADDR) != 0)
        words[n++] = address;
    if ((type & PERF_SAMPLE_READ) != 0)
        n += sim_counts(event, &words[n]);
    if ((type & PERF_SAMPLE_CALLCHAIN) != 0) {
        words[n] = put_chain(&words[n + 1], &event->attr, place);
        n += 1 + words[n];
    }
    if ((type & PERF_SAMPLE_REGS_USER) != 0)
        n += put_registers(&words[n], place->pc, place->sp);
    words[0] = header_of(PERF_RECORD_SAMPLE, misc, n);
    write_record(event, words, n);
}
