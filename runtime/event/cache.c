/* Hardware cache events. Each consists of a cache, an operation and a result, with perf's names for each. */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "rows.h"
#include "runtime/base/fail.h"

#define NAMES 5
#define READ (1u << PERF_COUNT_HW_CACHE_OP_READ)
#define WRITE (1u << PERF_COUNT_HW_CACHE_OP_WRITE)
#define PREFETCH (1u << PERF_COUNT_HW_CACHE_OP_PREFETCH)

/* The first name of each cache is the one that perf shows. `ops` says which combinations make sense: nothing
 * is written to an instruction cache. */
static const struct {
    const char *names[NAMES];
    unsigned ops;
} caches[PERF_COUNT_HW_CACHE_MAX] = {
    [PERF_COUNT_HW_CACHE_L1D] = {{"L1-dcache", "l1-d", "l1d", "L1-data"}, READ | WRITE | PREFETCH},
    [PERF_COUNT_HW_CACHE_L1I] = {{"L1-icache", "l1-i", "l1i", "L1-instruction"}, READ | PREFETCH},
    [PERF_COUNT_HW_CACHE_LL] = {{"LLC", "L2"}, READ | WRITE | PREFETCH},
    [PERF_COUNT_HW_CACHE_DTLB] = {{"dTLB", "d-tlb", "Data-TLB"}, READ | WRITE | PREFETCH},
    [PERF_COUNT_HW_CACHE_ITLB] = {{"iTLB", "i-tlb", "Instruction-TLB"}, READ},
    [PERF_COUNT_HW_CACHE_BPU] = {{"branch", "branches", "bpu", "btb", "bpc"}, READ},
    [PERF_COUNT_HW_CACHE_NODE] = {{"node"}, READ | WRITE | PREFETCH},
};
/* An event that counts accesses uses the second name of an operation, an event that counts misses uses the
 * first: "LLC-loads", "LLC-load-misses". */
static const char *const ops[PERF_COUNT_HW_CACHE_OP_MAX][NAMES] = {
    [PERF_COUNT_HW_CACHE_OP_READ] = {"load", "loads", "read"},
    [PERF_COUNT_HW_CACHE_OP_WRITE] = {"store", "stores", "write"},
    [PERF_COUNT_HW_CACHE_OP_PREFETCH] = {"prefetch", "prefetches", "speculative-read", "speculative-load"},
};
static const char *const results[PERF_COUNT_HW_CACHE_RESULT_MAX][NAMES] = {
    [PERF_COUNT_HW_CACHE_RESULT_ACCESS] = {"refs", "Reference", "ops", "access"},
    [PERF_COUNT_HW_CACHE_RESULT_MISS] = {"misses", "miss"},
};

/* ---- Events ---------------------------------------------------------------------------------- */

/* Describes the event of a combination. */
static struct cp__cache_event event_of(unsigned cache, unsigned op, unsigned result)
{
    bool misses = result == PERF_COUNT_HW_CACHE_RESULT_MISS;
    struct cp__cache_event event = {.config = cache | op << 8 | result << 16,
                                    .preset_period = misses ? 10000 : 100000};

    if (misses)
        snprintf(event.name, sizeof event.name, "%s-%s-%s", caches[cache].names[0], ops[op][0],
                 results[result][0]);
    else
        snprintf(event.name, sizeof event.name, "%s-%s", caches[cache].names[0], ops[op][1]);
    return event;
}

bool cp__cache_event(size_t i, struct cp__cache_event *event)
{
    for (unsigned cache = 0; cache < PERF_COUNT_HW_CACHE_MAX; cache++) {
        for (unsigned op = 0; op < PERF_COUNT_HW_CACHE_OP_MAX; op++) {
            for (unsigned result = 0; result < PERF_COUNT_HW_CACHE_RESULT_MAX; result++) {
                if ((caches[cache].ops & 1u << op) != 0 && i-- == 0) {
                    *event = event_of(cache, op, result);
                    return true;
                }
            }
        }
    }
    return false;
}

static void take_cache_event(struct cp_event_spec *spec, const struct cp__cache_event *event)
{
    cp__event_take_named(spec,
                         &(struct cp_event_encoding){.type = PERF_TYPE_HW_CACHE, .config = event->config});
    spec->preset_period = event->preset_period;
    snprintf(spec->name, sizeof spec->name, "%s", event->name);
}

bool cp__event_take_cache(struct cp_event_spec *spec, uint64_t config)
{
    struct cp__cache_event event;

    for (size_t i = 0; cp__cache_event(i, &event); i++) {
        if (event.config == config) {
            take_cache_event(spec, &event);
            return true;
        }
    }
    return false;
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* Moves *text past one of the names and the hyphen after it; the letters' case does not matter. Returns false
 * if *text begins with none of the names. */
static bool take_part(const char **text, const char *const *names)
{
    for (int i = 0; i < NAMES && names[i] != NULL; i++) {
        size_t n = strlen(names[i]);

        if (strncasecmp(*text, names[i], n) == 0 && ((*text)[n] == '-' || (*text)[n] == '\0')) {
            *text += n + ((*text)[n] == '-' && (*text)[n + 1] != '\0');
            return true;
        }
    }
    return false;
}

/* Returns which of n lists contains a name with which *text begins, and moves *text past the name; -1 if no
 * list does. */
static int take_any(const char **text, const char *const (*lists)[NAMES], int n)
{
    for (int i = 0; i < n; i++) {
        if (take_part(text, lists[i]))
            return i;
    }
    return -1;
}

static int take_cache(const char **text)
{
    for (int i = 0; i < PERF_COUNT_HW_CACHE_MAX; i++) {
        if (take_part(text, caches[i].names))
            return i;
    }
    return -1;
}

/* Operation and result stand in either order. Like perf, the parser takes "LLC" and "LLC-misses" as loads. */
int cp__event_parse_cache(const char *name, struct cp_event_spec *spec, struct cp_error *err)
{
    const char *text = name;
    int cache = take_cache(&text);
    int op, result;
    struct cp__cache_event event;

    if (cache < 0)
        return -ENOENT;
    op = take_any(&text, ops, PERF_COUNT_HW_CACHE_OP_MAX);
    result = take_any(&text, results, PERF_COUNT_HW_CACHE_RESULT_MAX);
    if (op < 0)
        op = take_any(&text, ops, PERF_COUNT_HW_CACHE_OP_MAX);
    if (*text != '\0')
        return -ENOENT;
    op = op < 0 ? PERF_COUNT_HW_CACHE_OP_READ : op;
    event = event_of((unsigned)cache, (unsigned)op, result < 0 ? 0 : (unsigned)result);
    if ((caches[cache].ops & 1u << op) == 0)
        return cp__error(err, -EINVAL,
                         "There is no event %s: the cache %s does not have that operation. Use %s-loads or "
                         "%s-load-misses.",
                         event.name, caches[cache].names[0], caches[cache].names[0], caches[cache].names[0]);
    take_cache_event(spec, &event);
    return 0;
}
