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
 * What there is, all below /debug/pprof/:
 *
 *     (nothing)     a page that links to the rest, with the events that work here
 *     ui/           a page that records profiles and shows them: flame graph, table, labels, differences
 *     profile       ?seconds=N&event=E&period=P, by default the timer, for 30 s; debug=1: text
 *     goroutine     where all Gs of the scheduler are (sched.h); debug=1: text; debug=2: each with its state;
 *                   seconds=N: what changes in that time
 *     threadcreate  which threads are Ms, with the stacks that attached them; debug=1 and seconds=N as above
 *     symbol        names for addresses, as pprof tools ask for them (GET ?0xADDR+0xADDR, or POST)
 *     cmdline       the program's arguments, with a zero byte between them
 *     metrics       counters, in the text format of Prometheus
 *
 * Who can ask can see the program's code, arguments and labels, and has it spend time on the answer. So it
 * listens on the loopback interface unless it is told another address. Whatever it listens on, it refuses a
 * Host that is neither an IP address, nor localhost, nor named in the options (a name that somebody else's
 * DNS points here), and what a browser says another site's page asks for, unless a person follows a link to
 * one of the two pages.
 *
 * What reads symbols or asks the kernel about all events is done for one request at a time. Who comes while
 * too many wait is answered with 503 and Retry-After.
 *
 * Errors: 0 or a negative errno value, with the reason in a struct cp_error, which may be NULL. Every call
 * may be made from any thread, none from a signal handler.
 */
#ifndef COUNTERPOINT_HTTP_H
#define COUNTERPOINT_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "pprof.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zero it and set size; what is zero or NULL has a default. The strings are copied. */
struct cp_http_options {
    size_t size;       /* sizeof(struct cp_http_options) as the caller compiled it */
    const char *token; /* who asks must know it: as "Authorization: Bearer TOKEN", or as the password of
                               * Basic, which browsers and go tool pprof (http://any:TOKEN@host/) can send.
                               * Not "", no control characters, as of a line's end, and no blank at its end */
    const char *const *hosts; /* names of this host, without a port, that a request may use */
    size_t n_hosts;
    unsigned max_seconds; /* the longest profile; by default 600 */
    unsigned max_slots;   /* how many of the CP_EV_MAX slots profiles over HTTP may have at once, in the whole
                           * process; by default half of them, so that the program has the others */
    unsigned max_cost_percent; /* how much of a thread's CPU time the samples of a profile may take, as far as
                                * that is known beforehand (see cp_sample_cost_ns() in runtime.h); by default
                                * 10. Periods below that are refused, and so are clocks below 100000 ns, and
                                * cycles and instructions below 600000; an event's preset never is */
    /* cp_http_start() only */
    unsigned max_connections;   /* at once, by default 100. Where one more comes, that connection gives way
                                 * which has waited longest without a whole request */
    unsigned request_timeout_s; /* in which a request must have arrived, by default 10 */
    const char *certificate;    /* as PEM text (not a file's name), with its key: https (TLS 1.2 and 1.3) */
    const char *key;
};

/* ---- A server of its own --------------------------------------------------------------------- */

struct cp_http;

/*
 * Serves from a thread of its own, on "127.0.0.1:6060", "[::1]:6060", ":6060" or "localhost:6060" (both
 * 127.0.0.1), or "0.0.0.0:6060" (all interfaces, of IPv4); port 0 takes a free one. Its threads have every
 * signal blocked and are no Ms. -EINVAL for an address that is none, or TLS without certificate or key; what
 * bind(2) said.
 */
int cp_http_start(struct cp_http **http, const char *address, const struct cp_http_options *options,
                  struct cp_error *err);
/* Where it listens: "127.0.0.1:6060"; lives as long as http. */
const char *cp_http_address(const struct cp_http *http);
/* What may be wrong with how it was started, in sentences that live as long as http: it listens on more than
 * the loopback interface, without a token or without TLS. NULL: nothing is. */
const char *cp_http_warning(const struct cp_http *http);
/* Ends running profiles without an answer, closes all connections, and frees http. Does nothing with NULL,
 * and in a child of the process that started it, which has none of its threads; the child of a fork() does
 * not have the listening socket either. */
void cp_http_stop(struct cp_http *http);

/* ---- In a libmicrohttpd daemon of the caller's own ------------------------------------------- */

struct MHD_Connection;

/*
 * For a daemon that was started with MHD_ALLOW_SUSPEND_RESUME, or MHD_USE_THREAD_PER_CONNECTION:
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
 * and cp_http_completed(request) in what MHD_OPTION_NOTIFY_COMPLETED names, for the requests that were
 * cp_http_answer()'s. At the end comes cp_http_quiesce(), then MHD_stop_daemon(), then cp_http_stop(). The
 * limits on connections and on the time that a request takes to arrive are the daemon's own.
 */
int cp_http_mount(struct cp_http **http, const struct cp_http_options *options, struct cp_error *err);
/* Returns MHD_YES or MHD_NO. What takes long is done on the connection's thread where it has one, or else on
 * a thread of its own, with the connection suspended; where the daemon does not allow that, it is answered
 * with 500 and a sentence. */
int cp_http_answer(struct cp_http *http, struct MHD_Connection *connection, const char *url,
                   const char *method, const char *data, size_t *size, void **request);
void cp_http_completed(void **request);
/* Ends running profiles without an answer, and answers no more of what takes long. In a child of the process
 * that mounted it, nothing. */
void cp_http_quiesce(struct cp_http *http);

/* ---- In any other server --------------------------------------------------------------------- */

struct cp_http_request {
    size_t size;        /* sizeof(struct cp_http_request) */
    const char *method; /* "GET" */
    const char *path;   /* "/debug/pprof/profile", as it came */
    const char *query;  /* what follows the "?", as it came; NULL: none */
    const void *body;
    size_t body_size;
    /* The value of a header, whose name is in lower case; NULL: it has none. */
    const char *(*header)(void *context, const char *name);
    /* Whether nobody waits for the answer any more; asked at least every 200 ms. NULL: never. */
    bool (*is_gone)(void *context);
    void *context;
};

struct cp_http_header {
    const char *name;
    const char *value;
};

/* Each returns 0, or a negative errno value, which ends the answer. */
struct cp_http_response {
    size_t size; /* sizeof(struct cp_http_response) */
    /* Once, before anything is written; what it points to is valid during the call only. */
    int (*begin)(void *context, int status, const struct cp_http_header *headers, size_t n);
    /* The body, in any number of pieces; for HEAD, too, where it says only how long it would be. */
    int (*write)(void *context, const void *data, size_t size);
    void *context;
};

/*
 * Answers a request on the calling thread, which for a profile takes as long as the profile. Everything
 * that the endpoint checks is checked here, but what a server sees before there is a request: connections,
 * time, and the sizes of header and body. 0, -ECANCELED where is_gone() said so, or what begin() or write()
 * returned; without an answer, -EINVAL for an empty token or a struct whose size is not set, and -E2BIG for
 * a struct with members that this library does not know. If the thread is cancelled meanwhile, the request
 * is answered first: the callbacks are called with cancellation disabled.
 */
int cp_http_handle(const struct cp_http_request *request, const struct cp_http_response *response,
                   const struct cp_http_options *options);

#ifdef __cplusplus
}
#endif
#endif
