/* The runner's flags; the table "usage" says what they mean. */
#include "options.h"
#include "runtime/base/clock.h"

#include "runtime/base/sized.h"
#include "sched.h"

#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option flags[] = {
    {"run", required_argument, NULL, 'r'},      {"skip", required_argument, NULL, 'k'},
    {"bench", required_argument, NULL, 'b'},    {"benchtime", required_argument, NULL, 't'},
    {"counters", required_argument, NULL, 'e'}, {"benchprofile", required_argument, NULL, 'P'},
    {"count", required_argument, NULL, 'n'},    {"cpu", required_argument, NULL, 'c'},
    {"timeout", required_argument, NULL, 'T'},  {"shuffle", required_argument, NULL, 's'},
    {"list", required_argument, NULL, 'l'},     {"v", optional_argument, NULL, 'v'},
    {"failfast", optional_argument, NULL, 'f'}, {"json", optional_argument, NULL, 'j'},
    {"tap", optional_argument, NULL, 'a'},      {"inprocess", optional_argument, NULL, 'i'},
    {"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0},
};

static const char usage[] =
    "  -run REGEX             run the tests whose names match, by level: 'Test_a/empty'\n"
    "  -skip REGEX            do not run these tests and benchmarks\n"
    "  -bench REGEX           also run these benchmarks; '.' means all\n"
    "  -benchtime 1s|100x     how long, or how often, a benchmark's loop runs\n"
    "  -counters EVENT[,...]  also count these events in benchmarks: cycles,instructions\n"
    "  -benchprofile FILE     write a profile of the loops of benchmarks; see also -cpuprofileevent,\n"
    "                         -cpuprofileperiod and -cpuprofileengine\n"
    "  -count N               run each test and benchmark N times\n"
    "  -cpu N[,...]           on how many threads of the scheduler; each test runs with each number\n"
    "  -timeout 10m           a test that takes longer fails, and its stacks are shown; 0 means no limit\n"
    "  -shuffle on|off|N      run the tests in random order; N is the seed\n"
    "  -failfast              stop after the first failure\n"
    "  -v                     also show tests that pass\n"
    "  -json                  print events as go tool test2json does\n"
    "  -tap                   print the Test Anything Protocol, for prove; -v adds the times\n"
    "  -list REGEX            only list the names of tests and benchmarks that match\n"
    "  -inprocess             run all tests in this process without time limits, for a debugger\n"
    "  -cpuprofile FILE       write a profile of everything that runs\n"
    "  -cpuprofileevent EVENT[:PERIOD][,...]   the events that trigger samples: timer, taskClock:1ms,\n"
    "                         pageFaults:100, ...\n"
    "  -cpuprofileperiod N    events, or ns, between two samples, for events without a period of their own\n"
    "  -cpuprofileengine trap|signal   whether samples come by SIGTRAP or by SIGPROF\n"
    "  -blockprofile FILE     write a profile of where everything that runs has waited\n"
    "  -mutexprofile FILE     write a profile of who has made others wait\n"
    "  -blockprofilerate NS   record in both what waits so long, and shorter waits in proportion; 1 is all\n";

/* ---- Values ---------------------------------------------------------------------------------- */

/* Parses a decimal number that fills the text up to end. */
static bool parse_number(uint64_t *n, const char *text, const char *end)
{
    char *stop;
    errno = 0;
    *n = strtoull(text, &stop, 10);
    return *text >= '0' && *text <= '9' && stop == end && errno == 0;
}

/* Returns the seconds of a duration such as "1h10m", "1.5s" or "300ms"; -1 if the text is not a duration. */
static double parse_duration(const char *text)
{
    static const struct unit {
        const char *name;
        double seconds;
    } units[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};
    if (strcmp(text, "0") == 0)
        return 0;
    double sum = 0;
    const char *p = text;
    while (*p) {
        char *end;
        double n = strtod(p, &end);
        size_t length = strspn(end, "nmush");
        const struct unit *u = units, *last = units + sizeof(units) / sizeof(units[0]);
        while (u < last && (strlen(u->name) != length || memcmp(u->name, end, length) != 0))
            u++;
        if (*p < '0' || *p > '9' || u == last)
            return -1;
        sum += n * u->seconds;
        p = end + length;
    }
    return p == text || !(sum < 1e9) ? -1 : sum;
}

/* Parses the optional value of a flag that is true or false; NULL, a flag without a value, means true. */
static bool parse_bool(bool *value, const char *text)
{
    *value = !text || strcmp(text, "true") == 0 || strcmp(text, "1") == 0;
    return *value || strcmp(text, "false") == 0 || strcmp(text, "0") == 0;
}

/* Parses a time ("1s") or a number of iterations ("100x"). */
static bool parse_bench_time(struct cp__options *o, const char *text)
{
    size_t n = strlen(text);
    if (n > 0 && text[n - 1] == 'x')
        return parse_number(&o->bench_iterations, text, text + n - 1) && o->bench_iterations > 0;
    double seconds = parse_duration(text);
    o->bench_ns = seconds > 0 ? (uint64_t)(seconds * 1e9) : 0;
    o->bench_iterations = 0;
    return o->bench_ns > 0;
}

/* Parses numbers of threads that are separated by commas. */
static bool parse_cpus(struct cp__options *o, const char *text)
{
    o->cpu_count = 0;
    for (;;) {
        const char *end = strchrnul(text, ',');
        uint64_t n;
        if (!parse_number(&n, text, end) || n == 0 || n > CP_SCHED_THREADS_MAX ||
            o->cpu_count == CP__CPUS_MAX)
            return false;
        o->cpus[o->cpu_count++] = (unsigned)n;
        if (!*end)
            return true;
        text = end + 1;
    }
}

/* Parses "on", "off" or a seed. */
static bool parse_shuffle(struct cp__options *o, const char *text)
{
    o->is_shuffled = strcmp(text, "off") != 0;
    if (!o->is_shuffled || strcmp(text, "on") == 0)
        return true;
    char *end;
    errno = 0;
    o->shuffle_seed = strtoll(text, &end, 10);
    return end > text && !*end && errno == 0;
}

static bool parse_pattern(struct cp__pattern *pattern, const char *text, struct cp_error *err)
{
    return cp__pattern_compile(pattern, text, err) == 0;
}

/* ---- Flags ----------------------------------------------------------------------------------- */

/* Parses a flag that takes a value. Returns false if the value makes no sense; *err has the reason if the
 * phrase of values_of() does not say everything. */
static bool take_value(struct cp__options *o, int flag, char *value, struct cp_error *err)
{
    switch (flag) {
    case 'r':
        return parse_pattern(&o->run, value, err);
    case 'k':
        return o->has_skip = parse_pattern(&o->skip, value, err);
    case 'b':
        return o->has_bench = parse_pattern(&o->bench, value, err);
    case 'l':
        return o->is_list = parse_pattern(&o->list, value, err);
    case 't':
        return parse_bench_time(o, value);
    case 'n':
        return parse_number(&o->count, value, value + strlen(value));
    case 'c':
        return parse_cpus(o, value);
    case 'T':
        o->is_timeout_given = true;
        return (o->timeout_s = parse_duration(value)) >= 0;
    case 's':
        return parse_shuffle(o, value);
    case 'e':
        return (o->counters = value)[0] != 0;
    default:
        return (o->bench_profile = value)[0] != 0;
    }
}

/* Parses any flag; see take_value(). */
static bool take_flag_value(struct cp__options *o, int flag, char *value, struct cp_error *err)
{
    switch (flag) {
    case 'v':
        return parse_bool(&o->is_verbose, value);
    case 'f':
        return parse_bool(&o->is_fail_fast, value);
    case 'j':
        return parse_bool(&o->is_json, value);
    case 'a':
        return parse_bool(&o->is_tap, value);
    case 'i':
        return parse_bool(&o->is_in_process, value);
    default:
        return take_value(o, flag, value, err);
    }
}

/* Returns a phrase that says what a flag's value must be. */
static const char *values_of(int flag)
{
    switch (flag) {
    case 'r':
    case 'k':
    case 'b':
    case 'l':
        return "a regular expression for each level of a name";
    case 't':
        return "a time such as 1s or 300ms, or a number of iterations such as 100x";
    case 'n':
        return "a number from 0";
    case 'c':
        return "a number of threads from 1 to 1024, or up to 64 of them with commas between";
    case 'T':
        return "a time such as 5s or 1h30m, or 0 for none";
    case 's':
        return "on, off or a whole number";
    case 'e':
        return "events with commas between";
    case 'P':
        return "the file for the profile";
    default:
        return "true or false";
    }
}

static void print_usage(FILE *stream)
{
    fprintf(stream, "usage: %s [-FLAG [VALUE]]...\n%s", program_invocation_short_name, usage);
}

void cp__options_refuse(const char *format, ...)
{
    va_list args;
    fprintf(stderr, "%s: ", program_invocation_short_name);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\nusage: %s [-FLAG [VALUE]]...; -help lists the flags\n", program_invocation_short_name);
    exit(2);
}

/* Returns the number of CPUs that the process may use, the default of -cpu. */
static unsigned available_cpus(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

/* Sets the defaults of the flags. Options of the program, if it has any, take precedence. */
static void set_defaults(struct cp__options *o, const struct cp_test_main_options *main_options)
{
    *o = (struct cp__options){
        .count = 1,
        .cpus = {available_cpus()},
        .cpu_count = 1,
        .timeout_s = 600,
        .bench_ns = 1000000000,
        .shuffle_seed = cp__clock_ns(CLOCK_REALTIME),
    };
    cp__pattern_compile(&o->run, "", NULL);
    struct cp_test_main_options own = {.size = sizeof(own)};
    struct cp_error err;
    if (main_options && CP__TAKE(cp_test_main_options, &own, main_options, &err) < 0)
        cp__options_refuse("%s", err.message);
    if (own.timeout_s > 0)
        o->timeout_s = own.timeout_s;
    o->run_on = own.run;
    o->idle_s = own.idle_s;
}

/* Turns "-test.NAME" into "-NAME", because tools that know Go's test programs pass the flags in that form. */
static void strip_prefix(char *argument)
{
    if (argument[0] != '-')
        return;
    char *name = argument + 1 + (argument[1] == '-');
    if (strncmp(name, "test.", 5) == 0)
        memmove(name, name + 5, strlen(name + 5) + 1);
}

void cp__options_parse(struct cp__options *options, int argc, char **argv,
                       const struct cp_test_main_options *main_options)
{
    set_defaults(options, main_options);
    for (int i = 1; i < argc; i++)
        strip_prefix(argv[i]);
    for (int flag, i; (flag = getopt_long_only(argc, argv, "", flags, &i)) != -1;) {
        struct cp_error err = {0};
        if (flag == 'h' || flag == '?') { /* getopt_long_only() has printed what is wrong */
            print_usage(flag == 'h' ? stdout : stderr);
            exit(flag == 'h' ? 0 : 2);
        }
        if (!take_flag_value(options, flag, optarg, &err))
            cp__options_refuse("-%s must be %s, and \"%s\" is not.%s%s", flags[i].name, values_of(flag),
                               optarg, err.code ? " " : "", err.code ? err.message : "");
    }
    if (options->is_tap && options->is_json)
        cp__options_refuse("-tap and -json are two forms of one report. Give one of them.");
    if (optind < argc)
        cp__options_refuse("\"%s\" is not a flag. Name tests by -run.", argv[optind]);
}
