/*
 * A program with loops that are slower than they must be, for annotate_test.c. It knows nothing of the
 * profiler.
 *
 *     blocks_target FUNCTION MS
 *
 * calls the function over and over for so much CPU time.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static volatile uint64_t sink;

/* A conversion leaves the upper half of its register as it was, and so waits for the conversion before,
 * though nothing needs that half: a false dependence. */
static __attribute__((noinline)) void false_dependence(void)
{
    uint64_t n = 20000;

#ifdef __x86_64__
    __asm__ volatile("1:\n"
                     "cvtsi2sd %0, %%xmm0\n"
                     "mulsd %%xmm1, %%xmm0\n"
                     "mulsd %%xmm1, %%xmm0\n"
                     "addsd %%xmm1, %%xmm0\n"
                     "dec %0\n"
                     "jnz 1b\n"
                     : "+r"(n)
                     :
                     : "xmm0", "xmm1", "cc");
#endif
    sink += n;
}

/* Each sum is stored, and loaded again by the next iteration. */
static __attribute__((noinline)) void through_memory(void)
{
    uint64_t n = 20000, cell[2] = {0, 0};

#ifdef __x86_64__
    __asm__ volatile("1:\n"
                     "mov (%1), %%rax\n"
                     "imul %%rax, %%rax\n"
                     "imul %%rax, %%rax\n"
                     "mov %%rax, (%1)\n"
                     "dec %0\n"
                     "jnz 1b\n"
                     : "+r"(n)
                     : "r"(cell)
                     : "rax", "memory", "cc");
#endif
    sink += n + cell[0];
}

/* ---- Ways ------------------------------------------------------------------------------------ */

/* Each step waits for the one before, so that no block hides behind another one. */
#define STEP(x) ((x) = (x) * (x) + 3, __extension__({ __asm__ volatile("" : "+r"(x)); }))
#define STEPS(x) (STEP(x), STEP(x), STEP(x), STEP(x), STEP(x), STEP(x), STEP(x), STEP(x))

/* Of 8 iterations, 2 go one way and 6 the other. */
static __attribute__((noinline)) void two_ways(void)
{
    uint64_t x = 1;

    for (int i = 0; i < 8000; i++) {
        STEPS(x);
        STEPS(x);
        if (i % 4 == 0) {
            STEPS(x);
            STEPS(x);
            x ^= 5;
        } else {
            STEPS(x);
            STEPS(x);
            x += 9;
        }
    }
    sink += x;
}

/* ---- Misses ---------------------------------------------------------------------------------- */

enum { TABLE = 1 << 22 };

static uint32_t *table;

/* A permutation that is one cycle (Sattolo's), in which no next element is near. */
static void make_table(void)
{
    uint64_t random = 1;

    table = malloc(TABLE * sizeof *table);
    if (table == NULL)
        exit(1);
    for (uint32_t i = 0; i < TABLE; i++)
        table[i] = i;
    for (uint32_t i = TABLE - 1; i > 0; i--) {
        uint32_t other, kept = table[i];

        random = random * 6364136223846793005u + 1442695040888963407u;
        other = (uint32_t)((random >> 33) % i);
        table[i] = table[other];
        table[other] = kept;
    }
}

/* All but the load of the next element is done while that load waits for the memory. */
static __attribute__((noinline)) void cache_misses(void)
{
    static uint32_t at;
    uint64_t sum = 0;

    for (int i = 0; i < 2000; i++) {
        at = table[at];
        if (at % 2 == 1)
            sum += at * 3;
        sum ^= sum << 3;
        sum += sum >> 5;
        sum ^= sum << 7;
        sum += sum >> 9;
    }
    sink += sum;
}

/* ---- All ------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*run)(void);
} functions[] = {
    {"false_dependence", false_dependence},
    {"through_memory", through_memory},
    {"cache_misses", cache_misses},
    {"two_ways", two_ways},
};

static double cpu_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 3 && i < sizeof functions / sizeof functions[0]; i++) {
        double end;

        if (strcmp(argv[1], functions[i].name) != 0)
            continue;
        make_table();
        for (end = cpu_ms() + atof(argv[2]); cpu_ms() < end;)
            functions[i].run();
        return 0;
    }
    return 2;
}
