/* Benchmarks whose work is known exactly, for counts_test.c. */
#include "sched.h"
#include "testing.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define INSTRUCTIONS ((uint64_t)1000000)
#define PAGES 8
#define GS 4

/* Executes n instructions, and a few for the call. */
static void run_instructions(struct cp_t *b, uint64_t n)
{
    uint64_t rounds = n / 2;

#if defined(__x86_64__)
    __asm__ volatile("1:\tdec %0\n\tjnz 1b" : "+r"(rounds) : : "cc");
#elif defined(__aarch64__)
    __asm__ volatile("1:\tsubs %0, %0, #1\n\tb.ne 1b" : "+r"(rounds) : : "cc");
#else
    (void)rounds;
    cp_t_skip(b, "it is not known how this processor counts down");
#endif
    (void)b;
}

CP_BENCHMARK(instructions)
{
    for (; cp_bench_next(b);)
        run_instructions(b, INSTRUCTIONS);
}

/* What is not measured is ten times as much as what is. */
CP_BENCHMARK(paused)
{
    run_instructions(b, 10 * INSTRUCTIONS);
    for (; cp_bench_next(b);) {
        cp_bench_pause(b);
        run_instructions(b, 10 * INSTRUCTIONS);
        cp_bench_resume(b);
        run_instructions(b, INSTRUCTIONS);
    }
    run_instructions(b, 10 * INSTRUCTIONS);
}

struct share {
    struct cp_t *b;
    struct cp_wait_group *group;
};

static void run_share(void *arg)
{
    struct share *share = arg;
    for (int i = 0; i < 10; i++) {
        run_instructions(share->b, INSTRUCTIONS / GS);
        cp_yield();
    }
    cp_wait_group_done(share->group);
}

/* All Gs together execute 10 times INSTRUCTIONS. */
CP_BENCHMARK(gs)
{
    struct share share = {b, cp_wait_group_new()};
    for (; cp_bench_next(b);) {
        cp_wait_group_add(share.group, GS);
        for (int i = 0; i < GS; i++)
            if (cp_go(run_share, &share) < 0)
                cp_t_fatal(b, "no G");
        cp_wait_group_wait(share.group);
    }
    cp_wait_group_free(share.group);
}

CP_BENCHMARK(pages)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (; cp_bench_next(b);) {
        char *memory = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            cp_t_fatal(b, "no memory");
        madvise(memory, PAGES * page, MADV_NOHUGEPAGE);
        for (size_t i = 0; i < PAGES; i++)
            memory[i * page] = 1;
        munmap(memory, PAGES * page);
    }
}

CP_TEST_MAIN()
