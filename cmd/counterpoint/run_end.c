/* What a run shows while it goes on, and what it prints at its end. See run.h. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "cmd/counterpoint/report/facts.h"
#include "cmd/counterpoint/report/load.h"
#include "cmd/counterpoint/report/model.h"
#include "cmd/counterpoint/report/names.h"
#include "run.h"
#include "runtime/base/clock.h"

#define SUFFIX ".pb.gz"
#define SHOWN_FILES 5
#define SHOWN_FUNCTIONS 5

/* What is in the folder for one event. */
struct found {
    char **paths; /* of profiles that were written */
    size_t n, room;
    unsigned waiting; /* files of processes that still run */
    unsigned killed;  /* empty files of processes that have ended */
    pid_t killed_pid; /* of the last such process */
};

/* ---- The folder ------------------------------------------------------------------------------ */

static bool has_end(const char *name, const char *end)
{
    const size_t n = strlen(name), n_end = strlen(end);

    return n > n_end && strcmp(name + n - n_end, end) == 0;
}

/* Returns the id of the process that has the file NAME.PID[-N][.EVENT].pb.gz, or 0. */
static pid_t process_of(const char *name, const char *event)
{
    char end[256];
    const char *at;

    snprintf(end, sizeof end, "%s%s" SUFFIX, event == NULL ? "" : ".", event == NULL ? "" : event);
    for (char *slash = end; (slash = strchr(slash, '/')) != NULL;)
        *slash = '_';
    if (!has_end(name, end))
        return 0;
    at = name + strlen(name) - strlen(end);
    while (at > name && at[-1] != '.')
        at--;
    return (pid_t)atol(at);
}

static void add_path(struct found *found, const char *directory, const char *name)
{
    if (found->n == found->room) {
        found->room = 2 * found->room + 16;
        found->paths = reallocarray(found->paths, found->room, sizeof *found->paths);
    }
    if (found->paths == NULL || asprintf(&found->paths[found->n], "%s/%s", directory, name) < 0) {
        found->n = found->room = 0; /* without memory nothing is shown */
        return;
    }
    found->n++;
}

/* Returns the event that the names of the i-th event's files have; NULL: they have none. */
static const char *event_of_files(const struct run *run, size_t i)
{
    return run->settings.n > 1 ? run->settings.events[i] : NULL;
}

static bool is_of_run(const struct run *run, const struct stat *file)
{
    return file->st_mtim.tv_sec > run->began.tv_sec ||
           (file->st_mtim.tv_sec == run->began.tv_sec && file->st_mtim.tv_nsec >= run->began.tv_nsec);
}

static void note_profile(const struct run *run, struct found *found, const char *name, pid_t pid,
                         const struct stat *file)
{
    if (file->st_size > 0) {
        add_path(found, run->directory, name);
    } else if (kill(pid, 0) == 0 || errno == EPERM) {
        found->waiting++;
    } else {
        found->killed++;
        found->killed_pid = pid;
    }
}

/* Removes the files of processes that have ended without writing them. */
static void remove_empty_files(const struct run *run, size_t i)
{
    DIR *directory = opendir(run->directory);
    struct dirent *entry;
    struct stat file;

    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        const pid_t pid = process_of(entry->d_name, event_of_files(run, i));

        if (pid > 0 && fstatat(dirfd(directory), entry->d_name, &file, 0) == 0 && S_ISREG(file.st_mode) &&
            is_of_run(run, &file) && file.st_size == 0 && kill(pid, 0) < 0 && errno == ESRCH)
            unlinkat(dirfd(directory), entry->d_name, 0);
    }
    if (directory != NULL)
        closedir(directory);
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Looks for the files of the i-th event. */
static void find_files(const struct run *run, size_t i, struct found *found)
{
    const char *event = event_of_files(run, i);
    DIR *directory = opendir(run->directory);
    struct dirent *entry;
    struct stat file;

    *found = (struct found){0};
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        pid_t pid = process_of(entry->d_name, event);

        if (pid > 0 && fstatat(dirfd(directory), entry->d_name, &file, 0) == 0 && S_ISREG(file.st_mode) &&
            is_of_run(run, &file))
            note_profile(run, found, entry->d_name, pid, &file);
    }
    if (directory != NULL)
        closedir(directory);
    if (found->n > 0)
        qsort(found->paths, found->n, sizeof *found->paths, compare_paths);
}

static void forget_found(struct found *found)
{
    for (size_t i = 0; i < found->n; i++)
        free(found->paths[i]);
    free(found->paths);
}

/* ---- While it runs --------------------------------------------------------------------------- */

/* A program that has the whole screen (raw mode) is not disturbed, and neither is one whose lines would stand
 * among ours: the line is for programs whose output goes elsewhere. */
static bool may_show(void)
{
    struct termios terminal;

    return isatty(STDERR_FILENO) && !isatty(STDOUT_FILENO) && tcgetattr(STDERR_FILENO, &terminal) == 0 &&
           (terminal.c_lflag & ICANON) != 0;
}

void run_show_progress(struct run *run)
{
    struct found found;

    if (!may_show())
        return;
    find_files(run, 0, &found);
    fprintf(stderr, "\r\033[Kcounterpoint: %s has run for %.0f s; %u process%s, %zu profile%s written.",
            run->program, cp__clock_s() - run->started_s, found.waiting, found.waiting == 1 ? "" : "es",
            found.n, found.n == 1 ? "" : "s");
    fflush(stderr);
    run->is_progress_shown = true;
    forget_found(&found);
}

/* ---- After it -------------------------------------------------------------------------------- */

static uint64_t fact_number(const struct profile *profile, const char *key)
{
    const char *value = profile_fact(profile, key);

    return value == NULL ? 0 : strtoull(value, NULL, 10);
}

/* Returns whether the first line stands for a comment already, or programs without symbols have it all. */
static bool is_told_elsewhere(const char *comment)
{
    static const char *const keys[] = {"coverage: ", "symbols_missing: ", "symbols_missing_more: "};

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (strncmp(comment, keys[i], strlen(keys[i])) == 0)
            return true;
    }
    return false;
}

/* Prints the comments of one file that tell what is missing. */
static void print_losses(void *unused, const struct profile *profile, const char *path)
{
    (void)unused;
    for (size_t i = 0; i < profile->n_comments; i++) {
        const char *comment = profile->comments[i];

        if (profile_is_limit(profile, comment) && !is_told_elsewhere(comment))
            fprintf(stderr, "  %s: %s\n", basename(path), comment);
    }
}

struct sums {
    uint64_t samples, cpu_ns, waited_ns;
    double covered_ns;
};

static void add_facts(void *context, const struct profile *profile, const char *path)
{
    struct sums *sums = context;
    const uint64_t cpu_ns = fact_number(profile, "cpu_ns");
    const char *coverage = profile_fact(profile, "coverage");

    (void)path;
    sums->samples += fact_number(profile, "samples");
    sums->cpu_ns += cpu_ns;
    sums->waited_ns += profile_is_of_waits(profile) ? fact_number(profile, "count") : 0;
    sums->covered_ns += coverage == NULL ? 0 : (double)cpu_ns * strtod(coverage, NULL) / 100;
}

static void print_hottest(const struct found *found)
{
    struct hot hot[SHOWN_FUNCTIONS];
    struct source *sources = calloc(found->n, sizeof *sources);
    struct profile *all = NULL;
    size_t n = 0;

    if (sources != NULL && sources_read(sources, found->paths, found->n) == STATUS_OK) {
        if (sources_parse(sources, found->n, &all) == STATUS_OK) {
            profile_make_printable(all);
            n = report_hottest(all, SHOWN_FUNCTIONS, hot);
        }
        sources_free(sources, found->n);
    }
    for (size_t i = 0; i < n; i++)
        fprintf(stderr, "  %5.1f %%  %s\n", 100 * hot[i].share, hot[i].name);
    profile_free(all);
    free(sources);
}

static void print_files(const struct run *run, const struct found *found)
{
    if (found->n == 1)
        fprintf(stderr, "  The profile is %s.\n", found->paths[0]);
    else if (found->n > 1)
        fprintf(stderr, "  The profiles are %s/*.pb.gz.\n", run->directory);
    else if (found->waiting == 0 && found->killed == 0)
        fprintf(stderr, "  There is no profile in %s: the program ended before one could begin.\n",
                run->directory);
    if (found->waiting > 0)
        fprintf(stderr, "  %u more %s at the end of processes that still run.\n", found->waiting,
                found->waiting == 1 ? "is written" : "are written");
    if (found->killed > 0)
        fprintf(stderr,
                "  %u %s without a profile, the last one with the id %d: by SIGKILL, or by a system call of "
                "its own, "
                "no library that is in the program notices the end.\n",
                found->killed, found->killed == 1 ? "process ended" : "processes ended",
                (int)found->killed_pid);
}

/* Calls fn() with the profile of each file. */
static void each_profile(const struct found *found, void *context,
                         void (*fn)(void *context, const struct profile *profile, const char *path))
{
    struct profile *profile;
    struct source source;

    for (size_t f = 0; f < found->n; f++) {
        if (sources_read(&source, &found->paths[f], 1) != STATUS_OK)
            continue;
        if (sources_parse(&source, 1, &profile) == STATUS_OK) {
            profile_make_printable(profile);
            fn(context, profile, found->paths[f]);
            profile_free(profile);
        }
        sources_free(&source, 1);
    }
}

static void print_event_end(const struct run *run, size_t i)
{
    struct found found;
    struct sums sums = {0};

    find_files(run, i, &found);
    each_profile(&found, &sums, add_facts);
    fprintf(stderr, "counterpoint: %s: %" PRIu64 " samples of %zu process%s", run->settings.events[i],
            sums.samples, found.n, found.n == 1 ? "" : "es");
    if (sums.samples > 0 && sums.cpu_ns > 0)
        fprintf(stderr, ", which stand for %.1f %% of %.2f s of CPU time",
                100 * sums.covered_ns / (double)sums.cpu_ns, (double)sums.cpu_ns / 1e9);
    if (sums.waited_ns > 0)
        fprintf(stderr, ", which stand for %.2f s of waiting", (double)sums.waited_ns / 1e9);
    fputs(".\n", stderr);
    if (found.n <= SHOWN_FILES)
        each_profile(&found, NULL, print_losses);
    if (found.n > 0)
        print_hottest(&found);
    print_files(run, &found);
    if (found.killed > 0)
        remove_empty_files(run, i);
    forget_found(&found);
}

/* Adds names to those files of all events that have none. Returns how many these were. */
static size_t name_once(const struct run *run)
{
    struct found all = {0}, found;
    size_t n;

    for (size_t i = 0; i < run->settings.n; i++) {
        find_files(run, i, &found);
        for (size_t f = 0; f < found.n; f++)
            add_path(&all, run->directory, basename(found.paths[f]));
        forget_found(&found);
    }
    n = run_name_profiles(all.paths, all.n);
    forget_found(&all);
    return n;
}

/* Adds the names that the processes have left for later. Others may end meanwhile. */
static void name_found(const struct run *run)
{
    enum { MOST_ROUNDS = 5 };

    for (int round = 0; round < MOST_ROUNDS && name_once(run) > 0; round++)
        ;
}

void run_print_end(struct run *run, int status)
{
    if (run->is_progress_shown)
        fputs("\r\033[K", stderr);
    if (WIFSIGNALED(status))
        fprintf(stderr, "counterpoint: %s was ended by signal %d (%s).\n", run->program, WTERMSIG(status),
                strsignal(WTERMSIG(status)));
    name_found(run);
    for (size_t i = 0; i < run->settings.n; i++)
        print_event_end(run, i);
}
