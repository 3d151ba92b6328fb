/* Clients of the HTTP endpoint that disconnect, send too much, are slow, or are many. */
#include "tests/support/http_tools.h"

#include "tests/support/http_inside.h"
#include "tests/support/resources.h"

#include <sys/resource.h>

static uint64_t now_ms(void)
{
    return wall_ns() / 1000000;
}

/* Waits until the process has no more descriptors than then, because a server notices a moment later that a
 * client has closed its connection. Returns what the process holds. */
static struct resources settle(const struct resources *then)
{
    struct resources now = resources_now();

    for (int i = 0; i < 1000 && now.fds > then->fds; i++) {
        usleep(10000);
        now = resources_now();
    }
    return now;
}

/* Waits until the process has n descriptors. Returns false if the time is over before. */
static bool fds_become(int n, int timeout_ms)
{
    const uint64_t end = now_ms() + (uint64_t)timeout_ms;

    for (; now_ms() < end; usleep(10000)) {
        if (resources_now().fds == n)
            return true;
    }
    return false;
}

/* ---- What goes wrong ------------------------------------------------------------------------- */

CP_TEST(a_client_that_goes_away_ends_its_session)
{
    struct cp_http *http = start_http(NULL);
    int fd = request(http, PPROF "/profile?seconds=600");

    CHECK(slots_become(1, PATIENCE_MS));
    usleep(300000);
    CHECK(slots_become(1, 0));
    close(fd);
    CHECK(slots_become(0, PATIENCE_MS));
    cp_http_stop(http);
}

static void stop_while_profiles_run(void)
{
    struct cp_http *http = start_http(NULL);
    int fds[3];

    for (int i = 0; i < 3; i++)
        fds[i] = request(http, PPROF "/profile?seconds=600");
    CHECK(slots_become(3, PATIENCE_MS));
    cp_http_stop(http);
    CHECK(slots_become(0, 0));
    for (int i = 0; i < 3; i++) {
        char *answer = receive_all(fds[i], PATIENCE_MS);

        CHECK_STR(answer, "");
        free(answer);
        close(fds[i]);
    }
}

CP_TEST(a_stop_ends_running_profiles)
{
    struct resources now, then;

    stop_while_profiles_run(); /* an ended thread leaves its stack and arena for the next one */
    then = resources_now();
    stop_while_profiles_run();
    now = settle(&then);
    check_resources(&now, &then, 20);
}

/* Checks that the server still answers. */
static void check_alive(const struct cp_http *http)
{
    int fd = connect_to(http);
    static const char text[] =
        "GET " PPROF "/cmdline HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    char *answer;

    send_all(fd, text, strlen(text));
    answer = receive_all(fd, PATIENCE_MS);
    CHECKF(strncmp(answer, "HTTP/1.1 200 OK\r\n", 17) == 0, "%s", answer);
    free(answer);
    close(fd);
}

CP_TEST(requests_cut_off_at_every_byte_do_no_harm)
{
    static const char *const requests[] = {
        "GET " PPROF
        "/profile?seconds=600&event=taskClock HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n",
        "POST " PPROF "/symbol HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n0x1+0x222",
        "POST " PPROF "/symbol HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        "3\r\n0x1\r\n0\r\n\r\n"};
    struct resources now, then;
    struct cp_http *http = start_http(NULL);

    check_alive(http);
    cp_sample_cost_ns(NULL); /* makes what is made once in a process, such as the pipe of libunwind */
    then = resources_now();
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        for (size_t n = 0; n <= strlen(requests[i]); n++) {
            int fd = connect_to(http);

            send_all(fd, requests[i], n);
            close(fd);
        }
        check_alive(http);
    }
    CHECK(slots_become(0, PATIENCE_MS));
    now = settle(&then);
    CHECK(now.fds <= then.fds); /* connections of earlier requests may have been open then */
    cp_http_stop(http);
}

CP_TEST(what_is_too_large_is_refused)
{
    struct cp_http *http = start_http(NULL);
    const size_t size = 1 << 20;
    char *big = malloc(size), *answer;
    static const struct {
        const char *begin, *end, *status;
    } cases[] = {
        {"GET " PPROF "/profile?x=", " HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 414 "},
        {"GET " PPROF "/cmdline HTTP/1.1\r\nHost: localhost\r\nX: ", "\r\n\r\n", "HTTP/1.1 431 "},
        {"POST " PPROF "/symbol HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n100002\r\n",
         "xx\r\n", "HTTP/1.1 411 "},
    };

    memset(big, 'x', size);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int fd = connect_to(http);

        send_all(fd, cases[i].begin, strlen(cases[i].begin));
        send_all(fd, big, size);
        send_all(fd, cases[i].end, strlen(cases[i].end));
        answer = receive_all(fd, PATIENCE_MS);
        printf("%zu: %.40s\n", i, answer);
        /* The answer may be lost if the server closes the connection before all of the request was sent. */
        CHECKF(answer[0] == '\0' || strncmp(answer, cases[i].status, strlen(cases[i].status)) == 0, "%s",
               answer);
        free(answer);
        close(fd);
        check_alive(http);
    }
    free(big);
    cp_http_stop(http);
}

CP_TEST(a_body_that_is_announced_as_too_large_is_not_waited_for)
{
    static const char header[] =
        "POST " PPROF "/symbol HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048577\r\n\r\n";
    struct cp_http *http = start_http(NULL);
    int fd = connect_to(http);
    char *answer;

    send_all(fd, header, strlen(header));
    answer = receive_all(fd, PATIENCE_MS);
    CHECKF(strncmp(answer, "HTTP/1.1 413 ", 13) == 0, "%s", answer);
    CHECK_CONTAINS(answer, "1048576 bytes at most");
    free(answer);
    close(fd);
    cp_http_stop(http);
}

/* Four bodies of 1 MiB fill the 4 MiB that the server has for bodies. */
CP_TEST(the_bodies_that_are_received_at_a_time_have_a_limit)
{
    enum { N = 4, SIZE = 1 << 20 };
    static const char header[] = "POST " PPROF "/symbol HTTP/1.1\r\nHost: localhost\r\n"
                                 "Expect: 100-continue\r\nContent-Length: 1048576\r\n\r\n";
    struct cp_http *http = start_http(NULL);
    char *body = malloc(SIZE), *answer, line[100];
    int fds[N], fd;

    memset(body, '+', SIZE);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++) {
            fds[i] = connect_to(http);
            send_all(fds[i], header, strlen(header));
            receive_line(fds[i], line, sizeof line);
            CHECKF(strncmp(line, "HTTP/1.1 100 ", 13) == 0, "%d: %s", i, line);
        }
        fd = connect_to(http);
        send_all(fd, header, strlen(header));
        answer = receive_all(fd, PATIENCE_MS);
        CHECKF(strncmp(answer, "HTTP/1.1 503 ", 13) == 0, "%s", answer);
        CHECK_CONTAINS(answer, "\nRetry-After: 1\r\n");
        free(answer);
        close(fd);
        check_answer(http, "$base/symbol?0x1", 200, NULL); /* a request without a body */
        for (int i = 0; i < N; i++) {
            send_all(fds[i], body, SIZE);
            receive_line(fds[i], line, sizeof line); /* the empty line after the status 100 */
            receive_line(fds[i], line, sizeof line);
            CHECKF(strncmp(line, "HTTP/1.1 200 ", 13) == 0, "%d: %s", i, line);
            close(fds[i]);
        }
    }
    free(body);
    cp_http_stop(http);
}

#define LONG_NAME_2(a) a##_twice_##a
#define LONG_NAME_1(a) LONG_NAME_2(a##_and_on_and_on_##a)
#define LONG_NAME LONG_NAME_1(a_function_with_a_long_name)
void LONG_NAME(void);
__attribute__((noinline)) void LONG_NAME(void)
{
    __asm__ volatile("");
}

/* Limits the client's receive buffer to a few KiB, so that the answer stays in the server's socket, which
 * holds some MiB at most. */
static int connect_slowly(const struct cp_http *http)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int little = 4096;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_port = htons((uint16_t)atoi(strrchr(cp_http_address(http), ':') + 1));
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof little), 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* Asks for so many names that both sockets cannot hold the answer. */
static void ask_for_names(int fd)
{
    enum { N = 40000, LONGEST = 20 };
    char header[200], *body = malloc(N * LONGEST);
    size_t size = 0;

    for (int i = 0; i < N; i++)
        size += (size_t)snprintf(body + size, LONGEST, "%#lx+", (unsigned long)LONG_NAME);
    snprintf(header, sizeof header,
             "POST " PPROF "/symbol HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n", size);
    send_all(fd, header, strlen(header));
    send_all(fd, body, size);
    free(body);
}

CP_TEST(a_client_that_does_not_read_its_answer_is_cut)
{
    const struct cp_http_options options = {.size = sizeof options, .request_timeout_s = 600};
    struct resources then;
    struct cp_http *http;
    int fd;

    set_answer_timeout(1);
    http = start_http(&options);
    then = resources_now();
    fd = connect_slowly(http);
    ask_for_names(fd);
    CHECK(fds_become(then.fds + 2, PATIENCE_MS)); /* both ends of the connection */
    CHECK(fds_become(then.fds + 1, PATIENCE_MS));
    close(fd);
    cp_http_stop(http);
}

static void check_line(int fd, const char *start)
{
    char line[100];

    receive_line(fd, line, sizeof line);
    CHECKF(strncmp(line, start, strlen(start)) == 0, "%s", line);
}

CP_TEST(answers_that_are_not_read_have_a_limit)
{
    struct resources then;
    struct cp_http *http;
    int first, second;

    set_most_answers(1 << 20);
    http = start_http(NULL);
    then = resources_now();
    first = connect_slowly(http);
    ask_for_names(first);
    check_line(first, "HTTP/1.1 200 ");
    second = connect_slowly(http);
    ask_for_names(second);
    check_line(second, "HTTP/1.1 503 ");
    check_alive(http);
    close(first);
    close(second);
    CHECK(fds_become(then.fds, PATIENCE_MS));
    first = connect_slowly(http);
    ask_for_names(first);
    check_line(first, "HTTP/1.1 200 ");
    close(first);
    cp_http_stop(http);
}

/* ---- Many at a time -------------------------------------------------------------------------- */

static int status_of(int fd)
{
    char *answer = receive_all(fd, PATIENCE_MS);
    int status = 0;

    sscanf(answer, "HTTP/1.1 %d ", &status);
    free(answer);
    close(fd);
    return status;
}

static void ask_for_200(void)
{
    enum { N = 200 };
    const struct cp_http_options options = {
        .size = sizeof options, .max_connections = N + 1, .max_slots = CP_EV_MAX};
    struct cp_http *http = start_http(&options);
    static const char text[] = "GET " PPROF "/profile?seconds=2 HTTP/1.1\r\nHost: localhost\r\n"
                               "Connection: close\r\n\r\n";
    int fds[N], taken = 0, refused = 0, status;

    for (int i = 0; i < N; i++) {
        fds[i] = connect_to(http);
        send_all(fds[i], text, strlen(text));
    }
    for (int i = 0; i < N; i++) {
        status = status_of(fds[i]);
        CHECKF(status == 200 || status == 503, "%d", status);
        taken += status == 200;
        refused += status == 503;
    }
    printf("%d taken, %d refused\n", taken, refused);
    CHECK(taken >= CP_EV_MAX);
    CHECK_EQ(taken + refused, N);
    check_alive(http);
    cp_http_stop(http);
}

CP_TEST(of_200_profiles_at_a_time_as_many_as_there_are_slots_are_taken)
{
    struct resources now, then;

    ask_for_200();
    then = resources_now();
    ask_for_200();
    now = settle(&then);
    check_resources(&now, &then, 40);
}

CP_TEST(a_request_must_arrive_in_time_however_busily)
{
    const struct cp_http_options options = {.size = sizeof options, .request_timeout_s = 1};
    struct cp_http *http = start_http(&options);
    int fd = connect_to(http);
    uint64_t start = now_ms();
    int sent = 0;

    send_all(fd, "GET / HTTP/1.1\r\nX: ", 19);
    while (sent < 100 && send(fd, "x", 1, MSG_NOSIGNAL) == 1) {
        usleep(100000);
        sent++;
    }
    printf("cut after %d bytes\n", sent);
    CHECK(sent < 100 && now_ms() - start >= 900);
    close(fd);
    check_alive(http);
    cp_http_stop(http);
}

CP_TEST(an_answer_may_take_longer_than_the_request)
{
    const struct cp_http_options options = {.size = sizeof options, .request_timeout_s = 1};
    struct cp_http *http = start_http(&options);

    check_answer(http, "-o /dev/null -D - $base/profile?seconds=2", 200, NULL);
    cp_http_stop(http);
}

CP_TEST(a_kept_connection_has_its_time_anew_with_each_request)
{
    const struct cp_http_options options = {.size = sizeof options, .request_timeout_s = 1};
    struct cp_http *http = start_http(&options);
    static const char text[] = "GET " PPROF "/index.css HTTP/1.1\r\nHost: localhost\r\n\r\n";
    int fd = connect_to(http);
    char *answer;

    for (int i = 0; i < 5; i++) {
        uint64_t start = now_ms();

        usleep(500000);
        send_all(fd, text, strlen(text));
        answer = receive_all(fd, 100);
        if (now_ms() - start > 900)
            SKIP("this machine is too busy for the client to be in time");
        CHECK(strncmp(answer, "HTTP/1.1 200 OK\r\n", 17) == 0);
        free(answer);
    }
    close(fd);
    cp_http_stop(http);
}

static void raise_descriptor_limit(rlim_t n)
{
    struct rlimit limit;

    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max < n)
        SKIP("There are not enough descriptors for as many clients.");
    limit.rlim_cur = limit.rlim_cur < n ? n : limit.rlim_cur;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

CP_TEST(slow_clients_keep_nobody_out)
{
    enum { N = 1000, ROUNDS = 3 };
    struct resources now, then;
    static int fds[N];
    struct cp_http *http = start_http(NULL);
    struct timespec before, after;
    long longest_ms = 0, ms;

    raise_descriptor_limit(2 * N);
    cp_http_stop(http); /* the first server of a process may leave more behind */
    then = resources_now();
    http = start_http(NULL);
    for (int i = 0; i < N; i++)
        fds[i] = connect_to(http);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N; i++) {
            if (send(fds[i], "G", 1, MSG_NOSIGNAL) == 1)
                continue;
            close(fds[i]); /* the server has closed it, so the client connects again */
            fds[i] = connect_to(http);
        }
        clock_gettime(CLOCK_MONOTONIC, &before);
        check_alive(http);
        clock_gettime(CLOCK_MONOTONIC, &after);
        ms = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
        longest_ms = ms > longest_ms ? ms : longest_ms;
        now = resources_now();
        printf("%d descriptors are the server's\n", now.fds - then.fds - N);
        CHECK(now.fds - then.fds - N < 150);
    }
    printf("answered in at most %ld ms beside %d slow clients\n", longest_ms, N);
    for (int i = 0; i < N; i++)
        close(fds[i]);
    cp_http_stop(http);
    now = settle(&then);
    check_resources(&now, &then, 20);
}
