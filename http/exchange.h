/* One request and its answer, for the files of the endpoint. These files use only public calls of the other
 * layers, because this layer is a library of its own. */
#ifndef COUNTERPOINT_HTTP_EXCHANGE_H
#define COUNTERPOINT_HTTP_EXCHANGE_H

#include <stdint.h>
#include <stdio.h>

#include "http.h"

/* What every endpoint function receives. The three structs belong to the caller, and outlive the call. */
struct cp__exchange {
    const struct cp_http_request *request;
    const struct cp_http_response *response;
    const struct cp_http_options *options;
};

/* Limits: bytes of a query, bytes of a body, and the default for the longest profile in seconds. */
enum { CP__HTTP_MAX_QUERY = 4096, CP__HTTP_MAX_BODY = 1 << 20, CP__HTTP_MAX_SECONDS = 600 };

/* Returns the longest time, in seconds, for which a client may ask the endpoint to record. */
unsigned cp__http_max_seconds(const struct cp__exchange *exchange);

/* Returns how many slots the endpoint's profiles may occupy at a time. */
unsigned cp__http_max_slots(const struct cp__exchange *exchange);

/* All paths of the endpoint begin with this. */
#define CP__HTTP_ROOT "/debug/pprof"

/* ---- Answering (exchange.c) ------------------------------------------------------------------ */

/* All functions of this section that return int return what cp_http_handle() returns. */

/* Answers with the given headers, and with the common ones that the given headers do not replace. */
int cp__http_reply(struct cp__exchange *exchange, int status, const struct cp_http_header *headers, size_t n,
                   const void *body, size_t size);
/* Answers with status 200 and a body of the given type. */
int cp__http_reply_body(struct cp__exchange *exchange, const char *type, const void *body, size_t size);
/* The same with a profile, which the browser saves under the name. */
int cp__http_reply_profile(struct cp__exchange *exchange, const char *name, const struct cp_memory *profile);
/* Answers with an error in the form of net/http/pprof: a sentence as plain text, and the header
 * X-Go-Pprof. */
int cp__http_refuse(struct cp__exchange *exchange, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with a further header; NULL: none. */
int cp__http_refuse_with(struct cp__exchange *exchange, int status, const struct cp_http_header *header,
                         const char *text);
/* Returns the HTTP status for a negative errno value of the library. */
int cp__http_status_of(int error);

/* Appends to the memory. Returns 0, or -ENOMEM without any change. */
int cp__http_append(struct cp_memory *memory, const void *data, size_t size);

/* A body that is printed to "out". cp__http_page_send() sends and frees it. */
struct cp__http_page {
    FILE *out; /* NULL: there was not enough memory */
    struct cp_memory body;
    bool is_cut; /* there was not enough memory for the whole body */
};
void cp__http_page_open(struct cp__http_page *page);
/* Ends the printing. Returns 0, or -ENOMEM if the body is incomplete. The caller frees body.data in both
 * cases. */
int cp__http_page_close(struct cp__http_page *page);
/* Ends the printing, answers with the body or with status 503, and frees the body. */
int cp__http_page_send(struct cp__exchange *exchange, struct cp__http_page *page,
                       const struct cp_http_header *headers, size_t n);

extern const char cp__http_text[]; /* the type of plain text */

/* Returns a header of the request; NULL if the request lacks it. */
const char *cp__http_header(const struct cp__exchange *exchange, const char *name);
/* Returns whether the client has closed the connection, as far as the server can tell. */
bool cp__http_is_gone(const struct cp__exchange *exchange);

enum {
    CP__HTTP_LOOK_MS = 100
}; /* interval at which cp__http_wait() checks whether the client is still there */

/* Returns milliseconds of CLOCK_MONOTONIC. */
uint64_t cp__http_now_ms(void);
/* Waits so many seconds. Returns 0, or -ECANCELED as soon as the client has gone. */
int cp__http_wait(const struct cp__exchange *exchange, unsigned long long seconds);

/* ---- Who may ask (guard.c) ------------------------------------------------------------------- */

/* Checks Host, Origin and the token. Returns as cp__http_check() does. */
bool cp__http_admit(struct cp__exchange *exchange, int *result);

/* ---- The query (query.c) --------------------------------------------------------------------- */

/*
 * Looks for a key in the query, and decodes its value. Returns 1, or 0 if the query lacks the key. Returns
 * -EINVAL with a reason if the query has an invalid escape, a zero byte, or the key twice, or if the value
 * does not fit into size bytes. Escapes are checked in the whole query.
 */
int cp__http_query(const char *query, const char *key, char *value, size_t size, struct cp_error *err);
/* The same for a whole number from min to max. *value keeps its value if the query lacks the key. */
int cp__http_query_number(const char *query, const char *key, unsigned long long min, unsigned long long max,
                          unsigned long long *value, struct cp_error *err);
/* The same for a time above 0 with a unit (ns, us, ms, s, m or h), as 90s, in ns. */
int cp__http_query_time(const char *query, const char *key, uint64_t *ns, struct cp_error *err);
/* Returns 0 if the query has no keys except the given ones, a list that ends in NULL. Else returns -EINVAL,
 * with a sentence that names the possible keys. */
int cp__http_query_has_only(const char *query, const char *const *keys, struct cp_error *err);

/* ---- The endpoints --------------------------------------------------------------------------- */

/* An endpoint: answers a request that cp__http_check() has let pass, and returns what cp_http_handle()
 * returns. */
typedef int cp__http_endpoint_fn(struct cp__exchange *exchange);
cp__http_endpoint_fn cp__http_profile, cp__http_index, cp__http_style, cp__http_cmdline, cp__http_symbol,
    cp__http_metrics, cp__http_watches, cp__http_ui, cp__http_ui_events;
/* goroutine and threadcreate, whose profile is a state of the program, or what changes in some seconds. */
cp__http_endpoint_fn cp__http_snapshot;
/* The same for Gs that have waited for long. */
cp__http_endpoint_fn cp__http_leaks;
/* The same for Gs that have held their M for too long. */
cp__http_endpoint_fn cp__http_stalls;
/* The same for where the rounds of a watch began. */
cp__http_endpoint_fn cp__http_watch;
/* block and mutex, which are recorded for some seconds, or are what the program has recorded. */
cp__http_endpoint_fn cp__http_contention;

/* ---- Which endpoint answers (handle.c) ------------------------------------------------------- */

/* Checks everything that can be checked before the body of a request has arrived: who asks, the path, the
 * method, and the keys of the query. Returns true if the request may go on. Otherwise the request has been
 * answered, and *result is what to return. */
bool cp__http_check(struct cp__exchange *exchange, int *result);

/* Returns whether the answer to the path may take long. */
bool cp__http_is_slow(const char *path);
/* Returns whether the path is a page, which people may open by a link of another site. */
bool cp__http_is_page(const char *path);
/* Returns whether the body of such a request is used. */
bool cp__http_takes_body(const char *path, const char *method);

#endif
