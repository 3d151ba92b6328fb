/* Hardware cache events, in each of their spellings. */
#include "tests/support/event_tools.h"

#define CACHE(cache, op, result)                                                                             \
    (PERF_COUNT_HW_CACHE_##cache | PERF_COUNT_HW_CACHE_OP_##op << 8 |                                        \
     PERF_COUNT_HW_CACHE_RESULT_##result << 16)

/* The configs are those that perf_event_open(2) describes. The first names are those of "perf list"; perf 6.1
 * accepted the others, as its option -vv showed; the last names differ from those only in case. */
CP_TEST(cache_events_have_many_spellings)
{
    static const struct {
        const char *name;
        const char *canonical;
        uint64_t config;
    } events[] = {
        {"L1-dcache-loads", "L1-dcache-loads", CACHE(L1D, READ, ACCESS)},
        {"L1-dcache-load-misses", "L1-dcache-load-misses", CACHE(L1D, READ, MISS)},
        {"L1-dcache-stores", "L1-dcache-stores", CACHE(L1D, WRITE, ACCESS)},
        {"L1-dcache-store-misses", "L1-dcache-store-misses", CACHE(L1D, WRITE, MISS)},
        {"L1-dcache-prefetches", "L1-dcache-prefetches", CACHE(L1D, PREFETCH, ACCESS)},
        {"L1-dcache-prefetch-misses", "L1-dcache-prefetch-misses", CACHE(L1D, PREFETCH, MISS)},
        {"L1-icache-loads", "L1-icache-loads", CACHE(L1I, READ, ACCESS)},
        {"L1-icache-load-misses", "L1-icache-load-misses", CACHE(L1I, READ, MISS)},
        {"L1-icache-prefetches", "L1-icache-prefetches", CACHE(L1I, PREFETCH, ACCESS)},
        {"L1-icache-prefetch-misses", "L1-icache-prefetch-misses", CACHE(L1I, PREFETCH, MISS)},
        {"LLC-loads", "LLC-loads", CACHE(LL, READ, ACCESS)},
        {"LLC-load-misses", "LLC-load-misses", CACHE(LL, READ, MISS)},
        {"LLC-stores", "LLC-stores", CACHE(LL, WRITE, ACCESS)},
        {"LLC-store-misses", "LLC-store-misses", CACHE(LL, WRITE, MISS)},
        {"LLC-prefetches", "LLC-prefetches", CACHE(LL, PREFETCH, ACCESS)},
        {"LLC-prefetch-misses", "LLC-prefetch-misses", CACHE(LL, PREFETCH, MISS)},
        {"dTLB-loads", "dTLB-loads", CACHE(DTLB, READ, ACCESS)},
        {"dTLB-load-misses", "dTLB-load-misses", CACHE(DTLB, READ, MISS)},
        {"dTLB-stores", "dTLB-stores", CACHE(DTLB, WRITE, ACCESS)},
        {"dTLB-store-misses", "dTLB-store-misses", CACHE(DTLB, WRITE, MISS)},
        {"dTLB-prefetches", "dTLB-prefetches", CACHE(DTLB, PREFETCH, ACCESS)},
        {"dTLB-prefetch-misses", "dTLB-prefetch-misses", CACHE(DTLB, PREFETCH, MISS)},
        {"iTLB-loads", "iTLB-loads", CACHE(ITLB, READ, ACCESS)},
        {"iTLB-load-misses", "iTLB-load-misses", CACHE(ITLB, READ, MISS)},
        {"branch-loads", "branch-loads", CACHE(BPU, READ, ACCESS)},
        {"branch-load-misses", "branch-load-misses", CACHE(BPU, READ, MISS)},
        {"node-loads", "node-loads", CACHE(NODE, READ, ACCESS)},
        {"node-load-misses", "node-load-misses", CACHE(NODE, READ, MISS)},
        {"node-stores", "node-stores", CACHE(NODE, WRITE, ACCESS)},
        {"node-store-misses", "node-store-misses", CACHE(NODE, WRITE, MISS)},
        {"node-prefetches", "node-prefetches", CACHE(NODE, PREFETCH, ACCESS)},
        {"node-prefetch-misses", "node-prefetch-misses", CACHE(NODE, PREFETCH, MISS)},
        /* other spellings */
        {"LLC", "LLC-loads", 0x2},
        {"node", "node-loads", 0x6},
        {"L2-refs", "LLC-loads", 0x2},
        {"LLC-Reference", "LLC-loads", 0x2},
        {"LLC-ops", "LLC-loads", 0x2},
        {"LLC-access", "LLC-loads", 0x2},
        {"LLC-load", "LLC-loads", 0x2},
        {"LLC-read-access", "LLC-loads", 0x2},
        {"LLC-misses", "LLC-load-misses", 0x10002},
        {"LLC-store-refs", "LLC-stores", 0x102},
        {"l1d-read-miss", "L1-dcache-load-misses", 0x10000},
        {"l1d-miss-read", "L1-dcache-load-misses", 0x10000},
        {"l1-d-write", "L1-dcache-stores", 0x100},
        {"L1-data-speculative-read", "L1-dcache-prefetches", 0x200},
        {"L1-data-speculative-load-miss", "L1-dcache-prefetch-misses", 0x10200},
        {"L1-data-miss-speculative-load", "L1-dcache-prefetch-misses", 0x10200},
        {"l1i-miss", "L1-icache-load-misses", 0x10001},
        {"l1-i-prefetch", "L1-icache-prefetches", 0x201},
        {"L1-instruction-load", "L1-icache-loads", 0x1},
        {"d-tlb-stores-misses", "dTLB-store-misses", 0x10103},
        {"Data-TLB-load", "dTLB-loads", 0x3},
        {"i-tlb", "iTLB-loads", 0x4},
        {"Instruction-TLB-misses", "iTLB-load-misses", 0x10004},
        {"branches-loads", "branch-loads", 0x5},
        {"bpu-read", "branch-loads", 0x5},
        {"btb-misses", "branch-load-misses", 0x10005},
        {"bpc-load-miss", "branch-load-misses", 0x10005},
        {"itlb-load-misses", "iTLB-load-misses", 0x10004},
        {"l2-LOADS", "LLC-loads", 0x2},
    };
    size_t n = 0;
    struct cp__cache_event event;

    for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
        struct cp_event_spec spec = parse(events[i].name);

        CHECK_STR(spec.name, events[i].canonical);
        CHECK_EQ(spec.event, CP_CPUPROF_NAMED);
        CHECK_EQ(spec.kind, CP_EVENT_HARDWARE);
        CHECK_EQ(spec.encoding.type, PERF_TYPE_HW_CACHE);
        CHECKF(spec.encoding.config == events[i].config, "%s", events[i].name);
        CHECK_EQ(spec.preset_period, strstr(spec.name, "misses") != NULL ? 10000 : 100000);
    }
    for (; cp__cache_event(n, &event); n++) { /* every event of the list exists */
        CHECK_STR(event.name, events[n].name);
        CHECK_EQ(event.config, events[n].config);
        CHECK_EQ(event.preset_period, parse(event.name).preset_period);
    }
    CHECK_EQ(n, 32);
}

/* The same combinations as in evsel__hw_cache_type and evsel__hw_cache_stat of perf's util/evsel.c. */
CP_TEST(cache_events_that_make_no_sense_are_refused)
{
    static const char *const names[] = {"L1-icache-stores",   "l1i-write-misses", "iTLB-stores",
                                        "iTLB-prefetches",    "branch-stores",    "btb-prefetch-misses",
                                        "i-tlb-store-misses", "bpu-write"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        refuse_name(names[i], -EINVAL, "does not have that operation");
    refuse_name("L1-icache-stores", -EINVAL, "Use L1-icache-loads");
}
