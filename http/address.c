/* Parses addresses, and makes listening sockets. See address.h. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"
#include "runtime/base/fail.h"

/* Splits "HOST:PORT". Returns false if the address has another form. */
static bool split(const char *address, char *host, size_t size, const char **port)
{
    const char *colon = strrchr(address, ':');
    size_t n = colon == NULL ? 0 : (size_t)(colon - address);

    if (colon == NULL || n >= size || colon[1] == '\0' ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1) || strlen(colon + 1) > 5 ||
        atoi(colon + 1) > 65535)
        return false;
    if (address[0] == '[' && (n < 3 || address[n - 1] != ']'))
        return false;
    *port = colon + 1;
    if (address[0] == '[') {
        address++;
        n -= 2;
    } else if (memchr(address, ':', n) != NULL) {
        return false; /* an IPv6 address without brackets */
    }
    memcpy(host, address, n);
    host[n] = '\0';
    if (n == 0 || strcmp(host, "localhost") == 0)
        strcpy(host, "127.0.0.1");
    return strcmp(host, "*") != 0; /* other programs take "*" for all interfaces, getaddrinfo(3) for [::1] */
}

static int parse_address(const char *address, struct addrinfo **info, struct cp_error *err)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    char host[64];
    const char *port;

    if (split(address, host, sizeof host, &port) && getaddrinfo(host, port, &hints, info) == 0)
        return 0;
    return cp__error(err, -EINVAL,
                     "\"%s\" is not an address to listen on. Give an IP address or localhost, and a port, as "
                     "in 127.0.0.1:6060, [::1]:6060 or :6060; 0.0.0.0:6060 means all interfaces.",
                     address);
}

/* Makes a socket, and registers it before it listens, so that no child of a fork() keeps a listening
 * socket. */
static int make_socket(int family, struct cp__http_socket **noted)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -errno;
    *noted = cp__http_socket_new(fd);
    if (*noted != NULL)
        return fd;
    close(fd);
    return -ENOMEM;
}

static int listen_on(const struct addrinfo *info, struct cp__http_socket **noted)
{
    const int one = 1;
    int fd = make_socket(info->ai_family, noted);
    int error;

    if (fd < 0)
        return fd;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (info->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
    if (bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    error = errno;
    cp__http_socket_close(*noted);
    return -error;
}

int cp__http_listen(const char *address, struct cp__http_socket **noted, struct cp_error *err)
{
    struct addrinfo *info;
    int result = parse_address(address, &info, err);

    if (result < 0)
        return result;
    result = listen_on(info, noted);
    freeaddrinfo(info);
    if (result == -EADDRINUSE)
        return cp__error(err, result,
                         "Another program listens on %s already. Take another port, or 0 for a free one.",
                         address);
    if (result < 0)
        return cp__error(err, result, "The server cannot listen on %s: %s.", address, strerror(-result));
    return result;
}

bool cp__http_is_loopback(int fd)
{
    union {
        struct sockaddr_storage any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } address = {.any.ss_family = AF_UNSPEC};
    socklen_t length = sizeof address;

    getsockname(fd, (struct sockaddr *)&address, &length);
    if (address.any.ss_family == AF_INET)
        return ntohl(address.in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return address.any.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&address.in6.sin6_addr);
}

void cp__http_address_of(int fd, char *text, size_t size)
{
    struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
    socklen_t length = sizeof address;
    char host[64] = "", port[8] = "";

    getsockname(fd, (struct sockaddr *)&address, &length);
    getnameinfo((struct sockaddr *)&address, length, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(text, size, address.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}
