/*
 * Events of a PMU by its terms, "cpu/event=0xd1,umask=0x20/u". The kernel describes each PMU in a directory
 * with the PMU's name: the file "type" contains its number; "format/TERM" says which bits of perf_event_attr
 * the term's value goes to, such as "config:0-7,32-35"; "events/NAME" contains the terms for which the name
 * stands.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"
#include "runtime/base/fail.h"

const char cp__pmus[] = "/sys/bus/event_source/devices";

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
#define WORDS 3 /* config, config1, config2 */
#define NAME_SIZE 64
#define TEXT_SIZE 512

struct pmu {
    const char *directory; /* the directory that contains the PMUs */
    char name[NAME_SIZE];
    uint32_t type;
};

struct term {
    char name[NAME_SIZE];
    bool has_value;
    bool is_open; /* "=?", in an events file: the user of the event must give the value */
    uint64_t value;
};

/* ---- Files ----------------------------------------------------------------------------------- */

/* Reads the first line of a PMU's file, FOLDER/NAME or NAME. Returns false if there is none. */
static bool read_text(const struct pmu *pmu, const char *folder, const char *name, char text[TEXT_SIZE])
{
    char path[4 * NAME_SIZE + TEXT_SIZE];
    bool is_read;
    FILE *file;

    snprintf(path, sizeof path, "%s/%s/%s%s%s", pmu->directory, pmu->name, folder, *folder ? "/" : "", name);
    file = fopen(path, "re");
    if (file == NULL)
        return false;
    is_read = fgets(text, TEXT_SIZE, file) != NULL;
    fclose(file);
    if (is_read)
        text[strcspn(text, "\n")] = '\0';
    return is_read;
}

/* Lists what a directory contains, with commas, for messages. Names that do not fit are left out. */
static void list_names(const char *path, char *list, size_t size)
{
    DIR *directory = opendir(path);
    const struct dirent *entry;
    size_t used = 0;

    snprintf(list, size, "nothing");
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        size_t n = strlen(entry->d_name);

        if (entry->d_name[0] == '.' || strchr(entry->d_name, '.') != NULL || used + n + 3 > size)
            continue;
        used += (size_t)snprintf(list + used, size - used, "%s%s", used > 0 ? ", " : "", entry->d_name);
    }
    if (directory != NULL)
        closedir(directory);
}

/* ---- Terms ----------------------------------------------------------------------------------- */

/* Reads one term, and moves *text past the term and its comma. */
static bool take_term(const char **text, struct term *term)
{
    size_t n = strspn(*text, LETTERS);
    char *end;

    if (n == 0 || n >= NAME_SIZE || **text == '.')
        return false;
    *term = (struct term){.value = 1, .has_value = (*text)[n] == '='};
    snprintf(term->name, sizeof term->name, "%.*s", (int)n, *text);
    *text += n + term->has_value;
    if (term->has_value && (term->is_open = **text == '?')) {
        ++*text;
    } else if (term->has_value) {
        if (**text < '0' || **text > '9')
            return false;
        errno = 0;
        term->value = strtoull(*text, &end, (*text)[0] == '0' && ((*text)[1] | ' ') == 'x' ? 16 : 10);
        if (errno != 0)
            return false;
        *text = end;
    }
    if (**text == ',')
        return *++*text != '\0';
    return **text == '\0';
}

/* Reads which bits a term goes to; *word is 0 for config, 1 for config1, and so on. */
static bool read_format(const struct pmu *pmu, const char *term, int *word, uint64_t *mask)
{
    char text[TEXT_SIZE];
    const char *at = text + strlen("config");
    char *end;

    if (!read_text(pmu, "format", term, text) || strncmp(text, "config", strlen("config")) != 0)
        return false;
    *word = *at >= '1' && *at <= '9' ? *at++ - '0' : 0;
    for (*mask = 0; *at == ':' || *at == ','; at = end) {
        unsigned long low = strtoul(at + 1, &end, 10);
        unsigned long high = *end == '-' ? strtoul(end + 1, &end, 10) : low;

        if (low > high || high > 63)
            return false;
        *mask |= (UINT64_MAX >> (63 - (high - low))) << low;
    }
    return *at == '\0' && *mask != 0;
}

/* Puts the bits of value, lowest first, where mask has a bit. Returns false if value has more bits than
 * mask. */
static bool spread(uint64_t value, uint64_t mask, uint64_t *bits)
{
    for (*bits = 0; mask != 0; mask &= mask - 1, value >>= 1)
        *bits |= (value & 1) != 0 ? mask & -mask : 0;
    return value == 0;
}

/* Returns the member that a number names; NULL if the encoding has no such member. */
static uint64_t *word_of(struct cp_event_encoding *encoding, int word)
{
    uint64_t *const words[WORDS] = {&encoding->config, &encoding->config1, &encoding->config2};

    return word < WORDS ? words[word] : NULL;
}

/* Finds the bits of a term: of one that every PMU has, or of one that the PMU describes. Returns false if
 * there is no such term. */
static bool find_bits(const struct pmu *pmu, const struct term *term, int *word, uint64_t *mask)
{
    static const char *const whole[] = {"config", "config1", "config2", "config3"};

    *mask = UINT64_MAX;
    for (*word = 0; *word <= WORDS; ++*word) {
        if (term->has_value && strcmp(term->name, whole[*word]) == 0)
            return true;
    }
    return read_format(pmu, term->name, word, mask);
}

/* Returns whether a term is one of perf's options, which say how to sample, and not what. */
static bool is_option(const char *name)
{
    static const char *const options[] = {
        "name",         "period",    "freq",       "branch_type",     "time",       "call-graph",
        "stack-size",   "max-stack", "nr",         "inherit",         "no-inherit", "overwrite",
        "no-overwrite", "percore",   "aux-output", "aux-sample-size", "metric-id",  "driver-config"};

    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        if (strcmp(name, options[i]) == 0)
            return true;
    }
    return false;
}

/* Explains why a term is wrong. */
static int refuse_term(const struct pmu *pmu, const struct term *term, struct cp_error *err)
{
    char path[TEXT_SIZE + NAME_SIZE];
    char list[200];

    if (is_option(term->name))
        return cp__error(err, -EINVAL,
                         "The term \"%s\" of %s says how to sample, not what, and has no meaning here. "
                         "Remove the term; the period is given beside the event's name.",
                         term->name, pmu->name);
    snprintf(path, sizeof path, "%s/%s/%s", pmu->directory, pmu->name, term->has_value ? "format" : "events");
    list_names(path, list, sizeof list);
    return cp__error(
        err, -ENOENT,
        "The PMU %s has no %s \"%s\". It has %s; every PMU has config=N, config1=N, config2=N and "
        "rHEX.",
        pmu->name, term->has_value ? "term" : "event", term->name, list);
}

/* Reads "rHEX", which means config=0xHEX. */
static bool is_raw(const struct term *term, uint64_t *value)
{
    size_t n = strspn(term->name + 1, "0123456789abcdefABCDEF");

    if (term->has_value || term->name[0] != 'r' || n == 0 || n > 16 || term->name[1 + n] != '\0')
        return false;
    *value = strtoull(term->name + 1, NULL, 16);
    return true;
}

/* Sets the bits of a term in the encoding. */
static int apply_term(const struct pmu *pmu, const struct term *term, struct cp_event_encoding *encoding,
                      struct cp_error *err)
{
    uint64_t mask, bits, all;
    int word;

    if (!find_bits(pmu, term, &word, &mask)) {
        if (is_raw(term, &encoding->config))
            return 0;
        return refuse_term(pmu, term, err);
    }
    if (word_of(encoding, word) == NULL)
        return cp__error(
            err, -EINVAL,
            "The term \"%s\" of %s goes to perf_event_attr.config%d, which is not passed on: config, "
            "config1 and config2 are.",
            term->name, pmu->name, word);
    if (!spread(term->value, mask, &bits)) {
        all = UINT64_MAX >> (64 - __builtin_popcountll(mask));
        return cp__error(err, -EINVAL,
                         "The value 0x%" PRIx64 " is too large for the term \"%s\" of %s: 0x%" PRIx64
                         " is the largest.",
                         term->value, term->name, pmu->name, all);
    }
    *word_of(encoding, word) = (*word_of(encoding, word) & ~mask) | bits;
    return 0;
}

/* ---- Events ---------------------------------------------------------------------------------- */

/* Returns whether a text contains a term of this name. */
static bool has_term(const char *text, const char *name)
{
    struct term term;

    while (*text != '\0' && take_term(&text, &term)) {
        if (strcmp(term.name, name) == 0)
            return true;
    }
    return false;
}

/* Reads the terms for which an event's name stands. The name may be the PMU's, or any spelling of a row. */
static bool read_pmu_event(const struct pmu *pmu, const char *name, char text[TEXT_SIZE])
{
    const struct cp__event *row;

    if (read_text(pmu, "events", name, text))
        return true;
    for (size_t i = CP_CPUPROF_HW_CPU_CYCLES; (row = cp__event_row(i)) != NULL; i++) {
        if (row->perf_type == PERF_TYPE_HARDWARE && cp__event_is_called(row, name))
            return read_text(pmu, "events", row->alias == NULL ? row->name : row->alias, text);
    }
    return false;
}

/* Applies the terms of an events file. If the file leaves a term open, the term must be among those that were
 * given. */
static int apply_event(const struct pmu *pmu, const char *name, const char *text, const char *given,
                       struct cp_event_encoding *encoding, struct cp_error *err)
{
    struct term term;
    int result = 0;

    while (result == 0 && *text != '\0') {
        if (!take_term(&text, &term))
            return cp__error(err, -EINVAL,
                             "The kernel describes the event %s/%s/ by \"%.60s\", which cannot be read. Give "
                             "the event's terms instead.",
                             pmu->name, name, text);
        if (!term.is_open)
            result = apply_term(pmu, &term, encoding, err);
        else if (!has_term(given, term.name))
            result = cp__error(err, -EINVAL,
                               "The event %s/%s/ leaves a term open. Give the term a value: %s/%s,%s=N/.",
                               pmu->name, name, pmu->name, name, term.name);
    }
    return result;
}

static int refuse_text(const char *text, struct cp_error *err)
{
    return cp__error(
        err, -EINVAL,
        "The terms in \"%.60s\" cannot be read. Write PMU/TERM[=NUMBER],.../SUFFIX, each term once, "
        "with decimal or 0x numbers: cpu/event=0x3c,umask=0x1/u.",
        text);
}

/* Applies terms. Named events come first, so that the terms beside them change them. */
static int apply_terms(const struct pmu *pmu, const char *terms, struct cp_event_encoding *encoding,
                       struct cp_error *err)
{
    char text[TEXT_SIZE];
    int result = 0;

    for (int pass = 0; pass < 2; pass++) {
        const char *at = terms;
        struct term term;

        while (result == 0 && *at != '\0') {
            bool is_event;

            if (!take_term(&at, &term) || term.is_open || has_term(at, term.name))
                return refuse_text(terms, err);
            is_event = !term.has_value && read_pmu_event(pmu, term.name, text);
            if (is_event && pass == 0)
                result = apply_event(pmu, term.name, text, terms, encoding, err);
            else if (!is_event && pass == 1)
                result = apply_term(pmu, &term, encoding, err);
        }
    }
    return result;
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* Finds the PMU's own name for an encoding, the first one in alphabetical order. Returns false if the PMU has
 * none. */
static bool find_event(const struct pmu *pmu, const struct cp_event_encoding *encoding, char name[NAME_SIZE])
{
    char path[TEXT_SIZE + NAME_SIZE];
    const struct dirent *entry;
    DIR *directory;
    bool found = false;

    snprintf(path, sizeof path, "%s/%s/events", pmu->directory, pmu->name);
    directory = opendir(path);
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        struct cp_event_encoding other = {.type = pmu->type};

        if (strchr(entry->d_name, '.') == NULL && strlen(entry->d_name) < NAME_SIZE &&
            (!found || strcmp(entry->d_name, name) < 0) &&
            apply_terms(pmu, entry->d_name, &other, NULL) == 0 &&
            memcmp(&other, encoding, sizeof other) == 0) {
            snprintf(name, NAME_SIZE, "%s", entry->d_name);
            found = true;
        }
    }
    if (directory != NULL)
        closedir(directory);
    return found;
}

/* Prints an encoding as the terms config, config1 and config2, without those that are 0. */
static bool print_numbers(const struct pmu *pmu, const struct cp_event_encoding *encoding, char *base)
{
    char rest[64] = "";
    size_t n = 0;

    if (encoding->config1 != 0)
        n = (size_t)snprintf(rest, sizeof rest, ",config1=0x%" PRIx64, encoding->config1);
    if (encoding->config2 != 0)
        snprintf(rest + n, sizeof rest - n, ",config2=0x%" PRIx64, encoding->config2);
    return cp__event_print(base, "%s/config=0x%" PRIx64 "%s/", pmu->name, encoding->config, rest);
}

/* Chooses one name for all ways to write an encoding; *mark is the text between the name and a suffix. */
static bool name_encoding(const struct pmu *pmu, const struct cp_event_encoding *encoding,
                          struct cp_event_spec *spec, char *base, const char **mark)
{
    char name[NAME_SIZE];

    *mark = ":";
    if (encoding->config1 == 0 && encoding->config2 == 0 &&
        cp__event_take_encoding(spec, encoding->type, encoding->config))
        return cp__event_print(base, "%s", spec->name);
    if (find_event(pmu, encoding, name)) {
        *mark = "";
        cp__event_take_named(spec, encoding);
        if (strstr(name, "miss") != NULL)
            spec->preset_period = 10000;
        return cp__event_print(base, "%s/%s/", pmu->name, name);
    }
    if (encoding->type == PERF_TYPE_RAW && encoding->config1 == 0 && encoding->config2 == 0) {
        cp__event_take_row(spec, CP_CPUPROF_HW_RAW);
        spec->raw_event = encoding->config;
        return cp__event_print(base, "r%" PRIx64, encoding->config);
    }
    *mark = "";
    cp__event_take_named(spec, encoding);
    return print_numbers(pmu, encoding, base);
}

/* Reads the PMU's number. */
static int find_named_pmu(struct pmu *pmu, struct cp_error *err)
{
    char text[TEXT_SIZE];
    char list[200];

    if (read_text(pmu, "", "type", text)) {
        pmu->type = (uint32_t)strtoul(text, NULL, 10);
        if (pmu->type != PERF_TYPE_BREAKPOINT)
            return 0;
        return cp__error(err, -EINVAL,
                         "The PMU %s takes no terms. Use mem:ADDRESS[/LEN][:rwx] for a watchpoint.",
                         pmu->name);
    }
    list_names(pmu->directory, list, sizeof list);
    return cp__error(err, -ENOENT, "This machine has no PMU named \"%s\". It has %s.", pmu->name, list);
}

int cp__event_parse_pmu(const char *directory, const char *text, struct cp_event_spec *spec,
                        struct cp_error *err)
{
    struct pmu pmu = {.directory = directory};
    struct cp_event_encoding encoding = {.type = 0};
    char terms[TEXT_SIZE], base[sizeof spec->name];
    size_t n = strcspn(text, "/");
    const char *end = text[n] == '/' ? strchr(text + n + 1, '/') : NULL;
    const char *mark;
    int result;

    if (n == 0 || n >= NAME_SIZE || strspn(text, LETTERS) != n || text[0] == '.' || end == NULL ||
        (size_t)(end - text) >= sizeof terms)
        return refuse_text(text, err);
    snprintf(pmu.name, sizeof pmu.name, "%.*s", (int)n, text);
    snprintf(terms, sizeof terms, "%.*s", (int)(end - text - (long)n - 1), text + n + 1);
    result = find_named_pmu(&pmu, err);
    if (result < 0)
        return result;
    encoding.type = pmu.type;
    result = apply_terms(&pmu, terms, &encoding, err);
    if (result < 0)
        return result;
    if (!name_encoding(&pmu, &encoding, spec, base, &mark))
        return cp__error(err, -ENAMETOOLONG, "The PMU's name %s and its terms are too long.", pmu.name);
    end += end[1] == ':'; /* perf writes no colon before this suffix */
    return cp__event_take_suffix(spec, base, mark, end[1] != '\0' || *end == ':' ? end + 1 : NULL, err);
}
