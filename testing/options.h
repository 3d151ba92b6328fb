/* The runner's flags, and which tests they name. */
#ifndef COUNTERPOINT_TESTING_OPTIONS_H
#define COUNTERPOINT_TESTING_OPTIONS_H

#include "testing.h"

#include <regex.h>

/* A regular expression for each level of a name: "^Test_a$/b" has two; and alternatives of those:
 * "Test_a/b|Test_c" is "b" of the one test and all of the other. */
#define CP__PATTERN_LEVELS 64
struct cp__pattern {
    size_t levels; /* of all alternatives */
    regex_t level[CP__PATTERN_LEVELS];
    bool is_first[CP__PATTERN_LEVELS]; /* of an alternative */
};
/* 0, or -EINVAL with the reason. */
int cp__pattern_compile(struct cp__pattern *pattern, const char *text, struct cp_error *err);
/* Whether it names the test, or tests below it; levels that it does not have match all. */
bool cp__pattern_match(const struct cp__pattern *pattern, const char *name);
/* Whether it names the test itself, with all of its levels. */
bool cp__pattern_match_whole(const struct cp__pattern *pattern, const char *name);

#define CP__CPUS_MAX 64

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
    unsigned idle_s;           /* 0: a test may be idle for as long as it likes */
    uint64_t bench_ns;         /* how long a benchmark's loop runs ... */
    uint64_t bench_iterations; /* ... or how often; 0: by time */
    char *counters;            /* a list of events; NULL: none */
    const char *bench_profile; /* a file; NULL: none */
    int (*run_on)(void (*fn)(void *), void *arg, unsigned threads, struct cp_error *err);
};

/* Reads the flags that are left in argv. A mistake is told and ends the program with status 2; so does
 * -help, with 0. */
void cp__options_parse(struct cp__options *options, int argc, char **argv,
                       const struct cp_test_main_options *main_options);

/* Says on stderr what is wrong with the flags, and how to see which there are, and exits with status 2. */
_Noreturn void cp__options_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
