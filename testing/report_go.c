/*
 * The report in the form of "go test": with -v, everything as it happens; else only failures. With -json,
 * the same lines become events, as "go tool test2json" makes them.
 */
#include "report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

static const struct cp__options *options;
static const struct cp__node *shown; /* the test that the last lines belong to */
static bool has_header;
static bool is_in_line;       /* the last line is not finished */
static bool is_in_log;        /* the last log is not finished */
static char unfinished[4096]; /* with -json: the line that is not finished */
static size_t unfinished_length;

/* ---- Lines and actions ----------------------------------------------------------------------- */

/* Emits the first size bytes of the unfinished line as an event. */
static void emit_unfinished(const char *test, size_t size)
{
    cp__report_json("output", test, -1, unfinished, size);
    unfinished_length -= size;
    memmove(unfinished, unfinished + size, unfinished_length);
}

/* Adds to the unfinished line. Each event has a whole line, so a part of a line waits for its end, or until
 * the buffer is full. */
static void add_to_line(const char *test, const char *part, size_t n)
{
    while (n > 0) {
        size_t room = sizeof(unfinished) - unfinished_length, taken = n < room ? n : room;
        memcpy(unfinished + unfinished_length, part, taken);
        unfinished_length += taken;
        part += taken;
        n -= taken;
        if (unfinished[unfinished_length - 1] == '\n')
            emit_unfinished(test, unfinished_length);
        else if (unfinished_length == sizeof(unfinished))
            emit_unfinished(test, cp__report_json_whole(unfinished, unfinished_length));
    }
}

/* Writes text as it is, or as events. */
static void write_text(const char *test, const char *text)
{
    size_t length = strlen(text);
    if (length > 0)
        is_in_line = text[length - 1] != '\n';
    if (!options->is_json)
        fputs(text, stdout);
    while (options->is_json && *text) {
        size_t n = strcspn(text, "\n");
        n += text[n] == '\n';
        add_to_line(test, text, n);
        text += n;
    }
}

/* Finishes the last line if a test has left it unfinished. */
static void end_line(void)
{
    if (is_in_line)
        write_text(shown ? shown->name : NULL, "\n");
    is_in_log = false;
}

/* Writes text that begins on a line of its own, even if a test has left a line unfinished. */
static void emit(const char *test, const char *text)
{
    if (*text)
        end_line();
    write_text(test, text);
}

/* With -json, emits an event without output. */
static void act(const char *test, const char *action, double seconds)
{
    end_line();
    if (options->is_json)
        cp__report_json(action, test, seconds, NULL, 0);
}

static void emitf(const char *test, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void emitf(const char *test, const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        abort();
    va_end(args);
    emit(test, text);
    free(text);
}

/* Writes the bytes from "from" to before "end" of what the test logged, each line indented by the test's
 * depth. */
static void emit_log(const struct cp__node *node, size_t from, size_t end)
{
    char *log = cp__text_copy(&node->log, from, end);
    for (const char *line = log; *line;) {
        size_t n = strcspn(line, "\n");
        emitf(node->name, "%*s%.*s\n", n ? 4 * (int)node->depth : 0, "", (int)n, line);
        line += n + (line[n] == '\n');
    }
    free(log);
}

static void emit_all(const char *test, const struct cp__text *text)
{
    char *all = cp__text_copy(text, 0, text->size);
    emit(test, all);
    free(all);
}

/* ---- While a test runs ----------------------------------------------------------------------- */

/* Returns the name of the processor; NULL if the kernel does not tell, as on arm64. */
static const char *processor(void)
{
    static char line[200];
    FILE *file = fopen("/proc/cpuinfo", "re");
    const char *name = NULL;
    while (file && !name && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "model name", strlen("model name")) == 0 && strchr(line, ':'))
            name = strchr(line, ':') + 2;
    }
    if (file)
        fclose(file);
    return name;
}

/* Prints the lines that precede the first benchmark. Tools such as benchstat read them. */
static void show_header(void)
{
    struct utsname system;
    uname(&system);
    const char *arch = strcmp(system.machine, "x86_64") == 0    ? "amd64"
                       : strcmp(system.machine, "aarch64") == 0 ? "arm64"
                                                                : system.machine;
    const char *name = processor();
    emitf(NULL, "goos: linux\ngoarch: %s\npkg: %s\n", arch, program_invocation_short_name);
    if (name)
        emitf(NULL, "cpu: %s\n", name);
    has_header = true;
}

static void show_run(const struct cp__node *node)
{
    if (cp__node_is_benchmark(node) && !has_header)
        show_header();
    if (options->is_verbose) {
        act(node->name, "run", -1);
        emitf(node->name, "=== RUN   %s\n", node->name);
    }
    shown = node;
}

/* With -v, says that the next lines belong to another test than the lines before. */
static void switch_to(const struct cp__node *node)
{
    if (options->is_verbose && shown != node) {
        act(node->name, "cont", -1);
        emitf(node->name, "=== CONT  %s\n", node->name);
    }
    shown = node;
}

static void show_log(const struct cp__node *node, const char *text)
{
    if (!options->is_verbose || cp__node_is_benchmark(node))
        return;
    switch_to(node);
    /* A long text arrives in several events, which belong to the same line or lines. */
    (is_in_log ? write_text : emit)(node->name, text);
    is_in_log = is_in_line;
}

static void show_printed(const struct cp__node *node, const char *text)
{
    if (!options->is_verbose)
        return;
    if (node)
        switch_to(node);
    write_text(node ? node->name : NULL, text);
}

static void show_go_result(const struct cp__node *node, const char *text)
{
    switch_to(node);
    emitf(node->name, "%-24s\t%s\n", node->name, text);
}

/* ---- When it has ended ----------------------------------------------------------------------- */

/* Shows a benchmark that did not pass, or that has logged something. */
static void show_benchmark(const struct cp__node *node)
{
    static const char *const words[] = {
        [CP__PASSED] = "BENCH", [CP__FAILED] = "FAIL", [CP__SKIPPED] = "SKIP"};
    static const char *const actions[] = {
        [CP__PASSED] = "bench", [CP__FAILED] = "fail", [CP__SKIPPED] = "skip"};
    if (node->outcome != CP__PASSED || node->log.size > 0) {
        emitf(node->name, "--- %s: %s\n", words[node->outcome], node->name);
        emit_all(node->name, &node->log);
        act(node->name, actions[node->outcome], -1);
    }
}

static void show_benchmarks(const struct cp__node *node)
{
    for (; node; node = node->next) {
        show_benchmarks(node->first);
        show_benchmark(node);
    }
}

/* Shows the end of a test and its subtests. A test's log is shown where its parts were logged: before,
 * between and after the subtests. With -v the log has already been shown. */
static void show_test(const struct cp__node *node)
{
    static const char *const words[] = {[CP__PASSED] = "PASS", [CP__FAILED] = "FAIL", [CP__SKIPPED] = "SKIP"};
    static const char *const actions[] = {
        [CP__PASSED] = "pass", [CP__FAILED] = "fail", [CP__SKIPPED] = "skip"};
    bool is_failed = node->outcome == CP__FAILED, has_log = is_failed && !options->is_verbose;
    size_t shown_log = 0;
    if (is_failed || options->is_verbose)
        emitf(node->name, "%*s--- %s: %s (%.2fs)\n", 4 * (int)node->depth, "", words[node->outcome],
              node->name, node->seconds);
    for (const struct cp__node *sub = node->first; sub; sub = sub->next) {
        if (has_log)
            emit_log(node, shown_log, sub->log_before);
        shown_log = sub->log_before;
        show_test(sub);
    }
    if (has_log)
        emit_log(node, shown_log, node->log.size);
    act(node->name, actions[node->outcome], node->seconds);
}

static void show_go_end(const struct cp__node *node, const struct cp__text *printed)
{
    if (!options->is_verbose && node->outcome == CP__FAILED)
        emit_all(node->name, printed);
    (cp__node_is_benchmark(node) ? show_benchmarks : show_test)(node);
    shown = NULL;
    fflush(stdout);
}

static void show_go_note(const char *line)
{
    emit(NULL, line);
}

static void finish_go(bool is_passed, double seconds)
{
    emitf(NULL, "%s\n", is_passed ? "PASS" : "FAIL");
    emitf(NULL, "%s\t%s\t%.3fs\n", is_passed ? "ok  " : "FAIL", program_invocation_short_name, seconds);
    act(NULL, is_passed ? "pass" : "fail", seconds);
    fflush(stdout);
}

const struct cp__report_form *cp__report_go(const struct cp__options *the_options)
{
    static const struct cp__report_form form = {
        .run = show_run,
        .log = show_log,
        .printed = show_printed,
        .result = show_go_result,
        .end = show_go_end,
        .note = show_go_note,
        .finish = finish_go,
    };
    options = the_options;
    return &form;
}
