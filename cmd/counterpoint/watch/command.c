/* counterpoint watch: how long functions take, of a program that knows nothing of it. See probes.h. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/counterpoint/commands.h"
#include "cmd/counterpoint/run.h"
#include "preload/settings.h"
#include "runtime/base/fail.h"
#include "session.h"

static const char help[] =
    "usage: counterpoint watch [OPTION]... --function NAME [--] PROGRAM [ARGUMENT]...\n"
    "       counterpoint watch [OPTION]... --function NAME -p PID\n"
    "\n"
    "Measures how long functions take, from entry to return, in all threads of a\n"
    "program and of the processes that it starts. Options stand before the program;\n"
    "what stands behind it are its arguments. The program is not changed or\n"
    "recompiled: the kernel puts probes (uprobes) at the functions, and removes them\n"
    "however this command ends. That takes root (CAP_SYS_ADMIN). While the program\n"
    "runs, a line on the terminal shows how the distributions grow, and at the end\n"
    "they are printed.\n"
    "\n"
    "  --function NAME       a function, by its name in the source or the linker's:\n"
    "                        parse, json::parse, or \"json::parse(char const*)\". Of a\n"
    "                        library, LIBRARY:NAME: libcrypto:SHA256_Update, or\n"
    "                        ./plugin.so:init if the program loads it later. Up to\n"
    "                        32, by --function each.\n"
    "  -e EVENT[,EVENT]...   what is counted from entry to return, beside time:\n"
    "                        cpuTime, and what 'counterpoint events' lists. Up to\n"
    "                        seven.\n"
    "  -p, --pid PID         watches a process that runs already, until it ends or\n"
    "                        Ctrl-C is pressed\n"
    "  --duration SECONDS    watches so long; the program goes on\n"
    "  -o FILE               writes the distributions to this file, and not to stdout\n"
    "  --json                writes them as JSON, with all buckets\n"
    "\n"
    "A call takes some us longer, a part of which is in what is measured: that is\n"
    "what an empty function would show. Other processes that run the same code are\n"
    "slowed down, too, but not measured. With -e, each switch between threads of the\n"
    "machine is recorded.\n"
    "\n"
    "Do not watch functions in which the program changes its stack, as coroutines\n"
    "and green threads do, nor those that an exception (C++) or panic (Rust) leaves:\n"
    "nobody finds the way back through a return address that a probe has changed,\n"
    "and the program is ended. Go programs are refused for this reason. A call that\n"
    "ends by longjmp() or the end of its thread, or is nested more than 64 deep, has\n"
    "no return that the kernel notices; such calls are counted, and not measured.\n"
    "\n"
    "Keys such as Ctrl-C go to the program. Exit status: that of the program, or 128\n"
    "and the number of the signal that ended it; 0 with -p; 1 if the kernel or the\n"
    "user's rights do not allow probes or an event; 2 if the usage is wrong or there\n"
    "is no such function; 3 if there is no memory, or the output cannot be written.\n";

static void free_request(struct watch_request *request)
{
    for (size_t i = 0; i < request->n_functions; i++)
        watch_function_free(&request->functions[i]);
    free(request->events);
    free(request->path);
    watch_files_free(&request->files);
}

/* ---- The command line ------------------------------------------------------------------------ */

static enum status add_counted_event(struct watch_request *request, const char *event)
{
    const char *before = request->events;
    char *events;

    if (asprintf(&events, "%s%s%s", before == NULL ? "" : before, before == NULL ? "" : ",", event) < 0)
        return complain(STATUS_FAILURE, "There is not enough memory.");
    free(request->events);
    request->events = events;
    return STATUS_OK;
}

static enum status take_pid(struct watch_request *request, const char *text)
{
    char *end;
    const long pid = strtol(text, &end, 10);

    if (pid <= 0 || pid > INT32_MAX || *end != '\0')
        return complain(STATUS_USAGE, "-p must be the number of a process, and \"%s\" is not.", text);
    request->pid = (pid_t)pid;
    request->is_attached = true;
    return STATUS_OK;
}

static enum status take_watch_option(struct watch_request *request, int option)
{
    switch (option) {
    case 'e':
        return add_counted_event(request, optarg);
    case 'f':
        if (request->n_names == WATCH_FUNCTIONS)
            return complain(STATUS_USAGE, "At most %d functions can be watched at once.", WATCH_FUNCTIONS);
        request->names[request->n_names++] = optarg;
        return STATUS_OK;
    case 'o':
        request->output = optarg;
        return *optarg != '\0' ? STATUS_OK : complain(STATUS_USAGE, "-o must name a file.");
    case 'p':
        return take_pid(request, optarg);
    case 'd':
        request->seconds = cp__preload_seconds(optarg);
        return request->seconds > 0
                   ? STATUS_OK
                   : complain(STATUS_USAGE,
                              "--duration must be a number of seconds above 0, and \"%s\" is not.", optarg);
    case 'j':
        request->is_json = true;
        return STATUS_OK;
    default: /* getopt_long() has said what is wrong */
        fputs("'counterpoint watch --help' describes the options.\n", stderr);
        return STATUS_USAGE;
    }
}

/* Returns whether the arguments of the program have this command's option. */
static bool is_option_behind(char *const *argv)
{
    for (; *argv != NULL; argv++)
        if (strncmp(*argv, "--function", strlen("--function")) == 0)
            return true;
    return false;
}

static enum status check_request(const struct watch_request *request)
{
    if (request->n_names == 0)
        return complain(STATUS_USAGE,
                        "Name a function to watch%s: counterpoint watch --function NAME -- PROGRAM.",
                        is_option_behind(request->argv)
                            ? " before the program, because what stands behind it are its arguments"
                            : "");
    if (request->is_attached && *request->argv != NULL)
        return complain(STATUS_USAGE, "Give -p, or a program to run, but not both.");
    if (!request->is_attached && *request->argv == NULL)
        return complain(STATUS_USAGE,
                        "Name the program to run, or a process by -p: counterpoint watch --function NAME "
                        "PROGRAM [ARGUMENT]...");
    return STATUS_OK;
}

/* Stores in *is_help whether help was asked for. */
static enum status parse_watch(struct watch_request *request, int argc, char **argv, bool *is_help)
{
    static const struct option options[] = {
        {"event", required_argument, NULL, 'e'},    {"function", required_argument, NULL, 'f'},
        {"output", required_argument, NULL, 'o'},   {"pid", required_argument, NULL, 'p'},
        {"duration", required_argument, NULL, 'd'}, {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},           {0}};
    enum status status = STATUS_OK;
    char name[] = "counterpoint watch";

    argv[0] = name; /* for what getopt_long() says */
    optind = 0;
    for (int option;
         status == STATUS_OK && (option = getopt_long(argc, argv, "+e:f:o:p:h", options, NULL)) != -1;) {
        *is_help = option == 'h';
        if (*is_help)
            return STATUS_OK;
        status = take_watch_option(request, option);
    }
    request->argv = argv + optind;
    return status == STATUS_OK ? check_request(request) : status;
}

/* ---- The functions --------------------------------------------------------------------------- */

/* Finds the i-th function. Two names may mean one function, but would have the same rounds. */
static int find_named(struct watch_request *request, size_t i, struct cp_error *err)
{
    struct watch_function *function = &request->functions[i];
    int result = watch_find_function(function, request->names[i], &request->files, err);

    if (result < 0)
        return result;
    request->n_functions++;
    for (size_t other = 0; other < i; other++)
        if (request->functions[other].offset == function->offset &&
            strcmp(request->functions[other].path, function->path) == 0)
            return cp__error(err, -EEXIST, "\"%.100s\" and \"%.100s\" are the same function. Name it once.",
                             request->names[other], request->names[i]);
    return 0;
}

static enum status find_functions(struct watch_request *request)
{
    struct cp_error err;
    int result;

    if (!request->is_attached && run_find_path(&request->path, request->argv[0], &err) < 0)
        return complain(STATUS_USAGE, "%s", err.message);
    result = request->is_attached ? watch_files_of_process(&request->files, request->pid, &err)
                                  : watch_files_of_program(&request->files, request->path, &err);
    for (size_t i = 0; i < request->n_names && result == 0; i++)
        result = find_named(request, i, &err);
    return result == 0 ? STATUS_OK
                       : complain(result == -ENOMEM ? STATUS_FAILURE : STATUS_USAGE, "%s", err.message);
}

enum status command_watch(int argc, char **argv)
{
    struct watch_request request = {0};
    bool is_help = false;
    enum status status = parse_watch(&request, argc, argv, &is_help);

    if (is_help)
        fputs(help, stdout);
    else if (status == STATUS_OK)
        status = find_functions(&request);
    if (!is_help && status == STATUS_OK)
        status = watch_session(&request);
    free_request(&request);
    return status;
}
