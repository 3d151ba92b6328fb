/*
 * What it costs a service to know where the time of its green threads goes. wrk loads examples/server as
 * fast as it can: without accounts, with them, with them while curl fetches a profile of waits with the
 * event's own period, and with them while each wait is recorded that is as long as 10 us. The four runs of a
 * round are beside each other: if the machine slows down, all slow down. Every second round has them in the
 * other order. Each run has a server of its own, because where the system puts a process in memory may cost
 * more than what is measured.
 *
 * The server has one CPU and wrk another one, if there are two. An iteration is one round, and -benchtime
 * says how many there are: 15x. The figures are medians of the rounds, and quartiles (service.h):
 *
 *     x-throughput-accounts, x-cpu-accounts    requests per second with accounts to those without, and the
 *                                              same for the server's CPU time of a request
 *     x-throughput-waits, x-cpu-waits          the same with the profile, too
 *     x-throughput-all-waits, x-cpu-all-waits  the same with all waits
 */
#include "service.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

enum { CONNECTIONS = 16 };

enum mode { WITHOUT, ACCOUNTS, WAITS, ALL_WAITS, MODES };
static const long periods[MODES] = {[WAITS] = 1000000, [ALL_WAITS] = 10000}; /* in ns */

static struct run run_mode(enum mode mode)
{
    struct run run;
    pid_t curl = -1;

    accounts = mode == WITHOUT ? "off" : "on";
    start_server();
    wait_until_it_runs();
    if (periods[mode] != 0)
        curl = start_profile("wait", periods[mode]);
    run = load(CONNECTIONS);
    if (periods[mode] != 0)
        end_profile(curl);
    stop_server();
    return run;
}

struct ratios {
    struct bench_rounds throughput, cpu;
};

static void add_ratio(struct ratios *ratios, const struct run *without, const struct run *with)
{
    bench_add(&ratios->throughput, with->rate / without->rate);
    bench_add(&ratios->cpu, with->cpu_request / without->cpu_request);
}

CP_BENCHMARK(Accounts)
{
    struct bench_rounds rate = {0}, cpu_us = {0};
    struct ratios with_accounts = {0}, with_waits = {0}, with_all_waits = {0};

    for (bool is_reversed = false; cp_bench_next(b); is_reversed = !is_reversed) {
        struct run runs[MODES];

        for (int i = 0; i < MODES; i++) {
            const enum mode mode = (enum mode)(is_reversed ? MODES - 1 - i : i);

            runs[mode] = run_mode(mode);
        }
        add_ratio(&with_accounts, &runs[WITHOUT], &runs[ACCOUNTS]);
        add_ratio(&with_waits, &runs[WITHOUT], &runs[WAITS]);
        add_ratio(&with_all_waits, &runs[WITHOUT], &runs[ALL_WAITS]);
        bench_add(&rate, runs[WITHOUT].rate);
        bench_add(&cpu_us, runs[WITHOUT].cpu_request * 1e6);
    }
    bench_spread(b, &with_accounts.throughput, "x-throughput-accounts");
    bench_spread(b, &with_accounts.cpu, "x-cpu-accounts");
    bench_spread(b, &with_waits.throughput, "x-throughput-waits");
    bench_spread(b, &with_waits.cpu, "x-cpu-waits");
    bench_spread(b, &with_all_waits.throughput, "x-throughput-all-waits");
    bench_spread(b, &with_all_waits.cpu, "x-cpu-all-waits");
    bench_median(b, &rate, "requests/s");
    bench_median(b, &cpu_us, "cpu-us/request");
}

/* ---- In slices ------------------------------------------------------------------------------- */

/*
 * The same on a machine that others use, too, whose load changes from second to second. Four servers, one of
 * each mode, take turns of some 10 ms, and the CPU time is compared that they take for as many requests: the
 * ratio of a round is the median of its slices' ratios. The throughput of a server that has a CPU of its own
 * is the inverse.
 */
enum { SLICES = 60, BATCHES = 20, LONG_SECONDS = 600 };

struct sliced {
    pid_t pid, curl;
    int connections[CONNECTIONS];
    double cpu_us[SLICES]; /* of a request */
};

static int connect_client(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atoi(strrchr(service, ':') + 1)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        fail("There is no connection to the server.");
    return fd;
}

static void start_sliced(struct sliced *sliced, enum mode mode)
{
    accounts = mode == WITHOUT ? "off" : "on";
    start_server();
    sliced->pid = server;
    sliced->curl = periods[mode] != 0 ? start_profile_for("wait", periods[mode], LONG_SECONDS) : -1;
    for (int i = 0; i < CONNECTIONS; i++)
        sliced->connections[i] = connect_client();
}

static void stop_sliced(struct sliced *sliced)
{
    for (int i = 0; i < CONNECTIONS; i++)
        close(sliced->connections[i]);
    if (sliced->curl > 0) {
        if (waitpid(sliced->curl, NULL, WNOHANG) != 0)
            fail("The profile has ended too early.");
        kill(sliced->curl, SIGTERM);
        waitpid(sliced->curl, NULL, 0);
    }
    server = sliced->pid;
    stop_server();
}

/* Each connection has one request at a time. The answer ends in a newline, which is nowhere else in its
 * body. */
static void load_batch(const struct sliced *sliced)
{
    static const char request[] = "GET /json HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static char answer[1 << 16];

    for (int i = 0; i < CONNECTIONS; i++)
        if (send(sliced->connections[i], request, sizeof request - 1, MSG_NOSIGNAL) < 0)
            fail("The server took no request.");
    for (int i = 0; i < CONNECTIONS; i++) {
        ssize_t n;

        do {
            n = recv(sliced->connections[i], answer, sizeof answer, 0);
            if (n <= 0)
                fail("The server gave no answer.");
        } while (n < 2 || memcmp(answer + n - 2, "}\n", 2) != 0);
    }
}

static double load_slice(const struct sliced *sliced)
{
    double before;

    server = sliced->pid;
    before = server_cpu();
    for (int i = 0; i < BATCHES; i++)
        load_batch(sliced);
    return (server_cpu() - before) * 1e6 / (BATCHES * CONNECTIONS);
}

static double median_ratio(const struct sliced *with, const struct sliced *without)
{
    double ratios[SLICES];

    for (int i = 0; i < SLICES; i++)
        ratios[i] = with->cpu_us[i] / without->cpu_us[i];
    bench_sort(ratios, SLICES);
    return ratios[SLICES / 2];
}

CP_BENCHMARK(AccountsInSlices)
{
    struct bench_rounds with_accounts = {0}, with_waits = {0}, with_all_waits = {0}, cpu_us = {0};

    while (cp_bench_next(b)) {
        struct sliced sliced[MODES];

        for (int mode = 0; mode < MODES; mode++)
            start_sliced(&sliced[mode], (enum mode)mode);
        for (int i = 0; i < SLICES; i++) {
            for (int turn = 0; turn < MODES; turn++) {
                struct sliced *next = &sliced[(i + turn) % MODES];

                next->cpu_us[i] = load_slice(next);
            }
        }
        bench_add(&with_accounts, median_ratio(&sliced[ACCOUNTS], &sliced[WITHOUT]));
        bench_add(&with_waits, median_ratio(&sliced[WAITS], &sliced[WITHOUT]));
        bench_add(&with_all_waits, median_ratio(&sliced[ALL_WAITS], &sliced[WITHOUT]));
        bench_sort(sliced[WITHOUT].cpu_us, SLICES);
        bench_add(&cpu_us, sliced[WITHOUT].cpu_us[SLICES / 2]);
        for (int mode = 0; mode < MODES; mode++)
            stop_sliced(&sliced[mode]);
    }
    bench_spread(b, &with_accounts, "x-cpu-accounts");
    bench_spread(b, &with_waits, "x-cpu-waits");
    bench_spread(b, &with_all_waits, "x-cpu-all-waits");
    bench_median(b, &cpu_us, "cpu-us/request");
}

BENCH_MAIN()
