/*
 * counterpoint/http.h: the profiles of a running program over HTTP, as Go's net/http/pprof has them:
 *
 *     struct cp_http *http;
 *     struct cp_error err;
 *     if (cp_http_start(&http, "127.0.0.1:6060", NULL, &err) < 0)
 *         fprintf(stderr, "%s\n", err.message);
 *
 *     go tool pprof 'http://127.0.0.1:6060/debug/pprof/profile?event=taskClock&period=1000000&seconds=5'
 *
 * The paths, all below /debug/pprof/:
 *
 *     (nothing)     a page that links to the rest, with the events that work here
 *     ui/           a page that records profiles and shows them: flame graph, table, labels, differences
 *     profile       ?seconds=N&event=E&period=P; by default the timer for 30 s; event=E:P is the same as
 *                   event=E&period=P (cp_event_take_period()); debug=1: as text; engine=trap or signal: how
 *                   samples get out of threads (enum cp_engine)
 *     goroutine     where all Gs of the scheduler are (sched.h); debug=1: as text; debug=2: each G with its
 *                   state; seconds=N: what changes in that time
 *     goroutineleak ?age=10m: the Gs that have waited for that long, what for, and which call started them
 *                   (cp_g_leak_profile()); debug=1, debug=2 and seconds=N as above
 *     stalls        where Gs held their M for longer than a threshold (stall.h); debug=1 as above; seconds=N:
 *                   in that time, for which stalls are looked for if the program does not do so itself;
 *                   threshold=10ms: what is too long then
 *     threadcreate  which threads are Ms, with the stacks that attached them; debug=1 and seconds=N as above
 *     block, mutex  ?seconds=N&period=P: where the program waits, and who makes others wait, recorded for N
 *                   seconds; without seconds, since cp_contention_start(), debug=1: as text
 *     watch         ?name=NAME: where the rounds of a watch began (cp_watch_write_profile()); debug=1 and
 *                   seconds=N as above
 *     symbol        names of addresses, as pprof tools ask for them (GET ?0xADDR+0xADDR, or POST)
 *     cmdline       the program's arguments, with a zero byte between them
 *     watches       what all watches have measured (watch.h), as a table; format=json: as JSON
 *     metrics       counters, what Gs ran and waited, and what all watches have measured, for Prometheus
 *
 * A client can see the program's code, arguments and labels, and can make the program spend time on answers.
 * Therefore a server listens on the loopback interface unless it gets another address. On any address, the
 * endpoint refuses a Host header that is neither an IP address, nor localhost, nor named in the options,
 * because somebody else's DNS may point such a name here. It also refuses what another site's page asks for,
 * as browsers report it, except that a person may follow a link to one of the two pages.
 *
 * Only one request at a time reads symbols or asks the kernel about all events. If too many others wait for
 * that, a request is answered with status 503 and Retry-After.
 *
 * Errors: calls return 0 or a negative errno value, with the reason in a struct cp_error, which may be NULL.
 * Threads and signals: every call may be made from any thread, but none from a signal handler.
 */
#ifndef COUNTERPOINT_HTTP_H
#define COUNTERPOINT_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "pprof.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Options of an endpoint. The caller sets the struct to zero and sets size. A member that is 0 or NULL
 * has a default. Strings are copied. */
struct cp_http_options {
    size_t size;       /* sizeof(struct cp_http_options) as the caller compiled it */
    const char *token; /* the client must send it: as "Authorization: Bearer TOKEN", or as the password of
                        * Basic, which browsers and go tool pprof (http://any:TOKEN@host/) can send. Not "";
                        * no control characters, such as a newline; no blank at the end. NULL: no token */
    const char *const *hosts; /* names of this host, without a port, that the Host header may have */
    size_t n_hosts;
    unsigned max_seconds; /* the longest profile in seconds; by default 600 */
    /* How many of the CP_EV_MAX slots profiles over HTTP may occupy at once, in the whole process. By default
     * half of them, so that the program has the others. */
    unsigned max_slots;
    /* The most CPU time of a thread that a profile's samples may take, in percent, if that is known
     * beforehand (see cp_sample_cost_ns() in runtime.h), together with what its event takes at switches, as
     * often as the process has had them so far or has them now (see cp_switch_cost_ns() there); by default
     * 10. Shorter periods are refused, and so are periods below 100000 ns for clocks, and below 600000 for
     * cycles and instructions. An event's preset is never refused. */
    unsigned max_cost_percent;
    /* The members below are for cp_http_start() only. */
    /* The most connections at once, by default 100. One more closes the connection that has waited longest
     * without a complete request. */
    unsigned max_connections;
    unsigned request_timeout_s; /* seconds in which a request must arrive, by default 10 */
    const char *certificate;    /* PEM text (not a file's name), with its key: https with TLS 1.2 and 1.3 */
    const char *key;
};

/* ---- A server of its own --------------------------------------------------------------------- */

struct cp_http;

/*
 * Starts a server with a thread of its own, on "127.0.0.1:6060", "[::1]:6060", ":6060" or "localhost:6060"
 * (both mean 127.0.0.1), or "0.0.0.0:6060" (all IPv4 interfaces); port 0 takes a free port. The server's
 * threads block every signal and are no Ms. Returns -EINVAL for an invalid address, a wrong token, or a
 * certificate without a key or the reverse; or the error of bind(2). cp_http_stop() frees *http.
 */
int cp_http_start(struct cp_http **http, const char *address, const struct cp_http_options *options,
                  struct cp_error *err);
/* Returns where the server listens, such as "127.0.0.1:6060"; valid as long as http. */
const char *cp_http_address(const struct cp_http *http);
/* Returns sentences that warn of how the server was started: it can be reached from other machines without a
 * token or without TLS. The text is valid as long as http. NULL: there is nothing to warn of. */
const char *cp_http_warning(const struct cp_http *http);
/* Stops the server: ends running profiles without an answer, closes all connections, and frees http. NULL
 * does nothing. In a child of the process that started the server, where the server's threads do not exist,
 * only the listening socket is closed, which a child of fork() does not have. */
void cp_http_stop(struct cp_http *http);

/* ---- In a libmicrohttpd daemon of the caller's own ------------------------------------------- */

struct MHD_Connection;

/*
 * Makes an endpoint for a daemon that was started with MHD_ALLOW_SUSPEND_RESUME or with
 * MHD_USE_THREAD_PER_CONNECTION. The daemon's handler calls cp_http_answer():
 *
 *     enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
 *                            const char *method, const char *version, const char *data, size_t *size,
 *                            void **request)
 *     {
 *         if (strncmp(url, "/debug/pprof", 12) == 0)
 *             return cp_http_answer(http, connection, url, method, data, size, request);
 *         ...
 *     }
 *
 * The function that MHD_OPTION_NOTIFY_COMPLETED names must call cp_http_completed(request) for requests of
 * cp_http_answer(). At the end, call cp_http_quiesce(), then MHD_stop_daemon(), then cp_http_stop(). The
 * daemon itself limits the number of connections and the time in which a request must arrive.
 */
int cp_http_mount(struct cp_http **http, const struct cp_http_options *options, struct cp_error *err);
/* Answers a request. Returns MHD_YES or MHD_NO. Work that may take long is done on the connection's thread
 * if it has one, and otherwise on a thread of the endpoint, with the connection suspended; if the daemon
 * does not allow suspending, the answer is status 500 with a sentence. */
int cp_http_answer(struct cp_http *http, struct MHD_Connection *connection, const char *url,
                   const char *method, const char *data, size_t *size, void **request);
/* Frees what cp_http_answer() has stored in *request. */
void cp_http_completed(void **request);
/* Ends running profiles without an answer, and refuses further work that may take long. Does nothing in a
 * child of the process that called cp_http_mount(). */
void cp_http_quiesce(struct cp_http *http);

/* ---- In any other server --------------------------------------------------------------------- */

/* A request, as a server describes it to cp_http_handle(). */
struct cp_http_request {
    size_t size;        /* sizeof(struct cp_http_request) */
    const char *method; /* "GET" */
    const char *path;   /* "/debug/pprof/profile", not decoded */
    const char *query;  /* what follows the "?", not decoded; NULL: no query */
    const void *body;
    size_t body_size;
    /* Returns the value of a header, whose name is given in lower case; NULL: the request lacks it. */
    const char *(*header)(void *context, const char *name);
    /* Returns whether nobody waits for the answer any more; called at least every 200 ms. NULL: never
     * gone. */
    bool (*is_gone)(void *context);
    void *context;
};

/* A header of an answer. */
struct cp_http_header {
    const char *name;
    const char *value;
};

/* Where the answer goes. The functions return 0, or a negative errno value, which ends the answer. */
struct cp_http_response {
    size_t size; /* sizeof(struct cp_http_response) */
    /* Called once, before write(). The headers are valid only during the call. */
    int (*begin)(void *context, int status, const struct cp_http_header *headers, size_t n);
    /* Called with the body, in any number of pieces; for HEAD, too, where the body only tells its length. */
    int (*write)(void *context, const void *data, size_t size);
    void *context;
};

/*
 * Answers a request on the calling thread. A profile takes as long as it records. This call checks
 * everything that the endpoint checks, except what only a server can see: connections, time, and the sizes
 * of header and body. Returns 0, -ECANCELED if is_gone() returned true, or what begin() or write() returned;
 * or, without an answer, -EINVAL for an empty token or a struct whose size was never set, and -E2BIG for a
 * struct with members that this library does not know. If the thread is cancelled meanwhile, the request is
 * answered first: the functions are called with cancellation disabled.
 */
int cp_http_handle(const struct cp_http_request *request, const struct cp_http_response *response,
                   const struct cp_http_options *options);

#ifdef __cplusplus
}
#endif
#endif
