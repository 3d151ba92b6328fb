/*
 * perf script prints for each sample, with the fields that are asked for here:
 *
 *     comm   tid  time:   period event:
 *             address symbol (module)
 *             address symbol (module)
 *
 * with an empty line behind each; without callers, all is on one line. A comm and a symbol may have spaces.
 */
#include "perf.h"

#include <ctype.h>
#include <errno.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fetch.h"
#include "pprof/encode.h"
#include "program.h"
#include "runtime/base/table.h"

/* The state while the text is read. Tuples are those of struct cp__encoding; a sample's has the event and the
 * number of its first label before. */
struct converting {
    struct cp__strings strings;
    struct cp__tuples events, modules, functions, locations, samples; /* events, modules: name */
    uint64_t *words;                                                  /* of the sample that is read */
    size_t n_words, words_room;
    struct perf_sum {
        int64_t count, value;
    } * sums; /* of each sample */
    size_t n_sums, sums_room;
    bool has_periods;
    double first, last; /* times, in s */
    regex_t head;
    int error; /* the first one */
};

enum { SAMPLE_EVENT, SAMPLE_THREAD, SAMPLE_N };

/* ---- Tuples ---------------------------------------------------------------------------------- */

static uint64_t perf_string(struct converting *c, const char *text)
{
    uint32_t number = 0;

    if (cp__strings_add(&c->strings, text, &number) < 0)
        c->error = -ENOMEM;
    return number;
}

static uint64_t perf_tuple(struct converting *c, struct cp__tuples *tuples, const uint64_t *words, size_t n)
{
    uint32_t number = 0;

    if (cp__tuples_add(tuples, words, n, &number) < 0)
        c->error = -ENOMEM;
    return number;
}

static void push_word(struct converting *c, uint64_t word)
{
    c->words = grow_array(c->words, c->n_words, &c->words_room, sizeof *c->words);
    c->words[c->n_words++] = word;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

/* Splits "symbol (module)" at the parenthesis before the module, whose name may end in "(deleted)". */
static char *split_module(char *symbol)
{
    size_t length = strlen(symbol);
    char *at;

    if (length == 0 || symbol[length - 1] != ')')
        return NULL;
    symbol[length - 1] = '\0';
    at = strrchr(symbol, '(');
    if (at != NULL && strcmp(at, "(deleted)") == 0) {
        *at = '\0';
        at = strrchr(symbol, '(');
    }
    if (at == NULL || at == symbol || at[-1] != ' ')
        return NULL;
    at[-1] = '\0';
    for (char *end = at + strlen(at); end[-1] == ' ';)
        *--end = '\0';
    return at + 1;
}

static bool is_unknown(const char *name)
{
    return name[0] == '\0' || strcmp(name, "[unknown]") == 0;
}

static uint64_t frame_function(struct converting *c, const char *symbol)
{
    const uint64_t name = perf_string(c, symbol), function[4] = {name, perf_string(c, ""), 0, 0};

    return perf_tuple(c, &c->functions, function, 4);
}

/* Adds the frame "address symbol (module)" to the sample. */
static void add_perf_frame(struct converting *c, char *line)
{
    char *symbol, *module;
    uint64_t location[6] = {0, strtoull(line, &symbol, 16), 0}, file;
    size_t n = 3;

    if (symbol == line || c->n_words == 0)
        return;
    symbol += strspn(symbol, " ");
    module = split_module(symbol);
    if (module != NULL && !is_unknown(module)) {
        file = perf_string(c, module);
        location[0] = perf_tuple(c, &c->modules, &file, 1) + 1;
    }
    if (!is_unknown(symbol)) {
        location[n++] = frame_function(c, symbol);
        location[n++] = 0;
        location[n++] = 0;
    }
    push_word(c, perf_tuple(c, &c->locations, location, n));
    c->words[SAMPLE_N]++;
}

/* Counts the sample that was read, if there is one, with the number of events that it stands for. */
static void end_perf_sample(struct converting *c, int64_t value)
{
    const uint64_t thread = c->n_words > 0 ? c->words[SAMPLE_THREAD] : 0;
    uint64_t number;

    if (c->n_words == 0)
        return;
    push_word(c, perf_string(c, "thread"));
    push_word(c, thread);
    push_word(c, 0);
    push_word(c, 0);
    number = perf_tuple(c, &c->samples, c->words, c->n_words);
    c->sums = grow_array(c->sums, number, &c->sums_room, sizeof *c->sums);
    if (number + 1 == c->samples.n && number == c->n_sums)
        c->sums[c->n_sums++] = (struct perf_sum){0};
    c->sums[number].count++;
    c->sums[number].value += value;
    c->n_words = 0;
}

/* The parts of a sample's first line. */
enum { ALL, COMM, TID, TIME, PERIOD_AND_SPACE, PERIOD, EVENT, REST, N_PARTS };

static const char head_expression[] =
    "^ *(.*[^ ]) +([0-9]+) +([0-9]+[.][0-9]+): +(([0-9]+) +)?([^ ]+): *(.*)$";

static const char *perf_part(char *line, const regmatch_t *part)
{
    if (part->rm_so < 0)
        return "";
    line[part->rm_eo] = '\0';
    return line + part->rm_so;
}

/* Begins a sample with its first line. Returns the number of events that it stands for. */
static int64_t begin_perf_sample(struct converting *c, char *line, const regmatch_t parts[N_PARTS])
{
    struct arena arena = {0};
    double time = strtod(line + parts[TIME].rm_so, NULL);
    char *rest = line + parts[REST].rm_so;
    const char *period = perf_part(line, &parts[PERIOD]);
    int64_t value = period[0] != '\0' ? strtoll(period, NULL, 10) : 1;
    uint64_t event = perf_string(c, perf_part(line, &parts[EVENT]));
    const char *tid = perf_part(line, &parts[TID]);
    const char *thread = arena_print(&arena, "%s/%s", perf_part(line, &parts[COMM]), tid);

    c->has_periods |= period[0] != '\0';
    c->first = c->first == 0 || time < c->first ? time : c->first;
    c->last = time > c->last ? time : c->last;
    push_word(c, perf_tuple(c, &c->events, &event, 1));
    push_word(c, perf_string(c, thread));
    push_word(c, 0);
    if (*rest != '\0')
        add_perf_frame(c, rest);
    arena_free(&arena);
    return value;
}

static void read_perf_text(struct converting *c, char *text)
{
    regmatch_t parts[N_PARTS];
    int64_t value = 0;

    for (char *line = text, *next; *line != '\0' && c->error == 0; line = next) {
        next = line + strcspn(line, "\n");
        if (*next != '\0')
            *next++ = '\0';
        if (line[0] == '\t') {
            add_perf_frame(c, line + 1 + strspn(line + 1, " "));
        } else if (line[0] == '\0') {
            end_perf_sample(c, value);
        } else if (regexec(&c->head, line, N_PARTS, parts, 0) == 0) {
            end_perf_sample(c, value);
            value = begin_perf_sample(c, line, parts);
        }
    }
    end_perf_sample(c, value);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static size_t perf_function(const void *what, size_t i, uint64_t *words)
{
    return cp__tuples_copy(&((const struct converting *)what)->functions, i, 0, words);
}

static size_t perf_location(const void *what, size_t i, uint64_t *words)
{
    return cp__tuples_copy(&((const struct converting *)what)->locations, i, 0, words);
}

static size_t perf_sample(const void *what, size_t i, uint64_t *words)
{
    return cp__tuples_copy(&((const struct converting *)what)->samples, i, SAMPLE_N, words);
}

/* A sample has the values "samples", and those of its own event. */
static const int64_t *perf_values(const void *what, size_t i, int64_t room[CP__MAX_VALUES])
{
    const struct converting *c = what;
    size_t n;
    const uint64_t *words = cp__tuples_get(&c->samples, i, &n);

    if (words[SAMPLE_EVENT] + 1 >= CP__MAX_VALUES)
        return NULL;
    memset(room, 0, CP__MAX_VALUES * sizeof *room);
    room[0] = c->sums[i].count;
    room[words[SAMPLE_EVENT] + 1] = c->sums[i].value;
    return room;
}

static bool is_perf_clock(const char *event)
{
    return strncmp(event, "cpu-clock", 9) == 0 || strncmp(event, "task-clock", 10) == 0;
}

/* Stores name and unit of each value, and of the period. Returns how many values there are. */
static size_t name_perf_types(struct converting *c, uint64_t types[2 * CP__MAX_VALUES + 2])
{
    size_t n = c->events.n < CP__MAX_VALUES - 1 ? c->events.n : CP__MAX_VALUES - 1;
    const uint64_t count = perf_string(c, "count");

    types[0] = perf_string(c, "samples");
    types[1] = count;
    for (size_t i = 0; i < n; i++) {
        uint64_t event = c->events.words[i];
        bool is_time = c->has_periods && is_perf_clock(cp__strings_get(&c->strings, (uint32_t)event));

        types[2 * i + 2] = event;
        types[2 * i + 3] = is_time ? perf_string(c, "nanoseconds") : count;
    }
    types[2 * n + 2] = types[2 * n + 3] = perf_string(c, "");
    return n + 1;
}

/* Returns the name of the event to show first, one that tells where time went if there is one. */
static int64_t default_event(const struct converting *c)
{
    for (size_t i = 0; i < c->events.n; i++) {
        const char *event = cp__strings_get(&c->strings, (uint32_t)c->events.words[i]);

        if (is_perf_clock(event) || strstr(event, "cycles") != NULL)
            return (int64_t)c->events.words[i];
    }
    return c->events.n > 0 ? (int64_t)c->events.words[0] : 0;
}

static bool is_program_file(const char *file)
{
    return file[0] == '/' && strstr(file, ".so") == NULL;
}

/* Describes the modules. Readers take the first mapping of a profile for the program. */
static struct cp__encoded_mapping *list_modules(struct converting *c, struct arena *arena)
{
    struct cp__encoded_mapping *mappings = arena_array(arena, c->modules.n + 1, sizeof *mappings);
    size_t program = 0;

    for (size_t i = 0; i < c->modules.n; i++) {
        mappings[i] = (struct cp__encoded_mapping){
            .id = (uint32_t)i + 1, .file = (uint32_t)c->modules.words[i], .has_functions = true};
        if (!is_program_file(cp__strings_get(&c->strings, mappings[program].file)) &&
            is_program_file(cp__strings_get(&c->strings, mappings[i].file)))
            program = i;
    }
    if (c->modules.n > 0) {
        struct cp__encoded_mapping first = mappings[0];

        mappings[0] = mappings[program];
        mappings[program] = first;
    }
    return mappings;
}

/* Returns 0 if the times are too far apart, as those of a damaged file are. */
static int64_t perf_duration_ns(const struct converting *c)
{
    double ns = (c->last - c->first) * 1e9;

    return ns < 0x1p63 ? (int64_t)ns : 0;
}

static int write_perf_profile(struct converting *c, struct cp_memory *profile)
{
    struct cp_writer writer = cp_writer_memory(profile);
    uint64_t types[2 * CP__MAX_VALUES + 2];
    struct arena arena = {0};
    struct cp__encoding encoding = {
        .what = c,
        .function = perf_function,
        .location = perf_location,
        .sample = perf_sample,
        .values = perf_values,
        .n_functions = c->functions.n,
        .n_locations = c->locations.n,
        .n_samples = c->samples.n,
        .max_words = cp__tuples_longest(
            &c->samples, cp__tuples_longest(&c->locations, cp__tuples_longest(&c->functions, 1))),
        .mappings = list_modules(c, &arena),
        .n_mappings = c->modules.n,
        .n_types = name_perf_types(c, types),
        .types = types,
        .strings = &c->strings,
        .duration_ns = perf_duration_ns(c),
        .default_type = default_event(c),
    };
    int result = c->error != 0 ? c->error : cp__encode(&encoding, &writer);

    arena_free(&arena);
    return result;
}

static void free_converting(struct converting *c)
{
    cp__strings_free(&c->strings);
    cp__tuples_free(&c->events);
    cp__tuples_free(&c->modules);
    cp__tuples_free(&c->functions);
    cp__tuples_free(&c->locations);
    cp__tuples_free(&c->samples);
    free(c->words);
    free(c->sums);
    regfree(&c->head);
}

int perf_text_to_pprof(char *text, struct cp_memory *profile)
{
    struct converting c = {0};
    int result;

    *profile = (struct cp_memory){0};
    if (regcomp(&c.head, head_expression, REG_EXTENDED) != 0)
        return -ENOMEM;
    perf_string(&c, "");
    read_perf_text(&c, text);
    result = write_perf_profile(&c, profile);
    free_converting(&c);
    return result;
}

/* ---- Asking perf ----------------------------------------------------------------------------- */

bool is_perf_file(const struct source *source)
{
    return source->size >= 8 && memcmp(source->data, "PERFILE2", 8) == 0;
}

/* A fixed period is not in the samples: perf refuses to print it then, and each sample counts as 1. */
static int run_perf_script(const char *file, struct printed *printed)
{
    static const char *const fields[] = {"comm,tid,time,period,event,ip,sym,dso",
                                         "comm,tid,time,event,ip,sym,dso"};
    int status = PROGRAM_IS_ABSENT;

    for (size_t i = 0; i < 2; i++) {
        const char *const arguments[] = {"perf", "script", "--no-inline", "-F", fields[i], "-i", file, NULL};

        status = program_run(arguments, printed);
        if (status <= 0 || i == 1 || strstr(printed->err, "PERIOD") == NULL)
            return status;
        program_free(printed);
    }
    return status;
}

static enum status take_perf_text(struct source *source, char *text)
{
    struct cp_memory profile;
    int result = perf_text_to_pprof(text, &profile);

    if (result < 0) {
        free(profile.data);
        return complain(STATUS_FAILURE, "%s cannot be read: %s.", source->name, strerror(-result));
    }
    free(source->data);
    source->data = profile.data;
    source->size = profile.size;
    return STATUS_OK;
}

enum status perf_to_pprof(struct source *source)
{
    struct printed printed;
    enum status result;
    int status;

    if (strcmp(source->name, "-") == 0 || is_url(source->name))
        return complain(STATUS_FAILURE,
                        "%s is a file of perf record, which perf script reads from a file only: save it, and "
                        "name the file.",
                        source->name);
    status = run_perf_script(source->name, &printed);
    if (status == PROGRAM_IS_ABSENT)
        result = complain(STATUS_FAILURE,
                          "%s is a file of perf record, which perf script reads, and perf is not here. Its "
                          "Debian package is linux-perf.",
                          source->name);
    else if (status != 0)
        result =
            complain(STATUS_FAILURE, "perf script cannot read %s: %s.", source->name, last_line(printed.err));
    else
        result = take_perf_text(source, printed.out);
    program_free(&printed);
    return result;
}
