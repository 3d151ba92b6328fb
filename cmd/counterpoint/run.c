/* counterpoint run: profiles a program that knows nothing of it. See run.h. */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "child.h"
#include "commands.h"
#include "runtime/base/clock.h"
#include "runtime/base/fail.h"

static const char help[] = "usage: counterpoint run [-e EVENT[:PERIOD]]... [-o DIR] [--http ADDRESS]\n"
                           "                        [--duration SECONDS] [--] PROGRAM [ARGUMENT]...\n"
                           "\n"
                           "Runs a program and profiles it: each of its threads, and the processes that it\n"
                           "starts. The program is not changed; a library is preloaded into it, so it must\n"
                           "be linked dynamically with glibc, and must not take another user's rights. At\n"
                           "the end the command prints what was sampled, what was lost, where the profiles\n"
                           "are, and the five hottest functions. Each process has a profile of its own in\n"
                           "pprof's format, for 'counterpoint report' and 'go tool pprof', and the samples\n"
                           "have the names of their threads as the label \"thread\".\n"
                           "\n"
                           "  -e EVENT[:PERIOD]     what is sampled, and how many events (ns, for clocks)\n"
                           "                        are between two samples; 'counterpoint events' lists\n"
                           "                        the events. Up to eight, by -e each or with commas\n"
                           "                        between. Without -e: cycles, or else taskClock, or\n"
                           "                        else timer, the first that works on this machine.\n"
                           "                        wait shows what threads wait for: locks, conditions,\n"
                           "                        semaphores, threads, processes, descriptors, times.\n"
                           "  -o DIR                the folder for the profiles, which is made if it is not\n"
                           "                        there: PROGRAM.PID.pb.gz, or PROGRAM.PID.EVENT.pb.gz\n"
                           "                        if there are several events. By default a new folder\n"
                           "                        PROGRAM.PID.profiles in this one.\n"
                           "  --http ADDRESS        serves the profiles of the running program, too:\n"
                           "                        --http 127.0.0.1:6060\n"
                           "  --duration SECONDS    profiles so long from each process's start; the program\n"
                           "                        goes on\n"
                           "\n"
                           "Keys such as Ctrl-C go to the program. Exit status: that of the program, or 128\n"
                           "and the number of the signal that ended it; 1 if the event does not work here;\n"
                           "2 if the usage is wrong or the program cannot be profiled; 3 if there is no\n"
                           "memory, or the profiles cannot be written.\n";

/* ---- The command line ------------------------------------------------------------------------ */

/* What the command line says. */
struct asked {
    char *events; /* with commas between; NULL: none */
    const char *directory;
    const char *http;
    const char *seconds;
    char **argv; /* the program and its arguments */
};

static enum status no_memory_to_run(void)
{
    return complain(STATUS_FAILURE, "There is not enough memory.");
}

static enum status add_asked_event(struct asked *asked, const char *event)
{
    const char *before = asked->events;
    char *events;

    if (asprintf(&events, "%s%s%s", before == NULL ? "" : before, before == NULL ? "" : ",", event) < 0)
        return no_memory_to_run();
    free(asked->events);
    asked->events = events;
    return STATUS_OK;
}

static enum status refuse_pid(const char *pid)
{
    return complain(
        STATUS_USAGE,
        "A process that runs already cannot be profiled yet (-p %s). Start the program by 'counterpoint run "
        "PROGRAM', or, if it serves /debug/pprof/, record from there.",
        pid);
}

static enum status take_run_option(struct asked *asked, int option)
{
    switch (option) {
    case 'e':
        return add_asked_event(asked, optarg);
    case 'o':
        asked->directory = optarg;
        return *optarg != '\0' ? STATUS_OK : complain(STATUS_USAGE, "-o must name a folder.");
    case 'H':
        asked->http = optarg;
        return STATUS_OK;
    case 'd':
        asked->seconds = optarg;
        return cp__preload_seconds(optarg) > 0
                   ? STATUS_OK
                   : complain(STATUS_USAGE,
                              "--duration must be a number of seconds above 0, and \"%s\" is not.", optarg);
    case 'p':
        return refuse_pid(optarg);
    default: /* getopt_long() has said what is wrong */
        fputs("'counterpoint run --help' describes the options.\n", stderr);
        return STATUS_USAGE;
    }
}

/* Stores in *is_help whether help was asked for. */
static enum status parse(struct asked *asked, int argc, char **argv, bool *is_help)
{
    static const struct option options[] = {{"event", required_argument, NULL, 'e'},
                                            {"output", required_argument, NULL, 'o'},
                                            {"http", required_argument, NULL, 'H'},
                                            {"duration", required_argument, NULL, 'd'},
                                            {"pid", required_argument, NULL, 'p'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    enum status status = STATUS_OK;
    char name[] = "counterpoint run";

    argv[0] = name; /* for what getopt_long() says */
    optind = 0;
    for (int option;
         status == STATUS_OK && (option = getopt_long(argc, argv, "+e:o:p:h", options, NULL)) != -1;) {
        *is_help = option == 'h';
        if (*is_help)
            return STATUS_OK;
        status = take_run_option(asked, option);
    }
    asked->argv = argv + optind;
    if (status == STATUS_OK && optind == argc)
        return complain(STATUS_USAGE,
                        "Name the program to run: counterpoint run [OPTION]... PROGRAM [ARGUMENT]...");
    return status;
}

/* ---- The events ------------------------------------------------------------------------------ */

/* Refuses an event that the machine refuses: the program would run without a profile. */
static enum status check_events(const struct cp__preload_settings *settings)
{
    struct cp_event_spec spec = {.size = sizeof spec};
    struct cp_error err = {0};

    for (size_t i = 0; i < settings->n; i++) {
        if (cp_event_parse(settings->events[i], &spec, &err) < 0)
            return complain(STATUS_USAGE, "%s", err.message);
        if (cp_event_probe(&spec, &err) < 0)
            return complain(STATUS_NO, "%s", err.message);
    }
    return STATUS_OK;
}

static enum status choose_events(struct run *run, struct asked *asked)
{
    struct cp_error err;

    if (asked->events == NULL) {
        const char *best = cp__best_event();
        enum status status = add_asked_event(asked, best);

        if (status != STATUS_OK)
            return status;
        fprintf(stderr, "counterpoint: The event is %s%s.\n", best,
                strcmp(best, "cycles") == 0 ? "" : ", because this machine has no cycles to sample");
    }
    if (cp__preload_take_events(&run->settings, asked->events, &err) < 0)
        return complain(STATUS_USAGE, "%s", err.message);
    return check_events(&run->settings);
}

/* ---- The folder ------------------------------------------------------------------------------ */

/* Makes the folder, unless it is there, and finds its path from the root, because the program may change its
 * own folder. */
static enum status make_output_directory(struct run *run, const char *path)
{
    if (mkdir(path, 0777) < 0 && errno != EEXIST)
        return complain(STATUS_FAILURE, "The folder \"%s\" for the profiles cannot be made: %s.", path,
                        strerror(errno));
    if (access(path, W_OK | X_OK) < 0)
        return complain(STATUS_FAILURE, "The profiles cannot be written into \"%s\": %s.", path,
                        strerror(errno));
    run->directory = realpath(path, NULL);
    return run->directory == NULL ? no_memory_to_run() : STATUS_OK;
}

/* The path ends in a slash, so that a file of that name is no folder. */
static enum status make_profiles_directory(struct run *run, const struct asked *asked)
{
    char *path;
    enum status status;

    if ((asked->directory != NULL ? asprintf(&path, "%s/", asked->directory)
                                  : asprintf(&path, "%.200s.%d.profiles/", run->program, (int)getpid())) < 0)
        return no_memory_to_run();
    status = make_output_directory(run, path);
    free(path);
    return status;
}

/* ---- The program ----------------------------------------------------------------------------- */

/* Measures once for all processes what samples and switches cost. */
static int set_cost(void)
{
    const uint64_t ns = cp_sample_cost_ns(NULL);
    struct cp__switch_costs costs;
    char text[120];

    cp_switch_cost_ns(CP_EVENT_CLOCK, 1000000);
    cp__switch_costs_tell(&costs);
    snprintf(text, sizeof text, CP__COST_FORMAT, ns, costs.bare, costs.soon, costs.later, costs.other);
    return ns != 0 ? setenv(CP__VARIABLE_COST, text, 1) : unsetenv(CP__VARIABLE_COST);
}

/* Stores the pattern for the files in the folder, whose own %-signs stand for themselves. */
static int make_pattern(char **pattern, const char *directory)
{
    size_t size;
    FILE *out = open_memstream(pattern, &size);

    if (out == NULL)
        return -1;
    cp__print_pattern_of(out, directory);
    fputs("/%n.%p.pb.gz", out);
    return fclose(out);
}

static int set_environment(const struct run *run, const struct asked *asked, const char *library)
{
    const char *others = getenv("LD_PRELOAD");
    char *preload, *file, names[24];
    int result = 0;

    if (asprintf(&preload, "%s%s%s", library, others == NULL || *others == '\0' ? "" : ":",
                 others == NULL ? "" : others) < 0 ||
        make_pattern(&file, run->directory) < 0)
        return -1;
    snprintf(names, sizeof names, "later:%d", (int)getppid());
    result |= setenv("LD_PRELOAD", preload, 1) | setenv(CP__VARIABLE_FILE, file, 1) |
              setenv(CP__VARIABLE_EVENT, asked->events, 1) | setenv(CP__VARIABLE_NAMES, names, 1);
    result |= asked->seconds != NULL ? setenv(CP__VARIABLE_SECONDS, asked->seconds, 1)
                                     : unsetenv(CP__VARIABLE_SECONDS);
    result |= asked->http != NULL ? setenv(CP__VARIABLE_HTTP, asked->http, 1) : unsetenv(CP__VARIABLE_HTTP);
    return result | unsetenv(CP__VARIABLE_FIRST);
}

/* Waits for the program's end, and shows how it goes. Returns its status, as wait(2) does. */
static int await_end(struct run *run)
{
    const struct timespec second = {1, 0};
    sigset_t child;
    int status = 0;

    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    while (!child_has_ended(run->pid, &status)) {
        if (sigtimedwait(&child, NULL, &second) < 0 && errno == EAGAIN)
            run_show_progress(run);
    }
    return status;
}

/* What the program's environment is made of. */
struct environment {
    const struct run *run;
    const struct asked *asked;
    const char *library;
};

static int prepare_environment(const void *context)
{
    const struct environment *environment = context;

    return set_environment(environment->run, environment->asked, environment->library);
}

static enum status start_profiled_program(struct run *run, struct asked *asked, const char *path,
                                          const char *library)
{
    const struct environment environment = {.run = run, .asked = asked, .library = library};

    run->started_s = cp__clock_s();
    clock_gettime(CLOCK_REALTIME_COARSE, &run->began); /* the clock of files */
    return child_start(&run->pid, path, asked->argv, prepare_environment, &environment);
}

/* Runs the program, and returns its exit status. */
static enum status run_to_its_end(struct run *run, struct asked *asked, const char *path, const char *library)
{
    enum status result = set_cost() != 0 ? no_memory_to_run() : STATUS_OK;
    int status;

    if (result == STATUS_OK)
        result = start_profiled_program(run, asked, path, library);
    if (result != STATUS_OK)
        return result;
    status = await_end(run);
    run_print_end(run, status);
    return child_exit_status(status);
}

/* Has the program's waits told, too, if that is asked for, or may be by the endpoint. */
static enum status add_waits(const struct run *run, const struct asked *asked, char **libraries)
{
    struct cp_error err;

    if ((asked->http != NULL || cp__preload_records_waits(&run->settings)) &&
        run_add_preload_of_waits(libraries, &err) < 0)
        return complain(STATUS_USAGE, "%s", err.message);
    return STATUS_OK;
}

/* Does what the command line says. The caller frees the paths. */
static enum status run_asked(struct run *run, struct asked *asked, char **path, char **library)
{
    struct cp_error err;
    enum status status;

    if (run_find_program(path, asked->argv[0], &err) < 0 ||
        run_find_preload(library, asked->http != NULL, &err) < 0)
        return complain(STATUS_USAGE, "%s", err.message);
    run->program = basename(*path);
    status = choose_events(run, asked);
    if (status == STATUS_OK)
        status = add_waits(run, asked, library);
    if (status == STATUS_OK)
        status = make_profiles_directory(run, asked);
    return status == STATUS_OK ? run_to_its_end(run, asked, *path, *library) : status;
}

enum status command_run(int argc, char **argv)
{
    struct asked asked = {0};
    struct run run = {0};
    char *path = NULL, *library = NULL;
    bool is_help = false;
    enum status status = parse(&asked, argc, argv, &is_help);

    if (is_help)
        fputs(help, stdout);
    else if (status == STATUS_OK)
        status = run_asked(&run, &asked, &path, &library);
    free(path);
    free(library);
    free(run.directory);
    free(asked.events);
    return status;
}
