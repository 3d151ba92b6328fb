/* See process.h. */
#include "process.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "atomic.h"
#include "go_exit.h"
#include "heap.h"
#include "http.h"
#include "pprof/session.h"
#include "real.h"
#include "runtime/base/fail.h"
#include "runtime/base/os.h"
#include "runtime/base/sys_linux.h"
#include "runtime/base/thread.h"
#include "runtime/cost.h"
#include "settings.h"
#include "waits.h"

/* The thread that starts the session writes these fields before the scribe is there; the scribe ends it. */
static struct {
    struct cp__preload_settings settings;
    struct cp_session *session;
    struct cp_http *http;
    uint32_t pid;   /* of the process whose session this is; 0: there is none. Atomic: handlers look */
    uint32_t owner; /* of the process that has had one. Atomic: the same */
} process;

/* Only in the library for `counterpoint run --http`. */
int cp_http_start(struct cp_http **http, const char *address, const struct cp_http_options *options,
                  struct cp_error *err) __attribute__((weak));
const char *cp_http_address(const struct cp_http *http) __attribute__((weak));
void cp_http_stop(struct cp_http *http) __attribute__((weak));

/* Not by stdio's stream, which a thread of the program's may have locked for good. */
static void say_to_user(const char *message)
{
    dprintf(STDERR_FILENO, "counterpoint: %s\n", message);
}

bool cp__process_is_profiled_from_handler(void)
{
    /* acquire: pairs with the release in start_profile(), perhaps of another thread */
    return cp_load_acquire(&process.pid) == (uint32_t)getpid();
}

bool cp__process_has_handlers_from_handler(void)
{
    /* relaxed: this process has stored it before it had other threads, or at a fork */
    return cp_load_relaxed(&process.owner) == (uint32_t)getpid();
}

double cp__process_seconds(void)
{
    return process.settings.seconds;
}

/* ---- Threads --------------------------------------------------------------------------------- */

void cp__process_name_thread(void)
{
    char name[17] = "";
    int saved_errno = errno;

    if (cp_m_self() != NULL && REAL(prctl)(PR_GET_NAME, name) == 0)
        cp_label_set("thread", name);
    errno = saved_errno;
}

/* What the program's thread has while the library works on it: its signals that are blocked only for that,
 * whether it may be cancelled, and its errno. */
struct held {
    sigset_t signals;
    int cancel_state;
    int error;
};

/* Blocks the program's signals. The core's own two stay as they are: an attach unblocks SIGTRAP if the
 * program has it blocked, and must not take this function for the program. What the library calls may end a
 * thread that another one has cancelled; the program's call, such as fork(), would not. */
static void hold_thread(struct held *held)
{
    sigset_t wanted, before;

    held->error = errno;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &held->cancel_state);
    sigfillset(&wanted);
    sigdelset(&wanted, SIGTRAP);
    sigdelset(&wanted, SIGPROF);
    pthread_sigmask(SIG_BLOCK, &wanted, &before);
    sigemptyset(&held->signals);
    for (int number = 1; number <= SIGRTMAX; number++) {
        if (sigismember(&wanted, number) == 1 && sigismember(&before, number) == 0)
            sigaddset(&held->signals, number);
    }
}

/* Makes the calling thread an M; it is held. */
static int attach_held_thread(struct cp_error *err)
{
    struct cp_m *m;
    int result = cp_m_attach(&m, err);

    cp__process_name_thread();
    if (result == 0 && (process.settings.http != NULL || cp__preload_records_waits(&process.settings)))
        cp__waits_prepare_thread();
    cp__heap_settle();
    return result;
}

static void let_thread_go(const struct held *held)
{
    int unused;

    pthread_sigmask(SIG_UNBLOCK, &held->signals, NULL);
    pthread_setcancelstate(held->cancel_state, &unused);
    errno = held->error;
}

void cp__process_attach_thread(void)
{
    struct held held;

    if (!cp__process_is_profiled_from_handler())
        return;
    hold_thread(&held);
    attach_held_thread(NULL);
    let_thread_go(&held);
}

/* ---- The start ------------------------------------------------------------------------------- */

/* Has the children find the file, and know that they are none of them the first process. */
static void tell_children(void)
{
    const char *file = process.settings.file;
    char directory[PATH_MAX], id[16], *path;
    size_t size;
    FILE *out;

    snprintf(id, sizeof id, "%d", (int)getpid());
    setenv(CP__VARIABLE_FIRST, id, 1);
    if (file[0] == '/' || getcwd(directory, sizeof directory) == NULL ||
        (out = open_memstream(&path, &size)) == NULL)
        return;
    cp__print_pattern_of(out, directory);
    fprintf(out, "/%s", file);
    if (fclose(out) != 0)
        return;
    setenv(CP__VARIABLE_FILE, path, 1);
    free(process.settings.file);
    process.settings.file = path;
}

static void close_empty_files(void)
{
    for (size_t i = 0; i < process.settings.n; i++)
        cp__files_close(i, false);
}

static int start_own_session(struct cp_error *err)
{
    struct cp_profiling_option options[CP_EV_MAX];
    const struct cp__preload_settings *settings = &process.settings;
    int result = cp__files_open(settings, err);

    if (result < 0)
        return result;
    for (size_t i = 0; i < settings->n; i++)
        options[i] = cp_option_event(cp__files_writer(i), settings->events[i], settings->periods[i]);
    result = cp_session_start(&process.session, options, settings->n, err);
    if (result == 0) {
        cp__session_leave_names(process.session, settings->are_names_left);
        return 0;
    }
    close_empty_files();
    return result;
}

static void serve_profiles(void)
{
    struct cp_error err;

    if (process.settings.http == NULL || !process.settings.is_first || process.http != NULL)
        return;
    if (cp_http_start == NULL)
        say_to_user(
            "this preloaded library has no endpoint. Preload libcounterpoint-preload-http.so, or run the "
            "program by "
            "'counterpoint run --http ADDRESS'.");
    else if (cp_http_start(&process.http, process.settings.http, NULL, &err) < 0)
        say_to_user(err.message);
    else
        dprintf(STDERR_FILENO, "counterpoint: http://%s/debug/pprof/\n", cp_http_address(process.http));
}

static int start_profile(struct cp_error *err)
{
    int result = start_own_session(err);

    if (result < 0)
        return result;
    result = cp__scribe_start();
    if (result < 0) {
        cp_session_close(process.session);
        process.session = NULL;
        close_empty_files();
        return cp__error(err, result, "There is no thread to write the profile: %s.", strerror(-result));
    }
    process.settings.has_executed = true; /* the next session, if exec fails, does not replace the file */
    cp_store_relaxed(&process.owner, (uint32_t)getpid()); /* relaxed: see above */
    /* release: pairs with the acquire in cp__process_is_profiled_from_handler() */
    cp_store_release(&process.pid, (uint32_t)getpid());
    return 0;
}

static void *start_profile_here(void *err)
{
    return start_profile(err) < 0 ? err : NULL;
}

/* The calling thread is attached before the session starts, so that its first instruction after the start
 * counts. The session starts on a thread of the library's own, because the thread that has forked may have a
 * small stack. */
void cp__process_begin(void)
{
    struct cp_error err = {0};
    struct held held;
    int result;

    hold_thread(&held);
    result = attach_held_thread(&err);
    if (result == 0 && cp__thread_run(start_profile_here, &err) < 0)
        say_to_user("there is no thread to start the profile: this process will leave none.");
    if (err.code < 0)
        say_to_user(err.message);
    let_thread_go(&held);
}

/* ---- The end --------------------------------------------------------------------------------- */

/* A profile without samples is kept of the first process only, and if that does not go on as another program.
 * Of a thousand short children most have no sample, and those that have one stand for the others. */
static bool is_worth_keeping(size_t i)
{
    struct cp_slot_stats stats = {.size = sizeof stats};

    return cp_session_stats(process.session, i, &stats) < 0 || stats.samples > 0 || process.settings.is_first;
}

/* Has the names looked up here if the process that would have done so has ended: this one is a daemon's. A
 * process that has ended, but is still waited for, has no file of a program. */
static void take_names_back(void)
{
    char path[40], target[2];

    snprintf(path, sizeof path, "/proc/%d/exe", process.settings.namer);
    if (process.settings.namer != 0 && readlink(path, target, sizeof target) < 0 && errno == ENOENT)
        cp__session_leave_names(process.session, false);
}

void cp__process_end(void)
{
    struct cp_session *session = process.session;
    struct cp_error err;
    bool is_kept[CP_EV_MAX], is_any = false;
    int result = cp_session_halt(session, &err);

    for (size_t i = 0; i < process.settings.n; i++)
        is_any |= is_kept[i] = is_worth_keeping(i);
    take_names_back();
    if (result == 0 && is_any)
        result = cp_session_stop(session, &err);
    if (result < 0)
        dprintf(STDERR_FILENO, "counterpoint: the profile of process %d could not be written to %s. %s\n",
                (int)getpid(), cp__files_path(0), err.message);
    for (size_t i = 0; i < process.settings.n; i++)
        cp__files_close(i, is_kept[i] && result == 0);
    process.session = NULL; /* first: the child of a fork closes what it finds here */
    cp_session_close(session);
    cp_store_relaxed(&process.pid,
                     0u); /* relaxed: the caller of the scribe acquires what the scribe releases */
}

/* ---- The library is loaded ------------------------------------------------------------------- */

/* A child of fork() has one thread, and no session. It begins one, also if its parent's is over. */
static void begin_in_child(void)
{
    struct held held;

    if (cp_load_relaxed(&process.owner) == 0) /* relaxed: see above */
        return;
    hold_thread(&held);
    cp_store_relaxed(&process.pid, 0u);                   /* relaxed: see above */
    cp_store_relaxed(&process.owner, (uint32_t)getpid()); /* relaxed: see above */
    cp_session_close(process.session);
    process.session = NULL;
    process.http =
        NULL; /* its threads are the parent's, and its sockets are closed when the child executes */
    cp__heap_forget();
    cp__files_forget();
    cp__threads_forget();
    cp__exec_forget();
    process.settings.is_first = process.settings.has_executed = false;
    cp__process_begin();
    let_thread_go(&held);
}

static void finish_at_exit(void)
{
    cp__scribe_finish_from_handler(CP__SCRIBE_WAIT_MS);
}

static void begin_with_program(void)
{
    struct cp_error err;
    struct held held;

    cp__real_prepare();
    if (cp__preload_settings(&process.settings, &err) < 0) {
        say_to_user(err.message);
        return;
    }
    if (process.settings.file == NULL)
        return;
    tell_children();
    cp__sys_lift_descriptors();
    cp_symbol_use_jit(true);
    cp__cost_take_over(process.settings.cost_ns);
    cp__switch_costs_take_over(&process.settings.switch_costs);
    pthread_atfork(NULL, NULL, begin_in_child);
    atexit(finish_at_exit);
    cp__threads_begin();
    hold_thread(&held); /* a signal that ends the process waits for the handler of deadly.c */
    cp__process_begin();
    if (cp__process_has_handlers_from_handler()) {
        cp__deadly_install();
        cp__go_exit_install();
    }
    let_thread_go(&held);
    serve_profiles();
}

/* Runs after the core's constructors: the Makefile links this room behind the core. So the core's handlers of
 * forks run before this one, too. A program may take for granted that errno is 0 in main(). */
__attribute__((constructor)) static void profile_from_the_start(void)
{
    int saved_errno = errno;

    begin_with_program();
    errno = saved_errno;
}
