/* counterpoint block: how fast blocks of code can be. See block/block.h. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "block_list.h"

static const char help[] =
    "usage: counterpoint block [OPTION]... BLOCK...\n"
    "       counterpoint block [OPTION]... --asm TEXT\n"
    "       counterpoint block [OPTION]... --file FILE\n"
    "\n"
    "Measures how many cycles basic blocks take, without the programs that they are\n"
    "of: in the steady state, with all accesses in the first cache. A block is given\n"
    "by the bytes of its instructions: 4801c0 is 'add rax, rax'; FILE:FUNCTION are all\n"
    "blocks of a function, and FILE:0xADDRESS the one that begins there, up to its\n"
    "branch. It runs in a process where nothing else is mapped, and that may call\n"
    "nothing. x86-64 only, so far.\n"
    "\n"
    "  --asm TEXT       assembly, with ';' between instructions: 'add rax, rax; mov\n"
    "                   rbx, [rax]', or in AT&T's syntax: 'addq %rax, %rax'\n"
    "  --file FILE      blocks of a file, one a line, which a comma and anything may\n"
    "                   follow: as in the published sets of blocks; '-' is stdin\n"
    "  --csv            comma-separated values\n"
    "  --json           JSON\n"
    "  -o FILE          writes CSV to this file. If an interrupted run has begun it, the\n"
    "                   command goes on from there.\n"
    "  --model          beside each block what llvm-mca says of it, if it is installed\n"
    "  --cores N        measures on N cores at once; without it, on all. While others\n"
    "                   use the machine, fewer blocks are reproducible.\n"
    "\n"
    "SPREAD is the difference of the timings that are alike, as a part of the cycles. A\n"
    "block is 'not reproducible' if fewer than 8 of 16 timings are alike in 20 runs.\n"
    "Registers and memory hold 0x12345600 in each 64 bits when a timing begins. A branch\n"
    "at the end of a block is left out.\n"
    "\n"
    "All pages of a block share one physical page, so that its accesses hit the cache. If\n"
    "a load could wait for a store to another page because of that, the block is measured\n"
    "with two or four, too, and the faster result counts: CSV and JSON have the other one.\n"
    "MARKS tell what may falsify a result nevertheless:\n"
    "  A  a load may wait for a store to another page, in this result, too\n"
    "  C  accesses go from one line of the cache into the next; CSV and JSON tell how many\n"
    "  U  accesses are at no multiple of their size\n"
    "  S  with subnormal numbers, which count as 0 here, it takes more than 5 % longer\n"
    "\n"
    "Exit status: 0; 1 if nothing was measured, or nothing can be on this machine; 2 if\n"
    "the usage is wrong; 3 if there is no memory, or the output cannot be written.\n";

struct options {
    const char *file, *path, *assembly; /* NULL: none */
    enum block_format format;
    bool has_model;
    unsigned cores;
};

static enum status take_cores(struct options *options, const char *text)
{
    char *end;
    const unsigned long n = strtoul(text, &end, 10);

    if (*end != '\0' || text[0] < '0' || text[0] > '9' || n == 0 || n > UINT_MAX)
        return complain(STATUS_USAGE, "--cores takes a number from 1 on, and \"%s\" is none.", text);
    options->cores = (unsigned)n;
    return STATUS_OK;
}

static enum status take_block_option(struct options *options, int option)
{
    switch (option) {
    case 'f':
        options->file = optarg;
        return STATUS_OK;
    case 'a':
        options->assembly = optarg;
        return STATUS_OK;
    case 'm':
        options->has_model = true;
        return STATUS_OK;
    case 'c':
        options->format = BLOCK_CSV;
        return STATUS_OK;
    case 'j':
        options->format = BLOCK_JSON;
        return STATUS_OK;
    case 'o':
        options->path = optarg;
        return STATUS_OK;
    case 'n':
        return take_cores(options, optarg);
    default:
        return complain(STATUS_USAGE, "'counterpoint block --help' lists the options.");
    }
}

static enum status parse_block_options(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {{"asm", required_argument, NULL, 'a'},
                                          {"file", required_argument, NULL, 'f'},
                                          {"csv", no_argument, NULL, 'c'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"model", no_argument, NULL, 'm'},
                                          {"cores", required_argument, NULL, 'n'},
                                          {NULL, 0, NULL, 0}};
    enum status status = STATUS_OK;
    int option;

    optind = 0; /* getopt's state is the process's */
    while (status == STATUS_OK && (option = getopt_long(argc, argv, "o:", names, NULL)) >= 0)
        status = take_block_option(options, option);
    if (status != STATUS_OK)
        return status;
    if ((options->file != NULL) + (options->assembly != NULL) + (optind < argc) != 1)
        return complain(STATUS_USAGE,
                        "Which block? Give the bytes of its instructions, such as 4801c0, or --asm "
                        "TEXT, or --file FILE.");
    if (options->path != NULL && options->format == BLOCK_JSON)
        return complain(STATUS_USAGE,
                        "-o FILE writes CSV, so that a run can go on from it; --json writes to stdout.");
    return STATUS_OK;
}

static enum status find_blocks(struct block_list *list, const struct options *options, int argc, char **argv)
{
    enum status status = STATUS_OK;

    if (options->file != NULL)
        status = block_list_read(list, options->file);
    else if (options->assembly != NULL)
        status = block_list_assemble(list, options->assembly);
    for (int i = optind; i < argc && status == STATUS_OK; i++)
        status = strchr(argv[i], ':') != NULL
                     ? block_list_decode(list, argv[i])
                     : block_list_add(list, argv[i], strlen(argv[i]), "The command line");
    if (status == STATUS_OK && list->n == 0)
        return complain(STATUS_USAGE, "%s has no blocks.", options->file);
    return status;
}

/* The context of show_block(). */
struct shown {
    struct block_output *output;
    size_t of; /* how many blocks there are */
    size_t n;
    bool has_progress;
};

static enum status show_block(void *context, const struct block_row *row)
{
    struct shown *shown = context;

    block_output_row(shown->output, row);
    shown->n++;
    if (shown->has_progress && (shown->n % 16 == 0 || shown->n == shown->of))
        fprintf(stderr, "\r%zu of %zu blocks, %zu measured%s", shown->n, shown->of, shown->output->measured,
                shown->n == shown->of ? "\n" : "");
    if (fflush(shown->output->file) != 0)
        return complain(STATUS_FAILURE, "The output could not be written: %s.", strerror(errno));
    return STATUS_OK;
}

static size_t count_left(const struct block_list *list)
{
    size_t n = 0;

    for (size_t i = 0; i < list->n; i++)
        n += !list->rows[i].is_done;
    return n;
}

static enum status measure_blocks(struct block_list *list, const struct options *options)
{
    struct block_output output = {.file = stdout,
                                  .format = options->path != NULL ? BLOCK_CSV : options->format,
                                  .has_model = options->has_model};
    struct shown shown = {.output = &output,
                          .has_progress = isatty(STDERR_FILENO) == 1 &&
                                          (options->path != NULL || isatty(STDOUT_FILENO) == 0)};
    enum status status = STATUS_OK;

    if (options->path != NULL)
        status = block_output_go_on(list, &output, options->path);
    if (status == STATUS_OK && options->has_model)
        status = block_list_model(list);
    if (status == STATUS_OK && options->path == NULL)
        block_output_begin(&output);
    shown.of = count_left(list);
    if (status == STATUS_OK)
        status = block_list_measure(list, options->cores, show_block, &shown);
    if (status == STATUS_OK)
        block_output_end(&output);
    if (output.file != NULL && output.file != stdout && fclose(output.file) != 0)
        return complain(STATUS_FAILURE, "%s could not be written: %s.", options->path, strerror(errno));
    return status == STATUS_OK && shown.of > 0 && output.measured == 0 ? STATUS_NO : status;
}

enum status command_block(int argc, char **argv)
{
    struct options options = {.format = BLOCK_TABLE};
    struct block_list list = {.n = 0};
    enum status status;

    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(help, stdout);
        return STATUS_OK;
    }
    status = parse_block_options(argc, argv, &options);
    if (status == STATUS_OK)
        status = find_blocks(&list, &options, argc, argv);
    if (status == STATUS_OK)
        status = measure_blocks(&list, &options);
    block_list_free(&list);
    return status;
}
