#include "common.h"

#include "sched.h"
#include "testing.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Command line ---------------------------------------------------------------------------- */

static _Noreturn void print_usage(FILE *out, const struct example *e, const char *program)
{
    fprintf(out,
            "usage: %s [-cpuprofile FILE [-cpuprofileevent EVENT[:PERIOD][,...]] [-cpuprofileperiod N]] "
            "[-threads N]%s"
            " [-seconds S]\n",
            program, e->gs ? " [-gs N]" : "");
    exit(out == stdout ? 0 : 2);
}

/* Returns the number from 1 to most that is the whole string; 0 if the string is no such number. */
static unsigned parse_count(const char *text, unsigned most)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    return *text < '0' || *text > '9' || *end || n > most ? 0 : (unsigned)n;
}

/* Returns the number of seconds that is the whole string; 0 if the string is no such number. */
static double parse_seconds(const char *text)
{
    char *end;
    double s = strtod(text, &end);
    return *end || !(s > 0 && s <= 1e6) ? 0 : s;
}

/* Stores one flag's value. If the value makes no sense, returns what the value must be. */
static const char *take(struct example *e, int flag, const char *value)
{
    switch (flag) {
    case 't':
        return (e->threads = parse_count(value, CP_SCHED_THREADS_MAX)) ? NULL : "a number from 1 to 1024";
    case 'g':
        return (e->gs = parse_count(value, 1000000)) ? NULL : "a number from 1 to 1000000";
    default:
        return (e->seconds = parse_seconds(value)) > 0 ? NULL : "a number above 0, and at most 1000000";
    }
}

void example_parse(struct example *e, int argc, char **argv)
{
    const struct example defaults = *e;
    const struct option flags[] = {
        {"help", no_argument, NULL, 'h'},
        {"threads", required_argument, NULL, 't'},
        {"seconds", required_argument, NULL, 's'},
        {e->gs ? "gs" : NULL, required_argument, NULL, 'g'},
        {NULL, 0, NULL, 0},
    };
    int all = argc;
    cp_testing_start(&argc, argv);
    e->is_profiled = argc < all;
    for (int flag, i; (flag = getopt_long_only(argc, argv, "", flags, &i)) != -1;) {
        if (flag == 'h' || flag == '?')
            print_usage(flag == 'h' ? stdout : stderr, &defaults, argv[0]);
        const char *must = take(e, flag, optarg);
        if (!must)
            continue;
        fprintf(stderr, "%s: -%s must be %s, not \"%s\".\n", argv[0], flags[i].name, must, optarg);
        print_usage(stderr, &defaults, argv[0]);
    }
    if (optind == argc)
        return;
    fprintf(stderr, "%s: There is no flag \"%s\".\n", argv[0], argv[optind]);
    print_usage(stderr, &defaults, argv[0]);
}

/* ---- Running --------------------------------------------------------------------------------- */

void example_run_all(struct example *e, void (*fn)(void *))
{
    struct cp_sched_options sched = {.size = sizeof(sched), .threads = e->threads};
    struct cp_error err;
    if (cp_sched_run(&sched, fn, e, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    if (cp_testing_stop() != 0)
        exit(1);
}

/* ---- Functions ------------------------------------------------------------------------------- */

/* Returns the CPU time of the calling thread. */
static uint64_t thread_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t example_run(const struct example *e, struct example_function *f, uint64_t x, uint64_t n)
{
    if (e->is_profiled)
        return f->run(x, n);
    uint64_t start = thread_cpu_ns();
    x = f->run(x, n);
    cp_fetch_add_relaxed(&f->ns,
                         /* relaxed: a sum, read after all green threads have ended */
                         thread_cpu_ns() - start);
    return x;
}

void example_print(const struct example *e, const struct example_function *functions, size_t count)
{
    double ns = 0, weight = 0;
    for (size_t i = 0; i < count; i++) {
        ns += (double)functions[i].ns;
        weight += functions[i].weight;
    }
    for (size_t i = 0; i < count && !e->is_profiled; i++)
        printf("%-18s expected %6.2f %%  spent %6.2f %% of %.2f s\n", functions[i].name,
               100 * functions[i].weight / weight, 100 * (double)functions[i].ns / ns, ns * 1e-9);
}
