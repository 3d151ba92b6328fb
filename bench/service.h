/* Runs examples/server for a benchmark, on a CPU of its own if there are two. */
#ifndef COUNTERPOINT_BENCH_SERVICE_H
#define COUNTERPOINT_BENCH_SERVICE_H

#include "bench.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char service[64], endpoint[64]; /* each is HOST:PORT */
static pid_t server;                   /* stop_server() ends it */

static inline _Noreturn void fail(const char *what)
{
    cp_t_fatal(cp_t_self(), "%s", what);
}

/* Returns the n-th CPU that this process may use, or the last one. */
static inline int cpu_number(int n)
{
    cpu_set_t set;
    int last = 0;

    sched_getaffinity(0, sizeof set, &set);
    for (int cpu = 0; cpu < CPU_SETSIZE && n >= 0; cpu++) {
        if (CPU_ISSET(cpu, &set)) {
            last = cpu;
            n--;
        }
    }
    return last;
}

/* Executes the server. build/bench/NAME is beside build/examples/server. */
static inline void exec_server(int out)
{
    char self[4000] = "", path[4096], cpu[16];

    if (readlink("/proc/self/exe", self, sizeof self - 1) > 0)
        *strrchr(self, '/') = '\0';
    snprintf(path, sizeof path, "%s/../examples/server", self);
    dup2(out, STDOUT_FILENO);
    snprintf(cpu, sizeof cpu, "%d", cpu_number(0));
    execlp("taskset", "taskset", "-c", cpu, path, "-listen", "127.0.0.1:0", "-endpoint", "127.0.0.1:0", NULL);
    perror("taskset");
    _exit(1);
}

static inline void start_server(void)
{
    FILE *out;
    int fds[2];

    if (pipe(fds) < 0 || (server = fork()) < 0)
        fail("No process could be started.");
    if (server == 0)
        exec_server(fds[1]);
    close(fds[1]);
    out = fdopen(fds[0], "r");
    if (out == NULL || fscanf(out, "service http://%63[^/]/ profiles http://%63[^/]", service, endpoint) != 2)
        fail("The server did not start.");
    fclose(out);
}

static inline void stop_server(void)
{
    kill(server, SIGTERM);
    waitpid(server, NULL, 0);
}

#endif
