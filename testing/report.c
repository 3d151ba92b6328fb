/* See report.h. Keeps the tree of the test that runs, and tells the form what happens. */
#include "report.h"

#include "runtime/base/clock.h"
#include "spread.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of output, and of each log, that are kept until the test has ended: as many from the beginning, and
 * as many from the end. */
enum { KEPT_PART = 256 << 10 };

static const struct cp__report_form *form;
static struct cp__node *top;                          /* the top-level test that runs; NULL: none */
static struct cp__node *open;                         /* the innermost test that runs */
static struct cp__text printed = {.part = KEPT_PART}; /* output of the top-level test */
static bool has_failed, has_last_failed;
static double started;
static unsigned cpus;

bool cp__node_is_benchmark(const struct cp__node *node)
{
    return strncmp(node->name, "Benchmark", strlen("Benchmark")) == 0;
}

/* ---- The tree -------------------------------------------------------------------------------- */

/* Returns the name that reports show; the caller frees it. A benchmark's name ends in the number of Ms,
 * unless that is 1. */
static char *shown_name(const char *name)
{
    char *shown;
    bool has_cpus = strncmp(name, "Benchmark", strlen("Benchmark")) == 0 && cpus != 1;
    if (asprintf(&shown, has_cpus ? "%s-%u" : "%s", name, cpus) < 0)
        abort();
    return shown;
}

/* Adds a test that begins, below the innermost test that runs. */
static void open_node(const char *name)
{
    struct cp__node *node = calloc(1, sizeof(*node));
    if (!node)
        abort();
    node->name = shown_name(name);
    node->parent = open;
    node->log.part = KEPT_PART;
    if (!open)
        top = node;
    else if (open->last)
        open->last->next = node;
    else
        open->first = node;
    if (open) {
        open->last = node;
        node->depth = open->depth + 1;
        node->log_before = open->log.size;
    }
    open = node;
}

/* Returns the test of that name among those that run, or else the innermost one. */
static struct cp__node *find_node(const char *name)
{
    char *shown = shown_name(name);
    struct cp__node *node = open;
    while (node && strcmp(node->name, shown) != 0)
        node = node->parent;
    free(shown);
    return node ? node : open;
}

static void free_tree(struct cp__node *node)
{
    while (node) {
        struct cp__node *next = node->next;
        free_tree(node->first);
        free(node->name);
        cp__text_free(&node->log);
        free(node);
        node = next;
    }
}

/* Ends a test. At the end of a top-level test, the form shows the tree, which is then freed. */
static void close_node(struct cp__node *node, const struct cp__event *event)
{
    node->is_ended = true;
    node->outcome = event->outcome;
    node->seconds = event->number;
    open = node->parent;
    if (open && node->outcome == CP__PASSED && !cp__node_is_benchmark(node))
        cp__text_free(&node->log);
    if (open) {
        node->log_before = open->log.size;
        return;
    }
    has_last_failed = node->outcome == CP__FAILED;
    has_failed |= has_last_failed;
    form->end(node, &printed);
    free_tree(top);
    top = NULL;
    cp__text_free(&printed);
}

/* ---- What the runner calls ------------------------------------------------------------------- */

void cp__report_begin(const struct cp__options *options)
{
    form = options->is_tap ? cp__report_tap(options) : cp__report_go(options);
    started = cp__clock_s();
    if (form->begin)
        form->begin();
}

void cp__report_cpu(unsigned cpu)
{
    cpus = cpu;
}

static void add_log(const struct cp__event *event)
{
    struct cp__node *node = find_node(event->name);
    if (!node)
        return;
    cp__text_add(&node->log, event->text);
    if (form->log)
        form->log(node, event->text);
}

void cp__report_event(const struct cp__event *event)
{
    switch (event->kind) {
    case CP__EVENT_RUN:
        open_node(event->name);
        if (form->run)
            form->run(open);
        break;
    case CP__EVENT_LOG:
        add_log(event);
        break;
    case CP__EVENT_PRINTED:
        cp__text_add(&printed, event->text);
        if (form->printed)
            form->printed(open, event->text);
        break;
    case CP__EVENT_RESULT:
        if (open)
            form->result(find_node(event->name), event->text);
        if (open && event->number != 0)
            cp__spread_add(find_node(event->name)->name, event->number);
        break;
    case CP__EVENT_END:
        if (open)
            close_node(find_node(event->name), event);
        break;
    default:
        break;
    }
}

const char *cp__report_open_test(void)
{
    return open ? open->name : NULL;
}

bool cp__report_last_failed(void)
{
    return has_last_failed;
}

bool cp__report_has_failed(void)
{
    return has_failed;
}

void cp__report_note(const char *format, ...)
{
    char *line;
    va_list args;
    va_start(args, format);
    if (vasprintf(&line, format, args) < 0)
        abort();
    va_end(args);
    form->note(line);
    free(line);
}

bool cp__report_finish(bool is_whole)
{
    has_failed |= !is_whole;
    form->finish(!has_failed, cp__clock_s() - started);
    cp__text_free(&printed);
    return !has_failed;
}
