/* The profiler's own memory: how much of it stays. */
#include "tests/support/burn.h"

#include <sys/mman.h>

#include "runtime/chunk.h"
#include "runtime/m.h"

static struct cp__m *self(void)
{
    return (struct cp__m *)cp_m_self();
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
    CHECK_EQ(resident(buf), 4); /* 10 samples take less than a chunk */
}

static int start_fast(void)
{
    struct cp_slot_request clock = request("taskClock", MS / 10);
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

SIM_TEST(buffers_of_a_free_slot_are_given_back)
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
SIM_TEST(the_buffer_of_an_m_that_is_late_is_given_back_later)
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
