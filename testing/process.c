/* See process.h. */
#include "process.h"

#include "end.h"
#include "idle.h"
#include "report.h"
#include "runtime/base/clock.h"
#include "stacks.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Of the listing of all Gs, the report shows this many bytes from the beginning and as many from the end. */
enum { GS_PART = 64 << 10 };

/* The most events that are read after the process has ended; more than a socket can hold. */
enum { EVENTS_AT_END = 100000 };

/* Seconds that the processes of a test that is over its time have for their end by SIGTERM, and seconds
 * that any test's processes may take to end after SIGKILL: much memory on a slow machine takes some. */
enum { ASK_S = 1, PATIENCE_S = 10 };

struct process {
    pid_t pid;
    int pidfd;
    int events, control; /* the runner's ends */
    struct cp__output output;
    double deadline;      /* seconds of CLOCK_MONOTONIC; 0: none */
    struct cp__event end; /* the end of the top-level test, held back until the process has ended well */
    char *end_name;       /* name for "end"; NULL: the test has not ended */
    char *stacks;         /* stacks of a process that told of its end; NULL: it did not tell */
    char *why;            /* the reason that the process told; NULL: none */
    char *refused;        /* which events could not be taken from a test that is over its time; NULL: none */
    struct cp__text gs;
    bool has_all_gs;
    bool is_timed_out;
    bool is_idle;      /* the processes did nothing for idle_max looks; the test is taken for hanging */
    bool is_starved;   /* the process has gone on for long after its limit of CPU time */
    bool has_hung_up;  /* the test's process has closed its end of the event socket */
    unsigned idle_max; /* seconds; 0: the test may be idle without limit */
    unsigned idle;     /* consecutive looks, one a second, that found no activity */
    rlim_t cpu_s;      /* the process's limit of CPU time in seconds; 0: none was seen */
    double next_look;  /* seconds of CLOCK_MONOTONIC */
    struct cp__activity seen;
    struct cp__ending ending;
};

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "%s: no test can be started: %s: %s.\n", program_invocation_short_name, what,
            strerror(errno));
    exit(1);
}

/* ---- Signals to the runner ------------------------------------------------------------------- */

static volatile sig_atomic_t signal_caught; /* 0: none */
static int signal_event = -1;               /* an eventfd that is readable as soon as a signal was caught */
static const int caught_signals[] = {SIGINT, SIGTERM, SIGHUP};

/* Handles the signals of cp__process_catch_signals(). follow() wakes and ends the test, because a test's
 * events must be taken before the test is killed. SA_RESETHAND makes a second signal end the runner. */
static void end_run_from_handler(int signal_number)
{
    int old = errno;
    signal_caught = signal_number;
    (void)!write(signal_event, &(uint64_t){1}, sizeof(uint64_t));
    errno = old;
}

void cp__process_catch_signals(void)
{
    struct sigaction old,
        action = {.sa_handler = end_run_from_handler, .sa_flags = SA_RESTART | SA_RESETHAND};
    signal_event = eventfd(0, EFD_CLOEXEC);
    if (signal_event < 0)
        give_up("eventfd");
    for (size_t i = 0; i < sizeof(caught_signals) / sizeof(caught_signals[0]); i++)
        if (sigaction(caught_signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            sigaction(caught_signals[i], &action, NULL);
    /* The program's parent may have made it ignore SIGCHLD; the kernel would then keep no exit status for
     * waitpid(). */
    if (sigaction(SIGCHLD, NULL, &old) == 0 && (old.sa_handler == SIG_IGN || old.sa_flags & SA_NOCLDWAIT))
        signal(SIGCHLD, SIG_DFL);
}

/* Gives the runner's signals their default action in the test's process. */
static void leave_signals(void)
{
    struct sigaction action;
    for (size_t i = 0; i < sizeof(caught_signals) / sizeof(caught_signals[0]); i++)
        if (sigaction(caught_signals[i], NULL, &action) == 0 && action.sa_handler == end_run_from_handler)
            signal(caught_signals[i], SIG_DFL);
}

int cp__process_signal(void)
{
    return signal_caught;
}

/* ---- What the child sends -------------------------------------------------------------------- */

static void report_event(enum cp__event_kind kind, const char *name, const char *text)
{
    cp__report_event(&(struct cp__event){.kind = kind, .name = name, .text = text});
}

/* Stores the stacks of the process, the given thread's first. */
static void look_at_stacks(struct process *p, pid_t thread)
{
    size_t size;
    free(p->stacks);
    FILE *stream = open_memstream(&p->stacks, &size);
    if (!stream)
        return;
    cp__stacks_print(stream, p->pid, thread);
    fclose(stream);
}

static bool is_over_its_time(const struct process *p)
{
    return p->is_timed_out || p->is_idle || p->is_starved;
}

/* Handles one event: the end of the top-level test is held back, most others go to the report. */
static void handle_event(struct process *p, const struct cp__event *event)
{
    switch (event->kind) {
    case CP__EVENT_STOPPED:
        if (!is_over_its_time(p)) { /* look_at_hung() looks, or has looked */
            free(p->why);
            p->why = *event->text ? strdup(event->text) : NULL;
            look_at_stacks(p, (pid_t)event->number);
        }
        (void)!send(p->events, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        break;
    case CP__EVENT_GS:
        p->has_all_gs = !*event->text;
        cp__text_add(&p->gs, event->text);
        break;
    case CP__EVENT_END:
        if (!strchr(event->name, '/')) {
            p->end = *event;
            p->end_name = strdup(event->name);
            break;
        }
        __attribute__((fallthrough));
    default:
        cp__report_event(event);
    }
}

/* Handles at most so many events, because a test may send events without end. Returns how many there were. */
static unsigned read_child_events(struct process *p, unsigned most)
{
    static struct cp__event_packet packet;
    struct cp__event event;
    unsigned n = 0;
    for (; n < most && cp__event_receive(p->events, &event, &packet); n++) {
        cp__output_show(&p->output, event.printed);
        handle_event(p, &event);
    }
    return n;
}

/* ---- Its life -------------------------------------------------------------------------------- */

/* Forks the test's process and keeps the runner's ends of its sockets and its pipe. */
static void start_process(struct process *p, const struct cp__job *job)
{
    int events[2], control[2], output;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, events) < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) < 0)
        give_up("socketpair");
    if (cp__output_open(&p->output, &output) < 0)
        give_up("a pipe");
    fflush(NULL);
    p->pid = fork();
    if (p->pid < 0)
        give_up("fork");
    if (p->pid == 0) {
        leave_signals();
        close(events[0]);
        close(control[0]);
        close(p->output.pipe);
        close(signal_event);
        cp__child_run(job, &(struct cp__child_ends){events[1], control[1], output, p->output.counts});
    }
    setpgid(p->pid, p->pid); /* the child calls setpgid(), too; either call may come first */
    p->ending = (struct cp__ending){.child = p->pid, .patience_s = PATIENCE_S};
    p->pidfd = pidfd_open(p->pid, 0);
    if (p->pidfd < 0)
        give_up("pidfd_open");
    close(events[1]);
    close(control[1]);
    close(output);
    p->events = events[0];
    p->control = control[0];
}

/* Returns the milliseconds until the deadline for poll(), which takes an int; -1 if there is no deadline. */
static int ms_until(double deadline)
{
    double ms = (deadline - cp__clock_s()) * 1000;
    return deadline == 0 ? -1 : ms < 1e9 ? (int)ms + 1 : 1000000000;
}

/* Looks without activity are counted instead of time, so that a machine that stands still does not look
 * like a test that hangs. */
static void look_whether_idle(struct process *p)
{
    struct cp__activity now = cp__activity_of(p->pid, 0);
    p->idle = now.is_runnable || now.cpu != p->seen.cpu ? 0 : p->idle + 1;
    p->is_idle = p->idle >= p->idle_max;
    p->seen = now;
}

/* Looks whether the process has more CPU time than its soft limit (RLIMIT_CPU) lets it have. The process's
 * own handler of SIGXCPU says so before that, unless events leave its thread no time.
 *
 * At the hard limit the kernel kills the process, and nobody can then take the events from it. The kernel
 * raises the soft limit by a second with each SIGXCPU; what raises the limit by PROGRAMS_S is the program. */
static void look_whether_starved(struct process *p)
{
    enum { GRACE_S = 2, PROGRAMS_S = 60 };
    struct rlimit limit;
    struct timespec used;
    clockid_t clock;
    if (prlimit(p->pid, RLIMIT_CPU, NULL, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY ||
        clock_getcpuclockid(p->pid, &clock) != 0 || clock_gettime(clock, &used) < 0)
        return;
    if (p->cpu_s == 0 || limit.rlim_cur < p->cpu_s || limit.rlim_cur >= p->cpu_s + PROGRAMS_S)
        p->cpu_s = limit.rlim_cur;
    p->is_starved = (rlim_t)used.tv_sec >= p->cpu_s + GRACE_S;
}

/* Looks at the processes once a second. Returns whether the test is to be ended. */
static bool is_given_up(struct process *p)
{
    if (cp__clock_s() < p->next_look)
        return false;
    if (p->idle_max != 0)
        look_whether_idle(p);
    look_whether_starved(p);
    p->next_look = cp__clock_s() + 1;
    return p->is_idle || p->is_starved;
}

/* Returns the milliseconds until the deadline or the next look at the processes, whichever comes first. */
static int ms_until_next(const struct process *p, double deadline)
{
    int end = ms_until(deadline), look = ms_until(p->next_look);
    look = look < 0 ? 0 : look;
    return end < 0 || look < end ? look : end;
}

/* Shows what has arrived: events, and the output that was printed before each; then output that no event
 * follows. */
static void take_what_came(struct process *p, bool is_hung_up)
{
    enum { MOST = 100 }; /* events in one turn, so that the time limit is looked at in between */
    cp__output_fill(&p->output);
    unsigned n = read_child_events(p, MOST);
    if (n < MOST)
        cp__output_show_read(&p->output);
    p->has_hung_up |= n == 0 && is_hung_up;
    fflush(stdout);
}

/* Reads and shows what arrives. Returns true when the process has ended, and false when the deadline has
 * passed, when is_done() says so, when the test hangs, or when the run is to end. */
static bool follow(struct process *p, double deadline, bool (*is_done)(const struct process *p))
{
    for (;;) {
        struct pollfd ready[] = {{.fd = p->pidfd, .events = POLLIN},
                                 {.fd = p->has_hung_up ? -1 : p->events, .events = POLLIN},
                                 {.fd = p->output.is_closed ? -1 : p->output.pipe, .events = POLLIN},
                                 {.fd = signal_event, .events = POLLIN}};
        if (deadline != 0 && deadline <= cp__clock_s())
            return false;
        int n = poll(ready, 4, ms_until_next(p, deadline));
        take_what_came(p, n > 0 && (ready[1].revents & POLLHUP));
        if (n > 0 && ready[0].revents)
            return true;
        if (signal_caught != 0 || (is_done && is_done(p)))
            return false;
        if (is_given_up(p))
            return false;
    }
}

static bool has_gs(const struct process *p)
{
    return p->has_all_gs;
}

/* Collects what a process that hangs still tells: the stacks of its Gs, which it sends itself, and of its
 * threads. A thread whose events leave it no time tells nothing, and does not stop for a look, so the
 * events of all processes of the test are taken first. */
static void look_at_hung(struct process *p, bool has_gs_of_its_own)
{
    p->is_timed_out = !p->is_idle && !p->is_starved;
    p->next_look = HUGE_VAL;
    p->ending.ask_s = ASK_S;
    p->refused = cp__end_disarm(&p->ending);
    if (has_gs_of_its_own && send(p->control, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1)
        follow(p, cp__clock_s() + 5, has_gs);
    if (!p->ending.is_late)
        look_at_stacks(p, p->pid);
    /* What SIGTERM ends tells of its end, too, and waits for an answer that nobody else gives. */
    (void)!send(p->events, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---- How it ended ---------------------------------------------------------------------------- */

/* Returns a sentence that says how the process ended, or NULL if the process ended well or has not ended. */
static char *bad_end(const struct process *p, double timeout_s)
{
    char *text = NULL;
    int n = 0, status = p->ending.status;
    if (p->is_idle)
        n = asprintf(&text, "panic: the test hangs: its processes have used no CPU time for %u s", p->idle);
    else if (p->is_starved)
        n = asprintf(&text,
                     "panic: the test's process has used more CPU time than its limit (RLIMIT_CPU), and does "
                     "not answer SIGXCPU");
    else if (p->is_timed_out)
        n = asprintf(&text, "panic: the test timed out after %g s", timeout_s);
    else if (signal_caught != 0 &&
             (!p->ending.is_reaped || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)))
        n = asprintf(&text, "panic: the run was ended by signal %d (%s)", (int)signal_caught,
                     strsignal(signal_caught));
    else if (!p->ending.is_reaped)
        return NULL;
    else if (WIFSIGNALED(status))
        n = asprintf(&text, "panic: killed by signal %d (%s)%s%s", WTERMSIG(status),
                     strsignal(WTERMSIG(status)), p->why ? ": " : "", p->why ? p->why : "");
    else if (p->end_name && WEXITSTATUS(status) != 0)
        n = asprintf(&text, "panic: after the test its process ended with status %d", WEXITSTATUS(status));
    else if (!p->end_name)
        n = asprintf(&text, "panic: the test ended its process by %s(%d)%s", p->stacks ? "exit" : "_exit",
                     WEXITSTATUS(status),
                     p->stacks || WEXITSTATUS(status) != 0
                         ? ""
                         : ", or has closed the descriptors through which it reports");
    if (n < 0)
        abort();
    return text;
}

/* Reports the bad end of a process as a log of the innermost test that runs, and all tests that run as
 * failed. */
static void report_bad_end(struct process *p, const struct cp__job *job, const char *reason, double seconds)
{
    char *text, *name, *gs = cp__text_copy(&p->gs, 0, p->gs.size);
    if (!cp__report_open_test()) { /* the process ended before the test began */
        char *top = cp__test_case_name(job->test);
        report_event(CP__EVENT_RUN, top, "");
        free(top);
    }
    if (asprintf(&text, "%s\n\n%s%s", reason, gs,
                 p->stacks ? p->stacks : "The stacks of the test's process are lost.\n") < 0)
        abort();
    report_event(CP__EVENT_LOG, cp__report_open_test(), text);
    free(text);
    free(gs);
    while (cp__report_open_test()) {
        name = strdup(cp__report_open_test());
        cp__report_event(&(struct cp__event){
            .kind = CP__EVENT_END, .name = name, .outcome = CP__FAILED, .number = seconds});
        free(name);
    }
}

static void release_process(struct process *p)
{
    close(p->events);
    close(p->control);
    cp__output_close(&p->output);
    close(p->pidfd);
    free(p->end_name);
    free(p->stacks);
    free(p->why);
    free(p->refused);
    cp__text_free(&p->gs);
}

/* Returns the reason of a bad end with what is left of the test, or NULL if the test ended well and left
 * nothing. Frees the text. What is left could not be told from what the program's later tests start, so
 * the runner adopts no processes any more. */
static char *reason_of_end(const struct process *p, char *left, double timeout_s)
{
    char *reason = bad_end(p, timeout_s), *all = NULL;
    if (left)
        cp__end_release();
    if (!left && !p->refused)
        return reason;
    if (asprintf(&all, "%s\n%s%s", reason ? reason : "panic: the test has left something behind",
                 left ? "These threads could not be ended:\n" : "", left ? left : p->refused) < 0)
        abort();
    all[strlen(all) - 1] = 0; /* the last line's end */
    free(reason);
    free(left);
    return all;
}

void cp__process_run(const struct cp__job *job, double timeout_s)
{
    double started = cp__clock_s();
    struct process p = {.gs.part = GS_PART, .idle_max = job->options->idle_s, .next_look = started + 1};
    start_process(&p, job);
    if (!follow(&p, timeout_s > 0 ? started + timeout_s : 0, NULL) && signal_caught == 0)
        look_at_hung(&p, !job->options->run_on);
    char *left = cp__end(&p.ending);
    read_child_events(&p, EVENTS_AT_END);
    cp__output_show_all(&p.output);

    char *reason = reason_of_end(&p, left, timeout_s);
    if (reason)
        report_bad_end(&p, job, reason, cp__clock_s() - started);
    else {
        p.end.name = p.end_name;
        cp__report_event(&p.end);
    }
    free(reason);
    release_process(&p);
}
