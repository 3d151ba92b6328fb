/* A service for a benchmark, on a CPU of its own if there are two: examples/server, or a function of the
 * benchmark's own. And what is done to it: wrk loads it, and profiles are fetched meanwhile. */
#ifndef COUNTERPOINT_BENCH_SERVICE_H
#define COUNTERPOINT_BENCH_SERVICE_H

#include "bench.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static char service[64], endpoint[64]; /* each is HOST:PORT */
static pid_t server;                   /* stop_server() ends it */
static const char *accounts = "on";    /* off: the server has no accounts of its Gs */

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
    execlp("taskset", "taskset", "-c", cpu, path, "-listen", "127.0.0.1:0", "-endpoint", "127.0.0.1:0",
           "-accounts", accounts, NULL);
    perror("taskset");
    _exit(1);
}

/* Starts a process that runs serve(), which prints the addresses to out as examples/server does, and never
 * returns. */
static inline void start_service(void (*serve)(int out))
{
    FILE *out;
    int fds[2];

    if (pipe(fds) < 0 || (server = fork()) < 0)
        fail("No process could be started.");
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        serve(fds[1]);
    }
    close(fds[1]);
    out = fdopen(fds[0], "r");
    if (out == NULL || fscanf(out, "service http://%63[^/]/ profiles http://%63[^/]", service, endpoint) != 2)
        fail("The server did not start.");
    fclose(out);
}

static inline void start_server(void)
{
    start_service(exec_server);
}

static inline void stop_server(void)
{
    kill(server, SIGTERM);
    waitpid(server, NULL, 0);
}

/* ---- Other programs -------------------------------------------------------------------------- */

/* Returns the number that a command prints, by a format for sscanf(). The last line that matches counts. */
static inline double number_from(const char *command, const char *format)
{
    FILE *out = popen(command, "re");
    double number = -1;
    char line[4096];

    if (out == NULL)
        fail("No process could be started.");
    while (fgets(line, sizeof line, out) != NULL)
        sscanf(line, format, &number);
    if (pclose(out) != 0 || number < 0) {
        fprintf(stderr, "%s\n", command);
        fail("Failed, or printed something else than was expected.");
    }
    return number;
}

static inline double samples_taken(void)
{
    char command[256];

    snprintf(command, sizeof command, "curl -sSf http://%s/debug/pprof/metrics", endpoint);
    return number_from(command, "counterpoint_samples_total %lf");
}

enum { WRK_SECONDS = 1, PROFILE_SECONDS = 2 };

/* Gives what was started the time to begin. */
static inline void wait_until_it_runs(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
}

static inline pid_t start_profile_for(const char *event, double period, int seconds)
{
    char url[256];
    pid_t curl;

    snprintf(url, sizeof url, "http://%s/debug/pprof/profile?event=%s&period=%.0f&seconds=%d", endpoint,
             event, period, seconds);
    curl = fork();
    if (curl == 0) {
        execlp("curl", "curl", "-sSf", "-o", "/dev/null", url, NULL);
        perror("curl");
        _exit(1);
    }
    wait_until_it_runs();
    return curl;
}

static inline pid_t start_profile(const char *event, double period)
{
    return start_profile_for(event, period, PROFILE_SECONDS);
}

static inline void end_profile(pid_t curl)
{
    int status;

    if (curl < 0 || waitpid(curl, &status, 0) != curl || status != 0)
        fail("The profile failed.");
}

/* ---- Paired rounds --------------------------------------------------------------------------- */

struct run {
    double rate;        /* requests per second */
    double cpu_request; /* the server's CPU time for a request, in seconds */
};

/* Returns the CPU time of the server so far, in seconds. */
static inline double server_cpu(void)
{
    clockid_t clock;

    if (clock_getcpuclockid(server, &clock) != 0)
        fail("The server is gone.");
    return bench_clock_ns(clock) / 1e9;
}

/* Loads the server from the other CPU, as fast as so many connections can. */
static inline struct run load(int connections)
{
    struct run run;
    char command[256];
    double before = server_cpu();

    snprintf(command, sizeof command, "taskset -c %d wrk -t 1 -c %d -d %d http://%s/json", cpu_number(1),
             connections, WRK_SECONDS, service);
    run.rate = number_from(command, "Requests/sec: %lf");
    run.cpu_request = (server_cpu() - before) / (run.rate * WRK_SECONDS);
    return run;
}

struct pairs {
    struct bench_rounds throughput, cpu, rate, cpu_us;
};

static inline void add_pair(struct pairs *pairs, const struct run *plain, const struct run *profiled)
{
    bench_add(&pairs->throughput, profiled->rate / plain->rate);
    bench_add(&pairs->cpu, profiled->cpu_request / plain->cpu_request);
    bench_add(&pairs->rate, plain->rate);
    bench_add(&pairs->cpu_us, plain->cpu_request * 1e6);
}

/* Reports these figures:
 *
 *     x-throughput, x-cpu    requests per second with a profile to those without, and the same for the
 *                            CPU time of a request; with quartiles
 */
static inline void report_pairs(struct cp_t *b, struct pairs *pairs)
{
    bench_spread(b, &pairs->throughput, "x-throughput");
    bench_spread(b, &pairs->cpu, "x-cpu");
    bench_median(b, &pairs->rate, "requests/s");
    bench_median(b, &pairs->cpu_us, "cpu-us/request");
}

#endif
