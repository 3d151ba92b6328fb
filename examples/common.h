/*
 * What the example programs share: the command line, with the profile's flags of testing/testing.h, and a
 * table of functions whose shares of the work are known beforehand. Without a profile the program times its
 * functions itself.
 *
 *     -threads N                  threads that run the green threads
 *     -gs N                       green threads, in the programs that have a choice
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

/* Reads the command line into e, which holds the defaults, and starts the profile that it asks for. Prints a
 * sentence and exits where it makes no sense. */
void example_parse(struct example *e, int argc, char **argv);

/* Runs fn(e) as the first green thread and, when all of them have ended, writes the profile. An error is
 * printed and ends the program. */
void example_run_all(struct example *e, void (*fn)(void *));

/* One of the functions that share the work; of all work together it does weight parts. */
struct example_function {
    uint64_t (*run)(uint64_t x, uint64_t n);
    const char *name;
    unsigned weight;
    uint64_t ns; /* CPU time spent in it, where the program times its functions itself */
};

/* Runs f, which carries x on through n steps, and times it where no profile is being taken. */
uint64_t example_run(const struct example *e, struct example_function *f, uint64_t x, uint64_t n);
/* Prints what share of the time went into each function, where that was measured. */
void example_print(const struct example *e, const struct example_function *functions, size_t count);

/*
 * A function that does nothing but a chain of multiplications, each of which needs the result of the one
 * before, so that a step takes the same time in every one of them. The factors differ, or the compiler would
 * make one function of two. What is volatile lies on the stack: without that, gcc gives a function that calls
 * nothing no frame, whatever its options say, and its caller would be missing in the profile.
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
