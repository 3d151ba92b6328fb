/* The report in the Test Anything Protocol, version 13, with indented subtests, as "prove" reads it. */
#include "report.h"

#include <stdlib.h>
#include <string.h>

static unsigned tests;
static bool is_timed;

/* Prints each line of the text as a comment. */
static void print_comment(const char *text, unsigned depth)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        printf("%*s# %.*s\n", 4 * (int)depth, "", (int)n, text);
        text += n + (text[n] == '\n');
    }
}

static void print_tap_lines(const struct cp__text *text, unsigned depth)
{
    char *all = cp__text_copy(text, 0, text->size);
    print_comment(all, depth);
    free(all);
}

/* Prints a name with escapes, because "#" would begin a directive. */
static void print_tap_name(const char *name)
{
    for (; *name; name++) {
        if (*name == '#' || *name == '\\')
            putchar('\\');
        putchar(*name);
    }
}

/* Prints the directive of a skipped test. The reason is the last line that was logged, without file and
 * line. */
static void print_directive(const struct cp__node *node)
{
    if (node->outcome != CP__SKIPPED)
        return;
    char *log = cp__text_copy(&node->log, 0, node->log.size);
    for (size_t n = strlen(log); n > 0 && log[n - 1] == '\n';)
        log[--n] = 0;
    const char *newline = strrchr(log, '\n'), *line = newline ? newline + 1 : log;
    const char *reason = strstr(line, ": ");
    printf(" # SKIP %s", reason ? reason + 2 : line);
    free(log);
}

/* Prints a test after its subtests. */
static void print_node(const struct cp__node *node, unsigned number)
{
    unsigned subtests = 0;
    for (const struct cp__node *sub = node->first; sub; sub = sub->next) {
        if (subtests == 0)
            printf("%*s# Subtest: %s\n", 4 * (int)(node->depth + 1), "", node->name);
        print_node(sub, ++subtests);
    }
    if (subtests > 0)
        printf("%*s1..%u\n", 4 * (int)(node->depth + 1), "", subtests);
    printf("%*s%s %u - ", 4 * (int)node->depth, "", node->outcome == CP__FAILED ? "not ok" : "ok", number);
    print_tap_name(node->name);
    print_directive(node);
    if (is_timed && node->outcome != CP__SKIPPED)
        printf(" # time=%.2fs", node->seconds);
    putchar('\n');
    if (node->outcome == CP__FAILED)
        print_tap_lines(&node->log, node->depth);
}

static void begin_tap(void)
{
    puts("TAP version 13");
}

static void show_tap_result(const struct cp__node *node, const char *text)
{
    printf("# %s\t%s\n", node->name, text);
}

static void show_tap_end(const struct cp__node *node, const struct cp__text *printed)
{
    print_node(node, ++tests);
    if (node->outcome == CP__FAILED)
        print_tap_lines(printed, 0);
    fflush(stdout);
}

static void show_tap_note(const char *line)
{
    print_comment(line, 0);
}

static void finish_tap(bool is_passed, double seconds)
{
    (void)is_passed, (void)seconds;
    printf("1..%u\n", tests);
    fflush(stdout);
}

const struct cp__report_form *cp__report_tap(const struct cp__options *options)
{
    static const struct cp__report_form form = {.begin = begin_tap,
                                                .result = show_tap_result,
                                                .end = show_tap_end,
                                                .note = show_tap_note,
                                                .finish = finish_tap};
    is_timed = options->is_verbose;
    return &form;
}
