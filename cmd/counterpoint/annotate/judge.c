/* See judge.h. */
#include "judge.h"

#include <inttypes.h>
#include <string.h>

/* A block that takes so many cycles for an instruction, at best, waits for its own results: processors that
 * matter begin at least four instructions a cycle. */
#define WAITS 0.5
/* A block is slow if it takes so many times as long as at best. */
#define SLOW 1.5
/* So much of a block's samples at one load is remarkable. */
#define PEAK 0.4

bool block_has_best(const struct block_facts *facts)
{
    return facts->result.size != 0 && facts->result.cycles > 0 &&
           (facts->result.status == CP_BLOCK_MEASURED || facts->result.status == CP_BLOCK_NOT_REPRODUCIBLE);
}

static void print_not_measured(FILE *out, const char *margin, const struct block_facts *facts)
{
    const struct cp_block_result *result = &facts->result;

    if (facts->has_call)
        fprintf(out, "%snot measured: it calls\n", margin);
    else if (result->size == 0)
        fprintf(out, "%snot measured: it has few samples\n", margin);
    else
        fprintf(out, "%snot measured: %s%s%s\n", margin, cp_block_status_name(result->status),
                result->detail[0] != '\0' ? ", " : "", result->detail);
}

static bool waits_for_itself(const struct block_facts *facts)
{
    return block_has_best(facts) && facts->result.instructions > 0 &&
           facts->result.cycles >= WAITS * facts->result.instructions && facts->result.cycles >= 1.5;
}

/* One execution was measured behind the other. So it is only what a loop of this block does that was surely
 * measured; and all pages were one, so that a load may have waited for a store to another page. */
static void print_dependency(FILE *out, const char *margin, const struct block_facts *facts)
{
    const bool is_sure = facts->is_loop && (!facts->stores || !facts->loads || facts->loads_what_it_stores);

    fprintf(out, "%s%s%s: %.2f cycles for %u instructions, at best", margin,
            is_sure ? "" : "hypothesis: ", facts->divides ? "slow instructions" : "dependency",
            facts->result.cycles, facts->result.instructions);
    if (facts->divides)
        fputs("; it divides\n", out);
    else if (facts->loads_what_it_stores)
        fputs("; they wait for each other, through memory: it loads from where it stores\n", out);
    else
        fputs("; they wait for each other\n", out);
}

/* Returns what an event of this name counts, for people; NULL: nothing that makes blocks slow. */
static const char *kind_of_event(const char *name)
{
    static const char *const kinds[][2] = {
        {"ranch", "branch"},    {"lign", "unaligned"}, {"plit", "unaligned"},    {"TLB", "cache (TLB)"},
        {"tlb", "cache (TLB)"}, {"ache", "cache"},     {"LLC", "cache"},         {"L1", "cache"},
        {"l1", "cache"},        {"l2", "cache"},       {"fault", "page faults"},
    };

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strstr(name, kinds[i][0]) != NULL)
            return kinds[i][1];
    return NULL;
}

static void print_wait(FILE *out, const char *margin, const struct block_facts *facts)
{
    const char *kind = facts->event != NULL ? kind_of_event(facts->event) : NULL;

    if (kind != NULL)
        fprintf(out, "%s%s: it has %.0f %% of the function's %s, and %.0f %% of its samples\n", margin, kind,
                100 * facts->event_share, facts->event, 100 * facts->share);
    else if (facts->loads && facts->peak >= PEAK)
        fprintf(out, "%shypothesis: cache: %.0f %% of its samples are at the load at %" PRIx64 "\n", margin,
                100 * facts->peak, facts->peak_address);
    else if (facts->loads)
        fprintf(out, "%shypothesis: cache, or unaligned: it loads\n", margin);
    else
        fprintf(out, "%shypothesis: branch: it loads nothing, and may be where a wrong guess ends\n", margin);
}

void judge_block(FILE *out, const char *margin, const struct block_facts *facts)
{
    const bool has_peak = facts->peak >= PEAK && !facts->loads_what_it_stores;

    if (!block_has_best(facts))
        print_not_measured(out, margin, facts);
    else if (facts->result.status == CP_BLOCK_NOT_REPRODUCIBLE)
        fprintf(out, "%sthe best case is not reproducible: its timings differ by %.0f %%\n", margin,
                100 * facts->result.spread);
    if (facts->ratio >= SLOW || (facts->ratio <= 0 && (facts->event != NULL || has_peak)))
        print_wait(out, margin, facts);
    if (waits_for_itself(facts))
        print_dependency(out, margin, facts);
    if (facts->is_alone)
        fprintf(out, "%sno ratio: a loop of one block, and no other block tells how often it has run\n",
                margin);
}
