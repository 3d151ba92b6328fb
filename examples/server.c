/*
 * A small HTTP service, with a green thread for each connection, that can be profiled while it works:
 *
 *     server [-listen HOST:PORT] [-endpoint HOST:PORT] [-threads N] [-accounts on|off]
 *
 *     curl 'http://127.0.0.1:8080/sort?n=5000'
 *     go tool pprof 'http://127.0.0.1:6060/debug/pprof/profile?event=taskClock&period=1000000&seconds=5'
 *
 * The comments that begin with "Profiling:" mark what a program does for its profiles. The program does
 * little for them because the scheduler attaches its threads, and reports at each switch which green thread
 * runs. A runtime with a scheduler of its own calls cp_m_attach(), cp_g_init() and cp_execute() at these
 * places (see runtime.h).
 */
#include "server_http.h"
#include "server_waits.h"
#include "server_work.h"

#include "http.h"
#include "sched.h"

#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define NS_PER_MS 1000000

struct connection {
    struct connection *next, **link; /* the place in server.connections, under the lock */
    struct http_client client;
    struct work work;
};

static struct {
    int listener;
    int signals; /* a signalfd of SIGINT and SIGTERM */
    pthread_mutex_t lock;
    struct connection *connections;
    uint32_t is_ending; /* written under the lock */
} server = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- Routes ---------------------------------------------------------------------------------- */

static const struct route {
    const char *path;
    const char *parameter;
    unsigned usual, most; /* bounds of the parameter; the least value is 1 */
    void (*run)(struct work *w, unsigned n);
} routes[] = {
    {"/hash", "n", 100000, 100000000, work_hash}, {"/sort", "n", 2000, WORK_NUMBERS, work_sort},
    {"/json", "n", 200, WORK_ITEMS, work_json},   {"/reserve", "ms", 5, 1000, wait_reserve},
    {"/fetch", "ms", 5, 1000, wait_fetch},        {"/sleep", "ms", 10, 1000, wait_sleep},
    {"/poll", "ms", 10, 1000, wait_poll},
};
enum { ROUTES = sizeof(routes) / sizeof(routes[0]) };

static const struct route *find_route(const char *path)
{
    for (size_t i = 0; i < ROUTES; i++)
        if (strcmp(routes[i].path, path) == 0)
            return &routes[i];
    return NULL;
}

static void list_routes(struct work *w)
{
    for (size_t i = 0; i < ROUTES; i++)
        w->size += (size_t)snprintf(w->text + w->size, sizeof(w->text) - w->size, "%s?%s=%u\n",
                                    routes[i].path, routes[i].parameter, routes[i].usual);
}

/* Returns the number that the query gives, as in "n=5"; 0 if the query makes no sense. */
static unsigned number_in(const char *query, const struct route *route)
{
    size_t name = strlen(route->parameter);
    char *end;
    if (!query)
        return route->usual;
    if (strncmp(query, route->parameter, name) != 0 || query[name] != '=' || query[name + 1] < '0' ||
        query[name + 1] > '9')
        return 0;
    unsigned long n = strtoul(query + name + 1, &end, 10);
    return *end || n > route->most ? 0 : (unsigned)n;
}

/* Computes the answer; returns its status. */
static const char *answer(struct work *w, const struct http_request *r, const struct route *route)
{
    unsigned n = route ? number_in(r->query, route) : 0;
    const char *status = "200 OK";
    w->type = "text/plain";
    w->size = 0;
    if (n)
        route->run(w, n);
    else if (strcmp(r->path, "/") == 0)
        list_routes(w);
    else
        status = route ? "400 Bad Request" : "404 Not Found";
    if (w->size == 0)
        w->size = (size_t)snprintf(w->text, sizeof(w->text), "%s\n", status);
    return status;
}

/* ---- Connections ----------------------------------------------------------------------------- */

/* Serves one request. Returns false if the connection is to be closed. */
static bool serve_request(struct connection *c)
{
    struct http_request request;
    if (!http_receive(&c->client, &request))
        return false;
    const struct route *route = find_route(request.path);

    /* Profiling: until this function returns, samples carry the route, for `pprof -tagfocus route=/sort`. A
     * label has few values and nothing secret in it, so a client's text must not become a label. */
    CP_LABEL_SCOPE("route", route ? route->path : "other");
    const char *status = answer(&c->work, &request, route);
    bool is_last = request.is_last || cp_load_relaxed(&server.is_ending); /* relaxed: see wait_for_end() */
    return http_respond(&c->client, status, c->work.type, c->work.text, c->work.size, is_last);
}

static void add_connection(struct connection *c)
{
    pthread_mutex_lock(&server.lock);
    c->link = &server.connections;
    c->next = server.connections;
    if (c->next)
        c->next->link = &c->next;
    server.connections = c;
    if (server.is_ending)
        shutdown(c->client.fd, SHUT_RD);
    pthread_mutex_unlock(&server.lock);
}

static void end_connection(struct connection *c)
{
    pthread_mutex_lock(&server.lock);
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    pthread_mutex_unlock(&server.lock);
    close(c->client.fd);
    free(c);
}

/* The function of each connection's green thread. */
static void serve_connection(void *connection)
{
    while (serve_request(connection))
        ;
    end_connection(connection);
}

static void start_connection(int fd)
{
    struct connection *c = malloc(sizeof(*c));
    if (!c) {
        close(fd);
        return;
    }
    c->client.fd = fd;
    c->client.received = c->client.answered = 0;
    add_connection(c);
    if (cp_go(serve_connection, c) < 0)
        end_connection(c);
}

/* ---- Start and end --------------------------------------------------------------------------- */

/* Waits for a signal, then accepts no more connections and reads no more requests. Requests that are being
 * answered still get their answers. Green threads that wait find that their descriptors have ended. */
static void wait_for_end(void *unused)
{
    (void)unused;
    cp_wait_fd(server.signals, EPOLLIN, -1);
    pthread_mutex_lock(&server.lock);
    /* relaxed: a green thread that misses the store finds that its client has ended */
    cp_store_relaxed(&server.is_ending, 1);
    shutdown(server.listener, SHUT_RD);
    for (const struct connection *c = server.connections; c; c = c->next)
        shutdown(c->client.fd, SHUT_RD);
    pthread_mutex_unlock(&server.lock);
}

/* The function of the first green thread: accepts connections. */
static void serve(void *unused)
{
    (void)unused;
    if (cp_go(wait_for_end, NULL) < 0) {
        fprintf(stderr, "There is no memory for a green thread.\n");
        exit(1);
    }
    for (int fd; (fd = http_accept(server.listener)) != -EINVAL;) {
        if (fd >= 0)
            start_connection(fd);
        else
            cp_sleep(10 * NS_PER_MS); /* descriptors or memory are short for now */
    }
}

struct flags {
    const char *listen, *endpoint;
    unsigned threads;
    const char *accounts;
};

/* Returns the number of threads; 0 if the text makes no sense. */
static unsigned parse_threads(const char *text)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    return *text < '0' || *text > '9' || *end || n > CP_SCHED_THREADS_MAX ? 0 : (unsigned)n;
}

static _Noreturn void print_usage(FILE *out, const char *program)
{
    fprintf(out, "usage: %s [-listen HOST:PORT] [-endpoint HOST:PORT] [-threads N] [-accounts on|off]\n",
            program);
    exit(out == stdout ? 0 : 2);
}

static void parse_flags(struct flags *f, int argc, char **argv)
{
    static const struct option options[] = {
        {"listen", required_argument, NULL, 'l'},  {"endpoint", required_argument, NULL, 'e'},
        {"threads", required_argument, NULL, 't'}, {"accounts", required_argument, NULL, 'a'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0}};
    for (int flag; (flag = getopt_long_only(argc, argv, "", options, NULL)) != -1;) {
        if (flag == 'l') {
            f->listen = optarg;
        } else if (flag == 'e') {
            f->endpoint = optarg;
        } else if (flag == 'a') {
            f->accounts = optarg;
        } else if (flag != 't') {
            print_usage(flag == 'h' ? stdout : stderr, argv[0]);
        } else if (!(f->threads = parse_threads(optarg))) {
            fprintf(stderr, "%s: -threads must be a number from 1 to %d, not \"%s\".\n", argv[0],
                    CP_SCHED_THREADS_MAX, optarg);
            print_usage(stderr, argv[0]);
        }
    }
    if (strcmp(f->accounts, "on") != 0 && strcmp(f->accounts, "off") != 0) {
        fprintf(stderr, "%s: -accounts must be on or off, not \"%s\".\n", argv[0], f->accounts);
        print_usage(stderr, argv[0]);
    }
    if (optind < argc) {
        fprintf(stderr, "%s: There is no flag \"%s\".\n", argv[0], argv[optind]);
        print_usage(stderr, argv[0]);
    }
}

/* Returns a descriptor for the signals that end the service. All threads that are started from here on have
 * these signals blocked. Profiling: the timer's SIGPROF must not be blocked. */
static int take_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void must(int result, const struct cp_error *err)
{
    if (result < 0) {
        fprintf(stderr, "%s\n", err->message);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    struct flags flags = {.listen = "127.0.0.1:8080", .endpoint = "127.0.0.1:6060", .accounts = "on"};
    parse_flags(&flags, argc, argv);
    /* Profiling: where the time of green threads goes is known, unless the program does not want that. */
    cp_accounts_set(strcmp(flags.accounts, "on") == 0);
    server.signals = take_signals();
    server.listener = http_listen(flags.listen);
    if (server.listener < 0)
        return 1;
    if (!waits_start()) {
        fprintf(stderr, "There is no memory.\n");
        return 1;
    }

    struct cp_sched_options options = {.size = sizeof(options), .threads = flags.threads};
    struct cp_http *http;
    struct cp_error err;
    /* Profiling: the endpoint serves from a thread of its own. */
    must(cp_http_start(&http, flags.endpoint, NULL, &err), &err);
    if (cp_http_warning(http))
        fprintf(stderr, "%s\n", cp_http_warning(http));

    printf("service   http://");
    http_print_address(server.listener);
    printf("/\nprofiles  http://%s/debug/pprof/\n", cp_http_address(http));
    fflush(stdout);
    must(cp_sched_run(&options, serve, NULL, &err), &err);

    /* Profiling: a profile that is being taken ends here, without an answer. */
    cp_http_stop(http);
    waits_end();
    close(server.listener);
    close(server.signals);
    return 0;
}
