/* See accesses.h. */
#include "accesses.h"

#include <stddef.h>

#define PAGE 4096u
#define LINE 64u

void cp__judge_begin(struct cp__judge *judge, struct cp__apart *apart)
{
    *judge = (struct cp__judge){.apart = apart};
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

static bool shares_offset(const struct cp__access *a, const struct cp__access *b)
{
    return (b->address - a->address) % PAGE < a->size || (a->address - b->address) % PAGE < b->size;
}

static unsigned physical_of(const struct cp__judge *judge, uint64_t address)
{
    return cp__apart_physical(judge->apart, address / PAGE);
}

/* What goes over the end of a page is taken to share all of both pages. */
static bool shares_page(const struct cp__judge *judge, const struct cp__access *a, const struct cp__access *b)
{
    const unsigned pages[2][2] = {
        {physical_of(judge, a->address), physical_of(judge, a->address + a->size - 1)},
        {physical_of(judge, b->address), physical_of(judge, b->address + b->size - 1)}};

    return a->size > PAGE || b->size > PAGE || pages[0][0] == pages[1][0] || pages[0][0] == pages[1][1] ||
           pages[0][1] == pages[1][0] || pages[0][1] == pages[1][1];
}

/* From the last store on: one that has all of the load is what the load waits for in any case, and what was
 * stored before does not matter. */
static bool may_wait_falsely(const struct cp__judge *judge, const struct cp__access *load)
{
    bool may_wait = false;

    for (unsigned back = 1; back <= CP__JUDGE_STORES && back <= judge->n_stores; back++) {
        const struct cp__access *store = &judge->stores[(judge->n_stores - back) % CP__JUDGE_STORES];

        if (covers(store, load))
            break;
        if (shares_address(store, load) || !shares_offset(store, load))
            continue;
        cp__apart_add(judge->apart, store->address / PAGE, load->address / PAGE);
        may_wait = may_wait || shares_page(judge, store, load);
    }
    return may_wait;
}

void cp__judge_add(struct cp__judge *judge, const struct cp__access *access)
{
    if (access->size == 0)
        return;
    judge->accesses++;
    judge->unaligned += is_unaligned(access);
    judge->crossings += crosses_line(access);
    if (access->is_load && may_wait_falsely(judge, access))
        judge->may_alias = true;
    if (access->is_store)
        judge->stores[judge->n_stores++ % CP__JUDGE_STORES] = *access;
}
