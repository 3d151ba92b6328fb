/* See accesses.h. */
#include "accesses.h"

#include <stddef.h>

#define PAGE 4096u
#define LINE 64u

void cp__judge_begin(struct cp__judge *judge, unsigned physical)
{
    *judge = (struct cp__judge){.period = (uint64_t)physical * PAGE};
}

/* What has ten bytes, or 28, is aligned as its largest part that is a power of two. */
static bool is_unaligned(const struct cp__access *access)
{
    const uint32_t alignment = access->unit & -access->unit;

    return access->address % (alignment < LINE ? alignment : LINE) != 0;
}

/* What is larger than a line crosses one more than it must. */
static bool crosses_line(const struct cp__access *access)
{
    const uint64_t offset = access->address % LINE;

    return access->unit > LINE ? offset != 0 : offset + access->unit > LINE;
}

static bool shares_address(const struct cp__access *a, const struct cp__access *b)
{
    return b->address - a->address < a->size || a->address - b->address < b->size;
}

static bool covers(const struct cp__access *store, const struct cp__access *load)
{
    const uint64_t offset = load->address - store->address;

    return offset < store->size && load->size <= store->size - offset;
}

static bool shares_place(const struct cp__access *a, const struct cp__access *b, uint64_t period)
{
    return (b->address - a->address) % period < a->size || (a->address - b->address) % period < b->size;
}

/* From the last store on: one that has all of the load is what the load waits for in any case, and what was
 * stored before does not matter. */
static bool may_wait_falsely(const struct cp__judge *judge, const struct cp__access *load)
{
    for (unsigned back = 1; back <= CP__JUDGE_STORES && back <= judge->n_stores; back++) {
        const struct cp__access *store = &judge->stores[(judge->n_stores - back) % CP__JUDGE_STORES];

        if (covers(store, load))
            return false;
        if (!shares_address(store, load) && shares_place(store, load, judge->period))
            return true;
    }
    return false;
}

void cp__judge_add(struct cp__judge *judge, const struct cp__access *access)
{
    if (access->size == 0)
        return;
    judge->accesses++;
    judge->unaligned += is_unaligned(access);
    judge->crossings += crosses_line(access);
    if (access->is_load && !judge->may_alias)
        judge->may_alias = may_wait_falsely(judge, access);
    if (access->is_store)
        judge->stores[judge->n_stores++ % CP__JUDGE_STORES] = *access;
}
