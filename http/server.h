/*
 * The endpoint on libmicrohttpd: mount.c answers requests of any daemon, and server.c has a daemon of its
 * own.
 *
 * The thread of libmicrohttpd reads requests and writes answers. Workers do what may take long. Workers are
 * at most CP__HTTP_WORKERS threads, which are started as needed and end when the queue is empty. Of the
 * workers, at most CP_EV_MAX wait for a profile, because there are no more slots; at most CP__HTTP_DELTAS
 * wait for the end of a delta; and at most CP__HTTP_TURN_WAITERS + 1 have the turn or wait for it (share.h).
 * So a worker is always left for quick work.
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
enum { CP__HTTP_BODIES = 4 << 20 }; /* bytes of all request bodies that are being received */

/* A request, and later its answer. Belongs to the thread of libmicrohttpd, except that a worker owns the
 * call from when it is queued until its connection is resumed. */
struct cp__http_call {
    struct cp_http *http;
    struct MHD_Connection *connection;
    char *uri; /* as the client sent it; path and query point into this string */
    const char *path;
    const char *query;
    char method[16];
    struct cp_memory body;
    size_t reserved; /* bytes reserved for the body, a part of cp_http.bodies */
    size_t held;     /* bytes of an answer that is being sent, a part of cp_http.answers */
    bool is_started;
    bool is_done;
    int result; /* what cp_http_handle() returned */
    int status;
    struct MHD_Response *headers; /* holds only the headers until the body is complete */
    struct cp_memory answer;
    struct cp__http_call *next; /* in the queue of cp_http */
};

/* A connection of a server of our own. Protected by cp_http.lock. */
struct cp__http_peer {
    int fd;
    uint64_t since_ms; /* when the connection entered its state, by cp__http_now_ms() */
    enum cp__http_peer_state {
        CP__PEER_ASKS,  /* the client sends a request, or may send one */
        CP__PEER_WAITS, /* the client waits for the answer */
        CP__PEER_READS, /* the client reads the answer */
        CP__PEER_CUT,   /* the connection has been shut down, and libmicrohttpd will close it */
    } state;
    struct cp__http_peer *next;
};

/* A running endpoint. */
struct cp_http {
    /* Immutable. */
    pid_t pid;
    struct cp_http_options options;
    bool is_server; /* false: mounted in a daemon of somebody else, so there are no peers */
    struct MHD_Daemon
        *daemon; /* set if is_server; only the thread that starts and stops the server uses it */
    char address[80];
    char warning[320]; /* "": none */
    pthread_t keeper;
    struct cp__http_socket *listener; /* as daemon */

    pthread_mutex_t lock;
    pthread_cond_t changed; /* signals changes of peers and is_ending */
    /* Protected by the lock: */
    bool is_ending;
    struct cp__http_call *queue, **queue_end;
    struct cp__http_worker {
        struct cp_http *http;
        pthread_t thread;
        enum { CP__WORKER_NONE, CP__WORKER_RUNS, CP__WORKER_ENDED } state;
    } workers[CP__HTTP_WORKERS];
    struct cp__http_peer *peers;
    size_t answers;               /* bytes of all answers that are being sent */
    size_t bodies;                /* bytes reserved for the bodies of requests */
    struct cp_error *start_error; /* takes what libmicrohttpd logs while the server starts; else NULL */
};

/* Seconds that a client has to read its answer. Tests set fewer. */
extern unsigned cp__http_answer_timeout_s;

/* The limit for the bytes of all answers that are being sent. Tests set fewer. A single answer may be
 * longer, and answers shorter than CP__HTTP_SHORT do not count. */
extern size_t cp__http_max_answers;
enum { CP__HTTP_SHORT = 64 << 10 };

/* Bytes of the stack of each thread of the endpoint. The library does deep work on threads of its own: see
 * pprof.h. */
enum { CP__HTTP_STACK = 1 << 20 };

/* Makes a call for a request of the URI; cp_http_completed() frees it. Returns NULL if there is no memory. */
struct cp__http_call *cp__http_call_new(struct cp_http *http, const char *uri);

/* Sets the state of a connection of the server. */
void cp__http_peer_does(struct cp_http *http, struct MHD_Connection *connection,
                        enum cp__http_peer_state state);

#endif
