/* The profiler's own memory: how much of it stays, and who is charged for its page faults. */
#include "tests/support/burn.h"

#include <sys/mman.h>

#include "runtime/chunk.h"
#include "runtime/m.h"

static struct cp__m *self(void)
{
    return (struct cp__m *)cp_m_self();
}

/* ---- Faults of the handler's own ------------------------------------------------------------- */

#define TOUCHED 1000

static struct {
    uintptr_t lo, hi;
} touched;
static uint64_t in_touched, in_ours;

static bool is_within(uintptr_t address, const void *lo, size_t size)
{
    return address >= (uintptr_t)lo && address < (uintptr_t)lo + size;
}

static struct {
    const struct cp__chunk *at[CP__POOL_CHUNKS];
    size_t n;
} chunks; /* of the buffer */

static void find_chunks(const struct cp__samplebuf *buf)
{
    for (const struct cp__chunk *chunk = cp__chunk_of(buf->read); chunk != NULL; chunk = chunk->next)
        chunks.at[chunks.n++] = chunk;
}

static void count_fault(void *context, const struct cp_sample *sample)
{
    (void)context;
    for (size_t i = 0; i < chunks.n; i++)
        in_ours += is_within(sample->addr, chunks.at[i], cp__chunk_size);
    in_touched += sample->addr >= touched.lo && sample->addr < touched.hi;
    in_ours += is_within(sample->addr, self()->altstack, 128 << 10) ||
               is_within(sample->addr, self()->ring.page, 64 << 10);
}

static void touch(size_t page)
{
    char *pages = mmap(NULL, TOUCHED * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(pages != MAP_FAILED);
    madvise(pages, TOUCHED * page, MADV_NOHUGEPAGE);
    touched.lo = (uintptr_t)pages;
    touched.hi = touched.lo + TOUCHED * page;
    for (int i = 0; i < TOUCHED; i++)
        ((volatile char *)pages)[i * page] = 1;
}

/* The handler touches 20 pages of the sample buffer and some of the stack and the ring for the first time. No
 * sample may be of these faults. */
CP_TEST(page_faults_are_those_of_the_program)
{
    struct cp_slot_request faults = request("pageFaults", 1);
    struct profile profile = {.n = 0};
    struct worker worker = {.body = NULL};
    struct cp__samplebuf *buf;

    if (TEST_TSAN)
        SKIP("ThreadSanitizer delivers signals late: a signal that finds one pending is no sample");
    faults.config.is_sample_addr_included = true;
    start_unread(&profile, &faults, 1);
    attach(&worker);
    touch((size_t)sysconf(_SC_PAGESIZE));
    buf = &self()->buffers[profile.slots[0]];
    CHECK(buf->head > TOUCHED * CP__SAMPLE_HEADER_WORDS); /* the handler has faulted, too */
    find_chunks(buf);
    cp_slots_read(profile.slots[0], count_fault, NULL);
    CHECK(chunks.n > 10);
    CHECK_EQ(in_touched, TOUCHED);
    CHECK_EQ(in_ours, 0);
    stop_profile(&profile);
    cp_m_detach(worker.m);
}

/* ---- Buffers of slots that are free ---------------------------------------------------------- */

/* Returns how many of the buffer's chunks have memory. */
static size_t resident(const struct cp__samplebuf *buf)
{
    const struct cp__chunk *chunk = buf->read == NULL ? NULL : cp__chunk_of(buf->read);
    unsigned char is_resident = 1;
    size_t n = 0;

    while (chunk != NULL && is_resident) {
        CHECK_EQ(mincore(CP_TEST_UNCONST(chunk), cp__chunk_size, &is_resident), 0);
        is_resident &= 1;
        n += is_resident;
        chunk = is_resident ? chunk->next : NULL; /* what is not resident is 0 */
    }
    return n;
}

/* Until the buffer has used as many chunks as it may have unread, and has several. */
static void fill(struct cp__samplebuf *buf, int slot)
{
    uint64_t head = buf->head;

    while (buf->head - head <= CP__SAMPLEBUF_WORDS) {
        burn_a(10 * MS);
        cp_slots_read(slot, see, &(struct profile_part){.profile = &(struct profile){.n = 1}});
    }
    while (resident(buf) < 4)
        burn_a(MS);
}

static int start_fast(void)
{
    struct cp_slot_request clock = request("taskClock", TEST_TSAN ? 1000000 : TEST_ASAN ? 200000 : 100000);
    struct cp_error err = {0};
    int slot;

    CHECKF(cp_slots_start(&clock, 1, &slot, &err) == 0, "%s", err.message);
    return slot;
}

static void end(int slot)
{
    cp_slots_stop(&slot, 1);
    cp_slots_release(&slot, 1);
}

CP_TEST(buffers_of_a_free_slot_are_given_back)
{
    struct worker worker = {.body = NULL};
    struct cp__samplebuf *buf;

    attach(&worker);
    for (int i = 0; i < 2; i++) { /* the second run uses the buffer again */
        int slot = start_fast();

        buf = &self()->buffers[slot];
        fill(buf, slot);
        end(slot);
        CHECK_EQ(resident(buf), 0);
        CHECK_EQ(cp__pool_level(), 0);
    }
    cp_m_detach(worker.m);
}

/* An M that is late may still be recording, so the M keeps its buffer. */
CP_TEST(the_buffer_of_an_m_that_is_late_is_given_back_later)
{
    struct worker worker = {.body = NULL};
    struct cp__samplebuf *buf;
    int slot;

    attach(&worker);
    slot = start_fast();
    buf = &self()->buffers[slot];
    fill(buf, slot);
    cp_slots_stop(&slot, 1);
    CHECK(cp__m_claim_from_handler(self(), CP__CLAIM_SELF));
    cp_slots_release(&slot, 1);
    CHECK(resident(buf) > 0);
    cp__m_unclaim_from_handler(self());
    self()->armed |= 1u << slot;
    cp_slots_release(&slot, 1);
    CHECK(resident(buf) > 0);
    self()->armed &= ~(1u << slot);
    end(start_fast());
    CHECK_EQ(resident(buf), 0);
    cp_m_detach(worker.m);
}
