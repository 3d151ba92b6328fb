/* The runner's side of a test's process: see process.h. */
#include "process.h"

#include "idle.h"
#include "orphans.h"
#include "report.h"
#include "runtime/base/clock.h"
#include "stacks.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Of the stacks of all Gs so many bytes are shown from the beginning, and as many from the end. */
enum { GS_PART = 64 << 10 };

/* More events than a socket holds. */
enum { EVENTS_AT_END = 100000 };

struct process {
    pid_t pid;
    int pidfd;
    int events, control; /* the runner's ends */
    struct cp__output output;
    double deadline;      /* seconds of CLOCK_MONOTONIC; 0: none */
    struct cp__event end; /* of the test on the first level, held back until the process has ended well */
    char *end_name;       /* NULL: it has not ended */
    char *stacks;         /* of a process that told of its end; NULL: it did not */
    char *why;            /* the reason that it told; NULL: none */
    struct cp__text gs;
    bool has_all_gs;
    bool is_timed_out;
    bool is_idle;      /* it has done nothing for so long that it was taken for hanging */
    bool has_hung_up;  /* the test has closed its end */
    unsigned idle_max; /* seconds; 0: it may be idle for as long as it likes */
    unsigned idle;     /* looks, one each second, at which nothing had happened since the last one */
    double next_look;
    struct cp__activity seen;
};

/* ---- Signals to the runner ------------------------------------------------------------------- */

static volatile sig_atomic_t signal_caught; /* 0: none */
static volatile sig_atomic_t group;         /* of the test that runs; 0: none */
static const int caught_signals[] = {SIGINT, SIGTERM, SIGHUP};

/* A process that is not reaped yet, so that its number and its group's are its own; it may have joined
 * another group. */
static void kill_with_group_from_handler(pid_t pid)
{
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
}

static void end_test_from_handler(int signal_number)
{
    int old = errno;
    signal_caught = signal_number;
    if (group != 0)
        kill_with_group_from_handler(group);
    errno = old;
}

void cp__process_catch_signals(void)
{
    struct sigaction old,
        action = {.sa_handler = end_test_from_handler, .sa_flags = SA_RESTART | SA_RESETHAND};
    for (size_t i = 0; i < sizeof(caught_signals) / sizeof(caught_signals[0]); i++)
        if (sigaction(caught_signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            sigaction(caught_signals[i], &action, NULL);
    /* Who has started the program may have ignored SIGCHLD. The kernel then keeps no exit status. */
    if (sigaction(SIGCHLD, NULL, &old) == 0 && (old.sa_handler == SIG_IGN || old.sa_flags & SA_NOCLDWAIT))
        signal(SIGCHLD, SIG_DFL);
}

/* In the test's process they are not the runner's. */
static void leave_signals(void)
{
    struct sigaction action;
    for (size_t i = 0; i < sizeof(caught_signals) / sizeof(caught_signals[0]); i++)
        if (sigaction(caught_signals[i], NULL, &action) == 0 && action.sa_handler == end_test_from_handler)
            signal(caught_signals[i], SIG_DFL);
}

int cp__process_signal(void)
{
    return signal_caught;
}

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "%s: no test can be started: %s: %s.\n", program_invocation_short_name, what,
            strerror(errno));
    exit(1);
}

/* ---- What comes from it ---------------------------------------------------------------------- */

static void report(enum cp__event_kind kind, const char *name, const char *text)
{
    cp__report_event(&(struct cp__event){.kind = kind, .name = name, .text = text});
}

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

static void handle(struct process *p, const struct cp__event *event)
{
    switch (event->kind) {
    case CP__EVENT_STOPPED:
        free(p->why);
        p->why = *event->text ? strdup(event->text) : NULL;
        look_at_stacks(p, (pid_t)event->number);
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

/* At most so many, as a test may send them without end; how many there were. */
static unsigned read_events(struct process *p, unsigned most)
{
    static struct cp__event_packet packet;
    struct cp__event event;
    unsigned n = 0;
    for (; n < most && cp__event_receive(p->events, &event, &packet); n++) {
        cp__output_show(&p->output, event.printed);
        handle(p, &event);
    }
    return n;
}

/* ---- Its life -------------------------------------------------------------------------------- */

static void start(struct process *p, const struct cp__job *job)
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
        cp__child_run(job, &(struct cp__child_ends){events[1], control[1], output, p->output.counts});
    }
    setpgid(p->pid, p->pid); /* here too: whichever comes first */
    group = p->pid;
    if (signal_caught != 0) /* before there was a group to end */
        kill_with_group_from_handler(p->pid);
    p->pidfd = pidfd_open(p->pid, 0);
    if (p->pidfd < 0)
        give_up("pidfd_open");
    close(events[1]);
    close(control[1]);
    close(output);
    p->events = events[0];
    p->control = control[0];
}

/* For poll(), which takes an int of them. */
static int ms_until(double deadline)
{
    double ms = (deadline - cp__clock_s()) * 1000;
    return deadline == 0 ? -1 : ms < 1e9 ? (int)ms + 1 : 1000000000;
}

/* Looks once a second. Looks are counted and not the time: a machine that stands still is no test that
 * hangs. */
static void look_whether_idle(struct process *p)
{
    if (p->idle_max == 0 || cp__clock_s() < p->next_look)
        return;
    struct cp__activity now = cp__activity_of(p->pid);
    p->idle = now.is_runnable || now.cpu != p->seen.cpu ? 0 : p->idle + 1;
    p->is_idle = p->idle >= p->idle_max;
    p->seen = now;
    p->next_look = cp__clock_s() + 1;
}

static int ms_until_next(const struct process *p, double deadline)
{
    int end = ms_until(deadline);
    int look = p->idle_max == 0 ? -1 : ms_until(p->next_look);
    if (look < 0 && p->idle_max != 0)
        look = 0;
    return end < 0 || (look >= 0 && look < end) ? look : end;
}

/* Shows what has come, first what was printed and told, in its order; then what was printed after it. */
static void take(struct process *p, bool is_hung_up)
{
    enum { MOST = 100 }; /* events, for the time limit */
    cp__output_fill(&p->output);
    unsigned n = read_events(p, MOST);
    if (n < MOST)
        cp__output_show_read(&p->output);
    p->has_hung_up |= n == 0 && is_hung_up;
    fflush(stdout);
}

/* Reads what comes until the process has ended (true), or the deadline has passed or is_done() says so, or it
 * hangs. */
static bool follow(struct process *p, double deadline, bool (*is_done)(const struct process *p))
{
    for (;;) {
        struct pollfd ready[] = {{.fd = p->pidfd, .events = POLLIN},
                                 {.fd = p->has_hung_up ? -1 : p->events, .events = POLLIN},
                                 {.fd = p->output.is_closed ? -1 : p->output.pipe, .events = POLLIN}};
        if (deadline != 0 && deadline <= cp__clock_s())
            return false;
        int n = poll(ready, 3, ms_until_next(p, deadline));
        take(p, n > 0 && (ready[1].revents & POLLHUP));
        if (n > 0 && ready[0].revents)
            return true;
        if (is_done && is_done(p))
            return false;
        look_whether_idle(p);
        if (p->is_idle)
            return false;
    }
}

static bool has_gs(const struct process *p)
{
    return p->has_all_gs;
}

/* A process that hangs is asked for its Gs, and its threads are looked at. */
static void look_at_hung(struct process *p, bool has_gs_of_its_own)
{
    p->is_timed_out = true;
    p->idle_max = 0;
    if (has_gs_of_its_own && send(p->control, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1)
        follow(p, cp__clock_s() + 5, has_gs);
    look_at_stacks(p, p->pid);
}

/* ---- How it ended ---------------------------------------------------------------------------- */

/* In a sentence; NULL where it ended as it should. */
static char *bad_end(const struct process *p, int status, double timeout_s)
{
    char *text = NULL;
    int n = 0;
    if (p->is_idle)
        n = asprintf(&text, "panic: the test hangs: its processes have used no CPU time for %u s", p->idle);
    else if (p->is_timed_out)
        n = asprintf(&text, "panic: the test timed out after %g s", timeout_s);
    else if (signal_caught != 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        n = asprintf(&text, "panic: the run was ended by signal %d (%s)", (int)signal_caught,
                     strsignal(signal_caught));
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
                         : ", or has closed the descriptors by which it is heard");
    if (n < 0)
        abort();
    return text;
}

static void report_bad_end(struct process *p, const struct cp__job *job, const char *reason, double seconds)
{
    char *text, *name, *gs = cp__text_copy(&p->gs, 0, p->gs.size);
    if (!cp__report_open_test()) { /* it did not come so far */
        char *top = cp__test_case_name(job->test);
        report(CP__EVENT_RUN, top, "");
        free(top);
    }
    if (asprintf(&text, "%s\n\n%s%s", reason, gs,
                 p->stacks ? p->stacks : "Nothing is left of its stacks.\n") < 0)
        abort();
    report(CP__EVENT_LOG, cp__report_open_test(), text);
    free(text);
    free(gs);
    while (cp__report_open_test()) {
        name = strdup(cp__report_open_test());
        cp__report_event(&(struct cp__event){
            .kind = CP__EVENT_END, .name = name, .outcome = CP__FAILED, .number = seconds});
        free(name);
    }
}

static void release(struct process *p)
{
    close(p->events);
    close(p->control);
    cp__output_close(&p->output);
    close(p->pidfd);
    free(p->end_name);
    free(p->stacks);
    free(p->why);
    cp__text_free(&p->gs);
}

void cp__process_run(const struct cp__job *job, double timeout_s)
{
    double started = cp__clock_s();
    struct process p = {.gs.part = GS_PART, .idle_max = job->options->idle_s, .next_look = started + 1};
    int status;
    start(&p, job);
    if (!follow(&p, timeout_s > 0 ? started + timeout_s : 0, NULL))
        look_at_hung(&p, !job->options->run_on);
    kill_with_group_from_handler(p.pid); /* whatever is left */
    group = 0;
    waitpid(p.pid, &status, 0);
    cp__orphans_end();
    read_events(&p, EVENTS_AT_END);
    cp__output_show_all(&p.output);

    char *reason = bad_end(&p, status, timeout_s);
    if (reason)
        report_bad_end(&p, job, reason, cp__clock_s() - started);
    else {
        p.end.name = p.end_name;
        cp__report_event(&p.end);
    }
    free(reason);
    release(&p);
}
