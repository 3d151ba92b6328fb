/* Starts programs. See child.h. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"

/* For the handler of SIGTERM. 0: the program has ended, and its id may be that of another process. */
static volatile pid_t program_pid;

static void pass_on_from_handler(int number)
{
    if (program_pid > 0)
        kill(program_pid, number);
}

/* Ctrl-C and Ctrl-\ come to the program, too, which decides what they do. SIGTERM and SIGHUP come to this
 * process alone. */
static void prepare_signals(void)
{
    struct sigaction pass_on = {.sa_handler = pass_on_from_handler};

    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    sigaction(SIGTERM, &pass_on, NULL);
    sigaction(SIGHUP, &pass_on, NULL);
}

/* If whoever started this command ignores SIGCHLD, the kernel would keep no exit status for it. The program
 * has SIGCHLD as the command had it. */
enum status child_start(pid_t *pid, const char *path, char **argv, child_prepare_fn *prepare,
                        const void *context)
{
    const struct sigaction by_default = {.sa_handler = SIG_DFL};
    struct sigaction before;

    sigaction(SIGCHLD, &by_default, &before);
    program_pid = *pid = fork();
    if (*pid == 0) {
        sigaction(SIGCHLD, &before, NULL);
        if (prepare == NULL || prepare(context) == 0)
            execve(path, argv, environ);
        _exit(complain(STATUS_USAGE, "\"%s\" cannot be run: %s.", path, strerror(errno)));
    }
    if (*pid < 0)
        return complain(STATUS_FAILURE, "There is no process for the program: %s.", strerror(errno));
    prepare_signals();
    return STATUS_OK;
}

bool child_has_ended(pid_t pid, int *status)
{
    if (waitpid(pid, status, WNOHANG) == 0)
        return false;
    program_pid = 0;
    return true;
}

enum status child_exit_status(int status)
{
    return WIFSIGNALED(status) ? (enum status)(128 + WTERMSIG(status)) : (enum status)WEXITSTATUS(status);
}
