/* One request and its answer, for the files that make the endpoint. They use the other layers' public calls
 * only, as this layer is a library of its own. */
#ifndef COUNTERPOINT_HTTP_EXCHANGE_H
#define COUNTERPOINT_HTTP_EXCHANGE_H

#include <stdint.h>
#include <stdio.h>

#include "http.h"

struct cp__exchange {
    const struct cp_http_request *request;
    const struct cp_http_response *response;
    const struct cp_http_options *options;
};

enum { CP__HTTP_MAX_QUERY = 4096, CP__HTTP_MAX_BODY = 1 << 20, CP__HTTP_MAX_SECONDS = 600 };

/* The longest profile that may be asked for, in seconds. */
unsigned cp__http_max_seconds(const struct cp__exchange *exchange);

/* How many slots the endpoint may have at a time. */
unsigned cp__http_max_slots(const struct cp__exchange *exchange);

/* Below this all paths lie. */
#define CP__HTTP_ROOT "/debug/pprof"

/* ---- Answering (exchange.c) ------------------------------------------------------------------ */

/* All return what cp_http_handle() does. */

/* An answer with headers beside those that every one has, or instead of one of that name. */
int cp__http_reply(struct cp__exchange *exchange, int status, const struct cp_http_header *headers, size_t n,
                   const void *body, size_t size);
/* 200 and a body of a type. */
int cp__http_reply_body(struct cp__exchange *exchange, const char *type, const void *body, size_t size);
/* The same with a profile, to be saved under that name. */
int cp__http_reply_profile(struct cp__exchange *exchange, const char *name, const struct cp_memory *profile);
/* An error as net/http/pprof sends it: a sentence as text, and X-Go-Pprof. */
int cp__http_refuse(struct cp__exchange *exchange, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with a header. */
int cp__http_refuse_with(struct cp__exchange *exchange, int status, const struct cp_http_header *header,
                         const char *text);
/* The status for what the library refused. */
int cp__http_status_of(int error);

/* 0, or -ENOMEM and nothing has changed. */
int cp__http_append(struct cp_memory *memory, const void *data, size_t size);

/* A body that is printed, and then sent by cp__http_page_send(), which frees it. */
struct cp__http_page {
    FILE *out; /* NULL: there was no memory */
    struct cp_memory body;
    bool is_cut; /* there was none for all of it */
};
void cp__http_page_open(struct cp__http_page *page);
/* Ends the printing; -ENOMEM where not all of it is in the body, or 0. Free its data in any case. */
int cp__http_page_close(struct cp__http_page *page);
int cp__http_page_send(struct cp__exchange *exchange, struct cp__http_page *page,
                       const struct cp_http_header *headers, size_t n);

extern const char cp__http_text[]; /* the type of plain text */

const char *cp__http_header(const struct cp__exchange *exchange, const char *name);
bool cp__http_is_gone(const struct cp__exchange *exchange);

enum { CP__HTTP_LOOK_MS = 100 }; /* how often a client that waits is looked for */

/* Milliseconds of a clock that is never set. */
uint64_t cp__http_now_ms(void);
/* Waits. 0, or -ECANCELED if the client went away. */
int cp__http_wait(const struct cp__exchange *exchange, unsigned long long seconds);

/* ---- Who may ask (guard.c) ------------------------------------------------------------------- */

/* Checks Host, Origin and token; returns what cp__http_check() does. */
bool cp__http_admit(struct cp__exchange *exchange, int *result);

/* ---- The query (query.c) --------------------------------------------------------------------- */

/*
 * A key's value, decoded; 1, 0 where there is no such key, or -EINVAL, with the reason, for what must not
 * be: an escape that is none, a zero byte, the key a second time, a value of size bytes or more. Escapes
 * are checked in all of the query.
 */
int cp__http_query(const char *query, const char *key, char *value, size_t size, struct cp_error *err);
/* The same for a whole number from min to max; *value is left alone where the key is not there. */
int cp__http_query_number(const char *query, const char *key, unsigned long long min, unsigned long long max,
                          unsigned long long *value, struct cp_error *err);
/* 0 if a query has none but these keys, which NULL ends; otherwise -EINVAL with a sentence that names
 * them. */
int cp__http_query_has_only(const char *query, const char *const *keys, struct cp_error *err);

/* ---- The endpoints --------------------------------------------------------------------------- */

typedef int cp__http_endpoint_fn(struct cp__exchange *exchange);
cp__http_endpoint_fn cp__http_profile, cp__http_index, cp__http_style, cp__http_cmdline, cp__http_symbol,
    cp__http_metrics, cp__http_ui, cp__http_ui_events;
/* goroutine and threadcreate, whose profile is a state of the program, or what changes in some seconds. */
cp__http_endpoint_fn cp__http_snapshot;

/* ---- Which endpoint answers (handle.c) ------------------------------------------------------- */

/* Checks all that can be checked before the body of a request is there: who asks, the path, the method, and
 * the keys of the query. True if the request may go on; otherwise *result is what to return, and the request
 * has been answered. */
bool cp__http_check(struct cp__exchange *exchange, int *result);

/* Whether the answer to a path may take long. */
bool cp__http_is_slow(const char *path);
/* Whether a path is a page, which people open by links too. */
bool cp__http_is_page(const char *path);
/* Whether a request has a body that is looked at. */
bool cp__http_takes_body(const char *path, const char *method);

#endif
