/* Blocks of made-up functions, and how often they have run by made-up samples. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cmd/counterpoint/annotate/frequency.h"
#include "tests/support/test.h"

/* ---- Made-up functions ----------------------------------------------------------------------- */

/* A function of instructions of 1 byte at 100, 101 ...: a letter each. '.' goes on, 'c' calls, 'n' does
 * nothing, 'r' returns, 'x' jumps anywhere; 'b' branches and 'j' jumps to where the next target says. */
struct made {
    struct code_step steps[64];
    struct flow_graph graph;
    struct arena arena;
};

static enum cp__flow flow_of_letter(char letter)
{
    switch (letter) {
    case 'b':
        return CP__FLOW_BRANCH;
    case 'c':
        return CP__FLOW_CALL;
    case 'j':
        return CP__FLOW_JUMP;
    case 'r':
        return CP__FLOW_END;
    case 'x':
        return CP__FLOW_ANYWHERE;
    default:
        return CP__FLOW_ON;
    }
}

static void make(struct made *made, const char *letters, const unsigned *targets)
{
    const size_t n = strlen(letters);

    *made = (struct made){.arena = {0}};
    CHECK(n <= 64);
    for (size_t i = 0; i < n; i++) {
        struct cp__step step = {.length = 1, .flow = flow_of_letter(letters[i]), .is_nop = letters[i] == 'n'};

        if (step.flow == CP__FLOW_BRANCH || step.flow == CP__FLOW_JUMP)
            step.target = *targets++;
        made->steps[i] = (struct code_step){100 + i, step};
    }
    flow_graph_make(&made->graph, made->steps, n, &made->arena);
}
#define MAKE(made, letters, ...) make(made, letters, (const unsigned[]){__VA_ARGS__})

static void check_blocks(const struct made *made, const char *expected)
{
    char text[500];
    size_t length = 0;

    for (size_t i = 0; i < made->graph.n; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%llu-%llu ",
                                   (unsigned long long)made->graph.blocks[i].start,
                                   (unsigned long long)made->graph.blocks[i].end);
    for (size_t i = 0; i < made->graph.n_edges; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, " %zu>%zu", made->graph.edges[i].from,
                                   made->graph.edges[i].to);
    CHECK_STR(text, expected);
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

CP_TEST(branches_and_their_targets_begin_blocks)
{
    struct made made;

    MAKE(&made, "...b.j..r", 106, 107);
    check_blocks(&made, "100-104 104-106 106-107 107-109  0>1 0>2 1>3 2>3 3>4 4>0");
    CHECK_EQ(flow_graph_block_at(&made.graph, 99), 4);
    CHECK_EQ(flow_graph_block_at(&made.graph, 105), 1);
    CHECK_EQ(flow_graph_block_at(&made.graph, 106), 2);
    CHECK_EQ(flow_graph_block_at(&made.graph, 109), 4);
    arena_free(&made.arena);
}

CP_TEST(a_call_ends_no_block)
{
    struct made made;

    MAKE(&made, ".c..b.r", 101);
    check_blocks(&made, "100-101 101-105 105-107  0>1 1>2 1>1 2>3 3>0");
    CHECK(!made.graph.blocks[0].has_call && made.graph.blocks[1].has_call);
    CHECK(!made.graph.blocks[0].is_loop && made.graph.blocks[1].is_loop);
    arena_free(&made.arena);
}

/* Jumps to other functions, jumps by tables, and what only such a jump leads to. */
CP_TEST(what_is_unknown_is_outside)
{
    struct made made;

    MAKE(&made, ".b.x.j..r", 2000, 3000);
    check_blocks(&made, "100-102 102-104 104-106 106-109  0>1 0>4 1>4 2>4 3>4 4>0 4>2 4>3");
    arena_free(&made.arena);
}

CP_TEST(padding_is_left_out)
{
    struct made made;

    MAKE(&made, ".jnn.bnrnn", 104, 104); /* behind the branch, it is no padding */
    check_blocks(&made, "100-102 102-104 104-106 106-108 108-110  0>2 2>3 2>2 3>5 5>0");
    CHECK(made.graph.blocks[1].is_padding && made.graph.blocks[4].is_padding);
    CHECK(!made.graph.blocks[3].is_padding);
    arena_free(&made.arena);
}

CP_TEST(a_target_inside_of_an_instruction_is_outside)
{
    struct made made;

    MAKE(&made, ".br", 99);
    check_blocks(&made, "100-102 102-103  0>1 0>2 1>2 2>0");
    arena_free(&made.arena);
    MAKE(&made, ".br", 102); /* to the next instruction: one edge */
    check_blocks(&made, "100-102 102-103  0>1 1>2 2>0");
    arena_free(&made.arena);
}

/* ---- Frequencies ----------------------------------------------------------------------------- */

/* Gives the blocks samples as if they had run so often, `slowness` times as long as their best. */
static void sample(struct frequency_block *blocks, size_t n, const double *frequencies, const double *cycles,
                   const double *slowness)
{
    for (size_t i = 0; i < n; i++)
        blocks[i] = (struct frequency_block){.samples = frequencies[i] * cycles[i] * slowness[i],
                                             .cycles = cycles[i],
                                             .source = FREQUENCY_MEASURED};
}

static void check_flow(const struct made *made, const struct frequency_block *blocks, const double *expected,
                       double part)
{
    frequency_estimate(&made->graph, (struct frequency_block *)(uintptr_t)blocks);
    for (size_t i = 0; i < made->graph.n; i++)
        CHECKF(fabs(blocks[i].frequency - expected[i]) <= part * expected[i] + 0.5,
               "block %zu: %.2f, and not %.2f", i, blocks[i].frequency, expected[i]);
}

/* A loop with both ways of a condition: 0 enters, 1 decides, 2 or 3, 4 goes back to 1, 5 returns. */
static void make_loop(struct made *made)
{
    MAKE(made,
         "...b.j.."
         "..b.r",
         106, 108, 101);
    CHECK_EQ(made->graph.n, 6);
}

CP_TEST(samples_that_fit_stay_as_they_are)
{
    static const double frequencies[] = {2, 1000, 300, 700, 1000, 2}, cycles[] = {2, 8, 5, 7, 9, 3},
                        slowness[] = {1, 1, 1, 1, 1, 1};
    struct frequency_block blocks[6];
    struct made made;

    make_loop(&made);
    sample(blocks, 6, frequencies, cycles, slowness);
    check_flow(&made, blocks, frequencies, 0.01);
    arena_free(&made.arena);
}

/* Samples of a block that waits say too much of its frequency; the others tell. */
CP_TEST(a_slow_block_is_found_by_the_others)
{
    static const double frequencies[] = {2, 1000, 300, 700, 1000, 2}, cycles[] = {2, 8, 5, 7, 9, 3};

    for (size_t slow = 1; slow <= 4; slow += 3) {
        double slowness[] = {1, 1, 1, 1, 1, 1};
        struct frequency_block blocks[6];
        struct made made;

        slowness[slow] = 10;
        make_loop(&made);
        sample(blocks, 6, frequencies, cycles, slowness);
        check_flow(&made, blocks, frequencies, 0.15);
        arena_free(&made.arena);
    }
}

/* As much comes into each block as goes out, whatever its samples say. */
CP_TEST(flow_is_conserved)
{
    static const double frequencies[] = {50, 1000, 10, 900, 400, 3}, cycles[] = {2, 8, 5, 7, 9, 3},
                        slowness[] = {1, 2, 1, 3, 1, 7};
    struct frequency_block blocks[6];
    struct made made;

    make_loop(&made);
    sample(blocks, 6, frequencies, cycles, slowness);
    frequency_estimate(&made.graph, blocks);
    CHECK(fabs(blocks[1].frequency - blocks[4].frequency) < 0.01 * blocks[1].frequency);
    CHECK(fabs(blocks[2].frequency + blocks[3].frequency - blocks[1].frequency) < 0.01 * blocks[1].frequency);
    CHECK(fabs(blocks[0].frequency - blocks[5].frequency) < 1);
    for (size_t i = 0; i < 6; i++)
        CHECK(blocks[i].frequency > -0.01);
    arena_free(&made.arena);
}

/* A block whose cycles are a guess says less than one that was measured: both blocks cannot be right. */
CP_TEST(guesses_weigh_less)
{
    static const double frequencies[] = {100, 100}, cycles[] = {10, 10}, slowness[] = {3, 1};
    struct frequency_block blocks[2];
    struct made made;
    double measured;

    MAKE(&made, ".b.r", 102); /* one behind the other */
    CHECK_EQ(made.graph.n, 2);
    sample(blocks, 2, frequencies, cycles, slowness);
    frequency_estimate(&made.graph, blocks);
    measured = blocks[1].frequency;
    blocks[0].source = FREQUENCY_GUESSED;
    frequency_estimate(&made.graph, blocks);
    CHECKF(blocks[1].frequency > 99 && blocks[1].frequency + 2 < measured, "%.2f, and %.2f by a guess",
           measured, blocks[1].frequency);
    arena_free(&made.arena);
}

/* What was counted says neither too much nor too little. */
CP_TEST(counts_are_believed_in_both_directions)
{
    static const double frequencies[] = {100, 100}, cycles[] = {10, 10}, more[] = {1.2, 0.8};
    struct frequency_block blocks[2];
    struct made made;

    MAKE(&made, ".b.r", 102);
    sample(blocks, 2, frequencies, cycles, more);
    blocks[0].source = blocks[1].source = FREQUENCY_COUNTED;
    check_flow(&made, blocks, frequencies, 0.09);
    arena_free(&made.arena);
}

CP_TEST(a_function_without_samples_has_not_run)
{
    static const double none[] = {0, 0, 0, 0, 0, 0}, cycles[] = {1, 1, 1, 1, 1, 1};
    struct frequency_block blocks[6];
    struct made made;

    make_loop(&made);
    sample(blocks, 6, none, cycles, cycles);
    check_flow(&made, blocks, none, 0);
    arena_free(&made.arena);
}

/* A loop of thousands of blocks, each with code of its own at the other end of the function. If the time grew
 * with the square of their number, or faster, the test would not end in time. */
CP_TEST(large_functions_are_done)
{
    enum { N = 3000 };
    struct arena arena = {0};
    struct flow_graph graph = {.n = 2 * N};
    struct frequency_block *blocks = arena_array(&arena, graph.n, sizeof *blocks);

    graph.edges = arena_array(&arena, 3 * N + 2, sizeof *graph.edges);
    for (size_t i = 0; i < graph.n; i++)
        blocks[i] =
            (struct frequency_block){.samples = i < N ? 100 : 25, .cycles = 10, .source = FREQUENCY_MEASURED};
    for (size_t i = 0; i < N; i++) {
        graph.edges[graph.n_edges++] = (struct flow_edge){i, (i + 1) % N};
        graph.edges[graph.n_edges++] = (struct flow_edge){i, 2 * N - 1 - i};
        graph.edges[graph.n_edges++] = (struct flow_edge){2 * N - 1 - i, (i + 1) % N};
    }
    graph.edges[graph.n_edges++] = (struct flow_edge){graph.n, 0};
    graph.edges[graph.n_edges++] = (struct flow_edge){N - 1, graph.n};
    frequency_estimate(&graph, blocks);
    CHECK(fabs(blocks[N / 2].frequency - 10) < 0.1 && fabs(blocks[N].frequency - 2.5) < 0.1);
    arena_free(&arena);
}
