/* Runs a program, or attaches to a process, while functions are watched. See session.h. */
#include "session.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/counterpoint/child.h"
#include "runtime/base/clock.h"

#define READ_MS 100

struct session {
    struct watch_request *request;
    struct watch_counts *counts;
    struct watch_probes *probes;
    struct watch_rounds *rounds;
    struct rlimit files;
    FILE *out;
    pid_t pid;
    int ended_fd; /* can be read when the process has ended; -1: the kernel has no such thing */
    int status;   /* of the process, as of wait(2) */
    bool is_out_of_memory;
};

static volatile sig_atomic_t is_stop_asked;

static void ask_to_stop_from_handler(int number)
{
    (void)number;
    is_stop_asked = 1;
}

/* ---- The process ----------------------------------------------------------------------------- */

/* The program may have as many descriptors as this command was given. */
static int restore_file_limit(const void *context)
{
    return setrlimit(RLIMIT_NOFILE, context);
}

static enum status start_watched_program(struct session *session)
{
    struct watch_request *request = session->request;
    enum status status =
        child_start(&session->pid, request->path, request->argv, restore_file_limit, &session->files);

    /* the records of the program's threads wait until they are read */
    if (status == STATUS_OK && watch_rounds_follow(session->rounds, session->pid, session->pid) < 0)
        session->is_out_of_memory = true;
    return status;
}

/* Follows the threads that the process has. Of those that start meanwhile the probes have records. */
static enum status attach(struct session *session)
{
    const struct sigaction stop = {.sa_handler = ask_to_stop_from_handler};
    const struct dirent *entry;
    char path[40];
    DIR *threads;

    session->pid = session->request->pid;
    snprintf(path, sizeof path, "/proc/%d/task", (int)session->pid);
    threads = opendir(path);
    if (threads == NULL)
        return complain(STATUS_USAGE, "The process %d has ended.", (int)session->pid);
    while ((entry = readdir(threads)) != NULL)
        if (entry->d_name[0] != '.' &&
            watch_rounds_follow(session->rounds, session->pid, (pid_t)atol(entry->d_name)) < 0)
            session->is_out_of_memory = true;
    closedir(threads);
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGHUP, &stop, NULL);
    return STATUS_OK;
}

static bool has_watched_ended(struct session *session)
{
    if (!session->request->is_attached)
        return child_has_ended(session->pid, &session->status);
    return kill(session->pid, 0) < 0 && errno == ESRCH;
}

/* ---- The loop -------------------------------------------------------------------------------- */

static int take_for_rounds(void *context, const struct watch_record *record)
{
    return watch_rounds_take(context, record);
}

static void read_probes(struct session *session, bool all)
{
    if (watch_probes_read(session->probes, all, take_for_rounds, session->rounds) != 0)
        session->is_out_of_memory = true;
}

/* Reads until the process has ended. After the duration only its end is waited for. */
static void watch_until_end(struct session *session)
{
    const double began = cp__clock_s(), seconds = session->request->seconds;
    bool is_watched = true;

    for (double shown = began; !is_stop_asked && !has_watched_ended(session);) {
        watch_probes_wait(session->probes, session->ended_fd, READ_MS);
        read_probes(session, false);
        if (is_watched && cp__clock_s() - shown >= 1) {
            watch_show_progress(session->rounds);
            shown = cp__clock_s();
        }
        if (is_watched && seconds > 0 && cp__clock_s() - began >= seconds) {
            watch_probes_stop(session->probes);
            is_watched = false;
            if (session->request->is_attached)
                break;
        }
    }
    watch_probes_stop(session->probes);
    read_probes(session, true);
    watch_rounds_end(session->rounds);
}

/* Returns what a watch may have to do with a signal that has ended the program. SIGILL is what the kernel
 * ends a program by that returns to a probe of which it knows nothing; and whoever looks for the handler of
 * an exception finds no function at the return address that a probe has changed, and calls abort(). */
static const char *explain_signal(int number)
{
    switch (number) {
    case SIGILL:
        return " If it changes its stack in a watched function, as coroutines and green threads do, that is "
               "why: "
               "such a function cannot be watched.";
    case SIGABRT:
        return " If an exception (C++) or a panic (Rust) was leaving a watched function, that is why: such a "
               "function cannot be watched. Watch the one that catches it, or one that is called before.";
    default:
        return "";
    }
}

static void tell_signal(const struct session *session)
{
    const int number = WTERMSIG(session->status);

    if (session->request->is_attached || !WIFSIGNALED(session->status))
        return;
    fprintf(stderr, "counterpoint: %s was ended by signal %d (%s).%s\n", basename(session->request->path),
            number, strsignal(number), explain_signal(number));
}

static enum status print_session(struct session *session)
{
    const struct watch_request *request = session->request;
    struct cp_watch_snapshot *snapshot = watch_rounds_snapshot(session->rounds);
    int result;

    watch_clear_progress();
    tell_signal(session);
    watch_tell_losses(session->rounds, session->probes);
    for (size_t i = 0; i < snapshot->n && !request->is_json; i++)
        snapshot->watches[i].state = (struct cp_watch_state){0}; /* was told, in other words than a watch's */
    result = cp_watch_print(snapshot, request->is_json ? CP_WATCH_JSON : CP_WATCH_TEXT, session->out);
    if (session->out != stdout && fclose(session->out) != 0 && result == 0)
        result = -errno;
    session->out = stdout;
    if (result < 0)
        return complain(STATUS_FAILURE, "The distributions cannot be written: %s.", strerror(-result));
    if (session->is_out_of_memory)
        return complain(STATUS_FAILURE, "There was not enough memory for all rounds.");
    return request->is_attached ? STATUS_OK : child_exit_status(session->status);
}

/* ---- The session ----------------------------------------------------------------------------- */

static enum status open_output(struct session *session)
{
    const char *path = session->request->output;

    session->out = path == NULL ? stdout : fopen(path, "we");
    if (session->out != NULL)
        return STATUS_OK;
    session->out = stdout;
    return complain(STATUS_FAILURE, "The file \"%s\" cannot be written: %s.", path, strerror(errno));
}

static enum status open_session(struct session *session)
{
    struct watch_request *request = session->request;
    struct cp_error err;
    int result = watch_counts_new(&session->counts, request->events, &err);

    if (result < 0)
        return complain(result == -ENOMEM ? STATUS_FAILURE : STATUS_USAGE, "%s", err.message);
    session->rounds =
        watch_rounds_new(request->names, request->n_names, watch_counts_quantities(session->counts),
                         watch_counts_n(session->counts), (unsigned)sysconf(_SC_NPROCESSORS_CONF));
    if (session->rounds == NULL)
        return complain(STATUS_FAILURE, "There is not enough memory.");
    getrlimit(RLIMIT_NOFILE, &session->files);
    result =
        watch_probes_open(&session->probes, request->functions, request->n_functions, session->counts, &err);
    if (result < 0)
        return complain(result == -ENOMEM ? STATUS_FAILURE : STATUS_NO, "%s", err.message);
    return open_output(session);
}

static enum status run_session(struct session *session)
{
    enum status status = open_session(session);

    if (status == STATUS_OK)
        status = session->request->is_attached ? attach(session) : start_watched_program(session);
    if (status != STATUS_OK)
        return status;
    session->ended_fd = (int)syscall(SYS_pidfd_open, session->pid, 0);
    watch_until_end(session);
    if (session->ended_fd >= 0)
        close(session->ended_fd);
    return print_session(session);
}

enum status watch_session(struct watch_request *request)
{
    struct session session = {.request = request, .out = stdout, .ended_fd = -1};
    enum status status = run_session(&session);

    watch_probes_free(session.probes);
    watch_rounds_free(session.rounds);
    watch_counts_free(session.counts);
    if (session.out != stdout)
        fclose(session.out);
    return status;
}
