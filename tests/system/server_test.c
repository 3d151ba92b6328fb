/* The example server: its routes, profiles while it works, and its end. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>

#include "atomic.h"
#include "tests/support/server_tools.h"
#include "tests/support/session_tools.h"

/* Returns the headers and the body that curl shows for these arguments. */
static char *ask(const struct server *server, const char *arguments)
{
    return test_command(NULL, "base=http://%s; curl -sS -i --max-time 20 %s | tr -d '\\r'", server->service,
                        arguments);
}

static void check_answer(const struct server *server, const char *arguments, int status, const char *part)
{
    char *text = ask(server, arguments);
    char line[32];

    snprintf(line, sizeof line, "HTTP/1.1 %d ", status);
    CHECKF(strncmp(text, line, strlen(line)) == 0, "%s: %.60s", arguments, text);
    CHECK_CONTAINS(text, part);
    free(text);
}

/* ---- Routes ---------------------------------------------------------------------------------- */

CP_TEST(every_route_answers)
{
    struct server server = start_server();

    check_answer(&server, "$base/", 200, "/hash?n=");
    /* The answer is FNV-1a of the bytes 0, 1, 2, ...; the server computes the second answer in several
     * pieces. */
    check_answer(&server, "\"$base/hash?n=4\"", 200, "\n\n3282719153\n");
    check_answer(&server, "\"$base/hash?n=200000\"", 200, "\n\n730761221\n");
    /* The answer is the third largest of five numbers x = 1664525 x + 1013904223, beginning with 5. */
    check_answer(&server, "\"$base/sort?n=5\"", 200, "\n\n3076951764\n");
    check_answer(&server, "\"$base/json?n=2\"", 200, "Content-Type: application/json\n");
    check_answer(&server, "\"$base/reserve?ms=1\"", 200, "reserved");
    check_answer(&server, "\"$base/fetch?ms=1\"", 200, "fetched");
    check_answer(&server, "\"$base/sleep?ms=1\"", 200, "slept");
    check_answer(&server, "\"$base/poll?ms=1\"", 200, "done");
    check_answer(&server, "$base/nothing", 404, "404");
    check_answer(&server, "\"$base/sort?n=0\"", 400, "400");
    check_answer(&server, "\"$base/sort?n=16385\"", 400, "400");
    check_answer(&server, "\"$base/sort?m=1\"", 400, "400");
    check_answer(&server, "-d x $base/sort", 405, "Connection: close");
    free(test_command(NULL, "curl -sS 'http://%s/json?n=1000' | jq -e '.items | length == 1000'",
                      server.service));
    CHECK_EQ(stop_server(&server, SIGTERM), 0);
}

CP_TEST(connections_are_kept_and_requests_may_come_in_pieces)
{
    struct server server = start_server();
    char *text = test_command(NULL,
                              "base=http://%s; curl -sS -o /dev/null -o /dev/null -w '%%{num_connects} ' "
                              "$base/sort $base/json",
                              server.service);
    int fd = connect_to(server.service);

    CHECK_STR(text, "1 0 ");
    free(text);

    /* Sends two requests and the beginning of a third byte by byte, then the rest of the third. */
    for (const char *p = "GET /hash?n=4 HTTP/1.1\r\nHost: x\r\n\r\n"; *p != '\0'; p++)
        CHECK_EQ(send(fd, p, 1, MSG_NOSIGNAL), 1);
    send_text(fd, "GET /nothing HTTP/1.1\r\n\r\nGET /hash?n=1 HT");
    send_text(fd, "TP/1.1\r\nConnection: close\r\n\r\nGET /never HTTP/1.1\r\n\r\n");
    text = receive_all(fd);
    CHECK_CONTAINS(text, "\r\n\r\n3282719153\nHTTP/1.1 404 ");
    CHECK_CONTAINS(text, "Connection: close\r\n\r\n84696351\n");
    CHECK(strstr(text, "\r\n\r\n84696351\n")[strlen("\r\n\r\n84696351\n")] == '\0');
    free(text);
    close(fd);
    CHECK_EQ(stop_server(&server, SIGTERM), 0);
}

CP_TEST(what_is_no_request_is_refused)
{
    static const struct {
        const char *text;
        const char *status;
    } bad[] = {
        {"\r\n\r\n", "400"},
        {"GET\r\n\r\n", "400"},
        {"GET / HTTP/2\r\n\r\n", "400"},
        {"GET nowhere HTTP/1.1\r\n\r\n", "400"},
        {"HEAD / HTTP/1.1\r\n\r\n", "405"},
        {"GET / HTTP/1.1\r\ncontent-LENGTH: 3\r\n\r\n", "413"},
        {"GET / HTTP/1.1\r\nX: y\r\nTransfer-Encoding: chunked\r\n\r\n", "413"},
    };
    struct server server = start_server();
    char line[8192];
    char *text;
    int fd;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fd = connect_to(server.service);
        send_text(fd, bad[i].text);
        text = receive_all(fd);
        CHECKF(strncmp(text, "HTTP/1.1 ", 9) == 0 && strncmp(text + 9, bad[i].status, 3) == 0, "%s: %s",
               bad[i].text, text);
        free(text);
        close(fd);
    }

    /* Sends a header that is longer than the server's room for it. */
    fd = connect_to(server.service);
    memset(line, 'x', sizeof line);
    CHECK_EQ(send(fd, line, sizeof line, MSG_NOSIGNAL), sizeof line);
    text = receive_all(fd);
    CHECK_CONTAINS(text, "HTTP/1.1 431 ");
    free(text);
    close(fd);

    /* Connects and disconnects at once. */
    for (int i = 0; i < 100; i++) {
        fd = connect_to(server.service);
        send_text(fd, "GET /json?n=1000 HTTP/1.1\r\n\r\nGET /json?n=1000 HTTP/1.1\r\n\r\nGET");
        close(fd);
    }
    check_answer(&server, "$base/", 200, "/hash");
    CHECK_EQ(stop_server(&server, SIGINT), 0);
}

/* ---- Profiles -------------------------------------------------------------------------------- */

struct load {
    const char *address;
    const char *path;
    uint32_t is_ending;
    pthread_t thread;
};

static void *run_load(void *arg)
{
    struct load *load = arg;
    char request[200];

    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nConnection: close\r\n\r\n", load->path);
    while (!cp_load_acquire(&load->is_ending)) { /* pairs with the release in stop_load() */
        int fd = connect_to(load->address);

        send_text(fd, request);
        free(receive_all(fd));
        close(fd);
    }
    return NULL;
}

static void start_load(struct load *load)
{
    CHECK_EQ(pthread_create(&load->thread, NULL, run_load, load), 0);
}

static void stop_load(struct load *load)
{
    cp_store_release(&load->is_ending, 1); /* pairs with the acquire in run_load() */
    pthread_join(load->thread, NULL);
}

/* Returns the smallest period, which the endpoint names when it refuses a smaller one. */
static unsigned long long smallest_period(const struct server *server)
{
    char *text = test_command(NULL,
                              "curl -sS -i --max-time 20 "
                              "'http://%s/debug/pprof/profile?event=taskClock&period=10000&seconds=1'",
                              server->endpoint);
    const char *at = strstr(text, "The smallest period here is ");
    unsigned long long period = 0;

    printf("%s", text);
    CHECK_CONTAINS(text, "HTTP/1.1 400 ");
    CHECK(at != NULL);
    CHECK_EQ(sscanf(at, "The smallest period here is %llu.", &period), 1);
    free(text);
    return period;
}

CP_TEST(go_tool_pprof_shows_functions_and_routes)
{
    struct server server = start_server();
    struct load loads[] = {{.address = server.service, .path = "/sort?n=10000"},
                           {.address = server.service, .path = "/json?n=1000"}};
    unsigned long long period;
    char url[200];
    char *text;

    test_need_events();
    period = smallest_period(&server);
    if (period < 1000000)
        period = 1000000;
    for (int i = 0; i < 2; i++)
        start_load(&loads[i]);
    snprintf(url, sizeof url, "'http://%s/debug/pprof/profile?seconds=2&event=taskClock&period=%llu'",
             server.endpoint, period);
    text = pprof("-top -nodefraction=0 -output=/dev/stdout", url);
    CHECK_CONTAINS(text, "serve_connection");
    for (int i = 0; i < 2; i++)
        stop_load(&loads[i]);
    CHECK_EQ(stop_server(&server, SIGTERM), 0);
    if (TEST_TSAN)
        SKIP("ThreadSanitizer delivers signals late, so that neither functions nor labels mean much");
    CHECK_CONTAINS(text, "sift_down");
    CHECK_CONTAINS(text, "work_sort");
    CHECK_CONTAINS(text, "render_item");
    free(text);

    /* pprof has saved the profile that it fetched. */
    text = pprof("-top -nodefraction=0 -tagfocus route=/sort", "pprof.*.pb.gz");
    CHECK_CONTAINS(text, "sift_down");
    CHECKF(strstr(text, "render_item") == NULL, "%s", text);
    free(text);
    text = pprof("-top -nodefraction=0 -tagfocus route=/json", "pprof.*.pb.gz");
    CHECK_CONTAINS(text, "render_item");
    CHECKF(strstr(text, "sift_down") == NULL, "%s", text);
    free(text);
}

/* Waits for the end of the answer and returns its status; 0 if the connection was cut before. */
static int status_of(int fd)
{
    char text[4096];
    int status = 0;

    for (ssize_t n; (n = recv(fd, text, sizeof text - 1, 0)) > 0;) {
        text[n] = '\0';
        if (status == 0)
            sscanf(text, "HTTP/1.1 %d ", &status);
    }
    close(fd);
    return status;
}

/* ---- A period that is too small -------------------------------------------------------------- */

static int ask_for_profile(const struct server *server, unsigned long long period)
{
    char request[200];
    int fd = connect_to(server->endpoint);

    snprintf(request, sizeof request,
             "GET /debug/pprof/profile?event=taskClock&period=%llu&seconds=2 HTTP/1.1\r\n"
             "Host: localhost\r\nConnection: close\r\n\r\n",
             period);
    send_text(fd, request);
    return fd;
}

/* Returns how long the service took to answer a small request. */
static double ask_service_ms(const struct server *server)
{
    int fd = connect_to(server->service);
    uint64_t start = wall_ns();
    double ms;
    char *text;

    send_text(fd, "GET /hash?n=4 HTTP/1.1\r\nConnection: close\r\n\r\n");
    text = receive_all(fd);
    ms = (double)(wall_ns() - start) / 1e6;
    CHECK_CONTAINS(text, "\r\n\r\n3282719153\n");
    free(text);
    close(fd);
    return ms;
}

/* Takes a profile with the smallest period and asks the service meanwhile. Returns the profile's status. */
static int profile_with_the_smallest_period(const struct server *server)
{
    unsigned long long period = smallest_period(server);
    struct pollfd answer = {.events = POLLIN, .fd = ask_for_profile(server, period)};
    double longest = 0;
    int n = 0;

    CHECK(period >= 100000);
    while (poll(&answer, 1, 10) == 0) {
        double ms = ask_service_ms(server);

        longest = ms > longest ? ms : longest;
        n++;
    }
    printf("%d requests beside samples every %llu ns, of which the longest took %.1f ms\n", n, period,
           longest);
    return status_of(answer.fd);
}

/* Asks a busy service first for samples that would leave it no time, and then for as many as the endpoint
 * allows. */
CP_TEST(a_period_that_is_too_small_does_a_busy_service_no_harm)
{
    struct server server = start_server();
    struct load loads[] = {{.address = server.service, .path = "/sort?n=10000"},
                           {.address = server.service, .path = "/json?n=1000"}};
    int status = 400;

    test_need_events();
    for (int i = 0; i < 2; i++)
        start_load(&loads[i]);
    /* While a machine is too busy to measure what a sample costs, the endpoint offers a smaller period than
     * the one that it takes when the cost has been measured. */
    for (int tries = 0; status == 400 && tries < 5; tries++)
        status = profile_with_the_smallest_period(&server);
    CHECK_EQ(status, 200);
    printf("and one after it %.1f ms\n", ask_service_ms(&server));
    for (int i = 0; i < 2; i++)
        stop_load(&loads[i]);
    CHECK_EQ(stop_server(&server, SIGTERM), 0);
}

static void check_service(const struct server *server)
{
    check_answer(server, "\"$base/hash?n=4\"", 200, "\n\n3282719153\n");
    check_answer(server, "\"$base/sort?n=5\"", 200, "\n\n3076951764\n");
    check_answer(server, "\"$base/sleep?ms=1\"", 200, "slept");
}

CP_TEST(the_service_answers_while_the_endpoint_is_abused)
{
    enum { SLOW = 1000, PROFILES = 200, ROUNDS = 3 };
    static int slow[SLOW], asking[PROFILES];
    struct server server;
    struct rlimit limit;
    int taken = 0;
    int refused = 0;

    test_need_events();
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max < 2 * SLOW)
        SKIP("There are not enough descriptors for as many clients.");
    limit.rlim_cur = limit.rlim_cur < 2 * SLOW ? 2 * SLOW : limit.rlim_cur;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    server = start_server();
    for (int i = 0; i < SLOW; i++)
        slow[i] = connect_to(server.endpoint);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < SLOW; i++) {
            if (send(slow[i], "G", 1, MSG_NOSIGNAL) == 1)
                continue;
            close(slow[i]); /* the server has closed it, so the client connects again */
            slow[i] = connect_to(server.endpoint);
        }
        check_service(&server);
    }
    for (int i = 0; i < PROFILES; i++) {
        asking[i] = connect_to(server.endpoint);
        send_text(asking[i], "GET /debug/pprof/profile?seconds=1&event=taskClock HTTP/1.1\r\n"
                             "Host: localhost\r\nConnection: close\r\n\r\n");
    }
    check_service(&server);
    for (int i = 0; i < PROFILES; i++) {
        int status = status_of(asking[i]);

        taken += status == 200;
        refused = status != 200 ? status : refused;
    }
    CHECKF(taken >= 4, "%d of them, less than half of the slots; the last refusal was %d", taken, refused);
    check_service(&server);
    for (int i = 0; i < SLOW; i++)
        close(slow[i]);
    CHECK_EQ(stop_server(&server, SIGTERM), 0);
}

/* ---- Start and end --------------------------------------------------------------------------- */

CP_TEST(what_is_being_answered_at_the_end_still_is)
{
    struct server server = start_server();
    int idle = connect_to(server.service);
    int busy = connect_to(server.service);
    int profile = connect_to(server.endpoint);
    char byte, *text;
    time_t start;

    send_text(idle, "GET");
    send_text(busy, "GET /sleep?ms=1 HTTP/1.1\r\n\r\n");
    CHECK_EQ(recv(busy, &byte, 1, 0), 1); /* the answer's beginning shows that the request has arrived */
    send_text(busy, "GET /sleep?ms=700 HTTP/1.1\r\n\r\n");
    send_text(profile, "GET /debug/pprof/profile?seconds=500 HTTP/1.1\r\nHost: localhost\r\n\r\n");

    start = time(NULL);
    CHECK_EQ(kill(server.pid, SIGTERM), 0);
    text = receive_all(idle);
    CHECK_STR(text, "");
    free(text);
    text = receive_all(busy);
    CHECK_CONTAINS(text, "slept\nHTTP/1.1 200 OK");
    CHECK_CONTAINS(text, "Connection: close\r\n\r\nslept\n");
    free(text);
    CHECK(recv(profile, &byte, 1, 0) <= 0);
    CHECK_EQ(stop_server(&server, SIGTERM), 0);
    CHECK(time(NULL) - start < 9); /* before the time-out of 10 s for silent clients */
    close(idle);
    close(busy);
    close(profile);

    CHECK_EQ(connect_to(server.service), -1);
    CHECK_EQ(connect_to(server.endpoint), -1);
    /* The next server can listen on the same ports. timeout(1) does not end this server, because timeout(1)
     * sends SIGCONT, too: that would undo the SIGSTOP by which LeakSanitizer stops a program that ends, and
     * LeakSanitizer would wait for ever. */
    struct server next = start_server_on(server.service, server.endpoint);

    CHECK_STR(next.service, server.service);
    CHECK_STR(next.endpoint, server.endpoint);
    CHECK_EQ(stop_server(&next, SIGINT), 0);
}

CP_TEST(a_start_that_fails_says_why)
{
    struct server server = start_server();
    struct {
        char arguments[200];
        int status;
        const char *says;
    } bad[] = {
        {"", 1, "in use"},
        {"", 1, "already"},
        {"-listen nonsense", 1, "\"nonsense\" is not an address"},
        {"-listen 127.0.0.1:0 -endpoint nonsense", 1, "\"nonsense\" is not an address"},
        {"-threads 0", 2, "usage:"},
        {"-threads 2x", 2, "usage:"},
        {"-accounts maybe", 2, "-accounts must be on or off, not \"maybe\""},
        {"-bogus", 2, "usage:"},
        {"more", 2, "usage:"},
    };

    snprintf(bad[0].arguments, sizeof bad[0].arguments, "-listen %s -endpoint 127.0.0.1:0", server.service);
    snprintf(bad[1].arguments, sizeof bad[1].arguments, "-listen 127.0.0.1:0 -endpoint %s", server.endpoint);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int status;
        char *text = test_command(&status, "%s/examples/server %s 2>&1", test_build_dir(), bad[i].arguments);

        CHECKF(status == bad[i].status, "%s: status %d, %s", bad[i].arguments, status, text);
        CHECKF(strstr(text, bad[i].says) != NULL, "%s: %s", bad[i].arguments, text);
        free(text);
    }
    CHECK_EQ(stop_server(&server, SIGTERM), 0);
}

CP_TEST(an_endpoint_for_everybody_is_warned_of)
{
    const int file = open(file_in_dir("warned"), O_RDWR | O_CREAT | O_CLOEXEC, 0600), own = dup(2);
    struct server server;
    char *text;

    CHECK(file >= 0 && own >= 0);
    dup2(file, 2);
    server = start_server_on("127.0.0.1:0", "0.0.0.0:0");
    dup2(own, 2);
    /* the server warns before it prints where it listens */
    text = test_command(NULL, "cat %s", file_in_dir("warned"));
    CHECK_CONTAINS(text, "Anyone who can reach 0.0.0.0:");
    CHECK_EQ(stop_server(&server, SIGINT), 0);
    free(text);
    close(file);
    close(own);
}
