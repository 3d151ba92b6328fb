/*
 * What a profile costs a service that has a thread for each connection. wrk keeps 64 connections busy all the
 * time, so 64 threads share one CPU, which goes to another thread for nearly each request. In a round, curl
 * fetches the profile that the command in the endpoint's index asks for, or that of the index's link to
 * taskClock, or perf records the same as the link. A second of it is compared with those before and after the
 * round.
 *
 * The service has one CPU and wrk another one, if there are two. The cost of starting and ending a profile is
 * not included. An iteration is one round: -benchtime 21x. Beside the figures of service.h:
 *
 *     period-ns, by-timer                what the index had, and 1 if it was the timer; medians of the rounds
 *     samples/round                      what the profiles had, which take 2 seconds
 *     switches/request, and -profiled    how often a thread got the CPU, without and with a profile
 */
#include "http.h"
#include "pprof.h"
#include "service.h"

#include <glob.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { CONNECTIONS = 64, ITEMS = 120, WARM_UP_SECONDS = 2 };

/* ---- The service ----------------------------------------------------------------------------- */

struct connection {
    int fd;
    size_t received, answered; /* bytes in request and in answer */
    char request[4096], answer[16384];
};

static uint64_t *requests; /* how many were answered; shared with the service, atomic */

/* Receives a request: wrk sends the next one when it has the answer. */
static bool receive_request(struct connection *c)
{
    for (c->received = 0; memmem(c->request, c->received, "\r\n\r\n", 4) == NULL;) {
        ssize_t n = recv(c->fd, c->request + c->received, sizeof c->request - c->received, 0);

        if (n <= 0)
            return false;
        c->received += (size_t)n;
    }
    return true;
}

static void put(struct connection *c, const char *format, unsigned a, unsigned b)
{
    c->answered +=
        (size_t)snprintf(c->answer + c->answered, sizeof c->answer - c->answered, format, a, b, a % b);
}

/* The work of a request: some tens of microseconds. */
static void build_json(struct connection *c)
{
    c->answered = 0;
    put(c, "{\"items\":[", 1, 1);
    for (unsigned i = 1; i <= ITEMS; i++)
        put(c, "{\"id\":%u,\"price\":%u,\"left\":%u},", i, i % 17 + 1);
    put(c, "{}]}\n", 1, 1);
}

static bool answer_request(struct connection *c)
{
    char head[128];

    if (!receive_request(c))
        return false;
    build_json(c);
    struct iovec parts[] = {{head, 0}, {c->answer, c->answered}};
    parts[0].iov_len = (size_t)sprintf(head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", c->answered);
    cp_fetch_add_relaxed(requests, (uint64_t)1); /* relaxed: a sum */
    return writev(c->fd, parts, 2) == (ssize_t)(parts[0].iov_len + c->answered);
}

static void *serve_connection(void *connection)
{
    struct connection *c = connection;
    struct cp_m *m;

    if (cp_m_attach(&m, NULL) < 0)
        abort();
    while (answer_request(c))
        ;
    close(c->fd);
    free(c);
    return NULL;
}

static void start_connection(int fd)
{
    struct connection *c = malloc(sizeof *c);
    pthread_t thread;

    if (c == NULL)
        abort();
    c->fd = fd;
    if (pthread_create(&thread, NULL, serve_connection, c) != 0)
        abort();
    pthread_detach(thread);
}

/* Returns a socket that listens on a free port of this machine only, and stores the port. */
static int listen_somewhere(unsigned *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) < 0 ||
        listen(listener, SOMAXCONN) < 0 || getsockname(listener, (struct sockaddr *)&address, &size) < 0)
        abort();
    *port = ntohs(address.sin_port);
    return listener;
}

static void stay_on_first_cpu(void)
{
    cpu_set_t first;

    CPU_ZERO(&first);
    CPU_SET(cpu_number(0), &first);
    sched_setaffinity(0, sizeof first, &first);
}

static void serve(int out)
{
    struct cp_http *http;
    struct cp_m *m;
    unsigned port;
    int listener;

    stay_on_first_cpu();
    signal(SIGPIPE, SIG_IGN);
    listener = listen_somewhere(&port);
    if (cp_m_attach(&m, NULL) < 0 || cp_http_start(&http, "127.0.0.1:0", NULL, NULL) < 0)
        abort();
    dprintf(out, "service http://127.0.0.1:%u/ profiles http://%s/\n", port, cp_http_address(http));
    close(out);
    for (int fd;;)
        if ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
            start_connection(fd);
}

/* ---- Seconds of load ------------------------------------------------------------------------- */

/* Returns how often the threads of the service got a CPU. */
static double switches_so_far(void)
{
    unsigned long sum = 0, n;
    char pattern[64];
    glob_t files;

    snprintf(pattern, sizeof pattern, "/proc/%d/task/*/schedstat", server);
    if (glob(pattern, GLOB_NOSORT, NULL, &files) != 0)
        fail("The server is gone.");
    for (size_t i = 0; i < files.gl_pathc; i++) {
        FILE *file = fopen(files.gl_pathv[i], "re");

        if (file != NULL && fscanf(file, "%*u %*u %lu", &n) == 1)
            sum += n;
        if (file != NULL)
            fclose(file);
    }
    globfree(&files);
    return (double)sum;
}

static pid_t start_wrk(void)
{
    char command[256];
    pid_t wrk = fork();

    if (wrk != 0)
        return wrk;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    snprintf(command, sizeof command, "exec taskset -c %d wrk -t 1 -c %d -d 1h http://%s/ > /dev/null",
             cpu_number(1), CONNECTIONS, service);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

/* Looks for a second at what the service does. */
static struct run watch(struct bench_rounds *switches)
{
    const double start = bench_now_ns(), cpu = server_cpu(), switched = switches_so_far();
    const uint64_t answered = cp_load_relaxed(requests); /* relaxed, both: a sum */
    double n;

    sleep(1);
    n = (double)(cp_load_relaxed(requests) - answered);
    if (n == 0)
        fail("The server answers nothing.");
    bench_add(switches, (switches_so_far() - switched) / n);
    return (struct run){.rate = n / (bench_now_ns() - start) * 1e9, .cpu_request = (server_cpu() - cpu) / n};
}

/* ---- The ways to profile it ------------------------------------------------------------------ */

struct order {
    char event[32];
    double period;
};

/* Reads a profile that the index links to, or the one of the command that it shows. */
static struct order order_from_index(const char *format)
{
    struct order order = {.period = 0};
    char line[4096];
    FILE *index;

    snprintf(line, sizeof line, "curl -sSf http://%s/debug/pprof/", endpoint);
    index = popen(line, "re");
    while (index != NULL && fgets(line, sizeof line, index) != NULL)
        if (order.period == 0 && sscanf(line, format, order.event, &order.period) != 2)
            order.period = 0;
    if (index == NULL || pclose(index) != 0 || order.period == 0)
        fail("The index has no such profile.");
    return order;
}

#define OF_COMMAND "<p><code>go tool pprof%*[^?]?event=%31[^&]&amp;period=%lf"
#define OF_TASK_CLOCK "<tr><td><a href=\"profile?event=%31[taskClock]&amp;period=%lf"

static pid_t start_nothing(const struct order *order)
{
    (void)order;
    return 0;
}

static pid_t start_curl(const struct order *order)
{
    return start_profile(order->event, order->period);
}

static pid_t start_perf_record(const struct order *order)
{
    char command[256];
    pid_t perf;

    snprintf(command, sizeof command,
             "exec perf record -q -e task-clock -c %.0f -o /dev/null -p %d > /dev/null 2>&1", order->period,
             server);
    perf = fork();
    if (perf == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    wait_until_it_runs();
    return perf;
}

static void end_perf(pid_t perf)
{
    kill(perf, SIGINT);
    waitpid(perf, NULL, 0);
}

static void end_nothing(pid_t none)
{
    (void)none;
}

struct way {
    const char *name;
    const char *order; /* the line of the index that has event and period */
    pid_t (*start)(const struct order *order);
    void (*end)(pid_t pid);
};

struct figures {
    struct pairs pairs;
    struct bench_rounds period, timers, samples, switches, plain_switches;
};

static struct run watch_with(const struct way *way, struct figures *figures)
{
    const struct order order = order_from_index(way->order);
    const double samples = samples_taken();
    const pid_t pid = way->start(&order);
    const struct run run = watch(&figures->switches);

    way->end(pid);
    bench_add(&figures->samples, samples_taken() - samples);
    bench_add(&figures->period, order.period);
    bench_add(&figures->timers, strcmp(order.event, "timer") == 0);
    return run;
}

static struct run mean(struct run a, struct run b)
{
    return (struct run){.rate = (a.rate + b.rate) / 2, .cpu_request = (a.cpu_request + b.cpu_request) / 2};
}

/* A second with a profile is compared with those before and after it. */
static void run_rounds(struct cp_t *b, void *arg)
{
    const struct way *way = arg;
    struct figures figures = {0};
    struct run before;

    if (way->start == start_perf_record && system("perf --version > /dev/null 2>&1") != 0)
        cp_t_skip(b, "there is no perf here");
    before = watch(&figures.plain_switches);
    while (cp_bench_next(b)) {
        const struct run profiled = watch_with(way, &figures);
        const struct run after = watch(&figures.plain_switches), plain = mean(before, after);

        add_pair(&figures.pairs, &plain, &profiled);
        before = after;
    }
    report_pairs(b, &figures.pairs);
    bench_median(b, &figures.period, "period-ns");
    bench_median(b, &figures.timers, "by-timer");
    bench_median(b, &figures.samples, "samples/round");
    bench_median(b, &figures.plain_switches, "switches/request");
    bench_median(b, &figures.switches, "switches/request-profiled");
}

/* The service has been busy before anybody asks for a profile: the index recommends what suits it. */
CP_BENCHMARK(ThreadForEachConnection)
{
    static struct way ways[] = {
        {"nothing", OF_COMMAND, start_nothing, end_nothing},
        {"as the index shows", OF_COMMAND, start_curl, end_profile},
        {"taskClock", OF_TASK_CLOCK, start_curl, end_profile},
        {"perf record", OF_TASK_CLOCK, start_perf_record, end_perf},
    };
    pid_t wrk;

    requests = mmap(NULL, sizeof *requests, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    start_service(serve);
    wrk = start_wrk();
    sleep(WARM_UP_SECONDS);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        cp_t_run(b, ways[i].name, run_rounds, &ways[i]);
    kill(wrk, SIGTERM);
    waitpid(wrk, NULL, 0);
    stop_server();
}

BENCH_MAIN()
