/*
 * The endpoint on libmicrohttpd: mount.c answers requests of any daemon, server.c has one of its own.
 *
 * libmicrohttpd's thread reads requests and writes answers. What may take long is done by workers: at most
 * CP__HTTP_WORKERS threads, started as needed, that end when nothing is left to do. At most CP_EV_MAX of
 * them wait for a profile at a time, since no more have a slot, CP__HTTP_DELTAS for the end of a delta, and
 * one more than CP__HTTP_TURN_WAITERS have the turn or wait for it (share.h). So what is quick never waits
 * for what is not.
 */
#ifndef COUNTERPOINT_HTTP_SERVER_H
#define COUNTERPOINT_HTTP_SERVER_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdint.h>

#include "exchange.h"
#include "runtime/base/thread.h"
#include "socket.h"

enum { CP__HTTP_WORKERS = 3 * CP_EV_MAX };
enum { CP__HTTP_BODIES = 4 << 20 }; /* bytes of bodies that are being received, in all */

/* A request, and its answer once there is one. Owned by libmicrohttpd's thread; by a worker from when it is
 * queued until its connection is resumed. */
struct cp__http_call {
    struct cp_http *http;
    struct MHD_Connection *connection;
    char *uri; /* as it came; path and query point into it */
    const char *path;
    const char *query;
    char method[16];
    struct cp_memory body;
    size_t reserved; /* for the body; part of the server's bodies */
    size_t held;     /* of the answer, while it is sent; part of the server's answers */
    bool is_started;
    bool is_done;
    int result; /* of cp_http_handle() */
    int status;
    struct MHD_Response *headers; /* carries nothing but the headers, until there is a body */
    struct cp_memory answer;
    struct cp__http_call *next; /* in the queue */
};

/* A connection of a server's own. Under the lock. */
struct cp__http_peer {
    int fd;
    uint64_t since_ms; /* when it began to do what it does */
    enum cp__http_peer_state {
        CP__PEER_ASKS, /* or may */
        CP__PEER_WAITS,
        CP__PEER_READS,
        CP__PEER_CUT, /* it is shut down, and will be closed */
    } state;
    struct cp__http_peer *next;
};

struct cp_http {
    /* Immutable. */
    pid_t pid;
    struct cp_http_options options;
    bool is_server;            /* and not mounted in somebody else's: its connections are peers */
    struct MHD_Daemon *daemon; /* of a server; used by who starts and stops it only */
    char address[80];
    char warning[320]; /* "": none */
    pthread_t keeper;
    struct cp__http_socket *listener; /* of a server; used by who starts and stops it only */

    pthread_mutex_t lock;
    pthread_cond_t changed; /* peers, or is_ending */
    /* Under the lock. */
    bool is_ending;
    struct cp__http_call *queue, **queue_end;
    struct cp__http_worker {
        struct cp_http *http;
        pthread_t thread;
        enum { CP__WORKER_NONE, CP__WORKER_RUNS, CP__WORKER_ENDED } state;
    } workers[CP__HTTP_WORKERS];
    struct cp__http_peer *peers;
    size_t answers;               /* bytes of answers that are being sent */
    size_t bodies;                /* bytes that are reserved for the bodies of requests */
    struct cp_error *start_error; /* for what libmicrohttpd says while it starts; NULL afterwards */
};

/* How many seconds a client has to read its answer; tests set fewer. */
extern unsigned cp__http_answer_timeout_s;

/* The bytes of answers that are being sent, in all; tests take fewer. One answer may have more, and what is
 * shorter than CP__HTTP_SHORT does not count. */
extern size_t cp__http_max_answers;
enum { CP__HTTP_SHORT = 64 << 10 };

/* The stack of a thread of the server's own; what is deep has threads of its own: see pprof.h. */
enum { CP__HTTP_STACK = 1 << 20 };

/* A call for a request of this URI. NULL without memory. */
struct cp__http_call *cp__http_call_new(struct cp_http *http, const char *uri);

/* Notes what a connection of the server's own does. */
void cp__http_peer_does(struct cp_http *http, struct MHD_Connection *connection,
                        enum cp__http_peer_state state);

#endif
