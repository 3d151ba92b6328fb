/* As much of HTTP/1.1 as the server needs, on green threads: each call may wait, and others run meanwhile. */
#ifndef COUNTERPOINT_EXAMPLES_SERVER_HTTP_H
#define COUNTERPOINT_EXAMPLES_SERVER_HTTP_H

#include <stdbool.h>
#include <stddef.h>

/* One connection; begin with received = 0. */
struct http_client {
    int fd;
    size_t received; /* bytes in data: the request being answered, and what came after it */
    size_t answered; /* of them, those of the request being answered */
    char data[8192];
};

/* Points into the client's data; valid until the next request is read. */
struct http_request {
    const char *path;
    const char *query; /* NULL: none */
    bool is_last;      /* the client wants no other answer on this connection */
};

/* A listening socket for "HOST:PORT". Prints why there is none, and returns -1. */
int http_listen(const char *address);
/* Where it listens, as "HOST:PORT". */
void http_print_address(int listener);

/* A connection's descriptor, or a negative errno value. */
int http_accept(int listener);
/* The next request. False where the connection is to be closed; what was wrong has been answered. */
bool http_receive(struct http_client *client, struct http_request *request);
/* Status is "200 OK" or the like. False where the connection is to be closed. */
bool http_respond(struct http_client *client, const char *status, const char *type, const char *text,
                  size_t size, bool is_last);

#endif
