/* A program with an endpoint, and requests to the endpoint. */
#ifndef COUNTERPOINT_TESTS_HTTP_TOOLS_H
#define COUNTERPOINT_TESTS_HTTP_TOOLS_H

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http.h"
#include "session_tools.h"

/* ---- The program ----------------------------------------------------------------------------- */

static pthread_t service;
static uint32_t is_ending, is_serving;

__attribute__((noinline, unused)) static void serve_customers(void)
{
    burn_here(5000000);
    __asm__ volatile("");
}

static inline void *run_service(void *arg)
{
    (void)arg;
    attach();
    cp_label_set("role", "service");
    cp_store_release(&is_serving, 1);        /* pairs with the acquire in start_service() */
    while (cp_load_acquire(&is_ending) == 0) /* pairs with the release in stop_service() */
        serve_customers();
    return NULL;
}

/* Starts the program's thread, and returns when the thread is attached. */
static inline void start_service(void)
{
    is_ending = is_serving = 0;
    CHECK_EQ(pthread_create(&service, NULL, run_service, NULL), 0);
    while (cp_load_acquire(&is_serving) == 0) /* pairs with the release in run_service() */
        usleep(200);
}

static inline void stop_service(void)
{
    cp_store_release(&is_ending, 1); /* pairs with the acquire in run_service() */
    pthread_join(service, NULL);
}

static inline struct cp_http *start_http(const struct cp_http_options *options)
{
    struct cp_error err;
    struct cp_http *http;

    CHECKF(cp_http_start(&http, "127.0.0.1:0", options, &err) == 0, "%s", err.message);
    return http;
}

/* Waits until n slots are in use. Returns false after timeout_ms. */
static inline bool slots_become(uint32_t n, int timeout_ms)
{
    struct cp_runtime_stats stats = {.size = sizeof stats};

    for (int i = 0; i <= timeout_ms / 10; i++, usleep(10000)) {
        cp_runtime_stats(&stats);
        if (stats.slots == n)
            return true;
    }
    return false;
}

/* ---- Asking with curl ------------------------------------------------------------------------ */

#define PPROF "/debug/pprof"

/* Returns what curl prints, headers first. The format makes further arguments of curl and a path. */
__attribute__((format(printf, 2, 3))) static inline char *ask(const struct cp_http *http, const char *format,
                                                              ...)
{
    char arguments[2000];
    va_list list;

    va_start(list, format);
    vsnprintf(arguments, sizeof arguments, format, list);
    va_end(list);
    return test_command(NULL, "base=http://%s" PPROF "; curl -sS -i --globoff --max-time 60 %s | tr -d '\\r'",
                        cp_http_address(http), arguments);
}

/* Checks that an answer has this status and contains these parts; NULL ends the parts. */
__attribute__((sentinel)) static inline void check_answer(const struct cp_http *http, const char *arguments,
                                                          int status, ...)
{
    char *answer = ask(http, "%s", arguments);
    char line[32];
    const char *part;
    va_list parts;

    printf("%s\n%.600s\n", arguments, answer);
    snprintf(line, sizeof line, "HTTP/1.1 %d ", status);
    CHECKF(strncmp(answer, line, strlen(line)) == 0, "%s: not %d but %.40s", arguments, status, answer);
    va_start(parts, status);
    while ((part = va_arg(parts, const char *)) != NULL)
        CHECK_CONTAINS(answer, part);
    va_end(parts);
    free(answer);
}

/* ---- Asking by hand -------------------------------------------------------------------------- */

static inline int connect_to_port(unsigned port)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(fd >= 0);
    CHECKF(connect(fd, (struct sockaddr *)&to, sizeof to) == 0, "%s", strerror(errno));
    return fd;
}

static inline int connect_to(const struct cp_http *http)
{
    return connect_to_port((unsigned)atoi(strrchr(cp_http_address(http), ':') + 1));
}

static inline void send_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = send(fd, data, size, MSG_NOSIGNAL);

        if (n <= 0)
            return; /* the server needs no more */
        data += n;
        size -= (size_t)n;
    }
}

static inline int request(const struct cp_http *http, const char *path)
{
    int fd = connect_to(http);
    char text[300];

    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
    send_all(fd, text, strlen(text));
    return fd;
}

/* How long a test waits for something that must come. */
enum { PATIENCE_MS = 8000 * TEST_SLOWDOWN };

/* Receives the first line, with a terminating zero; the connection stays open. The first byte may take any
 * time: if no byte ever comes, the test hangs, and the runner notices the hang. */
static inline void receive_line(int fd, char *line, size_t size)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    size_t n = 0;

    while (n + 1 < size && poll(&wait, 1, n == 0 ? -1 : PATIENCE_MS) > 0 && recv(fd, line + n, 1, 0) == 1 &&
           line[n] != '\n')
        n++;
    line[n] = '\0';
}

/* Receives until the connection ends, or until nothing has come for timeout_ms. The text has a terminating
 * zero. The first byte may take any time. */
static inline char *receive_all(int fd, int timeout_ms)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    size_t size = 0, capacity = 4096;
    char *text = malloc(capacity);
    ssize_t n;

    while (poll(&wait, 1, size == 0 ? -1 : timeout_ms) > 0 &&
           (n = recv(fd, text + size, capacity - size - 1, 0)) > 0) {
        size += (size_t)n;
        if (capacity - size < 1024)
            text = realloc(text, capacity *= 2);
    }
    text[size] = '\0';
    return text;
}

#endif
