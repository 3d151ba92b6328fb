#include "sampled.h"

#include <string.h>

#include "registry.h"
#include "runtime/base/lock.h"
#include "runtime/rounds.h"

static struct cp__lock table_lock = CP__LOCK_INIT(CP__RANK_SAMPLED);

/* All of this is under the lock. */
static struct {
    struct sampled_place {
        uint64_t round; /* 0: none has ended */
        uint64_t ns;
    } places[CP__SAMPLED];
    uint64_t used; /* the places from here on are empty */
} table;

void cp__sampled_ended(uint64_t round, uint64_t ns)
{
    const uint64_t i = round % CP__SAMPLED;
    struct sampled_place *place = &table.places[i];

    cp__lock(&table_lock);
    *place = (struct sampled_place){.round = round, .ns = ns == 0 ? 1 : ns};
    if (i >= table.used)
        table.used = i + 1;
    cp__unlock(&table_lock);
}

bool cp__sampled_find(uint64_t round, uint64_t *ns)
{
    const struct sampled_place *place = &table.places[round % CP__SAMPLED];
    bool found;

    cp__lock(&table_lock);
    found = place->round == round && round != 0;
    if (found)
        *ns = place->ns;
    cp__unlock(&table_lock);
    return found;
}

const char *cp_watch_round_name(uint64_t round)
{
    return cp__registry_name(cp__round_watch(round));
}

/* ---- In the child of a fork ------------------------------------------------------------------ */

/* The child has no samples of its parent's rounds. Another thread may have been about to change the table. */
void cp__sampled_forget(void)
{
    cp__lock_reset(&table_lock);
    memset(table.places, 0, table.used * sizeof table.places[0]);
}
