/* What is said of a block that takes long. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/counterpoint/annotate/judge.h"
#include "tests/support/test.h"

/* Returns a block that runs at its best. */
static struct block_facts plain(void)
{
    return (struct block_facts){
        .result = {.size = sizeof(struct cp_block_result), .cycles = 2, .instructions = 8},
        .share = 0.3,
        .ratio = 1,
    };
}

static void check_words(const struct block_facts *facts, const char *expected)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    judge_block(out, "- ", facts);
    fclose(out);
    CHECK_STR(text, expected);
    free(text);
}

CP_TEST(nothing_is_said_of_a_block_at_its_best)
{
    const struct block_facts facts = plain();

    check_words(&facts, "");
}

CP_TEST(a_loop_that_waits_for_itself_depends)
{
    struct block_facts facts = plain();

    facts.result.cycles = 8;
    check_words(&facts, "- hypothesis: dependency: 8.00 cycles for 8 instructions, at best; they wait for "
                        "each other\n");
    facts.is_loop = facts.is_alone = true;
    facts.ratio = 0;
    check_words(&facts, "- dependency: 8.00 cycles for 8 instructions, at best; they wait for each other\n"
                        "- no ratio: a loop of one block, and no other block tells how often it has run\n");
}

/* Loads and stores of several addresses may have met in the one page of the measurement only. */
CP_TEST(a_dependency_through_memory_is_sure_at_one_address)
{
    struct block_facts facts = plain();

    facts.result.cycles = 8;
    facts.is_loop = facts.is_alone = facts.loads = facts.stores = true;
    facts.ratio = 1;
    check_words(&facts, "- hypothesis: dependency: 8.00 cycles for 8 instructions, at best; they wait for "
                        "each other\n"
                        "- no ratio: a loop of one block, and no other block tells how often it has run\n");
    facts.loads_what_it_stores = true;
    check_words(&facts, "- dependency: 8.00 cycles for 8 instructions, at best; they wait for each other, "
                        "through memory: it loads from where it stores\n"
                        "- no ratio: a loop of one block, and no other block tells how often it has run\n");
}

CP_TEST(a_division_is_slow_by_itself)
{
    struct block_facts facts = plain();

    facts.result.cycles = 18;
    facts.is_loop = facts.is_alone = facts.divides = true;
    facts.ratio = 1;
    check_words(&facts, "- slow instructions: 18.00 cycles for 8 instructions, at best; it divides\n"
                        "- no ratio: a loop of one block, and no other block tells how often it has run\n");
}

CP_TEST(events_explain_what_looks_only_suggest)
{
    struct block_facts facts = plain();

    facts.ratio = 3;
    check_words(&facts, "- hypothesis: branch: it loads nothing, and may be where a wrong guess ends\n");
    facts.loads = true;
    check_words(&facts, "- hypothesis: cache, or unaligned: it loads\n");
    facts.peak = 0.8;
    facts.peak_address = 0x1234;
    check_words(&facts, "- hypothesis: cache: 80 % of its samples are at the load at 1234\n");
    facts.event_share = 0.9;
    facts.event = "cacheMisses";
    check_words(&facts, "- cache: it has 90 % of the function's cacheMisses, and 30 % of its samples\n");
    facts.event = "branchMisses";
    check_words(&facts, "- branch: it has 90 % of the function's branchMisses, and 30 % of its samples\n");
}

CP_TEST(a_block_without_a_best_case_says_why)
{
    struct block_facts facts = plain();

    facts.ratio = 0;
    facts.result.status = CP_BLOCK_BAD_ADDRESS;
    snprintf(facts.result.detail, sizeof facts.result.detail, "0x10");
    CHECK(!block_has_best(&facts));
    check_words(&facts, "- not measured: bad address, 0x10\n");
    facts.has_call = true;
    check_words(&facts, "- not measured: it calls\n");
    facts = plain();
    facts.result.size = 0;
    facts.ratio = 0;
    check_words(&facts, "- not measured: it has few samples\n");
}
