/*
 * See profile.h. The directory has a file N.PID.NS.tmp while the process PID samples event N, which becomes
 * N.PID.NS.pb.gz when all samples are written. NS, a time, tells apart the parts of processes that had the
 * same number one after the other.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profile.h"
#include "runtime/base/clock.h"
#include "runtime/base/fail.h"
#include "temp.h"

#define FINISHED ".pb.gz"
#define UNFINISHED ".tmp"

/* One more than a session can have, so that cp_session_start() refuses a list that is too long. */
enum { MAX_EVENTS = CP_EV_MAX + 1 };

struct cp__parts {
    pid_t pid; /* the process that opened the parts; 0 in a process that was started anew */
    char *directory;
    char *event_list;
    uint64_t period; /* of the events without a period of their own; 0: the event's default */
    enum cp_engine engine;
    size_t n;
    unsigned n_contentions;       /* the last ones are Go's profiles of contentions */
    char *events[MAX_EVENTS];     /* names without periods; pointers into event_text */
    uint64_t periods[MAX_EVENTS]; /* the events' own; 0: none */
    char *event_text;
    char *files[MAX_EVENTS]; /* the profiles' files; NULL in a process that was started anew */
    struct cp_merge *merges[MAX_EVENTS];
};

struct cp__process_part {
    struct cp__parts *parts;
    struct cp_session *session;
    pid_t pid;
    struct cp_memory memory[MAX_EVENTS]; /* used in the process that opened the parts */
    char *paths[MAX_EVENTS];             /* used in other processes */
};

static int fail_memory(struct cp_error *err)
{
    return cp__error(err, -ENOMEM, "There is not enough memory for the profile of a test.");
}

static bool ends_in(const char *text, const char *suffix)
{
    const size_t n = strlen(text), n_suffix = strlen(suffix);

    return n >= n_suffix && strcmp(text + n - n_suffix, suffix) == 0;
}

/* ---- Making it ------------------------------------------------------------------------------- */

/* Returns parts with the events of the list, of which the last n_contentions are Go's profiles of
 * contentions, without directory and files; NULL if there is no memory. */
static struct cp__parts *new_parts(const char *events, unsigned n_contentions, uint64_t period,
                                   enum cp_engine engine)
{
    struct cp__parts *parts = calloc(1, sizeof *parts);
    char *rest, *event;

    if (parts == NULL)
        return NULL;
    parts->period = period;
    parts->engine = engine;
    parts->n_contentions = n_contentions;
    parts->event_list = strdup(events);
    rest = parts->event_text = strdup(events);
    if (parts->event_list == NULL || parts->event_text == NULL) {
        cp__parts_free(parts);
        return NULL;
    }
    for (; parts->n < MAX_EVENTS && (event = cp_event_next(&rest)) != NULL; parts->n++) {
        cp_event_take_period(event, &parts->periods[parts->n], NULL); /* was read before */
        parts->events[parts->n] = event;
    }
    return parts;
}

/* Returns whether the i-th event is one of Go's profiles of contentions. */
static bool is_contention(const struct cp__parts *parts, size_t i)
{
    return i + parts->n_contentions >= parts->n;
}

/* Returns the path of the i-th event's profile: x.pb.gz, or x.EVENT.pb.gz if there are several events.
 * Slashes in the name of an event become underscores. The caller frees the path. */
static char *event_file_of(const struct cp__parts *parts, const char *file, size_t i)
{
    const size_t stem = strlen(file) - (ends_in(file, FINISHED) ? strlen(FINISHED) : 0);
    char *given, *path;

    if (parts->n - parts->n_contentions == 1)
        return cp__temp_absolute(file);
    if (asprintf(&given, "%.*s.%s%s", (int)stem, file, parts->events[i], file + stem) < 0)
        return NULL;
    for (char *slash = given + stem; (slash = strchr(slash, '/')) != NULL;)
        *slash = '_';
    path = cp__temp_absolute(given);
    free(given);
    return path;
}

/* Checks whether the file can be written later. The file is not changed. */
static int check_file(const char *path, struct cp_error *err)
{
    struct stat status;
    char *copy = strdup(path);
    int error = 0;

    if (copy == NULL)
        return fail_memory(err);
    if (stat(path, &status) < 0)
        error = errno == ENOENT && access(dirname(copy), W_OK | X_OK) == 0 ? 0 : errno;
    else if (S_ISDIR(status.st_mode))
        error = EISDIR;
    else if (access(path, W_OK) < 0)
        error = errno;
    free(copy);
    if (error == 0)
        return 0;
    return cp__error(err, -error, "The profile's file \"%.200s\" cannot be written: %s.", path,
                     strerror(error));
}

/* Files that exist are compared by device and inode, others by name and directory. */
bool cp__parts_same_file(const char *a, const char *b)
{
    struct stat sa, sb;
    char copy_a[PATH_MAX], copy_b[PATH_MAX];

    if (stat(a, &sa) == 0 && stat(b, &sb) == 0)
        return S_ISREG(sa.st_mode) && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
    snprintf(copy_a, sizeof copy_a, "%s", a);
    snprintf(copy_b, sizeof copy_b, "%s", b);
    return strcmp(basename(copy_a), basename(copy_b)) == 0 && stat(dirname(copy_a), &sa) == 0 &&
           stat(dirname(copy_b), &sb) == 0 && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

static int make_directory(struct cp__parts *parts, struct cp_error *err)
{
    int result = cp__temp_make(&parts->directory);

    if (result == 0)
        return 0;
    cp__error(
        err, result,
        "The directory for the profile's parts cannot be made (%.200s): %s. Set TMPDIR to another directory.",
        parts->directory == NULL ? "its path is unknown" : parts->directory, strerror(-result));
    free(parts->directory);
    parts->directory = NULL;
    return result;
}

/* The same of any profile that the flags ask for. */
static char *file_of(const struct cp__parts *parts, const struct cp__profile_flags *flags, size_t i)
{
    if (!is_contention(parts, i))
        return event_file_of(parts, flags->file, i);
    return cp__temp_absolute(
        flags->contention_files[strcmp(parts->events[i], "lock") == 0 ? CP_CONTENTION_MUTEX
                                                                      : CP_CONTENTION_BLOCK]);
}

/* Refuses a file that has another profile, which would replace it. */
static int check_other_files(const struct cp__parts *parts, size_t i, struct cp_error *err)
{
    for (size_t j = 0; j < i; j++)
        if (cp__parts_same_file(parts->files[i], parts->files[j]))
            return cp__error(
                err, -EINVAL,
                "Two profiles are to be written to \"%.200s\". Each profile is a file of its own.",
                parts->files[i]);
    return 0;
}

static int open_files(struct cp__parts *parts, const struct cp__profile_flags *flags, struct cp_error *err)
{
    int result = 0;

    for (size_t i = 0; i < parts->n && result == 0; i++) {
        parts->files[i] = file_of(parts, flags, i);
        parts->merges[i] = cp_merge_new();
        if (parts->files[i] == NULL || parts->merges[i] == NULL)
            return fail_memory(err);
        result = check_file(parts->files[i], err);
        if (result == 0 && is_contention(parts, i))
            result = check_other_files(parts, i, err);
    }
    return result;
}

/* Makes the list of all events that the flags ask for, Go's profiles of contentions last, and stores how many
 * these are. The caller frees the list; NULL: no memory. */
static char *list_of(const struct cp__profile_flags *flags, unsigned *n_contentions)
{
    static const char *const recorded[] = {[CP_CONTENTION_BLOCK] = "wait", [CP_CONTENTION_MUTEX] = "lock"};
    const uint64_t period = flags->contention_period != 0 ? flags->contention_period : 1;
    const char *separator = flags->file != NULL ? "," : "";
    char *list = NULL;
    size_t size;
    FILE *out = open_memstream(&list, &size);

    *n_contentions = 0;
    if (out == NULL)
        return NULL;
    if (flags->file != NULL)
        fputs(flags->events == NULL ? "timer" : flags->events, out);
    for (size_t i = 0; i < sizeof recorded / sizeof recorded[0]; i++) {
        if (flags->contention_files[i] == NULL)
            continue;
        fprintf(out, "%s%s:%" PRIu64, separator, recorded[i], period);
        separator = ",";
        ++*n_contentions;
    }
    if (fclose(out) == 0)
        return list;
    free(list);
    return NULL;
}

int cp__parts_open(struct cp__parts **out, const struct cp__profile_flags *flags, struct cp_error *err)
{
    unsigned n_contentions;
    char *list = list_of(flags, &n_contentions);
    struct cp__parts *parts =
        list == NULL ? NULL : new_parts(list, n_contentions, flags->period, flags->engine);
    int result;

    free(list);
    if (parts == NULL)
        return fail_memory(err);
    parts->pid = getpid();
    result = open_files(parts, flags, err);
    if (result == 0)
        result = make_directory(parts, err);
    if (result < 0)
        cp__parts_free(parts);
    else
        *out = parts;
    return result;
}

bool cp__parts_are_refused(const struct cp__parts *parts)
{
    for (size_t i = 0; i < parts->n; i++) {
        struct cp_event_spec spec = {.size = sizeof spec};

        if (cp_event_parse(parts->events[i], &spec, NULL) == 0 && cp_event_probe(&spec, NULL) < 0)
            return true;
    }
    return false;
}

char *cp__parts_name(const struct cp__parts *parts)
{
    char *name;

    /* sscanf() in cp__parts_named() relies on names of events without blanks. */
    return asprintf(&name, "%" PRIu64 " %d %u %s %s", parts->period, (int)parts->engine, parts->n_contentions,
                    parts->event_list, parts->directory) < 0
               ? NULL
               : name;
}

struct cp__parts *cp__parts_named(const char *name)
{
    struct cp__parts *parts = NULL;
    uint64_t period;
    char *events, *directory;
    unsigned n_contentions;
    int engine;
    int n =
        sscanf(name, "%" SCNu64 " %d %u %ms %m[^\n]", &period, &engine, &n_contentions, &events, &directory);

    if (n == 5)
        parts = new_parts(events, n_contentions, period, (enum cp_engine)engine);
    if (n > 3)
        free(events);
    if (parts != NULL)
        parts->directory = directory;
    else if (n > 4)
        free(directory);
    return parts;
}

void cp__parts_free(struct cp__parts *parts)
{
    if (parts == NULL)
        return;
    for (size_t i = 0; i < parts->n; i++) {
        free(parts->files[i]);
        cp_merge_free(parts->merges[i]);
    }
    free(parts->directory);
    free(parts->event_list);
    free(parts->event_text);
    free(parts);
}

/* ---- Taking part ----------------------------------------------------------------------------- */

/* Returns the writer for the i-th event's samples: into memory, or into a file of the directory. */
static struct cp_writer writer_of(struct cp__process_part *part, size_t i)
{
    if (part->parts->pid == part->pid)
        return cp_writer_memory(&part->memory[i]);
    if (asprintf(&part->paths[i], "%s/%zu.%d.%" PRId64 UNFINISHED, part->parts->directory, i, (int)part->pid,
                 cp__clock_ns(CLOCK_MONOTONIC)) < 0)
        part->paths[i] = NULL;
    return cp_writer_path(part->paths[i] == NULL ? "" : part->paths[i]);
}

/* Returns the period of the i-th event. -cpuprofileperiod is not for the timer, whose rate is fixed unless
 * the timer has a period of its own. */
static uint64_t part_period(const struct cp__parts *parts, size_t i)
{
    struct cp_event_spec spec = {.size = sizeof spec};

    if (parts->periods[i] != 0 || parts->period == 0)
        return parts->periods[i];
    if (cp_event_parse(parts->events[i], &spec, NULL) == 0 && spec.kind == CP_EVENT_TIMER)
        return 0;
    return parts->period;
}

/* Returns the session's option for the i-th event. */
static struct cp_profiling_option option_of(struct cp__process_part *part, size_t i)
{
    struct cp_profiling_option option =
        cp_option_event(writer_of(part, i), part->parts->events[i], part_period(part->parts, i));

    option.engine = part->parts->engine;
    option.flags = is_contention(part->parts, i) ? CP_OPTION_CONTENTIONS : 0;
    return option;
}

int cp__process_part_start(struct cp__process_part **out, struct cp__parts *parts, struct cp_error *err)
{
    struct cp_profiling_option options[MAX_EVENTS];
    struct cp__process_part *part;
    struct cp_m *m;
    int result = cp_m_attach(&m, err);

    if (result < 0)
        return result;
    part = calloc(1, sizeof *part);
    if (part == NULL)
        return fail_memory(err);
    part->parts = parts;
    part->pid = getpid();
    for (size_t i = 0; i < parts->n; i++)
        options[i] = option_of(part, i);
    result = cp_session_start(&part->session, options, parts->n, err);
    if (result < 0)
        cp__process_part_drop(part);
    else
        *out = part;
    return result;
}

void cp__process_part_warn(const struct cp__process_part *part)
{
    for (size_t i = 0; i < part->parts->n; i++) {
        const char *warning = cp_session_warning(part->session, i);

        if (warning != NULL)
            fprintf(stderr, "%s\n", warning);
    }
}

/* Renames a file to the name that says that all samples are written. */
static int finish_file(const struct cp__process_part *part, size_t i, struct cp_error *err)
{
    char *finished;
    int result = 0;

    if (asprintf(&finished, "%.*s" FINISHED, (int)(strlen(part->paths[i]) - strlen(UNFINISHED)),
                 part->paths[i]) < 0)
        return fail_memory(err);
    if (rename(part->paths[i], finished) < 0)
        result = cp__error(err, -errno, "A part of the profile cannot be renamed to \"%.200s\": %s.",
                           finished, strerror(errno));
    free(finished);
    return result;
}

int cp__process_part_stop(struct cp__process_part *part, struct cp_error *err)
{
    struct cp__parts *parts = part->parts;
    int result = cp_session_stop(part->session, err);

    for (size_t i = 0; i < parts->n && result == 0; i++) {
        if (part->paths[i] != NULL)
            result = finish_file(part, i, err);
        else
            result = cp_merge_add(parts->merges[i], part->memory[i].data, part->memory[i].size, err);
    }
    cp__process_part_drop(part);
    return result;
}

bool cp__parts_are_mine(const struct cp__parts *parts)
{
    return parts != NULL && parts->pid == getpid();
}

bool cp__process_part_is_mine(const struct cp__process_part *part)
{
    return part != NULL && part->pid == getpid();
}

void cp__process_part_drop(struct cp__process_part *part)
{
    if (part == NULL)
        return;
    cp_session_close(part->session);
    for (size_t i = 0; i < MAX_EVENTS; i++) {
        free(part->memory[i].data);
        free(part->paths[i]);
    }
    free(part);
}

/* ---- Making it one --------------------------------------------------------------------------- */

/* Calls fn() with the path of each file in the directory. Returns false if fn() returned false for a file,
 * or could not be called for all files. */
static bool each_file(const struct cp__parts *parts, bool (*fn)(void *, const char *path, const char *name),
                      void *context)
{
    DIR *directory = opendir(parts->directory);
    const struct dirent *entry;
    bool good = directory != NULL;
    char *path;

    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        if (asprintf(&path, "%s/%s", parts->directory, entry->d_name) < 0)
            path = NULL;
        good = path != NULL && fn(context, path, entry->d_name) && good;
        free(path);
    }
    if (directory != NULL)
        closedir(directory);
    return good;
}

static bool remove_file(void *context, const char *path, const char *name)
{
    (void)context, (void)name;
    return unlink(path) == 0;
}

void cp__parts_remove(const struct cp__parts *parts)
{
    each_file(parts, remove_file, NULL);
    rmdir(parts->directory);
}

static bool read_file(const char *path, struct cp_memory *file)
{
    FILE *in = fopen(path, "re");
    struct stat status;
    bool good = false;

    if (in == NULL)
        return false;
    if (fstat(fileno(in), &status) == 0) {
        file->data = malloc((size_t)status.st_size + 1);
        if (file->data != NULL)
            file->size = fread(file->data, 1, (size_t)status.st_size + 1, in);
        good = file->size == (size_t)status.st_size;
    }
    fclose(in);
    return good;
}

/* The context of add_file(): the number of processes that left an unfinished file is counted. */
struct addition {
    struct cp__parts *parts;
    unsigned unfinished;
};

/* Adds a finished file of the directory to the merged profile of its event. */
static bool add_file(void *context, const char *path, const char *name)
{
    struct addition *a = context;
    struct cp_memory file = {0};
    struct cp_error err;
    const size_t i = strtoul(name, NULL, 10);
    bool good;

    a->unfinished += i == 0 && ends_in(name, UNFINISHED);
    if (i >= a->parts->n || !ends_in(name, FINISHED))
        return true;
    errno = 0;
    good = read_file(path, &file);
    if (!good)
        fprintf(stderr, "The profile's part %s cannot be read: %s.\n", path,
                strerror(errno != 0 ? errno : EIO));
    else if (cp_merge_add(a->parts->merges[i], file.data, file.size, &err) < 0) {
        fprintf(stderr, "%s: %s\n", path, err.message);
        good = false;
    }
    free(file.data);
    return good;
}

/* Writes the i-th merged profile to its file or, if that fails, into the directory. A profile to which no
 * process has contributed is not written, and that is no failure; an empty one says why it is empty. */
static bool write_file(const struct cp__parts *parts, size_t i)
{
    const char *warning = cp_merge_warning(parts->merges[i]);
    struct cp_error err;
    char *path;
    int result = cp_merge_write(parts->merges[i], cp_writer_path(parts->files[i]), &err);

    if (warning != NULL)
        fprintf(stderr, "%s: %s\n", parts->files[i], warning);
    if (result == 0)
        return true;
    if (result == -ENODATA) {
        fprintf(stderr, "%s is not written: no process that could be sampled has ended normally.\n",
                parts->files[i]);
        return true;
    }
    fprintf(stderr, "%s: %s\n", parts->files[i], err.message);
    if (asprintf(&path, "%s/merged.%zu" FINISHED, parts->directory, i) < 0)
        return false;
    if (cp_merge_write(parts->merges[i], cp_writer_path(path), &err) < 0)
        fprintf(stderr, "%s: %s\n", path, err.message);
    free(path);
    return false;
}

int cp__parts_merge(struct cp__parts *parts)
{
    struct addition a = {.parts = parts};
    bool good = each_file(parts, add_file, &a);

    for (size_t i = 0; i < parts->n; i++)
        good = write_file(parts, i) && good;
    if (a.unfinished > 0)
        fprintf(stderr, "The profile lacks the samples of %u process%s, which did not end normally.\n",
                a.unfinished, a.unfinished == 1 ? "" : "es");
    if (good)
        cp__parts_remove(parts);
    else
        fprintf(stderr, "The parts of the profile are kept in %s.\n", parts->directory);
    cp__parts_free(parts);
    return good ? 0 : 1;
}
