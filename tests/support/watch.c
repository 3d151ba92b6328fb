/*
 * Runs a command, and sees to it that nothing is left of the command afterwards.
 *
 *     build/tests/watch [OPTION SECONDS]... COMMAND ARGUMENT...
 *
 * Exits with the command's status, or 128 + the number of the signal that ended the command. What the command
 * has started and left running is named on stdout, thread by thread, and ended; then the status is 125. If
 * something cannot be ended, it is named again, and the status is 126. A command that is over its limits is
 * ended, too, with the same status:
 *
 *     -idle SECONDS  its processes use no CPU time for as many looks, one a second
 *     -cpu SECONDS   its processes use more CPU time than that while none of them ends and none begins
 *
 * A command that is over its limits, or that is to end because this program is told to by SIGTERM, SIGINT or
 * SIGHUP, first loses its perf events, which may leave a thread no time to end. Then SIGTERM follows, and
 * SIGKILL after -ask SECONDS (20), because a command has much to end itself. After SIGKILL, this program
 * waits for -kill SECONDS (20).
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "testing/end.h"
#include "testing/idle.h"

enum {
    FAILED = 125,  /* exit status: something was left, or the command was over its limits */
    UNENDED = 126, /* exit status: something is still there */
    LEAVE_S = 5, /* seconds that what the command has started has for its own end after that of the command */
};

/* What the processes have done so far, and what they may do. */
struct progress {
    unsigned idle;     /* consecutive looks that found no activity */
    uint64_t cpu;      /* CPU time of all processes at the last look, in clock ticks */
    uint64_t cpu_then; /* the same when a process began or ended for the last time */
    uint64_t who;      /* a sum over the processes' numbers */
};

/* In seconds; 0: no limit. */
static unsigned idle_max, cpu_max, ask_s = 20, kill_s = 20;

static const struct option {
    const char *name;
    unsigned *seconds;
} options[] = {{"-idle", &idle_max}, {"-cpu", &cpu_max}, {"-ask", &ask_s}, {"-kill", &kill_s}};

static struct cp__ending command;

/* Waits for a signal, or at most a second. Returns the signal's number, or 0. */
static int wait_for_signal(const sigset_t *signals)
{
    int signal_number = sigtimedwait(signals, NULL, &(struct timespec){1, 0});
    return signal_number > 0 && signal_number != SIGCHLD ? signal_number : 0;
}

static bool has_ended(void)
{
    siginfo_t info = {.si_pid = 0};
    return waitid(P_PID, (id_t)command.child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

/* Looks at the processes. Returns whether they are over their limits. */
static bool is_over(struct progress *p)
{
    uint64_t cpu = 0, who = 0;
    struct cp__processes all = cp__processes_read("/proc");
    cp__processes_choose(&all, 0, getpid());
    for (size_t i = 0; i < all.n; i++)
        if (all.at[i].is_chosen) {
            cpu += all.at[i].cpu;
            who = who * 31 + (uint64_t)all.at[i].pid;
        }
    free(all.at);
    bool goes_on = who != p->who || cpu != p->cpu || cp__activity_of(0, getpid()).is_runnable;
    p->idle = goes_on ? 0 : p->idle + 1;
    if (who != p->who)
        p->cpu_then = cpu;
    p->who = who;
    p->cpu = cpu;
    return (idle_max != 0 && p->idle >= idle_max) ||
           (cpu_max != 0 && cpu - p->cpu_then > (uint64_t)cpu_max * (uint64_t)sysconf(_SC_CLK_TCK));
}

/* Waits until nothing is left, for as many seconds at most. Returns NULL, or text that names what is left. */
static char *wait_until_gone(unsigned seconds)
{
    enum { NAP_US = 50000, NAPS_A_SECOND = 1000000 / NAP_US };
    struct cp__processes all;
    char *text = NULL;
    for (unsigned naps = 0; !text && cp__end_look(&command, &all) > 0; naps++) {
        if (naps == seconds * NAPS_A_SECOND)
            text = cp__end_text(&all);
        else
            usleep(NAP_US);
        free(all.at);
    }
    return text;
}

/* Prints before what is told can print anything about its end. Frees the text. */
static void tell(const char *sentence, char *text)
{
    printf("%s%s", sentence, text);
    fflush(stdout);
    free(text);
}

/* Ends what is there. Returns an exit status: the caller's if everything could be ended, or UNENDED. */
static int end_all(int status)
{
    char *left = cp__end(&command);
    if (!left)
        return status;
    tell("These threads could not be ended:\n", left);
    return UNENDED;
}

/* Starts the command in a process group of its own, so that the command gets a signal once that is sent
 * to this program's group. */
static void start(char **argv, const sigset_t *old)
{
    command.child = fork();
    if (command.child == 0) {
        setpgid(0, 0);
        sigprocmask(SIG_SETMASK, old, NULL);
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        execvp(argv[0], argv);
        fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
        _exit(127);
    }
    if (command.child < 0) {
        perror("fork");
        exit(FAILED);
    }
    setpgid(command.child, command.child);
}

/* Follows the command until it has ended, or is to end. Returns the number of the signal that says so,
 * or 0. */
static int follow(struct progress *p, const sigset_t *signals, bool *is_over_limits)
{
    int signal_number = 0;
    while (!has_ended() && !(signal_number = wait_for_signal(signals)) && !*is_over_limits)
        *is_over_limits = (idle_max != 0 || cpu_max != 0) && !has_ended() && is_over(p);
    return signal_number;
}

/* Ends a command that is over its limits, or that is to end by a signal. Returns the exit status. */
static int finish_early(int signal_number, bool is_over_limits)
{
    char *text = is_over_limits ? wait_until_gone(0) : NULL;
    if (text)
        tell("The command hangs:\n", text);
    char *refused = cp__end_disarm(&command);
    if (refused)
        tell("", refused);
    command.ask_s = ask_s;
    return end_all(is_over_limits ? FAILED : 128 + signal_number);
}

/* Ends what a command that has ended has left behind. Returns the exit status. */
static int finish(void)
{
    char *left = wait_until_gone(LEAVE_S);
    if (left) {
        tell("The command has ended and left these threads:\n", left);
        return end_all(FAILED);
    }
    return WIFEXITED(command.status) ? WEXITSTATUS(command.status) : 128 + WTERMSIG(command.status);
}

/* Reads the options. Returns the index of the command, or 0. */
static int take_options(int argc, char **argv)
{
    int at = 1;
    while (at + 2 < argc && argv[at][0] == '-') {
        const struct option *option = options, *end = options + sizeof(options) / sizeof(options[0]);
        while (option < end && strcmp(option->name, argv[at]) != 0)
            option++;
        if (option == end)
            return 0;
        *option->seconds = (unsigned)atoi(argv[at + 1]);
        at += 2;
    }
    return at < argc && argv[at][0] != '-' ? at : 0;
}

int main(int argc, char **argv)
{
    struct progress progress = {0};
    sigset_t signals, old;
    bool is_over_limits = false;
    int at = take_options(argc, argv);
    if (at == 0) {
        fprintf(stderr,
                "usage: %s [-idle SECONDS] [-cpu SECONDS] [-ask SECONDS] [-kill SECONDS] COMMAND ...\n",
                argv[0]);
        return 2;
    }
    sigemptyset(&signals);
    for (const int *s = (const int[]){SIGTERM, SIGINT, SIGHUP, SIGCHLD, 0}; *s; s++)
        sigaddset(&signals, *s);
    signal(SIGCHLD, SIG_DFL); /* the kernel would keep no exit status if the caller ignores SIGCHLD */
    sigprocmask(SIG_BLOCK, &signals, &old);
    cp__end_adopt();
    command.patience_s = kill_s;
    start(&argv[at], &old);
    int signal_number = follow(&progress, &signals, &is_over_limits);
    return signal_number != 0 || is_over_limits ? finish_early(signal_number, is_over_limits) : finish();
}
