/* The runner's flags, and the patterns by which they choose tests. */
#ifndef COUNTERPOINT_TESTING_OPTIONS_H
#define COUNTERPOINT_TESTING_OPTIONS_H

#include "testing.h"

#include <regex.h>

/* A regular expression for each level of a name, and alternatives of such sequences: "^Test_a$/b" has two
 * levels, and "Test_a/b|Test_c" means the subtest "b" of Test_a and all of Test_c. */
#define CP__PATTERN_LEVELS 64
struct cp__pattern {
    size_t levels; /* the sum over all alternatives */
    regex_t level[CP__PATTERN_LEVELS];
    bool is_first[CP__PATTERN_LEVELS]; /* the level begins an alternative */
};
/* Compiles the text into *pattern, which is empty or has been compiled before. Returns 0, or -EINVAL with
 * the reason. */
int cp__pattern_compile(struct cp__pattern *pattern, const char *text, struct cp_error *err);
/* Returns whether the pattern matches the test, or may match tests below it. Levels that the name lacks
 * match. */
bool cp__pattern_match(const struct cp__pattern *pattern, const char *name);
/* Returns whether the pattern matches the test itself, that is, without levels that the name lacks. */
bool cp__pattern_match_whole(const struct cp__pattern *pattern, const char *name);

#define CP__CPUS_MAX 64

/* The values of the flags after parsing. Immutable while tests run. */
struct cp__options {
    struct cp__pattern run;
    struct cp__pattern skip;
    struct cp__pattern bench;
    struct cp__pattern list;
    bool has_skip;
    bool has_bench;
    bool is_list;
    bool is_verbose;
    bool is_fail_fast;
    bool is_json;
    bool is_tap;
    bool is_in_process;
    bool is_shuffled;
    int64_t shuffle_seed;
    uint64_t count; /* 0: nothing runs */
    unsigned cpus[CP__CPUS_MAX];
    size_t cpu_count;
    double timeout_s; /* 0: none */
    bool is_timeout_given;
    unsigned idle_s;           /* seconds; 0: a test may be idle without limit */
    uint64_t bench_ns;         /* how long a benchmark's loop runs if bench_iterations is 0 */
    uint64_t bench_iterations; /* how many iterations the loop makes; 0: bench_ns decides */
    char *counters;            /* events, separated by commas; NULL: none */
    const char *bench_profile; /* path of a file; NULL: no profile */
    int (*run_on)(void (*fn)(void *), void *arg, unsigned threads, struct cp_error *err);
};

/* Parses the flags that are left in argv. After a mistake, the program prints it and exits with status 2;
 * after -help, the program exits with status 0. */
void cp__options_parse(struct cp__options *options, int argc, char **argv,
                       const struct cp_test_main_options *main_options);

/* Prints to stderr what is wrong with the flags and how to list them, and exits with status 2. */
_Noreturn void cp__options_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
