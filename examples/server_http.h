/* The part of HTTP/1.1 that the server needs, for green threads: each call may wait, and other green threads
 * run meanwhile. */
#ifndef COUNTERPOINT_EXAMPLES_SERVER_HTTP_H
#define COUNTERPOINT_EXAMPLES_SERVER_HTTP_H

#include <stdbool.h>
#include <stddef.h>

/* One connection. It begins with received = 0. */
struct http_client {
    int fd;
    size_t received; /* bytes in data: the request being answered, and what came after it */
    size_t answered; /* the size of the request being answered */
    char data[8192];
};

/* Points into the client's data. Valid until the next request is read. */
struct http_request {
    const char *path;
    const char *query; /* NULL: none */
    bool is_last;      /* the client wants no further answer on this connection */
};

/* Returns a listening socket for "HOST:PORT". On failure, prints the reason and returns -1. */
int http_listen(const char *address);
/* Prints the socket's address as "HOST:PORT". */
void http_print_address(int listener);

/* Returns a connection's descriptor, or a negative errno value. */
int http_accept(int listener);
/* Reads the next request. Returns false if the connection is to be closed; a wrong request has been answered
 * by then. */
bool http_receive(struct http_client *client, struct http_request *request);
/* Sends an answer; status is "200 OK" or the like. Returns false if the connection is to be closed. */
bool http_respond(struct http_client *client, const char *status, const char *type, const char *text,
                  size_t size, bool is_last);

#endif
