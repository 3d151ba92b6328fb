#include "common.h"

#include "pprof/pprof.h"
#include "runtime/sched.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Command line ---------------------------------------------------------------------------- */

static const struct option flags[] = {
    {"cpuprofile", required_argument, NULL, 'o'},
    {"cpuprofileevent", required_argument, NULL, 'e'},
    {"cpuprofileperiod", required_argument, NULL, 'p'},
    {"threads", required_argument, NULL, 't'},
    {"gs", required_argument, NULL, 'g'},
    {"seconds", required_argument, NULL, 's'},
    {NULL, 0, NULL, 0},
};

static _Noreturn void bad_usage(const struct example *e, const char *program)
{
    fprintf(stderr,
            "usage: %s [-cpuprofile FILE [-cpuprofileevent EVENT[,EVENT...]] [-cpuprofileperiod N]] "
            "[-threads N]%s"
            " [-seconds S]\n",
            program, e->gs ? " [-gs N]" : "");
    exit(2);
}

/* A number of at least 1 that fills the whole string; 0 where it is none. */
static uint64_t parse_count(const char *text)
{
    char *end;
    unsigned long long n = strtoull(text, &end, 10);
    return *text < '0' || *text > '9' || *end ? 0 : n;
}

static unsigned parse_small_count(const char *text)
{
    uint64_t n = parse_count(text);
    return n > 1000000 ? 0 : (unsigned)n;
}

static double parse_seconds(const char *text)
{
    char *end;
    double s = strtod(text, &end);
    return *end || !(s > 0 && s <= 1e6) ? 0 : s;
}

/* Takes one flag's value; 0 where there is no sense in it. */
static int take(struct example *e, int flag, const char *value)
{
    switch (flag) {
    case 'o':
        return (e->profile = value)[0] != 0;
    case 'e':
        return (e->events = value)[0] != 0;
    case 'p':
        return (e->period = parse_count(value)) != 0;
    case 't':
        return (e->threads = parse_small_count(value)) != 0;
    case 'g':
        return e->gs && (e->gs = parse_small_count(value));
    case 's':
        return (e->seconds = parse_seconds(value)) != 0;
    default:
        return 0;
    }
}

void example_parse(struct example *e, int argc, char **argv)
{
    const struct example defaults = *e;
    for (int flag, i; (flag = getopt_long_only(argc, argv, "", flags, &i)) != -1;) {
        if (take(e, flag, optarg))
            continue;
        if (flag != '?')
            fprintf(stderr, "%s: -%s makes no sense as \"%s\".\n", argv[0], flags[i].name, optarg);
        bad_usage(&defaults, argv[0]);
    }
    if (optind < argc)
        fprintf(stderr, "%s: \"%s\" is no flag.\n", argv[0], argv[optind]);
    else if (!e->profile && (e->events || e->period))
        fprintf(stderr, "%s: -cpuprofile must say where the profile is to go.\n", argv[0]);
    else
        return;
    bad_usage(&defaults, argv[0]);
}

/* ---- Profiles -------------------------------------------------------------------------------- */

/* Where the profile of one event of several goes: x.pb.gz becomes x.EVENT.pb.gz. The event's slashes are no
 * directories. */
static char *path_for(const char *profile, const char *event)
{
    const char *suffix = ".pb.gz";
    size_t n = strlen(profile);
    size_t stem =
        n > strlen(suffix) && strcmp(profile + n - strlen(suffix), suffix) == 0 ? n - strlen(suffix) : n;
    char *path;
    if (asprintf(&path, "%.*s.%s%s", (int)stem, profile, event, profile + stem) < 0)
        abort();
    for (char *slash = path + stem; (slash = strchr(slash, '/'));)
        *slash = '_';
    return path;
}

/* One option for each event in the list; the paths and names live until the program ends. */
static size_t make_options(const struct example *e, struct cp_profiling_option *options, size_t max)
{
    char *list = strdup(e->events ? e->events : "timer");
    char *event = cp_event_next(&list);
    bool several = list;
    size_t n = 0;
    for (; event && n < max; event = cp_event_next(&list)) {
        struct cp_event_spec spec;
        bool timer = cp_event_parse(event, &spec, NULL) == 0 && spec.event == CP_CPUPROF_OS_TIMER;
        const char *path = several ? path_for(e->profile, event) : e->profile;
        options[n++] = cp_event(cp_writer_path(path), event, timer ? 0 : e->period);
    }
    if (several)
        setenv("CP_PPROF_ENABLE_MULTIPLE_CPU_PROFILES", "true", 1);
    return n;
}

static void must(int result, const struct cp_error *err)
{
    if (result < 0) {
        fprintf(stderr, "%s\n", err->message);
        exit(1);
    }
}

void example_profile(struct example *e, void (*fn)(void *))
{
    static struct cp_profiling_option options[CP_EV_MAX + 1]; /* one too many is for the library to refuse */
    struct cp_sched_options sched = {.size = sizeof(sched), .threads = e->threads};
    struct cp_error err;
    if (e->profile) {
        size_t n = make_options(e, options, CP_EV_MAX + 1);
        must(cp_start_cpu_profile_with_options(options, n, &err), &err);
        for (size_t i = 0; i < n; i++) {
            const char *warning = cp_session_warning(cp_default_session(), i);
            if (warning)
                fprintf(stderr, "%s\n", warning);
        }
    }
    must(cp_sched_run(&sched, fn, e, &err), &err);
    if (e->profile)
        must(cp_stop_cpu_profile(&err), &err);
}

/* ---- Functions ------------------------------------------------------------------------------- */

static uint64_t thread_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t example_run(const struct example *e, struct example_function *f, uint64_t x, uint64_t n)
{
    if (e->profile)
        return f->run(x, n);
    uint64_t start = thread_cpu_ns();
    x = f->run(x, n);
    cp_fetch_add_relaxed(&f->ns,
                         thread_cpu_ns() - start); /* relaxed: a sum, read after its green threads ended */
    return x;
}

void example_print(const struct example *e, const struct example_function *functions, size_t count)
{
    double ns = 0, weight = 0;
    for (size_t i = 0; i < count; i++) {
        ns += (double)functions[i].ns;
        weight += functions[i].weight;
    }
    for (size_t i = 0; i < count && !e->profile; i++)
        printf("%-18s expected %6.2f %%  spent %6.2f %% of %.2f s\n", functions[i].name,
               100 * functions[i].weight / weight, 100 * (double)functions[i].ns / ns, ns * 1e-9);
}
