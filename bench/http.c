/*
 * What a profile over HTTP costs a service: examples/server under wrk, as fast as it goes, in turn without a
 * profile and with one of 100 samples a second on each of its threads, which curl fetches. Paired rounds, so
 * that a machine that slows down meanwhile slows both. The server has one CPU and wrk another one, if there
 * are two: wrk is the quicker of them, so the requests per second are what the server can do. They also
 * depend on what else the machine does; the CPU time that the server takes for a request does so less.
 * What a profile costs at its start and at its end (symbols, encoding) is not in it.
 */
#include "service.h"

#include <time.h>

enum { ROUNDS = 15, WRK_SECONDS = 1, PROFILE_SECONDS = 2 };

/* In clock ticks: user and system time of the server so far. */
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

/* The number that the last line with that text has before or after it, in what a command prints. */
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
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL); /* until it runs */
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

/* The middle, and the quarters below and above it. */
static void print_spread(const char *what, double *ratios)
{
    sort(ratios, ROUNDS);
    printf("%-32s  %6.4f (%6.4f to %6.4f)\n", what, ratios[ROUNDS / 2], ratios[ROUNDS / 4],
           ratios[ROUNDS - 1 - ROUNDS / 4]);
}

int main(int argc, char **argv)
{
    double rate[ROUNDS], cpu[ROUNDS], samples = 0, rates = 0, cpus = 0;

    (void)argc;
    start_server(argv[0]);
    for (int i = 0; i < ROUNDS; i++) {
        struct run plain, profiled;

        if (i % 2 == 0)
            plain = load();
        profiled = profiled_load(&samples);
        if (i % 2 != 0)
            plain = load();
        rate[i] = profiled.rate / plain.rate;
        cpu[i] = profiled.cpu_request / plain.cpu_request;
        rates += plain.rate / ROUNDS;
        cpus += plain.cpu_request / ROUNDS;
    }
    stop_server();
    printf("A profile over HTTP (taskClock, 100 samples a second per thread) of a service under wrk; medians "
           "of\n"
           "%d paired rounds (and their quartiles). Without a profile: %.0f requests a second, %.1f us of "
           "CPU each.\n"
           "%.0f samples a round.\n",
           ROUNDS, rates, cpus * 1e6, samples / ROUNDS);
    print_spread("throughput, profiled/plain", rate);
    print_spread("CPU time a request, the same", cpu);
    return 0;
}
