/* counterpoint: what the library knows, from the command line. */
#include "commands.h"
#include "version.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    enum status (*run)(int argc, char **argv);
    const char *summary;
} commands[] = {
    {"events", command_events, "the events that can be sampled, and whether they work here"},
    {"run", command_run, "profiles a program that knows nothing of it"},
    {"report", command_report, "what a profile says: hottest functions, calls, differences"},
    {"watch", command_watch, "how long functions of a program take, without recompiling it"},
    {"block", command_block, "how many cycles blocks of code take, without their program"},
    {"annotate", command_annotate, "how fast the blocks of a hot function run, and could"},
};

#define N_COMMANDS (sizeof commands / sizeof commands[0])

static void print_help(FILE *out)
{
    fputs("usage: counterpoint COMMAND [ARGUMENT...]\n"
          "       counterpoint --help | --version\n"
          "\n"
          "CPU profiles by timers, kernel events and hardware counters. Commands:\n",
          out);
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(out, "  %-10s%s\n", commands[i].name, commands[i].summary);
    fputs("\n'counterpoint COMMAND --help' describes a command.\n", out);
}

static bool is_help(const char *argument)
{
    return strcmp(argument, "--help") == 0 || strcmp(argument, "-help") == 0 || strcmp(argument, "-h") == 0;
}

static enum status run(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return STATUS_USAGE;
    }
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    }
    if (!is_help(argv[1]) && strcmp(argv[1], "--version") != 0)
        return complain(STATUS_USAGE,
                        "There is no %s \"%s\". 'counterpoint --help' lists the commands and the options.",
                        argv[1][0] == '-' ? "option" : "command", argv[1]);
    if (argc > 2)
        return complain(STATUS_USAGE, "No argument can follow %s.", argv[1]);
    if (is_help(argv[1]))
        print_help(stdout);
    else
        printf("counterpoint %s\n", CP_VERSION);
    return STATUS_OK;
}

/* Output that did not arrive is a failure, whatever the command has returned. */
int main(int argc, char **argv)
{
    enum status status = run(argc, argv);

    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout))
        return complain(STATUS_FAILURE, "The output could not be written: %s.",
                        errno != 0 ? strerror(errno) : "an error before its end");
    return status;
}
