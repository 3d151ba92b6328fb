/*
 * What a profile over HTTP costs a service. wrk loads examples/server as fast as it can, in turn without a
 * profile and while curl fetches a profile of 100 samples a second on each of the server's threads. The
 * rounds are paired: if the machine slows down, both measurements slow down.
 *
 * The server has one CPU and wrk another one, if there are two. wrk is faster than the server, so the
 * requests per second show what the server can do. They also depend on what else the machine does; the
 * server's CPU time for a request depends less on that. The cost of starting and ending a profile (symbols,
 * encoding) is not included. An iteration is one round, and -benchtime says how many there are: 15x. The
 * figures are medians of the rounds, and quartiles (service.h).
 */
#include "service.h"

enum { CONNECTIONS = 16 };

static struct run profiled_load(double *samples)
{
    double before = samples_taken();
    pid_t curl = start_profile("taskClock", 10000000);
    struct run run = load(CONNECTIONS);

    end_profile(curl);
    *samples += samples_taken() - before;
    return run;
}

/* taskClock, 100 samples a second for each thread. */
CP_BENCHMARK(ProfileOverHttp)
{
    struct bench_rounds samples = {0};
    struct pairs pairs = {0};

    start_server();
    for (bool is_plain_first = true; cp_bench_next(b); is_plain_first = !is_plain_first) {
        struct run plain, profiled;
        double taken = 0;

        if (is_plain_first)
            plain = load(CONNECTIONS);
        profiled = profiled_load(&taken);
        if (!is_plain_first)
            plain = load(CONNECTIONS);
        add_pair(&pairs, &plain, &profiled);
        bench_add(&samples, taken);
    }
    stop_server();
    report_pairs(b, &pairs);
    bench_median(b, &samples, "samples/round");
}

BENCH_MAIN()
