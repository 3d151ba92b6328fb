/* The example server as a child of the test, and connections to it. */
#ifndef COUNTERPOINT_TESTS_SERVER_TOOLS_H
#define COUNTERPOINT_TESTS_SERVER_TOOLS_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

/* ---- The server ------------------------------------------------------------------------------ */

struct server {
    pid_t pid;
    char service[64]; /* HOST:PORT */
    char endpoint[64];
};

static inline struct server start_server_with(const char *service, const char *endpoint, const char *threads)
{
    struct server server;
    char path[512];
    int out[2];

    snprintf(path, sizeof path, "%s/examples/server", test_build_dir());
    CHECK_EQ(pipe(out), 0);
    server.pid = fork();
    CHECK(server.pid >= 0);
    if (server.pid == 0) {
        dup2(out[1], 1);
        close(out[0]);
        close(out[1]);
        execl(path, path, "-listen", service, "-endpoint", endpoint, "-threads", threads, NULL);
        _exit(127);
    }
    close(out[1]);

    FILE *said = fdopen(out[0], "r");

    CHECK_EQ(fscanf(said, "service http://%63[^/]/ profiles http://%63[^/]/debug/pprof/", server.service,
                    server.endpoint),
             2);
    fclose(said);
    return server;
}

static inline struct server start_server_on(const char *service, const char *endpoint)
{
    return start_server_with(service, endpoint, "2");
}

static inline struct server start_server(void)
{
    return start_server_on("127.0.0.1:0", "127.0.0.1:0");
}

/* Sends the signal. Returns the status of wait(2): 0 if the server ended well. */
static inline int stop_server(const struct server *server, int signal)
{
    int status;

    CHECK_EQ(kill(server->pid, signal), 0);
    CHECK_EQ(waitpid(server->pid, &status, 0), server->pid);
    return status;
}

/* Returns the connection, or -1 if the server refused it. */
static inline int connect_to(const char *address)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(fd >= 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    CHECK_EQ(errno, ECONNREFUSED);
    close(fd);
    return -1;
}

static inline void send_text(int fd, const char *text)
{
    CHECK_EQ(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Returns as text all that arrives until the server closes the connection. The caller frees it. */
static inline char *receive_all(int fd)
{
    char *text = NULL;
    size_t size = 0;
    ssize_t n;

    do {
        text = realloc(text, size + 4096);
        CHECK(text != NULL);
        n = recv(fd, text + size, 4095, 0);
        size += n > 0 ? (size_t)n : 0;
    } while (n > 0);
    CHECKF(n == 0, "%s", strerror(errno));
    text[size] = '\0';
    return text;
}

#endif
