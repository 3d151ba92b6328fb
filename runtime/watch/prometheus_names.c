/* Names as Prometheus has them, and as its "promtool check metrics" wants them. */
#include <ctype.h>
#include <string.h>

#include "print.h"
#include "text.h"

struct name {
    char *text; /* CP__PROMETHEUS_NAME_MAX bytes */
    size_t size;
};

static void append_to_name(struct name *name, const char *text)
{
    while (*text != '\0' && name->size < CP__PROMETHEUS_NAME_MAX - 1)
        name->text[name->size++] = *text++;
    name->text[name->size] = '\0';
}

static bool is_among(const char *word, const char *const *words)
{
    while (*words != NULL && strcmp(word, *words) != 0)
        words++;
    return *words != NULL;
}

/* Returns the end of the word that begins at text: letters and digits, up to a capital behind a small letter.
 */
static const char *word_end(const char *text)
{
    const char *end = text;

    while (isalnum((unsigned char)*end) &&
           (end == text || !isupper((unsigned char)*end) || isupper((unsigned char)end[-1]) ||
            isdigit((unsigned char)end[-1])))
        end++;
    return end;
}

/* What promtool takes for an abbreviated unit or a type if it is a word of a name. */
static const char *const disliked[] = {"s",       "ms",    "us",        "ns",      "sec",     "b", "kb",
                                       "mb",      "gb",    "tb",        "pb",      "m",       "h", "d",
                                       "counter", "gauge", "histogram", "summary", "untyped", NULL};

/* Appends text in snake case, behind what the name has. A disliked word is joined to the one before. */
static void append_snake(struct name *name, const char *text, bool is_metric)
{
    const size_t begin = name->size;
    char word[CP__PROMETHEUS_NAME_MAX];

    while (*text != '\0') {
        const char *end = word_end(text);
        size_t size = 0;

        for (; text < end && size < sizeof word - 1; text++)
            word[size++] = (char)tolower((unsigned char)*text);
        word[size] = '\0';
        if (size == 0) {
            text++;
            continue;
        }
        text = end;
        if (name->size > begin && !(is_metric && is_among(word, disliked)))
            append_to_name(name, "_");
        else if (name->size == begin && is_metric && is_among(word, disliked))
            append_to_name(name, "event");
        append_to_name(name, word);
    }
}

/* ---- Metrics --------------------------------------------------------------------------------- */

static bool has_ending(const char *text, const char *end)
{
    const size_t size = strlen(text), end_size = strlen(end);

    return size >= end_size && strcmp(text + size - end_size, end) == 0;
}

/* Whether a metric of that name would be taken for another: Prometheus forms names by such ends, and
 * print_prometheus.c has the others. */
static bool is_taken_metric(const char *name)
{
    static const char *const ends[] = {"_total", "_count", "_sum", "_bucket", "_created", "_info"};
    static const char *const taken[] = {"counterpoint_watch_time_seconds", "counterpoint_watch_cpu_seconds",
                                        "counterpoint_watch_rounds_open", NULL};

    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        if (has_ending(name, ends[i]))
            return true;
    }
    return is_among(name, taken);
}

void cp__prometheus_metric(char text[CP__PROMETHEUS_NAME_MAX], const char *quantity)
{
    struct name name = {text, 0};
    size_t begin;

    append_to_name(&name, "counterpoint_watch_");
    begin = name.size;
    if (strcmp(quantity, "time") == 0 || strcmp(quantity, "cpuTime") == 0) {
        append_to_name(&name, *quantity == 't' ? "time_seconds" : "cpu_seconds");
        return;
    }
    append_snake(&name, quantity, true);
    if (name.size == begin)
        append_to_name(&name, "event");
    if (is_taken_metric(text))
        append_to_name(&name, "_value");
}

/* ---- Labels ---------------------------------------------------------------------------------- */

static bool is_other_key(const char *name, char (*names)[CP__PROMETHEUS_NAME_MAX], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

void cp__prometheus_labels(char (*names)[CP__PROMETHEUS_NAME_MAX], char *const *keys, size_t n,
                           const char *const *taken)
{
    char number[32];

    for (size_t i = 0; i < n; i++) {
        struct name name = {names[i], 0};
        size_t size;

        append_to_name(&name, "");
        append_snake(&name, keys[i], false);
        if (names[i][0] == '\0' || is_among(names[i], taken) || isdigit((unsigned char)names[i][0])) {
            name.size = 0;
            append_to_name(&name, "label_");
            append_snake(&name, keys[i], false);
        }
        size = name.size < CP__PROMETHEUS_NAME_MAX - sizeof number ? name.size
                                                                   : CP__PROMETHEUS_NAME_MAX - sizeof number;
        for (unsigned again = 2; is_other_key(names[i], names, i); again++) {
            snprintf(number, sizeof number, "_%u", again);
            name.size = size;
            append_to_name(&name, number);
        }
    }
}

void cp__prometheus_text(FILE *out, const char *text, bool is_value)
{
    size_t left = strlen(text), n;

    for (; left > 0; text += n, left -= n) {
        n = cp__utf8_size(text, left);
        if (n == 0) {
            fprintf(out, "\\\\x%02x", (unsigned char)*text);
            n = 1;
        } else if (*text == '\\' || (is_value && *text == '"')) {
            fprintf(out, "\\%c", *text);
        } else if (*text == '\n') {
            fputs("\\n", out);
        } else {
            fwrite(text, 1, n, out);
        }
    }
}
