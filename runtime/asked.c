#include "asked.h"

#include <sched.h>

#include "runtime/base/signals.h"

static struct cp__asked entries[CP__ASKED_MOST];

/* ---- The asker ------------------------------------------------------------------------------- */

struct cp__asked *cp__asked_begin(const struct cp__account *account, uint64_t switches)
{
    for (unsigned i = 0; i < CP__ASKED_MOST; i++) {
        struct cp__asked *asked = &entries[i];

        if (cp_load_relaxed(&asked->state) != CP__ASKED_FREE) /* relaxed: only this thread frees entries */
            continue;
        /* relaxed, both: a late tick may make a handler read them */
        cp_store_relaxed(&asked->account, account);
        cp_store_relaxed(&asked->switches, switches);
        asked->timer = -1;
        asked->labels = NULL;
        asked->depth = 0;
        /* pairs with the exchange in take_from_handler(), asked_take.c */
        cp_store_release(&asked->state, CP__ASKED_ASKED);
        return asked;
    }
    return NULL;
}

uint64_t cp__asked_value(const struct cp__asked *asked)
{
    return (uintptr_t)asked;
}

bool cp__asked_is_taken(const struct cp__asked *asked)
{
    /* pairs with the release in take_from_handler(), asked_take.c */
    return cp_load_acquire(&asked->state) == CP__ASKED_TAKEN;
}

/* A handler takes microseconds, unless its thread has no CPU. */
void cp__asked_end(struct cp__asked *asked)
{
    uint32_t is = CP__ASKED_ASKED;

    while (!cp_compare_exchange(&asked->state, &is, CP__ASKED_FREE) && is != CP__ASKED_TAKEN) {
        sched_yield();
        is = CP__ASKED_ASKED;
    }
    if (is != CP__ASKED_TAKEN)
        return;
    cp_labels_unref(asked->labels);
    cp_store_relaxed(&asked->state, CP__ASKED_FREE); /* relaxed: this thread takes it again */
}

void cp__asked_sweep(uint64_t look, void (*end)(struct cp__asked *asked))
{
    for (unsigned i = 0; i < CP__ASKED_MOST; i++) {
        /* relaxed: only this thread frees entries */
        if (cp_load_relaxed(&entries[i].state) != CP__ASKED_FREE && entries[i].seen != look)
            end(&entries[i]);
    }
}

void cp__asked_forget(void)
{
    for (unsigned i = 0; i < CP__ASKED_MOST; i++)
        cp_store_relaxed(&entries[i].state, CP__ASKED_FREE); /* relaxed: this is the only thread */
}

/* ---- The handler ----------------------------------------------------------------------------- */

struct cp__asked *cp__asked_by_from_handler(const siginfo_t *info)
{
    uint64_t value;

    if (!cp__signal_is_tick_from_handler(info, &value) || value < (uintptr_t)entries ||
        value >= (uintptr_t)(entries + CP__ASKED_MOST))
        return NULL;
    return (struct cp__asked *)(uintptr_t)value;
}
