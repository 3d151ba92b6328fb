/*
 * What the benchmark loop of testing/ costs: an empty body, compared with a bare loop that also counts in
 * memory. The runner prints how far five runs differ.
 */
#include "testing.h"

CP_BENCHMARK(empty)
{
    for (; cp_bench_next(b);)
        ;
}

enum { BARE = 1000 };

/* An iteration is a thousand rounds of the bare loop, so that the share of the outer loop does not matter. */
CP_BENCHMARK(bare_1000)
{
    struct cp_t bare;
    for (; cp_bench_next(b);)
        for (bare.left = BARE; bare.left != 0; bare.left--)
            __asm__ volatile("" : "+m"(bare.left));
}

int main(int argc, char **argv)
{
    char bench[] = "-bench=.", count[] = "-count=5", time[] = "-benchtime=200ms", cpu[] = "-cpu=1";
    char *with_flags[] = {argv[0], bench, count, time, cpu, NULL};
    return argc > 1 ? cp_test_main(argc, argv, NULL) : cp_test_main(5, with_flags, NULL);
}
