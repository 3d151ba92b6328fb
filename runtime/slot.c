#include "slot.h"

#include <string.h>
#include <time.h>

#include "atomic.h"
#include "runtime/base/os.h"
#include "runtime/event/rows.h"

#define WORDS (sizeof(struct cp__slot_config) / sizeof(uint64_t))
_Static_assert(sizeof(struct cp__slot_config) % sizeof(uint64_t) == 0, "a config is copied in words");

enum state {
    FREE,
    RUNNING,
    STOPPED, /* stopped, and not released by its reader yet */
};

static struct slot {
    /* Shared: written under the runtime lock, read by Ms; see slot.h. */
    uint64_t seq;
    uint64_t words[WORDS];

    /* Under the runtime lock. */
    enum state state;
    uint64_t run;              /* the config that was started last */
    double rate;               /* how many samples a second the config allows; 0: unknown */
    struct cp_slot_stats kept; /* the figures of Ms that are gone */
} slots[CP_EV_MAX];

uint64_t cp_generation;   /* shared; written under the runtime lock */
static uint64_t last_seq; /* under the runtime lock */
static uint64_t seq_tag;  /* set under the runtime lock before the first config is published */

/* ---- What Ms read ---------------------------------------------------------------------------- */

uint64_t cp__slot_seq_from_handler(int slot)
{
    return cp_load_acquire(&slots[slot].seq); /* pairs with the release in cp__slot_publish() */
}

bool cp__slot_config_from_handler(int slot, struct cp__slot_config *config)
{
    uint64_t seq = cp__slot_seq_from_handler(slot);
    uint64_t words[WORDS];

    if (seq == 0)
        return false;
    for (size_t i = 0; i < WORDS; i++)
        words[i] = cp_load_relaxed(&slots[slot].words[i]); /* relaxed: validated below */
    cp_fence_acquire(); /* pairs with the release fence in cp__slot_publish() */
    memcpy(config, words, sizeof *config);
    return cp_load_relaxed(&slots[slot].seq) == seq;
}

bool cp__slot_is_seq_from_handler(uint64_t seq)
{
    /* relaxed: set before any signal of the library's was possible */
    uint64_t tag = cp_load_relaxed(&seq_tag);

    return tag != 0 && seq >> CP__SEQ_BITS == tag >> CP__SEQ_BITS;
}

/* ---- Publishing ------------------------------------------------------------------------------ */

/* Returns a new sequence number. Its upper bits come from the clock, so that a program's own timers do
 * not carry such a value. */
static uint64_t new_seq(void)
{
    if (seq_tag == 0)
        cp_store_relaxed(&seq_tag, (cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) | 1) << CP__SEQ_BITS);
    return seq_tag | ++last_seq;
}

void cp__slot_publish(int number, const struct cp_slot_request *request, const struct cp__engine *engine,
                      double rate)
{
    struct slot *slot = &slots[number];
    struct cp__slot_config config = {.seq = new_seq(),
                                     .engine = engine,
                                     .kind = cp__config_event(request->event, &request->config)->kind,
                                     .config = request->config};
    uint64_t words[WORDS];

    memcpy(words, &config, sizeof config);
    cp_fence_release(); /* pairs with the acquire fence in cp__slot_config_from_handler(): seq has been 0
                           since */
    for (size_t i = 0; i < WORDS; i++)
        cp_store_relaxed(&slot->words[i], words[i]); /* relaxed: ordered by the release below */
    slot->state = RUNNING;
    slot->run = config.seq;
    slot->rate = rate;
    slot->kept =
        (struct cp_slot_stats){.precise_ip = request->config.precise_ip, .engine = request->config.engine};
    cp_store_release(&slot->seq, config.seq); /* pairs with the acquire in cp__slot_seq_from_handler() */
}

void cp__slots_next_generation(void)
{
    cp_store_release(&cp_generation,
                     cp_generation + 1); /* pairs with the acquires in cp_execute() and on Ms */
}

/* ---- The states ------------------------------------------------------------------------------ */

void cp__slot_stop(int slot)
{
    slots[slot].state = STOPPED;
    cp_store_release(&slots[slot].seq, 0); /* pairs with the acquire in cp__slot_seq_from_handler() */
}

void cp__slot_free(int slot)
{
    slots[slot].state = FREE;
    slots[slot].run = 0;
}

bool cp__slot_is_free(int slot)
{
    return slots[slot].state == FREE;
}

bool cp__slot_runs(int slot)
{
    return slots[slot].state == RUNNING;
}

/* Returns how many samples a second the running events allow. */
double cp__slots_rate(void)
{
    double sum = 0;

    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        if (slots[slot].state == RUNNING)
            sum += slots[slot].rate;
    }
    return sum;
}

bool cp__slots_running(void)
{
    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        if (slots[slot].state == RUNNING)
            return true;
    }
    return false;
}

uint32_t cp__slots_with_reader(void)
{
    uint32_t mask = 0;

    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        if (slots[slot].state != FREE)
            mask |= 1u << slot;
    }
    return mask;
}

unsigned cp__slots_in_use(void)
{
    return (unsigned)__builtin_popcount(cp__slots_with_reader());
}

uint64_t cp__slot_run(int slot)
{
    return slots[slot].run;
}

struct cp_slot_stats *cp__slot_kept_stats(int slot)
{
    return &slots[slot].kept;
}

void cp__slots_forget(void)
{
    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        cp_store_release(&slots[slot].seq, 0); /* pairs with the acquire in cp__slot_seq_from_handler() */
        slots[slot].state = FREE;
        slots[slot].run = 0;
    }
    cp__slots_next_generation();
}
