/* counterpoint annotate: the blocks of a hot function, and how fast they could be. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "annotation.h"
#include "cmd/counterpoint/report/load.h"

static const char help[] =
    "usage: counterpoint annotate [OPTION]... PROFILE [FUNCTION]\n"
    "\n"
    "Shows the basic blocks of a function of a CPU profile, the hottest block first:\n"
    "how often each has run, how many cycles it took, and how many it takes at best,\n"
    "which is measured, as by 'counterpoint block'. FUNCTION is a name, or a regular\n"
    "expression; without it, it is the function with the most samples in itself. The\n"
    "program must be on this machine, as it was profiled. x86-64 only, so far.\n"
    "\n"
    "  --event NAME     these values of a profile that has several: the name of a\n"
    "                   sample type, or its number from 0\n"
    "  -n N             at most N blocks; without it, 10\n"
    "  --csv            all blocks as comma-separated values, by addresses\n"
    "\n"
    "FREQUENCY is estimated: as much flow comes into each block as goes out of it, and\n"
    "blocks that wait for nothing run at their best. It is the number of executions if\n"
    "the profile is of cycles, else relative to the most frequent block. CYCLES is what\n"
    "an execution took by the samples, BEST what it takes in the steady state with all\n"
    "accesses in the first cache, without the branch at its end. A hypothesis is what a\n"
    "block's looks suggest, and no event of the profile confirms.\n"
    "\n"
    "Exit status: 0; 1 if there is no function to annotate, or blocks cannot be measured\n"
    "on this machine; 2 if the usage is wrong, or a file does not exist; 3 if a file could\n"
    "not be read or is no profile, there is no memory, or the output could not be written.\n";

struct wish {
    const char *event, *function; /* NULL: none */
    char *path;
    size_t n;
    bool is_csv;
};

/* ---- The command line ------------------------------------------------------------------------ */

static enum status take_count(struct wish *wish, const char *text)
{
    char *end;
    const unsigned long n = strtoul(text, &end, 10);

    if (*end != '\0' || text[0] < '0' || text[0] > '9' || n == 0)
        return complain(STATUS_USAGE, "-n takes a number from 1 on, and \"%s\" is none.", text);
    wish->n = n;
    return STATUS_OK;
}

static enum status take_annotate_option(struct wish *wish, int option)
{
    switch (option) {
    case 'e':
        wish->event = optarg;
        return STATUS_OK;
    case 'n':
        return take_count(wish, optarg);
    case 'c':
        wish->is_csv = true;
        return STATUS_OK;
    default:
        return complain(STATUS_USAGE, "'counterpoint annotate --help' lists the options.");
    }
}

static enum status parse_annotate_options(int argc, char **argv, struct wish *wish)
{
    static const struct option names[] = {
        {"event", required_argument, NULL, 'e'}, {"csv", no_argument, NULL, 'c'}, {NULL, 0, NULL, 0}};
    enum status status = STATUS_OK;
    int option;

    optind = 0; /* getopt's state is the process's */
    while (status == STATUS_OK && (option = getopt_long(argc, argv, "n:", names, NULL)) >= 0)
        status = take_annotate_option(wish, option);
    if (status != STATUS_OK)
        return status;
    if (optind >= argc || argc - optind > 2)
        return complain(STATUS_USAGE, "The command annotate takes the file of a profile, and may be a "
                                      "function: counterpoint annotate cpu.pb.gz parse.");
    wish->path = argv[optind];
    wish->function = argv[optind + 1];
    return STATUS_OK;
}

/* ---- The command ----------------------------------------------------------------------------- */

static enum status annotate_with(const struct wish *wish, const struct profile *profile, size_t type,
                                 struct cp_block *block)
{
    struct annotation annotation = {.samples = 0};
    enum status status = hot_function_find(&annotation.hot, profile, type, wish->function);

    if (status == STATUS_OK)
        status = annotation_make(&annotation, block);
    if (status == STATUS_OK && wish->is_csv)
        annotation_print_csv(&annotation, stdout);
    else if (status == STATUS_OK)
        annotation_print(&annotation, wish->n, stdout);
    hot_function_free(&annotation.hot);
    return status;
}

static enum status annotate_profile(const struct wish *wish, const struct profile *profile)
{
    struct cp_block *block;
    struct cp_error err;
    enum status status;
    size_t type;

    if (!profile_find_type(profile, wish->event, &type))
        return complain(STATUS_USAGE, "The profile has no values named \"%s\".", wish->event);
    if (profile->n_samples == 0)
        return complain(STATUS_NO, "The profile has no samples.");
    if (cp_block_open(&block, NULL, &err) < 0)
        return complain(STATUS_NO, "%s", err.message);
    status = annotate_with(wish, profile, type, block);
    cp_block_close(block);
    return status;
}

static enum status annotate_file(const struct wish *wish)
{
    struct source source = {0};
    struct profile *profile = NULL;
    enum status status = sources_read(&source, &wish->path, 1);

    if (status == STATUS_OK) {
        status = sources_parse(&source, 1, &profile);
        if (status == STATUS_OK)
            status = annotate_profile(wish, profile);
        profile_free(profile);
        sources_free(&source, 1);
    }
    return status;
}

enum status command_annotate(int argc, char **argv)
{
    struct wish wish = {.n = 10};
    enum status status;

    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(help, stdout);
        return STATUS_OK;
    }
    status = parse_annotate_options(argc, argv, &wish);
    return status == STATUS_OK ? annotate_file(&wish) : status;
}
