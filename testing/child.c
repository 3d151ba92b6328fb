/* See child.h. A process that cannot go on tells the runner before it ends, so that the runner can print the
 * stacks. */
#include "child.h"

#include "counts.h"
#include "pprof.h"
#include "sched.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* The variables below are set before the test begins; is_over is set when the test has ended. */
static const struct cp__job *current_job;
static void (*call)(const struct cp__event *event);           /* NULL: events go through the socket */
static pthread_mutex_t tell_lock = PTHREAD_MUTEX_INITIALIZER; /* keeps the packets of a long text together */
static int event_socket, control_socket, output;
static const struct cp__output_counts *output_counts;
static pid_t pid;
static uint32_t is_over;
static uintptr_t first_stack_lo; /* lowest address of the first thread's stack; 0: unknown */

/* A fault at most this far below a stack is an overflow of that stack. The guards of the scheduler are
 * smaller. */
enum { GUARD_SIZE = 64 << 10 };

/* Sends an event with the size of the output so far, so that the runner shows both in their order. */
static void send_from_handler(const struct cp__event *event)
{
    struct cp__event sent = *event;
    sent.printed = cp__output_size_from_handler(output, output_counts);
    cp__event_send_from_handler(event_socket, &sent);
}

bool cp__is_forked_by_test(void)
{
    return getpid() != pid;
}

/* A process that the test has forked only sends log events: no test begins or ends in that copy. Such a
 * process does * not take tell_lock, because a thread that exists only in the parent may have held the lock
 * at the fork. */
void cp__tell(const struct cp__event *event)
{
    fflush(stdout);
    if (cp__is_forked_by_test()) {
        if (event->kind == CP__EVENT_LOG && !call)
            send_from_handler(event);
        return;
    }
    pthread_mutex_lock(&tell_lock);
    (call ? call : send_from_handler)(event);
    pthread_mutex_unlock(&tell_lock);
}

/* Lets other users pass through the directory, because a test may open its own directory to them. Other
 * users still * cannot list the directory, so they do not find what else is in it. */
const char *cp__temp_root(int *error)
{
    *error = current_job->temp_error;
    if (*error == 0 && chmod(current_job->temp_root, 0711) < 0)
        *error = errno;
    return current_job->temp_root;
}

void cp__end_process(struct cp__test *test)
{
    for (; test; test = test->parent)
        cp__test_tell_end(test);
    fflush(NULL);
    cp_store_relaxed(&is_over, 1); /* relaxed: only this thread reads the flag, in tell_exit() */
    if (call)
        exit(1);
    _exit(0);
}

/* ---- The end of the process ------------------------------------------------------------------ */

/* Tells the runner that the process ends here, and why, and waits until the runner has read the stacks.
 * tells_end() of * stacks_linux.c knows the names of this function, die_from_handler() and tell_exit();
 * hence "noinline". */
__attribute__((noinline)) static void stop_from_handler(const char *why)
{
    char answer;
    struct pollfd ready = {.fd = event_socket, .events = POLLIN};
    send_from_handler(
        &(struct cp__event){.kind = CP__EVENT_STOPPED, .name = "", .text = why, .number = gettid()});
    int n;
    while ((n = poll(&ready, 1, 30000)) < 0 && errno == EINTR)
        ;
    if (n == 1)
        (void)!recv(event_socket, &answer, 1, MSG_DONTWAIT);
}

/* Stores the lower end of the stack of the process's first thread, for is_overflow_from_handler(). */
static void find_first_stack(void)
{
    pthread_attr_t attributes;
    void *lo;
    size_t size;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0)
        return;
    if (pthread_attr_getstack(&attributes, &lo, &size) == 0)
        first_stack_lo = (uintptr_t)lo;
    pthread_attr_destroy(&attributes);
}

/* Returns whether the signal means that the stack of a G, or of the first thread, has overflowed. */
static bool is_overflow_from_handler(int signal_number, const siginfo_t *info)
{
    const struct cp_m *m = cp_m_self();
    uintptr_t lo = m && m->g ? m->g->stack_lo : gettid() == pid ? first_stack_lo : 0;
    uintptr_t address = (uintptr_t)info->si_addr;
    return signal_number == SIGSEGV && info->si_code > 0 && address < lo && lo - address <= GUARD_SIZE;
}

/* Tells the runner about a fatal signal, then lets the signal do what it would have done. A process that the
 * test has * forked tells nothing. */
static void die_from_handler(int signal_number, siginfo_t *info, void *context)
{
    (void)context;
    if (!cp__is_forked_by_test())
        stop_from_handler(is_overflow_from_handler(signal_number, info) ? "stack overflow" : "");
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* Catches fatal signals that nobody else handles. Handlers of sanitizers stay, because their reports say
 * more. */
static void catch_signals(void)
{
    static char stack[64 << 10]; /* for a thread whose stack has overflowed; Ms bring their own */
    stack_t here;
    if (sigaltstack(NULL, &here) == 0 && here.ss_flags & SS_DISABLE)
        sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof(stack)}, NULL);
    static const int signals[] = {SIGSEGV, SIGBUS,  SIGILL,  SIGFPE,  SIGABRT, SIGSYS, SIGTRAP, SIGTERM,
                                  SIGQUIT, SIGXCPU, SIGXFSZ, SIGPIPE, SIGALRM, SIGHUP, SIGINT};
    struct sigaction old, action = {.sa_sigaction = die_from_handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            sigaction(signals[i], &action, NULL);
}

/* Called by exit(): if the test has not ended, the test's code called exit(), and the runner is told. */
static void tell_exit(int status, void *unused)
{
    (void)status, (void)unused;
    if (!cp__is_forked_by_test() &&
        !cp_load_relaxed(&is_over)) /* relaxed: if this thread did not set the flag, the test has not ended */
        stop_from_handler("");
}

/* ---- Gs -------------------------------------------------------------------------------------- */

/* Returns the stacks of all Gs as text, or "" if they cannot be listed. The caller frees the text. */
static char *list_gs(void)
{
    struct cp_memory listing = {0};
    bool is_there = cp_g_profile(cp_writer_memory(&listing), CP_FORM_STATES, NULL, NULL) == 0;
    size_t size = is_there ? listing.size : 0;
    char *text = malloc(size + 1);
    if (!text)
        abort();
    memcpy(text, size ? (char *)listing.data : "", size);
    text[size] = 0;
    free(listing.data);
    return text;
}

/* Body of a thread that answers the runner's request for the stacks of all Gs, even if every M is stuck. */
static void *watch_for_requests(void *unused)
{
    char request;
    while (recv(control_socket, &request, 1, 0) == 1) {
        char *text = list_gs();
        if (*text)
            send_from_handler(&(struct cp__event){.kind = CP__EVENT_GS, .name = "", .text = text});
        free(text);
        send_from_handler(&(struct cp__event){.kind = CP__EVENT_GS, .name = ""});
    }
    return unused;
}

/* Starts the thread of watch() with all signals blocked, so that the test's signals never reach that
 * thread. */
static void start_watching(void)
{
    pthread_t thread;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    if (pthread_create(&thread, NULL, watch_for_requests, NULL) == 0)
        pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static int count_other(void *count, const struct cp_g_info *g)
{
    *(size_t *)count += g->id != cp_g_self()->id;
    return 0;
}

/* Returns the number of Gs besides the caller. */
static size_t other_gs(void)
{
    size_t n = 0;
    return cp_g_each(count_other, &n, NULL) == 0 ? n : 0;
}

/* Returns a copy of a listing of Gs without the paragraph of the calling G. */
static char *without_self(const char *listing)
{
    char self[50], *text = NULL;
    size_t size,
        length = (size_t)snprintf(self, sizeof(self), "goroutine %llu ", (unsigned long long)cp_g_self()->id);
    FILE *stream = open_memstream(&text, &size);
    while (stream && *listing) {
        const char *end = strstr(listing, "\n\n");
        end = end ? end + 2 : listing + strlen(listing);
        if (strncmp(listing, self, length) != 0)
            fwrite(listing, 1, (size_t)(end - listing), stream);
        listing = end;
    }
    if (stream)
        fclose(stream);
    for (size_t n = text ? strlen(text) : 0; n > 0 && text[n - 1] == '\n';)
        text[--n] = 0;
    return text;
}

/* Fails the test if Gs are left when it ends. Gs that are about to end get a second for that. */
static void fail_where_gs_are_left(struct cp__test *test)
{
    size_t n = 0;
    for (int ms = 0; ms < 1000 && (n = other_gs()) > 0; ms++)
        cp_sleep(1000000);
    if (n == 0)
        return;
    char *listing = list_gs(), *text = without_self(listing);
    cp__t_error(&test->t, "The test has ended, but Gs are left: %zu.\n%s", n, text ? text : "");
    free(text);
    free(listing);
    if (!call)
        cp_testing_child_stop();
    cp__end_process(test); /* returning would let the scheduler wait for the Gs that are left */
}

/* ---- The test -------------------------------------------------------------------------------- */

static void call_test(struct cp_t *t, void *job)
{
    ((const struct cp__job *)job)->test->run(t);
}

/* Runs the job's test on the runtime that the options choose, and tells the runner how the test ended. */
static void run_test(void *arg)
{
    struct cp__job *job = arg;
    struct cp__test test = {.name = cp__test_case_name(job->test), .options = job->options, .cpu = job->cpu};
    if (job->test->is_benchmark)
        cp__bench_begin(&test);
    cp__test_run(&test, call_test, job);
    if (!job->options->run_on)
        fail_where_gs_are_left(&test);
    if (!call && test.has_ended_early) {
        cp_testing_child_stop();
        cp__end_process(&test); /* the test's memory was not freed, so a leak checker must not run */
    }
    cp__test_tell_end(&test);
    free(test.name);
}

static int run_on_scheduler(void (*fn)(void *), void *arg, unsigned threads, struct cp_error *err)
{
    struct cp_sched_options options = {.size = sizeof(options), .threads = threads, .stack_size = 256 << 10};
    return cp_sched_run(&options, fn, arg, err);
}

/* Reports the test as failed, because the runtime could not start. */
static void tell_that_nothing_ran(const struct cp__job *job, const struct cp_error *err)
{
    char *name = cp__test_case_name(job->test), *text;
    if (asprintf(&text, "    The test could not be started on %u threads: %s\n", job->cpu, err->message) < 0)
        abort();
    cp__tell(&(struct cp__event){.kind = CP__EVENT_RUN, .name = name});
    cp__tell(&(struct cp__event){.kind = CP__EVENT_LOG, .name = name, .text = text});
    cp__tell(&(struct cp__event){.kind = CP__EVENT_END, .name = name, .outcome = CP__FAILED});
    free(name);
    free(text);
}

/* Runs the job on the scheduler, or on the runtime that the program has chosen with run_on. */
static void run_in_child(const struct cp__job *job)
{
    struct cp_error err = {0};
    current_job = job;
    if (job->test->is_benchmark)
        cp__counts_open();
    int result = (job->options->run_on ? job->options->run_on
                                       : run_on_scheduler)(run_test, (void *)(size_t)job, job->cpu, &err);
    if (result < 0)
        tell_that_nothing_ran(job, &err);
}

/* Connects stdin to /dev/null, and stdout and stderr to the pipe that the runner reads. */
static void redirect_output(void)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(null, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    close(null);
    setvbuf(stdout, NULL, _IONBF, 0);
}

/* Moves a descriptor to a high number, because a test may close low numbers that it takes for its own, or
 * count on * getting them. */
static int move_up(int fd)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, limit.rlim_cur < 1024 ? (int)limit.rlim_cur - 8 : 1016);
    if (moved < 0)
        return fd;
    close(fd);
    return moved;
}

void cp__child_run(const struct cp__job *job, const struct cp__child_ends *ends)
{
    pid = getpid();
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    event_socket = move_up(ends->events);
    control_socket = move_up(ends->control);
    output = move_up(ends->output);
    output_counts = ends->output_counts;
    redirect_output();
    find_first_stack();
    catch_signals();
    on_exit(tell_exit, NULL);
    if (!job->options->run_on)
        start_watching();
    cp_testing_child_start();
    run_in_child(job);
    cp_testing_child_stop();
    cp_store_relaxed(&is_over, 1); /* relaxed: only this thread reads the flag, in tell_exit() */
    exit(0);
}

void cp__child_run_in_process(const struct cp__job *job, void (*event)(const struct cp__event *event))
{
    pid = getpid();
    call = event;
    run_in_child(job);
}
