#include "server_http.h"

#include "sched.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLIENT_TIMEOUT_NS 10000000000 /* how long a client may take to send or receive more bytes */

/* ---- Sockets --------------------------------------------------------------------------------- */

/* After a wait, a green thread may run on another thread, and errno belongs to the thread. So these
 * functions, which do not wait, read errno. */
__attribute__((noinline)) static int try_accept(int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

__attribute__((noinline)) static ssize_t try_receive(int fd, char *data, size_t size)
{
    ssize_t n = recv(fd, data, size, 0);
    return n < 0 ? -errno : n;
}

__attribute__((noinline)) static ssize_t try_send(int fd, const char *data, size_t size, int flags)
{
    ssize_t n = send(fd, data, size, flags | MSG_NOSIGNAL);
    return n < 0 ? -errno : n;
}

int http_accept(int listener)
{
    for (;;) {
        int fd = try_accept(listener);
        int result = fd == -EAGAIN ? cp_wait_fd(listener, EPOLLIN, -1) : fd;
        if (fd != -EAGAIN || result < 0)
            return result;
    }
}

/* Receives some bytes; returns 0 if the client has ended. */
static ssize_t receive(int fd, char *data, size_t size)
{
    for (;;) {
        ssize_t n = try_receive(fd, data, size);
        int result = n == -EAGAIN ? cp_wait_fd(fd, EPOLLIN, CLIENT_TIMEOUT_NS) : 0;
        if (n != -EAGAIN || result < 0)
            return n == -EAGAIN ? result : n;
    }
}

static bool send_all(int fd, const char *data, size_t size, int flags)
{
    while (size > 0) {
        ssize_t n = try_send(fd, data, size, flags);
        if (n < 0 && (n != -EAGAIN || cp_wait_fd(fd, EPOLLOUT, CLIENT_TIMEOUT_NS) < 0))
            return false;
        data += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* ---- Addresses ------------------------------------------------------------------------------- */

static int bind_to(const struct addrinfo *info)
{
    const int one = 1;
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

int http_listen(const char *address)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    const char *colon = strrchr(address, ':');
    struct addrinfo *info;
    char host[256];
    bool is_bracketed = colon && colon - address >= 2 && address[0] == '[' && colon[-1] == ']';
    snprintf(host, sizeof(host), "%.*s", colon ? (int)(colon - address) - 2 * is_bracketed : 0,
             address + is_bracketed);
    if (!colon || getaddrinfo(host, colon + 1, &hints, &info) != 0) {
        fprintf(stderr, "\"%s\" is not an address to listen on. Give one like 127.0.0.1:8080.\n", address);
        return -1;
    }
    int fd = bind_to(info);
    if (fd < 0)
        fprintf(stderr, "The service cannot listen on %s: %s. Give another address by -listen.\n", address,
                strerror(errno));
    freeaddrinfo(info);
    return fd;
}

void http_print_address(int listener)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof(address);
    char host[64], port[8];
    if (getsockname(listener, (struct sockaddr *)&address, &size) == 0 &&
        getnameinfo((struct sockaddr *)&address, size, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        printf(address.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

/* ---- Requests -------------------------------------------------------------------------------- */

/* Parses a request's header. Returns NULL, or the status that says what is wrong. */
static const char *parse(char *text, struct http_request *r)
{
    char *rest = NULL, *fields = strstr(text, "\r\n");
    if (fields)
        *fields++ = 0;
    const char *method = strtok_r(text, " ", &rest);
    char *target = strtok_r(NULL, " ", &rest);
    const char *version = strtok_r(NULL, " ", &rest);
    if (!fields || !version || strncmp(version, "HTTP/1.", 7) != 0 || target[0] != '/')
        return "400 Bad Request";
    if (strcmp(method, "GET") != 0)
        return "405 Method Not Allowed";
    if (strcasestr(fields, "\ncontent-length:") || strcasestr(fields, "\ntransfer-encoding:"))
        return "413 Content Too Large"; /* no client sends a GET with a body */
    r->is_last = strcmp(version, "HTTP/1.1") != 0 || strcasestr(fields, "\nconnection: close");
    r->path = strsep(&target, "?");
    r->query = target;
    return NULL;
}

/* Answers with an error and ends the connection. If a request is not understood, nobody can tell where the
 * next one begins. */
static bool refuse(struct http_client *c, const char *status)
{
    return http_respond(c, status, "text/plain", status, strlen(status), true);
}

bool http_receive(struct http_client *c, struct http_request *request)
{
    char *end;
    c->received -= c->answered;
    memmove(c->data, c->data + c->answered, c->received);
    c->answered = 0;
    while (!(end = memmem(c->data, c->received, "\r\n\r\n", 4))) {
        if (c->received == sizeof(c->data))
            return refuse(c, "431 Request Header Fields Too Large");
        ssize_t n = receive(c->fd, c->data + c->received, sizeof(c->data) - c->received);
        if (n <= 0)
            return false;
        c->received += (size_t)n;
    }
    end[3] = 0; /* in place of the last newline */
    c->answered = (size_t)(end + 4 - c->data);
    const char *error = parse(c->data, request);
    return !error || refuse(c, error);
}

bool http_respond(struct http_client *c, const char *status, const char *type, const char *text, size_t size,
                  bool is_last)
{
    char head[256];
    int n = snprintf(head, sizeof(head), "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s\r\n",
                     status, type, size, is_last ? "Connection: close\r\n" : "");
    return send_all(c->fd, head, (size_t)n, MSG_MORE) && send_all(c->fd, text, size, 0) && !is_last;
}
