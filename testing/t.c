/* What a test does by its "t". */
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

struct cp__cleanup {
    void (*fn)(void *arg);
    void *arg;
    struct cp__cleanup *next;
};

struct cp__subtest_name {
    struct cp__subtest_name *next;
    unsigned uses; /* how many subtests were to have it */
    char name[];
};

static void *must(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

/* The innermost test that runs; written by the thread or G that it runs on, one at a time. */
static struct cp__test *current;

struct cp_t *cp_t_self(void)
{
    struct cp__test *test = cp_load_acquire(&current); /* acquire: pairs with cp__test_run()'s release */
    return test ? &test->t : NULL;
}

/* The G, or else the thread, that calls. */
static void *owner_self(void)
{
    struct cp_task *task = cp_task_self();
    return task ? (void *)task : (void *)pthread_self();
}

/* ---- Logging and ending ---------------------------------------------------------------------- */

/* As Go shows it: "    file.c:12: ", and what follows a newline indented once more. file: NULL where the
 * runner says it. */
static char *log_text(const char *file, int line, const char *format, va_list args)
{
    char *message, *text = NULL;
    size_t size;
    if (vasprintf(&message, format, args) < 0)
        abort();
    FILE *stream = must(open_memstream(&text, &size));
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
    return must(text);
}

static void report(struct cp_t *t, enum cp_t_report kind, const char *file, int line, const char *format,
                   va_list args)
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
    report(t, kind, file, line, format, args);
    va_end(args);
}

static _Noreturn void end(struct cp_t *t)
{
    struct cp__test *test = cp__test_of(t);
    if (cp__is_forked_by_test()) /* it is not the test that ends, and what that has is not to be cleaned up */
        _exit(cp_t_failed(t) || !cp_load_relaxed(&test->is_skipped) ? 1 : 77); /* relaxed: by this thread */
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
    report(t, kind, file, line, format, args);
    va_end(args);
    if (kind == CP_T_SKIP)
        cp_store_relaxed(&cp__test_of(t)->is_skipped, 1); /* relaxed: read when the test has ended */
    end(t);
}

void cp_t_fail(struct cp_t *t)
{
    for (struct cp__test *test = cp__test_of(t); test; test = test->parent)
        cp_store_relaxed(&test->is_failed, 1); /* relaxed: a flag, behind which nothing stands */
}

void cp_t_fail_now(struct cp_t *t)
{
    cp_t_fail(t);
    end(t);
}

bool cp_t_failed(const struct cp_t *t)
{
    return cp_load_relaxed(&cp__test_of(t)->is_failed); /* relaxed: as above */
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
    struct cp__cleanup *cleanup = must(malloc(sizeof(*cleanup)));
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
        cp__t_fatal(t, "There is no directory %s for the test's files: %s. TMPDIR may name another place.",
                    parent ? parent : "in TMPDIR", strerror(error ? error : errno));
    cp_t_cleanup(t, cp__temp_remove, test->temp_dir);
    return test->temp_dir;
}

/* One may add another, or end early. */
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
    cp_store_release(&current, test); /* release: pairs with cp_t_self()'s acquire */
    if (setjmp(test->end) == 0)
        fn(&test->t, arg);
    if (test->bench)
        cp__bench_end(test);
    run_cleanups(test);
    cp__bench_free(test->bench);
    cp_store_release(&current, test->parent); /* release: as above */
    free_names(test->subtests);
    free(test->temp_dir);
    return !cp_t_failed(&test->t);
}

/* ---- Subtests -------------------------------------------------------------------------------- */

/* The entry of a name among those that there were; a new one where there was none. */
static struct cp__subtest_name *find_name(struct cp__test *test, const char *name)
{
    struct cp__subtest_name *entry = test->subtests;
    while (entry && strcmp(entry->name, name) != 0)
        entry = entry->next;
    if (entry)
        return entry;
    entry = must(calloc(1, sizeof(*entry) + strlen(name) + 1));
    strcpy(entry->name, name);
    entry->next = test->subtests;
    return test->subtests = entry;
}

/* The whole name of a subtest; free() it. */
static char *subtest_name(struct cp__test *parent, const char *name)
{
    char *given, *numbered;
    if (asprintf(&given, "%s/%s", parent->name, name) < 0)
        abort();
    for (char *p = given + strlen(parent->name) + 1; *p; p++)
        if (isspace((unsigned char)*p) || iscntrl((unsigned char)*p))
            *p = '_';
    struct cp__subtest_name *entry = find_name(parent, given);
    unsigned n = entry->uses++;
    if (n == 0 && *name)
        return given;
    for (;; free(numbered), n = entry->uses++) {
        if (asprintf(&numbered, "%s#%02u", given, n) < 0)
            abort();
        if (find_name(parent, numbered)->uses++ == 0)
            break;
    }
    free(given);
    return numbered;
}

static bool is_chosen(const struct cp__test *parent, const char *name)
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
    if (is_chosen(parent, test.name)) {
        if (parent->bench)
            cp__bench_begin(&test);
        is_passed = cp__test_run(&test, fn, arg);
        cp__test_tell_end(&test);
    }
    free(test.name);
    return is_passed;
}
