/*
 * What a profile over HTTP costs a service. wrk loads examples/server as fast as it can, in turn without a
 * profile and while curl fetches a profile of 100 samples a second on each of the server's threads. The
 * rounds are paired: if the machine slows down, both measurements slow down.
 *
 * The server has one CPU and wrk another one, if there are two. wrk is faster than the server, so the
 * requests per second show what the server can do. They also depend on what else the machine does; the
 * server's CPU time for a request depends less on that. The cost of starting and ending a profile (symbols,
 * encoding) is not included. An iteration is one round, and -benchtime says how many there are: 15x. The
 * figures are medians of the rounds, and quartiles:
 *
 *     x-throughput, x-cpu    requests per second with a profile to those without, and the same for the
 *                            CPU time of a request
 */
#include "service.h"

enum { WRK_SECONDS = 1, PROFILE_SECONDS = 2 };

/* Returns the user and system time of the server so far, in clock ticks. */
static double server_cpu(void)
{
    char path[64];
    unsigned long user, system;

    snprintf(path, sizeof path, "/proc/%d/stat", server);
    FILE *file = fopen(path, "re");
    if (file == NULL ||
        fscanf(file, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
        fail("The server is gone.");
    fclose(file);
    return (double)(user + system);
}

/* ---- Other programs -------------------------------------------------------------------------- */

/* Returns the number that a command prints, by a format for sscanf(). The last line that matches counts. */
static double number_from(const char *command, const char *format)
{
    FILE *out = popen(command, "re");
    double number = -1;
    char line[512];

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

static double samples_taken(void)
{
    char command[256];

    snprintf(command, sizeof command, "curl -sSf http://%s/debug/pprof/metrics", endpoint);
    return number_from(command, "counterpoint_samples_total %lf");
}

static pid_t start_profile(void)
{
    char url[256];
    pid_t curl;

    snprintf(url, sizeof url, "http://%s/debug/pprof/profile?event=taskClock&period=10000000&seconds=%d",
             endpoint, PROFILE_SECONDS);
    curl = fork();
    if (curl == 0) {
        execlp("curl", "curl", "-sSf", "-o", "/dev/null", url, NULL);
        perror("curl");
        _exit(1);
    }
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL); /* until the profile runs */
    return curl;
}

static void end_profile(pid_t curl)
{
    int status;

    if (curl < 0 || waitpid(curl, &status, 0) != curl || status != 0)
        fail("The profile failed.");
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

struct run {
    double rate;        /* requests per second */
    double cpu_request; /* the server's CPU time for a request, in seconds */
};

static struct run load(void)
{
    struct run run;
    char command[256];
    double before = server_cpu();

    snprintf(command, sizeof command, "taskset -c %d wrk -t 1 -c 16 -d %d http://%s/json", cpu_number(1),
             WRK_SECONDS, service);
    run.rate = number_from(command, "Requests/sec: %lf");
    run.cpu_request = (server_cpu() - before) / (double)sysconf(_SC_CLK_TCK) / (run.rate * WRK_SECONDS);
    return run;
}

static struct run profiled_load(double *samples)
{
    double before = samples_taken();
    pid_t curl = start_profile();
    struct run run = load();

    end_profile(curl);
    *samples += samples_taken() - before;
    return run;
}

/* taskClock, 100 samples a second for each thread. */
CP_BENCHMARK(ProfileOverHttp)
{
    struct bench_rounds throughput = {0}, cpu = {0}, rate = {0}, cpu_us = {0}, samples = {0};

    start_server();
    for (bool is_plain_first = true; cp_bench_next(b); is_plain_first = !is_plain_first) {
        struct run plain, profiled;
        double taken = 0;

        if (is_plain_first)
            plain = load();
        profiled = profiled_load(&taken);
        if (!is_plain_first)
            plain = load();
        bench_add(&throughput, profiled.rate / plain.rate);
        bench_add(&cpu, profiled.cpu_request / plain.cpu_request);
        bench_add(&rate, plain.rate);
        bench_add(&cpu_us, plain.cpu_request * 1e6);
        bench_add(&samples, taken);
    }
    stop_server();
    bench_spread(b, &throughput, "x-throughput");
    bench_spread(b, &cpu, "x-cpu");
    bench_median(b, &rate, "requests/s");
    bench_median(b, &cpu_us, "cpu-us/request");
    bench_median(b, &samples, "samples/round");
}

BENCH_MAIN()
