/* Answers requests of a daemon of libmicrohttpd, by workers if the answer may take long. See server.h. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server.h"

size_t cp__http_max_answers = 64 << 20;

/* ---- A call ---------------------------------------------------------------------------------- */

struct cp__http_call *cp__http_call_new(struct cp_http *http, const char *uri)
{
    struct cp__http_call *call = calloc(1, sizeof *call);
    char *mark;

    if (call == NULL)
        return NULL;
    call->http = http;
    call->uri = strdup(uri);
    if (call->uri == NULL) {
        free(call);
        return NULL;
    }
    mark = strchr(call->uri, '?');
    if (mark != NULL) {
        *mark = '\0';
        call->query = mark + 1;
    }
    call->path = call->uri;
    return call;
}

/* Gives back what the call has reserved for its body and its answer. */
static void give_back_body(struct cp__http_call *call)
{
    pthread_mutex_lock(&call->http->lock);
    call->http->bodies -= call->reserved;
    call->http->answers -= call->held;
    pthread_mutex_unlock(&call->http->lock);
}

void cp_http_completed(void **request)
{
    struct cp__http_call *call = *request;

    if (call == NULL)
        return;
    if (call->http->is_server)
        cp__http_peer_does(call->http, call->connection, CP__PEER_ASKS);
    if (call->headers != NULL)
        MHD_destroy_response(call->headers);
    give_back_body(call);
    free(call->answer.data);
    free(call->body.data);
    free(call->uri);
    free(call);
    *request = NULL;
}

/* ---- The query of the embedder's daemon ------------------------------------------------------ */

/* Prints a key or a value with the escapes that a query needs. */
static void print_part(FILE *out, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (text[i] > ' ' && text[i] < 0x7f && strchr("%&=+#", text[i]) == NULL)
            fputc(text[i], out);
        else if (text[i] == ' ')
            fputc('+', out);
        else
            fprintf(out, "%%%02X", (unsigned char)text[i]);
    }
}

static enum MHD_Result print_pair(void *cls, enum MHD_ValueKind kind, const char *key, size_t key_size,
                                  const char *value, size_t value_size)
{
    FILE *out = cls;

    (void)kind;
    print_part(out, key, key_size);
    if (value != NULL) {
        fputc('=', out);
        print_part(out, value, value_size);
    }
    fputc('&', out);
    return MHD_YES;
}

/* Rebuilds the URI that libmicrohttpd has already decoded and split, because a foreign daemon does not call
 * on_uri(). */
static struct cp__http_call *call_from(struct cp_http *http, struct MHD_Connection *connection,
                                       const char *url)
{
    struct cp__http_call *call = NULL;
    struct cp__http_page uri;

    cp__http_page_open(&uri);
    if (uri.out != NULL) {
        fprintf(uri.out, "%s?", url);
        MHD_get_connection_values_n(connection, MHD_GET_ARGUMENT_KIND, print_pair, uri.out);
        fputc('\0', uri.out);
    }
    if (cp__http_page_close(&uri) == 0) {
        char *text = (char *)uri.body.data, *last = text + uri.body.size - 2; /* before the zero */

        *last = *last == '&' ? '\0' : *last;
        call = cp__http_call_new(http, text);
    }
    free(uri.body.data);
    return call;
}

/* ---- Handling -------------------------------------------------------------------------------- */

static const char *find_header(void *context, const char *name)
{
    const struct cp__http_call *call = context;

    return MHD_lookup_connection_value(call->connection, MHD_HEADER_KIND, name);
}

/* Returns whether the client has closed its end, or the server is ending. The connection is suspended
 * meanwhile, so nobody else reads from it. */
static bool is_client_gone(void *context)
{
    const struct cp__http_call *call = context;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(call->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct pollfd fd = {.fd = info != NULL ? info->connect_fd : -1, .events = POLLRDHUP};
    bool is_ending;

    pthread_mutex_lock(&call->http->lock);
    is_ending = call->http->is_ending;
    pthread_mutex_unlock(&call->http->lock);
    return is_ending || poll(&fd, 1, 0) > 0;
}

/* The "begin" function of the response: notes the status and the headers. */
static int begin_response(void *context, int status, const struct cp_http_header *headers, size_t n)
{
    struct cp__http_call *call = context;

    call->status = status;
    call->headers = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    for (size_t i = 0; i < n && call->headers != NULL; i++)
        MHD_add_response_header(call->headers, headers[i].name, headers[i].value);
    return call->headers != NULL ? 0 : -ENOMEM;
}

static int take_response(void *context, const void *data, size_t size)
{
    return cp__http_append(&((struct cp__http_call *)context)->answer, data, size);
}

static struct cp_http_request request_of(struct cp__http_call *call)
{
    return (struct cp_http_request){.size = sizeof(struct cp_http_request),
                                    .method = call->method,
                                    .path = call->path,
                                    .query = call->query,
                                    .body = call->body.data,
                                    .body_size = call->body.size,
                                    .header = find_header,
                                    .is_gone = is_client_gone,
                                    .context = call};
}

static struct cp_http_response response_to(struct cp__http_call *call)
{
    return (struct cp_http_response){.size = sizeof(struct cp_http_response),
                                     .begin = begin_response,
                                     .write = take_response,
                                     .context = call};
}

/* Runs the endpoint. Called on a worker, or on the thread of libmicrohttpd if the endpoint is quick. */
static void handle_call(struct cp__http_call *call)
{
    const struct cp_http_request request = request_of(call);
    const struct cp_http_response response = response_to(call);

    call->result = cp_http_handle(&request, &response, &call->http->options);
    call->is_done = true;
}

static enum MHD_Result copy_header(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind;
    return MHD_add_response_header(cls, name, value);
}

/* Counts the answer among those that are being sent: an answer stays in memory until the client has read it
 * or is cut. Returns false if such answers take too much memory already. */
static bool hold(struct cp__http_call *call)
{
    struct cp_http *http = call->http;
    const size_t size = call->answer.size < CP__HTTP_SHORT ? 0 : call->answer.size;
    bool is_held;

    pthread_mutex_lock(&http->lock);
    is_held = size == 0 || http->answers == 0 || http->answers + size <= cp__http_max_answers;
    if (is_held) {
        http->answers += size;
        call->held = size;
    }
    pthread_mutex_unlock(&http->lock);
    return is_held;
}

/* Replaces the answer by a refusal. */
static void answer_later(struct cp__http_call *call)
{
    static const struct cp_http_header later = {"Retry-After", "10"};
    const struct cp_http_response response = response_to(call);
    struct cp__exchange exchange = {.response = &response};

    MHD_destroy_response(call->headers);
    call->headers = NULL;
    free(call->answer.data);
    call->answer = (struct cp_memory){.data = NULL};
    call->result = cp__http_refuse_with(
        &exchange, 503, &later,
        "Other clients have not read their long answers yet, so there is no room. Ask again later.");
}

/* Hands the answer to libmicrohttpd. MHD_NO, if there is none, makes libmicrohttpd close the connection. */
static enum MHD_Result send_answer(struct cp__http_call *call)
{
    struct MHD_Response *response;
    enum MHD_Result result;

    if (call->result == 0 && !hold(call))
        answer_later(call);
    if (call->result < 0)
        return MHD_NO;
    response = MHD_create_response_from_buffer(call->answer.size, call->answer.data, MHD_RESPMEM_MUST_FREE);
    if (response == NULL)
        return MHD_NO;
    call->answer = (struct cp_memory){.data = NULL};
    MHD_get_response_headers(call->headers, copy_header, response);
    result = MHD_queue_response(call->connection, (unsigned)call->status, response);
    MHD_destroy_response(response);
    if (call->http->is_server)
        cp__http_peer_does(call->http, call->connection, CP__PEER_READS);
    return result;
}

/* ---- Workers --------------------------------------------------------------------------------- */

/* Takes a call from the queue. If the queue is empty, the worker ends, and NULL is returned. */
static struct cp__http_call *next_call(struct cp__http_worker *worker)
{
    struct cp_http *http = worker->http;
    struct cp__http_call *call;

    pthread_mutex_lock(&http->lock);
    call = http->queue;
    if (call == NULL) {
        worker->state = CP__WORKER_ENDED;
    } else {
        http->queue = call->next;
        if (http->queue == NULL)
            http->queue_end = &http->queue;
    }
    pthread_mutex_unlock(&http->lock);
    return call;
}

static void *work_on_calls(void *arg)
{
    struct cp__http_call *call;

    while ((call = next_call(arg)) != NULL) {
        struct MHD_Connection *connection = call->connection;

        handle_call(call);
        MHD_resume_connection(connection); /* from now on, libmicrohttpd's thread owns the call */
    }
    return NULL;
}

/* Starts one more worker, if there may be one more. Returns false if there is no worker at all. Called with
 * the lock held. */
static bool add_worker(struct cp_http *http)
{
    bool has_worker = false;

    for (size_t i = 0; i < CP__HTTP_WORKERS; i++) {
        struct cp__http_worker *worker = &http->workers[i];

        if (worker->state == CP__WORKER_RUNS) {
            has_worker = true;
            continue;
        }
        if (worker->state == CP__WORKER_ENDED)
            pthread_join(worker->thread, NULL);
        worker->http = http;
        worker->state = CP__WORKER_NONE;
        if (cp__thread_start(&worker->thread, CP__HTTP_STACK, work_on_calls, worker) < 0)
            return has_worker;
        worker->state = CP__WORKER_RUNS;
        return true;
    }
    return has_worker;
}

/* Suspends the connection, and queues the call for a worker. */
static enum MHD_Result queue(struct cp__http_call *call)
{
    struct cp_http *http = call->http;
    enum MHD_Result result = MHD_NO;

    pthread_mutex_lock(&http->lock);
    if (!http->is_ending && add_worker(http)) {
        MHD_suspend_connection(call->connection);
        *http->queue_end = call;
        http->queue_end = &call->next;
        result = MHD_YES;
    }
    pthread_mutex_unlock(&http->lock);
    return result;
}

void cp_http_quiesce(struct cp_http *http)
{
    if (http->pid != getpid())
        return;
    pthread_mutex_lock(&http->lock);
    http->is_ending = true;
    pthread_cond_broadcast(&http->changed);
    pthread_mutex_unlock(&http->lock);
    for (size_t i = 0; i < CP__HTTP_WORKERS; i++) {
        bool is_there;

        pthread_mutex_lock(&http->lock);
        is_there = http->workers[i].state != CP__WORKER_NONE;
        pthread_mutex_unlock(&http->lock);
        if (is_there)
            pthread_join(http->workers[i].thread, NULL);
        http->workers[i].state = CP__WORKER_NONE; /* is_ending keeps queue() from starting another worker */
    }
}

/* ---- Requests -------------------------------------------------------------------------------- */

static enum MHD_Result refuse_request(struct cp__http_call *call, int status,
                                      const struct cp_http_header *header, const char *sentence)
{
    const struct cp_http_response response = response_to(call);
    struct cp__exchange exchange = {.response = &response};

    call->result = cp__http_refuse_with(&exchange, status, header, sentence);
    return send_answer(call);
}

/* Checks the header of the request. Returns whether the request may go on; if not, it has been answered. */
static bool check_call_header(struct cp__http_call *call)
{
    const struct cp_http_request request = request_of(call);
    const struct cp_http_response response = response_to(call);
    struct cp__exchange exchange = {
        .request = &request, .response = &response, .options = &call->http->options};

    return cp__http_check(&exchange, &call->result);
}

/* Reserves memory for a body. Returns false if the bodies that are being received take too much memory
 * already. */
static bool reserve_body(struct cp__http_call *call, size_t size)
{
    struct cp_http *http = call->http;
    bool is_there;

    pthread_mutex_lock(&http->lock);
    is_there = http->bodies + size <= CP__HTTP_BODIES;
    if (is_there) {
        http->bodies += size;
        call->reserved = size;
    }
    pthread_mutex_unlock(&http->lock);
    call->body.data = is_there ? malloc(size) : NULL;
    call->body.capacity = call->body.data != NULL ? size : 0;
    return call->body.data != NULL;
}

/* Makes room for the body that the header announces. A body must announce its length, so that all bodies
 * that are received at a time stay within a limit; libmicrohttpd accepts no more bytes than were
 * announced. */
static enum MHD_Result make_room_for_body(struct cp__http_call *call)
{
    static const struct cp_http_header later = {"Retry-After", "1"};
    const char *length = MHD_lookup_connection_value(call->connection, MHD_HEADER_KIND, "content-length");
    const bool is_chunked =
        MHD_lookup_connection_value(call->connection, MHD_HEADER_KIND, "transfer-encoding") != NULL;
    const unsigned long long size = length == NULL ? 0 : strtoull(length, NULL, 10);
    const int max = cp__http_takes_body(call->path, call->method) ? CP__HTTP_MAX_BODY : 0;
    char sentence[64];

    if (is_chunked)
        return refuse_request(call, 411, NULL, "A body must have a Content-Length, and must not be chunked.");
    if (size > (unsigned long long)max) {
        snprintf(sentence, sizeof sentence, "The body is too long: %d bytes at most.", max);
        return refuse_request(call, 413, NULL, sentence);
    }
    if (size > 0 && !reserve_body(call, (size_t)size))
        return refuse_request(call, 503, &later,
                              "Other requests with long bodies are being received. Ask again in a second.");
    return MHD_YES;
}

/* Called when the header of the request has arrived. If the header is refused, the body is never read. */
static enum MHD_Result start_call(struct cp__http_call *call, struct MHD_Connection *connection,
                                  const char *method)
{
    call->connection = connection;
    call->is_started = true;
    snprintf(call->method, sizeof call->method, "%s", method);
    return check_call_header(call) ? make_room_for_body(call) : send_answer(call);
}

/* Returns the flags with which the daemon of the connection was started. */
static unsigned daemon_flags(const struct cp__http_call *call)
{
    const union MHD_ConnectionInfo *connection =
        MHD_get_connection_info(call->connection, MHD_CONNECTION_INFO_DAEMON);

    return (unsigned)MHD_get_daemon_info(connection->daemon, MHD_DAEMON_INFO_FLAGS)->flags;
}

/* Called when the request is complete: answers at once, or queues the call for a worker. A connection with a
 * thread of its own is always answered at once: waiting there delays nobody else, and libmicrohttpd would
 * lose a suspended connection. A daemon that was started without MHD_ALLOW_SUSPEND_RESUME gets a refusal,
 * because libmicrohttpd would end the program. */
static enum MHD_Result finish_call(struct cp__http_call *call)
{
    const unsigned flags = daemon_flags(call);

    if (call->http->is_server)
        cp__http_peer_does(call->http, call->connection, CP__PEER_WAITS);
    if (!cp__http_is_slow(call->path) || (flags & MHD_USE_THREAD_PER_CONNECTION) != 0) {
        handle_call(call);
        return send_answer(call);
    }
    if ((flags & MHD_ALLOW_SUSPEND_RESUME & ~MHD_USE_ITC) != 0)
        return queue(call);
    return refuse_request(
        call, 500, NULL,
        "The server that this endpoint is mounted in cannot let a request wait: its daemon of "
        "libmicrohttpd was started without MHD_ALLOW_SUSPEND_RESUME.");
}

int cp_http_answer(struct cp_http *http, struct MHD_Connection *connection, const char *url,
                   const char *method, const char *data, size_t *size, void **request)
{
    struct cp__http_call *call = *request;

    if (call == NULL)
        *request = call = call_from(http, connection, url);
    if (call == NULL)
        return MHD_NO;
    if (!call->is_started)
        return start_call(call, connection, method);
    if (call->is_done)
        return send_answer(call);
    if (*size == 0)
        return finish_call(call);
    if (cp__http_append(&call->body, data, *size) < 0)
        return MHD_NO;
    *size = 0;
    return MHD_YES;
}
