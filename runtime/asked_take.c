/* What the handler does for who asks for the M's stack. */
#include <string.h>

#include "asked.h"
#include "g_account.h"
#include "label.h"

/* Returns the account of what m runs: a G, or its thread's own code. */
static const struct cp__account *account_on_from_handler(const struct cp__m *m)
{
    /* relaxed: written by this thread */
    return m->head.g != NULL ? cp__account_on_from_handler(m) : cp_load_relaxed(&m->self.account);
}

/* Whether m is in the stint that the entry is about. */
static bool is_in_stint_from_handler(const struct cp__m *m, const struct cp__asked *asked)
{
    /* relaxed, all: the state tells whether the entry holds, and m and its account are this thread's */
    const struct cp__account *account = cp_load_relaxed(&asked->account);

    return account != NULL && account_on_from_handler(m) == account &&
           cp_load_relaxed(&account->values.switches) == cp_load_relaxed(&asked->switches);
}

/* The stack may be the thread's own, if the G is just leaving. */
static void take_from_handler(struct cp__m *m, struct cp__asked *asked, struct cp__moment *moment)
{
    uint32_t is = CP__ASKED_ASKED;

    cp__moment_unwind_from_handler(m, moment);
    if (moment->g->account != cp_load_relaxed(&asked->account) || /* relaxed: as above */
        !cp_compare_exchange(&asked->state, &is, CP__ASKED_TAKING))
        return;
    if (!is_in_stint_from_handler(m, asked)) { /* the asker has asked another M by the same entry since */
        cp_store_release(&asked->state, CP__ASKED_ASKED); /* pairs with the exchanges of the state */
        return;
    }
    asked->labels = cp__labels_ref_from_handler(moment->g->labels);
    asked->flags = moment->chain_flags;
    asked->depth = moment->depth;
    memcpy(asked->frames, moment->frames, moment->depth * sizeof *moment->frames);
    cp_store_release(&asked->state, CP__ASKED_TAKEN); /* pairs with the acquire in cp__asked_is_taken() */
}

void cp__asked_on_signal_from_handler(struct cp__m *m, const siginfo_t *info, struct cp__moment *moment)
{
    struct cp__asked *asked = cp__asked_by_from_handler(info);

    if (asked != NULL && moment->since == CP__SINCE_SIGNAL && is_in_stint_from_handler(m, asked))
        take_from_handler(m, asked, moment);
}
