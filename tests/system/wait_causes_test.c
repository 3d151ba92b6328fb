/* The usual causes of waits, made in the example server, each in the first line of the profile for it. */
#include <pthread.h>
#include <stdint.h>

#include "atomic.h"
#include "tests/support/server_tools.h"
#include "tests/support/session_tools.h"

/* ---- Load ------------------------------------------------------------------------------------ */

#define CLIENTS 8

struct client {
    int fd;
    const char *path;
    pthread_t thread;
};

static uint32_t is_ending;

/* Reads an answer, which ends in a newline. */
static void receive_answer(int fd)
{
    char text[1024];
    size_t size = 0;
    const char *body;

    do {
        const ssize_t n = recv(fd, text + size, sizeof text - 1 - size, 0);

        CHECK(n > 0);
        size += (size_t)n;
        text[size] = '\0';
        body = strstr(text, "\r\n\r\n");
    } while (body == NULL || body[4] == '\0' || text[size - 1] != '\n');
    CHECK_CONTAINS(text, "HTTP/1.1 200 ");
}

static void *run_client(void *arg)
{
    const struct client *client = arg;
    char request[100];

    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", client->path);
    while (!cp_load_acquire(&is_ending)) { /* pairs with the release in end_clients() */
        send_text(client->fd, request);
        receive_answer(client->fd);
    }
    return NULL;
}

/* All are connected when this returns: the server waits for no further connection. */
static void begin_clients(const struct server *server, struct client *clients, const char *path)
{
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = (struct client){.fd = connect_to(server->service), .path = path};
        send_text(clients[i].fd, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        receive_answer(clients[i].fd);
    }
    for (int i = 0; i < CLIENTS; i++)
        CHECK_EQ(pthread_create(&clients[i].thread, NULL, run_client, &clients[i]), 0);
}

static void end_clients(struct client *clients)
{
    cp_store_release(&is_ending, 1u); /* pairs with the acquire in run_client() */
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(clients[i].thread, NULL);
        close(clients[i].fd);
    }
    cp_store_relaxed(&is_ending, 0u); /* relaxed: the threads have ended */
}

/* ---- Profiles -------------------------------------------------------------------------------- */

/* What is expected of a profile. */
struct first {
    const char *query;    /* what the endpoint is asked for */
    const char *function; /* in the first line */
    const char *caller;   /* in the first line of the example's own functions */
    const char *reason;   /* of most of the time; NULL: the profile does not tell */
};

/* Returns the name in the first line of go tool pprof's list. */
static char *first_line(const char *options, const char *file)
{
    char command[200];

    snprintf(command, sizeof command, "-top %s", options);
    char *top = pprof(command, file), *line = strstr(top, "cum%\n"), *end;

    CHECKF(line != NULL, "%s", top);
    line += strlen("cum%\n");
    end = strchr(line, '\n');
    CHECKF(end != NULL, "%s", top);
    *end = '\0';
    printf("%s\n", line);
    line = strdup(strstr(line, "%  ") == NULL ? line : strrchr(line, '%') + 1);
    free(top);
    return line;
}

static void check_first(const char *options, const char *file, const char *function)
{
    char *line = first_line(options, file);

    CHECK_CONTAINS(line, function);
    free(line);
}

/* The tags of a key are listed by their share. */
static void check_reason(const char *file, const char *reason)
{
    char *tags = pprof("-tags", file), *line = strstr(tags, "reason: ");

    CHECKF(line != NULL, "%s", tags);
    line = strchr(line, '\n') + 1;
    line[strcspn(line, "\n")] = '\0';
    CHECK_CONTAINS(line, reason);
    free(tags);
}

static void check_profile(const struct server *server, const struct first *first)
{
    const char *file = "waits.pb.gz";

    printf("%s\n", first->query);
    free(test_command(NULL, "cd %s && curl -sSf --max-time 30 -o %s 'http://%s/debug/pprof/%s'", test_dir(),
                      file, server->endpoint, first->query));
    check_first("", file, first->function);
    check_first("-show='^(wait|work|http)_'", file, first->caller);
    if (first->reason != NULL)
        check_reason(file, first->reason);
}

/* Loads the server with requests for the path, and looks at n profiles. */
static void check_cause(const char *threads, const char *path, const struct first *firsts, size_t n)
{
    struct server server = start_server_with("127.0.0.1:0", "127.0.0.1:0", threads);
    struct client clients[CLIENTS];

    begin_clients(&server, clients, path);
    for (size_t i = 0; i < n; i++)
        check_profile(&server, &firsts[i]);
    end_clients(clients);
    CHECK_EQ(stop_server(&server, SIGTERM), 0);
}

#define PROFILE(event) "profile?seconds=1&event=" event

/* One G holds it, and seven wait. */
CP_TEST(a_lock)
{
    static const struct first firsts[] = {
        {PROFILE("wait"), "cp_mutex_lock", "wait_reserve", "lock"},
        {PROFILE("lock"), "cp_mutex_unlock", "wait_reserve", "lock"},
        {"block?seconds=1", "cp_mutex_lock", "wait_reserve", NULL},
        {"mutex?seconds=1", "cp_mutex_unlock", "wait_reserve", NULL},
    };

    check_cause("2", "/reserve?ms=10", firsts, 4);
}

/* It has room for two, and six wait. */
CP_TEST(a_channel_that_is_too_small)
{
    static const struct first firsts[] = {
        {PROFILE("wait"), "cp_chan_send", "wait_fetch", "channel send"},
        {PROFILE("lock"), "cp_chan_recv", "wait_fetch", "channel send"},
    };

    check_cause("2", "/fetch?ms=20", firsts, 2);
}

CP_TEST(a_slow_timer)
{
    static const struct first firsts[] = {{PROFILE("wait"), "cp_sleep", "wait_sleep", "sleep"}};

    check_cause("2", "/sleep?ms=100", firsts, 1);
}

CP_TEST(sleeps_in_a_loop)
{
    static const struct first firsts[] = {{PROFILE("wait"), "cp_sleep", "wait_poll", "sleep"}};

    check_cause("2", "/poll?ms=100", firsts, 1);
}

/* The requests of eight clients have come, and one M works at one of them at a time. */
CP_TEST(an_m_too_few)
{
    static const struct first firsts[] = {
        {PROFILE("runnable"), "cp_wait_fd", "http_receive", "descriptor"},
    };

    check_cause("1", "/sort?n=16384", firsts, 1);
}

/* The same if the work lets others go first now and then. */
CP_TEST(an_m_too_few_for_gs_that_yield)
{
    static const struct first firsts[] = {{PROFILE("runnable"), "cp_yield", "work_hash", "wait"}};

    check_cause("1", "/hash?n=10000000", firsts, 1);
}
