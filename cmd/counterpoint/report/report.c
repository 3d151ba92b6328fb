/* The command report: its command line, and the table of its forms. */
#include "report.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "facts.h"
#include "graph.h"
#include "names.h"
#include "output.h"

static const char help[] =
    "usage: counterpoint report [FORM] [OPTION...] FILE...\n"
    "\n"
    "Shows a CPU profile in pprof's format, of any program that writes such profiles.\n"
    "Several profiles are merged first. FILE may be - for the standard input, a file\n"
    "of perf record, or a URL (http://, https:// or HOST:PORT/debug/pprof/...).\n"
    "\n"
    "Forms:\n"
    "  --top           lists the hottest functions as go tool pprof -top does: the\n"
    "                  value in the function itself (flat) and with what it calls\n"
    "                  (cum). This is the form if none is given.\n"
    "  --tree          shows the calls as a tree, from the outermost functions on. An\n"
    "                  only child stands right below its parent.\n"
    "  --callers F     shows who calls the function F: a tree from F on to its\n"
    "                  callers. F is a name, or a regular expression.\n"
    "  --collapsed     prints a line for each stack, the outermost function first,\n"
    "                  with its value: for flamegraph.pl and speedscope.\n"
    "  --markdown      summarises the profile for a review, or for a language model.\n"
    "  --diff BASE     compares with the profile BASE, by CPU time, and names the\n"
    "                  functions that differ by more than the noise of sampling.\n"
    "  --merge OUT     writes all the profiles into the file OUT as one.\n"
    "  --html OUT      writes a file that shows the profiles in any browser: flame\n"
    "                  graph, table, search, comparison. It needs no network, and -\n"
    "                  is the standard output.\n"
    "  --lines F       shows the functions whose names match the regular expression\n"
    "                  F line by line, and below each its instructions, with their\n"
    "                  values: as go tool pprof -list and -disasm do.\n"
    "\n"
    "Options:\n"
    "  --event NAME    shows these values of a profile that has several: the name of\n"
    "                  a sample type, or its number from 0. Also --sample-index.\n"
    "  -n N            shows at most N rows. Also --nodecount.\n"
    "  --focus REGEX   keeps the samples that have a function, source file or module\n"
    "                  whose name matches the (POSIX extended) regular expression.\n"
    "  --ignore REGEX  leaves such samples out. Percentages are of all samples.\n"
    "  --tagfocus KEY=REGEX, --tagignore KEY=REGEX\n"
    "                  keep, and leave out, the samples that have a label KEY whose\n"
    "                  text matches: --tagfocus thread=worker.\n"
    "  --watch NAME    keeps the samples that were taken in a round of the watch NAME\n"
    "                  (counterpoint/watch.h).\n"
    "  --slowest PERCENT\n"
    "                  keeps those in the slowest rounds of the watch: --slowest 1%.\n"
    "  --cum           sorts by cumulative values.\n"
    "\n"
    "Exit status: 0 if there was something to show; 1 if the profile has no samples;\n"
    "2 if the usage is wrong, or a file does not exist; 3 if a file could not be read\n"
    "or is no profile, or the output could not be written.\n";

/* Each form is an option of its own. */
static const struct form {
    const char *name;
    int has_argument;
    print_form *print;
    bool has_all_samples; /* no filter can be given */
} forms[] = {
    {"top", no_argument, print_top, false},
    {"tree", no_argument, print_tree, false},
    {"callers", required_argument, print_callers, false},
    {"collapsed", no_argument, print_collapsed, false},
    {"markdown", no_argument, print_markdown, false},
    {"diff", required_argument, print_diff, false},
    {"merge", required_argument, print_merged, true},
    {"html", required_argument, print_html, true},
    {"lines", required_argument, print_lines, false},
};

#define N_FORMS (sizeof forms / sizeof forms[0])

/* The command line. */
struct request {
    const struct form *form;
    const char *argument; /* of the form */
    const char *event;
    long node_count;
    struct filters filters;
    bool by_cum, is_help;
    char **names;
    size_t n_names;
};

/* ---- The command line ------------------------------------------------------------------------ */

/* What getopt_long_only() returns for each option: of a filter, FILTER and which one it is; of a form, FORM
 * and its row. */
enum { EVENT = 'e', NODE_COUNT = 'n', BY_CUM = 'c', HELP = 'h', FILTER = 256, FORM = FILTER + N_FILTERS };

static const struct option named_options[] = {
    {"event", required_argument, NULL, EVENT},
    {"sample-index", required_argument, NULL, EVENT},
    {"sample_index", required_argument, NULL, EVENT},
    {"n", required_argument, NULL, NODE_COUNT},
    {"nodecount", required_argument, NULL, NODE_COUNT},
    {"focus", required_argument, NULL, FILTER + FILTER_FOCUS},
    {"ignore", required_argument, NULL, FILTER + FILTER_IGNORE},
    {"tagfocus", required_argument, NULL, FILTER + FILTER_TAG_FOCUS},
    {"tagignore", required_argument, NULL, FILTER + FILTER_TAG_IGNORE},
    {"watch", required_argument, NULL, FILTER + FILTER_WATCH},
    {"slowest", required_argument, NULL, FILTER + FILTER_SLOWEST},
    {"cum", no_argument, NULL, BY_CUM},
    {"help", no_argument, NULL, HELP},
};

#define N_NAMED (sizeof named_options / sizeof named_options[0])

static void list_options(struct option options[N_NAMED + N_FORMS + 1])
{
    memcpy(options, named_options, sizeof named_options);
    for (size_t i = 0; i < N_FORMS; i++)
        options[N_NAMED + i] = (struct option){forms[i].name, forms[i].has_argument, NULL, FORM + (int)i};
    options[N_NAMED + N_FORMS] = (struct option){0};
}

static enum status take_form(struct request *request, const struct form *form)
{
    if (request->form != NULL && request->form != form)
        return complain(STATUS_USAGE, "The command report shows one form: --%s or --%s.", request->form->name,
                        form->name);
    request->form = form;
    request->argument = optarg;
    return STATUS_OK;
}

static enum status take_number(long *number, const char *text)
{
    char *end;

    *number = strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0' || *number < 1)
        return complain(STATUS_USAGE, "The number of rows is at least 1, and \"%s\" is no such number.",
                        text);
    return STATUS_OK;
}

static enum status take_report_option(struct request *request, int option, const char *given)
{
    if (option >= FORM)
        return take_form(request, &forms[option - FORM]);
    if (option >= FILTER) {
        if (optarg[0] != '\0')
            request->filters.of[option - FILTER] = optarg;
        return STATUS_OK;
    }
    switch (option) {
    case EVENT:
        request->event = optarg;
        return STATUS_OK;
    case NODE_COUNT:
        return take_number(&request->node_count, optarg);
    case BY_CUM:
        request->by_cum = true;
        return STATUS_OK;
    case HELP:
        request->is_help = true;
        return STATUS_OK;
    case ':':
        return complain(STATUS_USAGE, "%s takes an argument. Try 'counterpoint report --help'.", given);
    default:
        return complain(STATUS_USAGE,
                        "The command report does not know %s. Try 'counterpoint report --help'.", given);
    }
}

static enum status parse_command_line(struct request *request, int argc, char **argv)
{
    struct option options[N_NAMED + N_FORMS + 1];
    enum status status = STATUS_OK;

    list_options(options);
    opterr = 0;
    for (int option; status == STATUS_OK && !request->is_help &&
                     (option = getopt_long_only(argc, argv, ":", options, NULL)) != -1;)
        status = take_report_option(request, option, argv[optind - 1]);
    request->names = argv + optind;
    request->n_names = (size_t)(argc - optind);
    if (request->form == NULL)
        request->form = &forms[0];
    return status;
}

static enum status check_filters(const struct request *request)
{
    enum filter first;

    if (request->filters.of[FILTER_SLOWEST] != NULL && request->filters.of[FILTER_WATCH] == NULL)
        return complain(STATUS_USAGE, "--slowest is about the rounds of a watch: give --watch NAME, too.");
    if (!request->form->has_all_samples || !filters_any(&request->filters, &first))
        return STATUS_OK;
    return complain(STATUS_USAGE, "--%s writes all samples, and cannot choose some: leave --%s out.",
                    request->form->name, filter_name(first));
}

/* ---- The command ----------------------------------------------------------------------------- */

static enum status refuse_type(const struct profile *profile, const char *wanted)
{
    complain(STATUS_USAGE, "The profile has no values named \"%s\". It has:", wanted);
    for (size_t i = 0; i < profile->n_types; i++)
        fprintf(stderr, "  %s (%s)\n", profile->types[i].name, profile->types[i].unit);
    return STATUS_USAGE;
}

static enum status refuse_empty(const struct view *view)
{
    const char *threads = profile_fact(view->profile, "threads");

    if (threads != NULL && strtol(threads, NULL, 10) == 0)
        return complain(STATUS_NO,
                        "The profile has no samples: no thread was sampled. Only threads that have "
                        "called cp_m_attach() are.");
    if (profile_is_of_waits(view->profile))
        return complain(STATUS_NO,
                        "The profile has no samples: nothing has waited, as far as its period shows. "
                        "Let the program run for longer, or take a smaller period.");
    return complain(STATUS_NO, "The profile has no samples. Let the program use more CPU time while it is "
                               "profiled, take a smaller period, or try the event timer.");
}

/* Prints the form to memory first, so that a form that fails prints nothing. */
static enum status print_view(const struct form *form, struct view *view)
{
    struct terminal terminal = terminal_of_stdout();
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    enum status status;
    bool is_complete;

    if (out == NULL)
        return complain(STATUS_FAILURE, "There is not enough memory for the report.");
    view->width = terminal.width;
    view->has_colours = terminal.has_colours;
    status = form->print(view, out);
    is_complete = ferror(out) == 0;
    if (fclose(out) != 0 || !is_complete)
        status = complain(STATUS_FAILURE, "There is not enough memory for the report.");
    else
        output_text(&terminal, text, size);
    free(text);
    return status;
}

static enum status show_profile(const struct request *request, struct profile *profile, struct view *view)
{
    enum status status;

    if (!profile_find_type(profile, request->event, &view->type))
        return refuse_type(profile, request->event);
    if (profile->n_samples == 0)
        return refuse_empty(view);
    view->total = profile_total(profile, view->type);
    status = filters_apply(&request->filters, profile);
    return status == STATUS_OK ? print_view(request->form, view) : status;
}

static enum status run_report(const struct request *request)
{
    struct source *sources = calloc(request->n_names, sizeof *sources);
    struct view view = {.argument = request->argument,
                        .node_count = request->node_count,
                        .filters = request->filters,
                        .by_cum = request->by_cum,
                        .sources = sources,
                        .n_sources = request->n_names};
    struct profile *profile = NULL;
    enum status status;

    if (sources == NULL)
        return complain(STATUS_FAILURE, "There is not enough memory for the report.");
    status = sources_read(sources, request->names, request->n_names);
    if (status == STATUS_OK) {
        status = sources_parse(sources, request->n_names, &profile);
        view.profile = profile;
        if (status == STATUS_OK)
            status = show_profile(request, profile, &view);
        profile_free(profile);
        sources_free(sources, request->n_names);
    }
    free(sources);
    return status;
}

enum status command_report(int argc, char **argv)
{
    struct request request = {.node_count = -1};
    enum status status = parse_command_line(&request, argc, argv);

    if (status != STATUS_OK)
        return status;
    if (request.is_help) {
        fputs(help, stdout);
        return STATUS_OK;
    }
    if (request.n_names == 0)
        return complain(STATUS_USAGE, "The command report takes the file of a profile, or its URL: "
                                      "counterpoint report cpu.pb.gz.");
    status = check_filters(&request);
    return status == STATUS_OK ? run_report(&request) : status;
}
