/*
 * What the example programs share: the command line, with the profile's flags of testing/testing.h, and a
 * table of functions whose shares of the work are known beforehand. If no profile is taken, the program times
 * its functions itself.
 *
 *     -threads N                  threads that run the green threads
 *     -gs N                       green threads, in programs with a variable number of them
 *     -seconds S                  CPU time to spend, on each CPU that the green threads can keep busy
 */
#ifndef COUNTERPOINT_EXAMPLES_COMMON_H
#define COUNTERPOINT_EXAMPLES_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct example {
    bool is_profiled;
    unsigned threads;
    unsigned gs; /* 0: the program has no -gs */
    double seconds;
};

/* Reads the command line into e, which holds the defaults, and starts the profile that the command line asks
 * for. If the command line makes no sense, the function prints a sentence and exits. */
void example_parse(struct example *e, int argc, char **argv);

/* Runs fn(e) as the first green thread. When all green threads have ended, the function writes the profile.
 * After an error, the function prints the error and exits. */
void example_run_all(struct example *e, void (*fn)(void *));

/* One of the functions that share the work. It does weight / (sum of all weights) of the work. */
struct example_function {
    uint64_t (*run)(uint64_t x, uint64_t n);
    const char *name;
    unsigned weight;
    uint64_t ns; /* CPU time spent in the function, if the program times its functions itself */
};

/* Calls f, which computes n steps from x, and times the call if no profile is taken. */
uint64_t example_run(const struct example *e, struct example_function *f, uint64_t x, uint64_t n);
/* Prints each function's share of the time, if the program timed its functions. */
void example_print(const struct example *e, const struct example_function *functions, size_t count);

/*
 * Defines a function that does nothing but a chain of multiplications. Each multiplication needs the result
 * of the one before, so a step takes the same time in all of these functions. The factors differ, because the
 * compiler would merge two equal functions. The volatile variable forces a stack frame: gcc makes no frame
 * for a function that calls nothing, whatever its options say, and the profile would then lack the function's
 * caller.
 */
#define EXAMPLE_FUNCTION(name, factor)                                                                       \
    __attribute__((noinline, aligned(64))) uint64_t name(uint64_t x, uint64_t n);                            \
    uint64_t name(uint64_t x, uint64_t n)                                                                    \
    {                                                                                                        \
        volatile uint64_t steps = n;                                                                         \
        for (uint64_t i = 0, end = steps; i < end; i++)                                                      \
            x = x * (6364136223846793005u + 4 * (factor)) + i;                                               \
        return x;                                                                                            \
    }

#endif
