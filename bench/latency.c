/*
 * How long requests to a service take while clients abuse its endpoint: examples/server alone, then beside
 * 200 simultaneous requests for a profile, then beside 1 000 clients that send the endpoint one byte a second
 * and connect again when they are cut off; and how long requests to the endpoint itself take beside these
 * clients. The rounds are paired: if the machine slows down, both measurements slow down.
 *
 * The whole server has one CPU, so that the threads of the endpoint and of the service disturb each other as
 * much as possible; the clients have another CPU, if there are two. Requests are sent at a fixed rate,
 * whether or not earlier ones have been answered, and their time counts from the moment at which they were
 * due. An iteration is one round, and -benchtime says how many there are: 9x. The figures are medians of the
 * rounds, with quartiles of the ratios. Each round has two figures: the median of the requests' times, and
 * the time that 99 % of the requests do not exceed.
 *
 *     us-median-alone, us-median-beside, x-median; us-p99-alone, us-p99-beside, x-p99
 */
#include "service.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { SECONDS = 2, SLOW = 1000, PROFILES = 200, MOST_REQUESTS = 1000, NS_PER_S = 1000000000 };

/* ---- Requests -------------------------------------------------------------------------------- */

static int connect_to(const char *address)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        fail("There is no connection to the server.");
    return fd;
}

static void send_text(int fd, const char *text)
{
    (void)send(fd, text, strlen(text), MSG_NOSIGNAL);
}

/* ---- Time ------------------------------------------------------------------------------------ */

static int64_t now_ns(void)
{
    return cp__clock_ns(CLOCK_MONOTONIC);
}

static void sleep_until(int64_t ns)
{
    const struct timespec until = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};

    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

/* ---- Requests at a rate ---------------------------------------------------------------------- */

static const struct target {
    const char *address;
    const char *request;
    int per_second;
} of_service = {service, "GET /json HTTP/1.1\r\nConnection: close\r\n\r\n", 500},
  of_endpoint = {endpoint,
                 "GET /debug/pprof/cmdline HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 50};

/* The requests that are not answered yet. */
static struct pollfd waiting[MOST_REQUESTS];
static int64_t due_at[MOST_REQUESTS];
static bool is_heard[MOST_REQUESTS];
static nfds_t n_waiting;

static void begin_request(const struct target *target, int64_t due)
{
    int fd = connect_to(target->address);

    send_text(fd, target->request);
    waiting[n_waiting] = (struct pollfd){.fd = fd, .events = POLLIN};
    is_heard[n_waiting] = false;
    due_at[n_waiting++] = due;
}

/* Receives a part of an answer. Returns true at the end of the answer. */
static bool hear(nfds_t i)
{
    static const char ok[] = "HTTP/1.1 200 ";
    char text[65536];
    ssize_t n = recv(waiting[i].fd, text, sizeof text, 0);

    if (n > 0 && !is_heard[i])
        is_heard[i] = n > (ssize_t)strlen(ok) && memcmp(text, ok, strlen(ok)) == 0;
    if (!is_heard[i])
        fail("A request was not answered.");
    return n <= 0;
}

static void end_request(nfds_t i)
{
    close(waiting[i].fd);
    n_waiting--;
    waiting[i] = waiting[n_waiting];
    due_at[i] = due_at[n_waiting];
    is_heard[i] = is_heard[n_waiting];
}

/* Receives answers until a time. Stores how many microseconds each complete answer took in us, and returns
 * their number. */
static int hear_until(int64_t until, double *us)
{
    const int64_t left = until - now_ns();
    const struct timespec wait = {.tv_sec = left / NS_PER_S, .tv_nsec = left % NS_PER_S};
    int n = 0;

    if (left < 0 || ppoll(waiting, n_waiting, &wait, NULL) <= 0)
        return 0;
    for (nfds_t i = n_waiting; i-- > 0;) {
        if (waiting[i].revents == 0 || !hear(i))
            continue;
        us[n++] = (double)(now_ns() - due_at[i]) / 1000;
        end_request(i);
    }
    return n;
}

struct latency {
    double median, p99; /* in us */
};

static struct latency measure(const struct target *target)
{
    static double us[MOST_REQUESTS];
    const int n = target->per_second * SECONDS;
    int64_t due = now_ns();
    int heard = 0;

    for (int i = 0; i < n; i++, due += NS_PER_S / target->per_second) {
        while (now_ns() < due)
            heard += hear_until(due, us + heard);
        begin_request(target, due);
    }
    for (due += 10ll * NS_PER_S; heard < n && now_ns() < due;)
        heard += hear_until(due, us + heard);
    if (heard < n)
        fail("A request was not answered within 10 seconds.");
    bench_sort(us, (size_t)n);
    return (struct latency){us[n / 2], us[n * 99 / 100]};
}

/* ---- Abuse ----------------------------------------------------------------------------------- */

static struct counts {
    unsigned taken, refused, unheard; /* requests for a profile */
    unsigned bytes, cut;              /* of slow clients */
} * counts;                           /* shared with the process of the abusive clients */

/* Reads until the connection ends; returns the answer's status, or 0 if there was no answer. */
static int status_of(int fd)
{
    char text[65536];
    int status = 0;

    for (ssize_t n; (n = recv(fd, text, sizeof text - 1, 0)) > 0;) {
        text[n] = '\0';
        if (status == 0)
            sscanf(text, "HTTP/1.1 %d", &status);
    }
    return status;
}

/* Sends all requests at once, and again after all of them have ended. */
static _Noreturn void ask_for_profiles(void)
{
    static const char text[] =
        "GET /debug/pprof/profile?event=taskClock&period=10000000&seconds=1 HTTP/1.1\r\n"
        "Host: localhost\r\nConnection: close\r\n\r\n";
    int fds[PROFILES];

    for (;;) {
        for (int i = 0; i < PROFILES; i++) {
            fds[i] = connect_to(endpoint);
            send_text(fds[i], text);
        }
        for (int i = 0; i < PROFILES; i++) {
            int status = status_of(fds[i]);

            counts->taken += status == 200;
            counts->refused += status == 503;
            counts->unheard += status != 200 && status != 503;
            close(fds[i]);
        }
    }
}

static _Noreturn void be_slow(void)
{
    int fds[SLOW];
    int64_t due;

    for (int i = 0; i < SLOW; i++)
        fds[i] = connect_to(endpoint);
    due = now_ns();
    for (int i = 0;; i = (i + 1) % SLOW, due += NS_PER_S / SLOW) {
        sleep_until(due);
        counts->bytes++;
        if (send(fds[i], "G", 1, MSG_NOSIGNAL) == 1)
            continue;
        counts->cut++;
        close(fds[i]);
        fds[i] = connect_to(endpoint);
    }
}

/* Starts a process that runs abuse(), at a lower priority than the process that measures, because both share
 * a CPU. */
static pid_t start_abuse(void (*abuse)(void))
{
    pid_t pid = fork();

    if (pid < 0)
        fail("No process could be started.");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)!nice(5);
        abuse();
    }
    sleep_until(now_ns() + NS_PER_S / 2); /* until the process runs */
    return pid;
}

static void stop_abuse(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    sleep_until(now_ns() + NS_PER_S / 2); /* until the server has noticed that the clients are gone */
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

static struct latency measure_beside(void (*abuse)(void), const struct target *target)
{
    pid_t pid = start_abuse(abuse);
    struct latency latency = measure(target);

    stop_abuse(pid);
    return latency;
}

struct comparison {
    const char *name;
    void (*abuse)(void);
    const struct target *target;
};

/* One figure: alone, beside the abuse, and the ratio of the two. */
struct rows {
    struct bench_rounds alone, beside, ratio;
};

static void add_round(struct rows *rows, double alone, double beside)
{
    bench_add(&rows->alone, alone);
    bench_add(&rows->beside, beside);
    bench_add(&rows->ratio, beside / alone);
}

static void report_rows(struct cp_t *b, struct rows *rows, const char *figure)
{
    char unit[64];

    snprintf(unit, sizeof unit, "us-%s-alone", figure);
    bench_median(b, &rows->alone, unit);
    snprintf(unit, sizeof unit, "us-%s-beside", figure);
    bench_median(b, &rows->beside, unit);
    snprintf(unit, sizeof unit, "x-%s", figure);
    bench_spread(b, &rows->ratio, unit);
}

static void report_counts(struct cp_t *b)
{
    if (counts->bytes == 0) {
        cp_bench_metric(b, counts->taken, "profiles-taken");
        cp_bench_metric(b, counts->refused, "profiles-refused");
        cp_bench_metric(b, counts->unheard, "requests-cut");
    } else {
        cp_bench_metric(b, counts->bytes, "bytes-sent");
        cp_bench_metric(b, counts->cut, "bytes-too-late"); /* on a connection that had been cut off */
    }
}

static void compare(struct cp_t *b, void *arg)
{
    const struct comparison *c = arg;
    struct rows median = {0}, p99 = {0};

    *counts = (struct counts){0};
    for (bool is_alone_first = true; cp_bench_next(b); is_alone_first = !is_alone_first) {
        struct latency alone, beside;

        if (is_alone_first)
            alone = measure(c->target);
        beside = measure_beside(c->abuse, c->target);
        if (!is_alone_first)
            alone = measure(c->target);
        add_round(&median, alone.median, beside.median);
        add_round(&p99, alone.p99, beside.p99);
    }
    report_rows(b, &median, "median");
    report_rows(b, &p99, "p99");
    report_counts(b);
}

static void use_other_cpu(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu_number(1), &set);
    sched_setaffinity(0, sizeof set, &set);
}

CP_BENCHMARK(Latency)
{
    static struct comparison all[] = {
        {"of the service, 200 requests for a profile", ask_for_profiles, &of_service},
        {"of the service, 1000 slow clients of the endpoint", be_slow, &of_service},
        {"of the endpoint, 1000 slow clients of it", be_slow, &of_endpoint},
    };
    const struct rlimit descriptors = {2 * SLOW, 2 * SLOW};

    counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (counts == MAP_FAILED || setrlimit(RLIMIT_NOFILE, &descriptors) < 0)
        fail("There is no memory, or there are not enough descriptors for the clients.");
    start_server();
    use_other_cpu();
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        cp_t_run(b, all[i].name, compare, &all[i]);
    stop_server();
}

BENCH_MAIN()
