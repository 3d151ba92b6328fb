#include "asked.h"

#include <sched.h>

#include "runtime/base/signals.h"

static struct cp__asked entries[CP__ASKED_MOST];

/* ---- The asker ------------------------------------------------------------------------------- */

struct cp__asked *cp__asked_begin(const void *asker, const struct cp__account *account, uint64_t switches)
{
    for (unsigned i = 0; i < CP__ASKED_MOST; i++) {
        struct cp__asked *asked = &entries[i];
        uint32_t is = CP__ASKED_FREE;

        if (!cp_compare_exchange(&asked->state, &is, CP__ASKED_CLAIMED))
            continue;
        /* relaxed, all: a late tick may make a handler read two of them, and another asker the third */
        cp_store_relaxed(&asked->asker, asker);
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

    while (!cp_compare_exchange(&asked->state, &is, CP__ASKED_CLAIMED) && is != CP__ASKED_TAKEN) {
        sched_yield();
        is = CP__ASKED_ASKED;
    }
    if (is == CP__ASKED_TAKEN)
        cp_labels_unref(asked->labels);
    cp_store_relaxed(&asked->asker, NULL); /* relaxed: another asker's sweep sees no older one of its own */
    cp_store_release(&asked->state, CP__ASKED_FREE); /* pairs with the exchange in cp__asked_begin() */
}

void cp__asked_sweep(const void *asker, uint64_t look, void (*end)(struct cp__asked *asked))
{
    for (unsigned i = 0; i < CP__ASKED_MOST; i++) {
        /* relaxed: only the asker stores itself, and takes itself away */
        if (cp_load_relaxed(&entries[i].asker) == asker && entries[i].seen != look)
            end(&entries[i]);
    }
}

void cp__asked_forget(void)
{
    for (unsigned i = 0; i < CP__ASKED_MOST; i++) {
        cp_store_relaxed(&entries[i].asker, NULL); /* relaxed, both: this is the only thread */
        cp_store_relaxed(&entries[i].state, CP__ASKED_FREE);
    }
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
