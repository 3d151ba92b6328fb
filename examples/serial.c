/*
 * One green thread, in which each statement needs the result of the one before. Ten functions have one loop
 * each, of 1 to 10 times C steps: a profile must give A 1/55 of the time, B 2/55, ..., J 10/55, as the
 * functions' names say. From the Go proposal "hardware performance counters for CPU profiling", section
 * 2.3.2. Flags: see common.h.
 */
#include "common.h"

#include <time.h>

EXAMPLE_FUNCTION(A_expect_1_82, 1)
EXAMPLE_FUNCTION(B_expect_3_64, 2)
EXAMPLE_FUNCTION(C_expect_5_46, 3)
EXAMPLE_FUNCTION(D_expect_7_27, 4)
EXAMPLE_FUNCTION(E_expect_9_09, 5)
EXAMPLE_FUNCTION(F_expect_10_91, 6)
EXAMPLE_FUNCTION(G_expect_12_73, 7)
EXAMPLE_FUNCTION(H_expect_14_546, 8)
EXAMPLE_FUNCTION(I_expect_16_36, 9)
EXAMPLE_FUNCTION(J_expect_18_18, 10)

enum {
    FUNCTIONS = 10,
    C = 2000000, /* one round of 55 C steps takes 0.1 to 0.2 s */
};
static struct example_function functions[FUNCTIONS] = {
    {A_expect_1_82, "A_expect_1_82", 1, 0},   {B_expect_3_64, "B_expect_3_64", 2, 0},
    {C_expect_5_46, "C_expect_5_46", 3, 0},   {D_expect_7_27, "D_expect_7_27", 4, 0},
    {E_expect_9_09, "E_expect_9_09", 5, 0},   {F_expect_10_91, "F_expect_10_91", 6, 0},
    {G_expect_12_73, "G_expect_12_73", 7, 0}, {H_expect_14_546, "H_expect_14_546", 8, 0},
    {I_expect_16_36, "I_expect_16_36", 9, 0}, {J_expect_18_18, "J_expect_18_18", 10, 0},
};

uint64_t result; /* not static, so the compiler cannot remove the work */

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Runs whole rounds only, because a part of a round would favour the functions that come first. */
static void run_rounds(void *example)
{
    const struct example *e = example;
    double start = cpu_seconds();
    do {
        for (int i = 0; i < FUNCTIONS; i++)
            result = example_run(e, &functions[i], result, (uint64_t)functions[i].weight * C);
    } while (cpu_seconds() - start < e->seconds);
}

int main(int argc, char **argv)
{
    struct example e = {.threads = 1, .seconds = 3};
    example_parse(&e, argc, argv);
    example_run_all(&e, run_rounds);
    example_print(&e, functions, FUNCTIONS);
    return 0;
}
