/*
 * What it costs a service to know where the time of its green threads goes. wrk loads examples/server as
 * fast as it can: without accounts, with them, and with them while curl fetches a profile of waits with the
 * event's own period. The three runs of a round are beside each other: if the machine slows down, all slow
 * down. Every second round has them in the other order. Each run has a server of its own, because where the
 * system puts a process in memory may cost more than what is measured.
 *
 * The server has one CPU and wrk another one, if there are two. An iteration is one round, and -benchtime
 * says how many there are: 15x. The figures are medians of the rounds, and quartiles (service.h):
 *
 *     x-throughput-accounts, x-cpu-accounts    requests per second with accounts to those without, and the
 *                                              same for the server's CPU time of a request
 *     x-throughput-waits, x-cpu-waits          the same with the profile, too
 */
#include "service.h"

enum { CONNECTIONS = 16, WAIT_PERIOD = 10000 };

enum mode { WITHOUT, ACCOUNTS, WAITS, MODES };

static struct run run_mode(enum mode mode)
{
    struct run run;
    pid_t curl = -1;

    accounts = mode == WITHOUT ? "off" : "on";
    start_server();
    wait_until_it_runs();
    if (mode == WAITS)
        curl = start_profile("wait", WAIT_PERIOD);
    run = load(CONNECTIONS);
    if (mode == WAITS)
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
    struct ratios with_accounts = {0}, with_waits = {0};

    for (bool is_reversed = false; cp_bench_next(b); is_reversed = !is_reversed) {
        struct run runs[MODES];

        for (int i = 0; i < MODES; i++) {
            const enum mode mode = (enum mode)(is_reversed ? MODES - 1 - i : i);

            runs[mode] = run_mode(mode);
        }
        add_ratio(&with_accounts, &runs[WITHOUT], &runs[ACCOUNTS]);
        add_ratio(&with_waits, &runs[WITHOUT], &runs[WAITS]);
        bench_add(&rate, runs[WITHOUT].rate);
        bench_add(&cpu_us, runs[WITHOUT].cpu_request * 1e6);
    }
    bench_spread(b, &with_accounts.throughput, "x-throughput-accounts");
    bench_spread(b, &with_accounts.cpu, "x-cpu-accounts");
    bench_spread(b, &with_waits.throughput, "x-throughput-waits");
    bench_spread(b, &with_waits.cpu, "x-cpu-waits");
    bench_median(b, &rate, "requests/s");
    bench_median(b, &cpu_us, "cpu-us/request");
}

BENCH_MAIN()
