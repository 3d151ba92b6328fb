/* The public calls that a test makes with its "t". */
#include "runtime/base/clock.h"
#include "temp.h"
#include "test.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sched.h"

/* A function to call when the test has ended; the newest is the first of the list. */
struct cp__cleanup {
    void (*fn)(void *arg);
    void *arg;
    struct cp__cleanup *next;
};

/* A name that subtests have asked for. */
struct cp__subtest_name {
    struct cp__subtest_name *next;
    unsigned uses; /* how many subtests have asked for the name */
    char name[];
};

static void *must_allocate(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

/* The innermost test that runs. Written only by the thread or G that the test runs on. */
static struct cp__test *current;

struct cp_t *cp_t_self(void)
{
    struct cp__test *test = cp_load_acquire(&current); /* acquire: pairs with the release in cp__test_run() */
    return test ? &test->t : NULL;
}

/* Identifies the calling G or, outside of Gs, the calling thread. */
static void *owner_self(void)
{
    struct cp_g *task = cp_sched_self();
    return task ? (void *)task : (void *)pthread_self();
}

/* ---- Logging and ending ---------------------------------------------------------------------- */

/* Returns a log message in Go's form: " file.c:12: " before the first line, and deeper indentation before
 * the others. If file is NULL, the message is the runner's own and has no place. The caller frees the
 * text. */
static char *log_text(const char *file, int line, const char *format, va_list args)
{
    char *message, *text = NULL;
    size_t size;
    if (vasprintf(&message, format, args) < 0)
        abort();
    FILE *stream = must_allocate(open_memstream(&text, &size));
    const char *slash = file ? strrchr(file, '/') : NULL;
    fputs("    ", stream);
    if (file)
        fprintf(stream, "%s:%d: ", slash ? slash + 1 : file, line);
    for (const char *p = message; *p;) {
        size_t n = strcspn(p, "\n");
        n += p[n] == '\n';
        fwrite(p, 1, n, stream);
        p += n;
        if (*p)
            fputs("        ", stream);
    }
    if (!*message || message[strlen(message) - 1] != '\n')
        fputc('\n', stream);
    fclose(stream);
    free(message);
    return must_allocate(text);
}

/* Sends a message to the runner, and marks the test as failed if the message is an error. */
static void report_from_test(struct cp_t *t, enum cp_t_report kind, const char *file, int line,
                             const char *format, va_list args)
{
    char *text = log_text(file, line, format, args);
    cp__tell(&(struct cp__event){.kind = CP__EVENT_LOG, .name = cp_t_name(t), .text = text});
    free(text);
    if (kind == CP_T_ERROR || kind == CP_T_FATAL)
        cp_t_fail(t);
}

void cp_t_report(struct cp_t *t, enum cp_t_report kind, const char *file, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    report_from_test(t, kind, file, line, format, args);
    va_end(args);
}

/* Ends the test at once. The jump to test->end is only possible on the thread or G that the test runs on; on
 * any other, the process ends. */
static _Noreturn void end_test(struct cp_t *t)
{
    struct cp__test *test = cp__test_of(t);
    if (cp__is_forked_by_test()) /* only this copy ends; the test itself goes on and keeps its directories */
        /* relaxed: this thread has set the flag, or nobody has */
        _exit(cp_t_failed(t) || !cp_load_relaxed(&test->is_skipped) ? 1 : 77);
    if (test->owner != owner_self())
        cp__end_process(test);
    for (struct cp__test *open = test; open; open = open->parent)
        open->has_ended_early = true;
    longjmp(test->end, 1);
}

void cp_t_report_and_end(struct cp_t *t, enum cp_t_report kind, const char *file, int line,
                         const char *format, ...)
{
    va_list args;
    va_start(args, format);
    report_from_test(t, kind, file, line, format, args);
    va_end(args);
    if (kind == CP_T_SKIP)
        cp_store_relaxed(&cp__test_of(t)->is_skipped, 1); /* relaxed: read after the test has ended */
    end_test(t);
}

void cp_t_fail(struct cp_t *t)
{
    for (struct cp__test *test = cp__test_of(t); test; test = test->parent)
        cp_store_relaxed(&test->is_failed, 1); /* relaxed: the flag publishes no other data */
}

void cp_t_fail_now(struct cp_t *t)
{
    cp_t_fail(t);
    end_test(t);
}

bool cp_t_failed(const struct cp_t *t)
{
    return cp_load_relaxed(&cp__test_of(t)->is_failed); /* relaxed: as in cp_t_fail() */
}

const char *cp_t_name(const struct cp_t *t)
{
    return cp__test_of(t)->name;
}

unsigned cp_t_cpu(const struct cp_t *t)
{
    return cp__test_of(t)->cpu;
}

/* ---- Cleanups -------------------------------------------------------------------------------- */

void cp_t_cleanup(struct cp_t *t, void (*fn)(void *arg), void *arg)
{
    struct cp__cleanup *cleanup = must_allocate(malloc(sizeof(*cleanup)));
    *cleanup = (struct cp__cleanup){.fn = fn, .arg = arg, .next = cp__test_of(t)->cleanups};
    cp__test_of(t)->cleanups = cleanup;
}

const char *cp_t_temp_dir(struct cp_t *t)
{
    struct cp__test *test = cp__test_of(t);
    if (test->temp_dir)
        return test->temp_dir;
    int error;
    const char *parent = cp__temp_root(&error);
    if (asprintf(&test->temp_dir, "%s/XXXXXX", parent ? parent : "") < 0)
        abort();
    if (error || !mkdtemp(test->temp_dir))
        cp__t_fatal(
            t, "The directory %s for the test's files cannot be made: %s. Set TMPDIR to another directory.",
            parent ? parent : "in TMPDIR", strerror(error ? error : errno));
    cp_t_cleanup(t, cp__temp_remove, test->temp_dir);
    return test->temp_dir;
}

/* Runs the cleanups, the newest first. A cleanup may add another cleanup, and may end early. */
static void run_cleanups(struct cp__test *test)
{
    for (struct cp__cleanup *cleanup; (cleanup = test->cleanups);) {
        struct cp__cleanup call = *cleanup;
        test->cleanups = cleanup->next;
        free(cleanup);
        if (setjmp(test->end) == 0)
            call.fn(call.arg);
    }
}

/* ---- Running --------------------------------------------------------------------------------- */

static void free_names(struct cp__subtest_name *name)
{
    while (name) {
        struct cp__subtest_name *next = name->next;
        free(name);
        name = next;
    }
}

void cp__test_tell_end(const struct cp__test *test)
{
    bool is_skipped = cp_load_relaxed(&test->is_skipped); /* relaxed: as in cp_t_report_and_end() */
    cp__tell(&(struct cp__event){
        .kind = CP__EVENT_END,
        .name = test->name,
        .outcome = cp_t_failed(&test->t) ? CP__FAILED
                   : is_skipped          ? CP__SKIPPED
                                         : CP__PASSED,
        .number = cp__clock_s() - test->started,
    });
}

bool cp__test_run(struct cp__test *test, void (*fn)(struct cp_t *t, void *arg), void *arg)
{
    test->owner = owner_self();
    test->started = cp__clock_s();
    cp__tell(&(struct cp__event){.kind = CP__EVENT_RUN, .name = test->name});
    cp_store_release(&current, test); /* release: pairs with the acquire in cp_t_self() */
    if (setjmp(test->end) == 0)
        fn(&test->t, arg);
    if (test->bench)
        cp__bench_end(test);
    run_cleanups(test);
    cp__bench_free(test->bench);
    cp_store_release(&current, test->parent); /* release: pairs with the acquire in cp_t_self() */
    free_names(test->subtests);
    free(test->temp_dir);
    return !cp_t_failed(&test->t);
}

/* ---- Subtests -------------------------------------------------------------------------------- */

/* Returns the entry of a name that subtests have asked for; adds one if there is none. */
static struct cp__subtest_name *find_subtest_name(struct cp__test *test, const char *name)
{
    struct cp__subtest_name *entry = test->subtests;
    while (entry && strcmp(entry->name, name) != 0)
        entry = entry->next;
    if (entry)
        return entry;
    entry = must_allocate(calloc(1, sizeof(*entry) + strlen(name) + 1));
    strcpy(entry->name, name);
    entry->next = test->subtests;
    return test->subtests = entry;
}

/* Returns the full name of a subtest, with "#01" and so on if the name was used before. The caller frees
 * it. */
static char *subtest_name(struct cp__test *parent, const char *name)
{
    char *given, *numbered;
    if (asprintf(&given, "%s/%s", parent->name, name) < 0)
        abort();
    for (char *p = given + strlen(parent->name) + 1; *p; p++)
        if (isspace((unsigned char)*p) || iscntrl((unsigned char)*p))
            *p = '_';
    struct cp__subtest_name *entry = find_subtest_name(parent, given);
    unsigned n = entry->uses++;
    if (n == 0 && *name)
        return given;
    for (;; free(numbered), n = entry->uses++) {
        if (asprintf(&numbered, "%s#%02u", given, n) < 0)
            abort();
        if (find_subtest_name(parent, numbered)->uses++ == 0)
            break;
    }
    free(given);
    return numbered;
}

/* Returns whether the flags choose the subtest, or tests below it. */
static bool is_subtest_chosen(const struct cp__test *parent, const char *name)
{
    const struct cp__options *o = parent->options;
    return cp__pattern_match(parent->bench ? &o->bench : &o->run, name) &&
           !(o->has_skip && cp__pattern_match_whole(&o->skip, name));
}

bool cp_t_run(struct cp_t *t, const char *name, void (*fn)(struct cp_t *t, void *arg), void *arg)
{
    struct cp__test *parent = cp__test_of(t);
    struct cp__test test = {
        .name = subtest_name(parent, name), .parent = parent, .options = parent->options, .cpu = parent->cpu};
    bool is_passed = true;
    if (is_subtest_chosen(parent, test.name)) {
        if (parent->bench)
            cp__bench_begin(&test);
        is_passed = cp__test_run(&test, fn, arg);
        cp__test_tell_end(&test);
    }
    free(test.name);
    return is_passed;
}
