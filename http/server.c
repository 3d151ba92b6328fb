/* A server of our own: options, connections, start and stop. See server.h. */
#include "server.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "address.h"
#include "runtime/base/fail.h"
#include "runtime/base/sized.h"

enum {
    CONNECTIONS = 100,       /* default for the most connections */
    MORE_CONNECTIONS = 32,   /* connections that have been cut and are not closed yet */
    REQUEST_TIMEOUT_S = 10,  /* default for the time in which a request must arrive */
    HEADER_SIZE = 24 * 1024, /* libmicrohttpd's memory for a connection: the header, and notes about it */
    KEEPER_INTERVAL_S = 1,
};

unsigned cp__http_answer_timeout_s = 60;

/* ---- Connections ----------------------------------------------------------------------------- */

/* Shuts a connection down. Called with the lock held, because libmicrohttpd closes the descriptor only after
 * close_peer(), which takes the lock, has returned. */
static void cut(struct cp__http_peer *peer)
{
    shutdown(peer->fd, SHUT_RDWR);
    peer->state = CP__PEER_CUT;
}

/* If there are too many connections, cuts one: the one that has waited longest without sending a request or,
 * if there is no such connection, without reading its answer. Called with the lock held. */
static void make_way(struct cp_http *http)
{
    struct cp__http_peer *longest = NULL;
    unsigned n = 0;

    for (struct cp__http_peer *peer = http->peers; peer != NULL; peer = peer->next) {
        if (peer->state == CP__PEER_CUT)
            continue;
        n++;
        if (peer->state == CP__PEER_WAITS)
            continue;
        if (longest == NULL || peer->state < longest->state ||
            (peer->state == longest->state && peer->since_ms <= longest->since_ms))
            longest = peer;
    }
    if (n > http->options.max_connections && longest != NULL)
        cut(longest);
}

/* Adds a new connection to the peers. */
static void open_peer(struct cp_http *http, struct MHD_Connection *connection, void **context)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct cp__http_peer *peer = calloc(1, sizeof *peer);

    *context = peer;
    if (peer == NULL) {
        shutdown(info->connect_fd, SHUT_RDWR);
        return;
    }
    peer->fd = info->connect_fd;
    peer->since_ms = cp__http_now_ms();
    pthread_mutex_lock(&http->lock);
    peer->next = http->peers;
    http->peers = peer;
    make_way(http);
    pthread_cond_broadcast(&http->changed);
    pthread_mutex_unlock(&http->lock);
}

/* Removes a connection that libmicrohttpd is about to close. */
static void close_peer(struct cp_http *http, struct cp__http_peer *peer)
{
    struct cp__http_peer **link = &http->peers;

    pthread_mutex_lock(&http->lock);
    while (*link != NULL && *link != peer)
        link = &(*link)->next;
    if (*link != NULL)
        *link = peer->next;
    pthread_mutex_unlock(&http->lock);
    free(peer);
}

/* Called by libmicrohttpd when a connection begins and ends. */
static void on_connection(void *cls, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        open_peer(cls, connection, context);
    else
        close_peer(cls, *context);
}

void cp__http_peer_does(struct cp_http *http, struct MHD_Connection *connection,
                        enum cp__http_peer_state state)
{
    const union MHD_ConnectionInfo *info =
        connection == NULL ? NULL : MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct cp__http_peer *peer = info == NULL ? NULL : info->socket_context;

    if (peer == NULL)
        return;
    pthread_mutex_lock(&http->lock);
    if (peer->state != CP__PEER_CUT) {
        peer->state = state;
        peer->since_ms = cp__http_now_ms();
    }
    pthread_mutex_unlock(&http->lock);
}

/* ---- The keeper ------------------------------------------------------------------------------ */

/* Cuts the connections that are too slow. libmicrohttpd's own time limit is not enough, because it starts
 * anew with every byte. Called with the lock held. */
static void cut_late_peers(struct cp_http *http)
{
    const uint64_t now = cp__http_now_ms();

    for (struct cp__http_peer *peer = http->peers; peer != NULL; peer = peer->next) {
        uint64_t limit_s =
            peer->state == CP__PEER_ASKS ? http->options.request_timeout_s : cp__http_answer_timeout_s;

        if ((peer->state == CP__PEER_ASKS || peer->state == CP__PEER_READS) &&
            now - peer->since_ms >= limit_s * 1000)
            cut(peer);
    }
}

/* The thread that looks for slow connections once a second while there are any. */
static void *keep_time(void *arg)
{
    struct cp_http *http = arg;
    struct timespec until;

    pthread_mutex_lock(&http->lock);
    while (!http->is_ending) {
        if (http->peers == NULL) {
            pthread_cond_wait(&http->changed, &http->lock);
            continue;
        }
        cut_late_peers(http);
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += KEEPER_INTERVAL_S;
        pthread_cond_timedwait(&http->changed, &http->lock, &until);
    }
    pthread_mutex_unlock(&http->lock);
    return NULL;
}

/* ---- Options --------------------------------------------------------------------------------- */

static void free_options(struct cp_http_options *options)
{
    for (size_t i = 0; i < options->n_hosts && options->hosts != NULL; i++)
        free((void *)(uintptr_t)options->hosts[i]);
    free((void *)(uintptr_t)options->hosts);
    free((void *)(uintptr_t)options->token);
    free((void *)(uintptr_t)options->certificate);
    free((void *)(uintptr_t)options->key);
}

static bool copy_string(const char **to, const char *from)
{
    *to = from == NULL ? NULL : strdup(from);
    return from == NULL || *to != NULL;
}

static bool copy_hosts(struct cp_http_options *to, const struct cp_http_options *from)
{
    const char **hosts = calloc(from->n_hosts + 1, sizeof *hosts);

    to->hosts = hosts;
    for (size_t i = 0; i < from->n_hosts && hosts != NULL; i++) {
        if (!copy_string(&hosts[i], from->hosts[i]))
            return false;
    }
    return hosts != NULL;
}

/* Checks that a header can carry the token: "Bearer TOKEN" loses blanks at its end, and Basic allows no
 * control characters. */
static int check_token(const char *token, struct cp_error *err)
{
    size_t length = strlen(token);

    if (length == 0)
        return cp__error(err, -EINVAL, "The token is empty. Give a token, or NULL for none.");
    for (size_t i = 0; i < length; i++) {
        if (iscntrl((unsigned char)token[i]))
            return cp__error(err, -EINVAL,
                             "The token has a control character, which no header can carry. If the "
                             "token was read from a file, remove the newline.");
    }
    if (token[length - 1] == ' ')
        return cp__error(err, -EINVAL,
                         "The token ends in a blank, which a header would lose. Remove the blank.");
    return 0;
}

/* Checks that the text is PEM. The message does not show the text, which may be the key. */
static int check_pem(const char *what, const char *text, const char *end, struct cp_error *err)
{
    if (strstr(text, end) != NULL)
        return 0;
    return cp__error(err, -EINVAL,
                     "The %s is not PEM text: it has no line \"-----BEGIN %s\". Give the contents of the "
                     "file, not its name.",
                     what, end);
}

static int check_tls(const struct cp_http_options *options, struct cp_error *err)
{
    if ((options->certificate != NULL) != (options->key != NULL))
        return cp__error(err, -EINVAL, "TLS needs a certificate and its key, and only one was given.");
    if (options->key == NULL)
        return 0;
    if (check_pem("certificate", options->certificate, "CERTIFICATE-----", err) < 0)
        return -EINVAL;
    return check_pem("key", options->key, "PRIVATE KEY-----", err);
}

/* Checks and copies the options, which have this library's size, and fills in defaults. */
static int copy_options(struct cp_http_options *to, const struct cp_http_options *from, struct cp_error *err)
{
    *to = (struct cp_http_options){.size = sizeof *to};
    if (from->token != NULL && check_token(from->token, err) < 0)
        return -EINVAL;
    if (check_tls(from, err) < 0)
        return -EINVAL;
    to->n_hosts = from->n_hosts;
    to->max_seconds = from->max_seconds;
    to->max_slots = from->max_slots;
    to->max_cost_percent = from->max_cost_percent;
    to->max_connections = from->max_connections != 0 ? from->max_connections : CONNECTIONS;
    to->request_timeout_s = from->request_timeout_s != 0 ? from->request_timeout_s : REQUEST_TIMEOUT_S;
    if (!copy_hosts(to, from) || !copy_string(&to->token, from->token) ||
        !copy_string(&to->certificate, from->certificate) || !copy_string(&to->key, from->key))
        return cp__error(err, -ENOMEM, "There is not enough memory for the HTTP endpoint.");
    return 0;
}

/* ---- Start and stop -------------------------------------------------------------------------- */

static void free_http(struct cp_http *http)
{
    free_options(&http->options);
    pthread_cond_destroy(&http->changed);
    pthread_mutex_destroy(&http->lock);
    free(http);
}

/* Makes an endpoint without a daemon; *err may not be NULL. */
static int mount(struct cp_http **out, const struct cp_http_options *options, struct cp_error *err)
{
    struct cp_http_options own = {.size = sizeof own};
    int result = options == NULL ? 0 : CP__TAKE(cp_http_options, &own, options, err);
    struct cp_http *http;
    pthread_condattr_t monotonic;

    if (result < 0)
        return result;
    http = calloc(1, sizeof *http);
    if (http == NULL)
        return cp__error(err, -ENOMEM, "There is not enough memory for the HTTP endpoint.");
    http->pid = getpid();
    pthread_mutex_init(&http->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&http->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    http->queue_end = &http->queue;
    result = copy_options(&http->options, &own, err);
    if (result < 0)
        free_http(http);
    else
        *out = http;
    return result;
}

int cp_http_mount(struct cp_http **out, const struct cp_http_options *options, struct cp_error *err)
{
    struct cp_error unwanted;

    return mount(out, options, err != NULL ? err : &unwanted);
}

/* Called by libmicrohttpd with the URI of a new request, before it is decoded. Returns the request's
 * context. */
static void *on_uri(void *cls, const char *uri, struct MHD_Connection *connection)
{
    (void)connection;
    return cp__http_call_new(cls, uri);
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data, size_t *size,
                                  void **request)
{
    (void)version;
    return (enum MHD_Result)cp_http_answer(cls, connection, url, method, data, size, request);
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **request,
                         enum MHD_RequestTerminationCode code)
{
    (void)cls, (void)connection, (void)code;
    cp_http_completed(request);
}

/* Called by libmicrohttpd with a message for its log. Only the first message of a start that fails is of
 * interest. */
static void __attribute__((format(printf, 2, 0))) on_log(void *cls, const char *format, va_list arguments)
{
    struct cp_http *http = cls;

    pthread_mutex_lock(&http->lock);
    if (http->start_error != NULL && http->start_error->message[0] == '\0') {
        http->start_error->code = -errno;
        vsnprintf(http->start_error->message, sizeof http->start_error->message, format, arguments);
    }
    pthread_mutex_unlock(&http->lock);
}

/* Excludes TLS 1.0 and 1.1, which GnuTLS would accept by default. */
static const char tls_versions[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";

static struct MHD_Daemon *start_daemon(struct cp_http *http, int fd)
{
    const struct cp_http_options *options = &http->options;
    const struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)options->certificate},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)options->key},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)tls_versions},
        {MHD_OPTION_END, 0, NULL}};
    const struct MHD_OptionItem plain[] = {{MHD_OPTION_END, 0, NULL}};
    bool is_tls = options->certificate != NULL;
    /* poll, not epoll(7): libmicrohttpd loses an edge if a client closes right after it has sent. */
    unsigned flags = MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;

    return MHD_start_daemon(
        flags | (is_tls ? MHD_USE_TLS : 0), 0, NULL, NULL, on_request, http, MHD_OPTION_EXTERNAL_LOGGER,
        on_log, http, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_URI_LOG_CALLBACK, on_uri, http,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, http, MHD_OPTION_NOTIFY_CONNECTION, on_connection, http,
        MHD_OPTION_CONNECTION_LIMIT, options->max_connections + MORE_CONNECTIONS,
        MHD_OPTION_CONNECTION_TIMEOUT, options->request_timeout_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)HEADER_SIZE, MHD_OPTION_THREAD_STACK_SIZE, (size_t)1 << 20, MHD_OPTION_ARRAY,
        is_tls ? tls : plain, MHD_OPTION_END);
}

/* Makes an error from what libmicrohttpd logged first when it did not start. The errno value at that time is
 * only used as the code if it means a shortage; otherwise it is accidental. */
static int explain_start(const struct cp_http *http, struct cp_error *said, struct cp_error *err)
{
    const bool is_short =
        said->code == -EMFILE || said->code == -ENFILE || said->code == -EAGAIN || said->code == -ENOMEM;
    const bool is_tls = http->options.certificate != NULL;
    char *text = said->message;

    text[strcspn(text, "\n")] = '\0';
    if (text[0] != '\0' && text[strlen(text) - 1] == '.')
        text[strlen(text) - 1] = '\0';
    return cp__error(err, is_short ? said->code : -EINVAL,
                     "libmicrohttpd did not start a server%s: %s. It takes a thread and two descriptors.%s",
                     is_tls ? " with this certificate and key" : "",
                     text[0] != '\0' ? text : "it gave no reason",
                     is_tls ? " The key must be the certificate's, without a password, and a certificate "
                              "that others signed must stand before theirs."
                            : "");
}

/* Starts the daemon with all signals blocked, because its thread inherits the signal mask. */
static int serve(struct cp_http *http, int fd, struct cp_error *err)
{
    struct cp_error said = {.code = 0};
    sigset_t all, old;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    http->start_error = &said;
    errno = 0;
    http->daemon = start_daemon(http, fd);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_mutex_lock(&http->lock);
    http->start_error = NULL;
    pthread_mutex_unlock(&http->lock);
    return http->daemon != NULL ? 0 : explain_start(http, &said, err);
}

/* Writes a warning if the server can be reached from other machines without a token or without TLS. */
static void warn(struct cp_http *http)
{
    static const char see[] =
        "see the program's code, arguments and labels, and have it spend time on profiles";
    const bool has_token = http->options.token != NULL, has_tls = http->options.certificate != NULL;
    char *text = http->warning;
    const size_t size = sizeof http->warning;

    if (!has_token && !has_tls)
        snprintf(text, size,
                 "Anyone who can reach %s can %s, and others on the network can read it: the endpoint has "
                 "neither a token nor TLS. Give it both, or let it listen on 127.0.0.1.",
                 http->address, see);
    else if (!has_token)
        snprintf(
            text, size,
            "Anyone who can reach %s can %s: the endpoint has no token. Give it one, or let it listen on "
            "127.0.0.1.",
            http->address, see);
    else if (!has_tls)
        snprintf(text, size,
                 "Others on the network can read the token and the profiles of %s: the endpoint has no TLS. "
                 "Give it a certificate and its key, or let it listen on 127.0.0.1.",
                 http->address);
}

/* Listens, and starts the keeper and the daemon. */
static int start_on(struct cp_http *http, const char *address, struct cp_error *err)
{
    int fd = cp__http_listen(address, &http->listener, err);
    int result;

    if (fd < 0)
        return fd;
    cp__http_address_of(fd, http->address, sizeof http->address);
    if (!cp__http_is_loopback(fd))
        warn(http);
    http->is_server = true;
    result = cp__thread_start(&http->keeper, CP__HTTP_STACK, keep_time, http);
    if (result < 0) {
        cp__http_socket_close(http->listener);
        return cp__error(err, result, "No thread could be started for the HTTP endpoint: %s.",
                         strerror(-result));
    }
    result = serve(http, fd, err);
    if (result < 0) {
        cp__http_socket_close(http->listener); /* in some cases libmicrohttpd has not closed the socket */
        cp_http_quiesce(http);
        pthread_join(http->keeper, NULL);
    }
    return result;
}

int cp_http_start(struct cp_http **out, const char *address, const struct cp_http_options *options,
                  struct cp_error *err)
{
    struct cp_error unwanted;
    struct cp_http *http;
    int result;

    if (err == NULL)
        err = &unwanted;
    result = mount(&http, options, err);
    if (result < 0)
        return result;
    result = start_on(http, address, err);
    if (result < 0)
        free_http(http);
    else
        *out = http;
    return result;
}

const char *cp_http_address(const struct cp_http *http)
{
    return http->address;
}

const char *cp_http_warning(const struct cp_http *http)
{
    return http->warning[0] != '\0' ? http->warning : NULL;
}

/* In a child, only the socket is closed. A child that was not made by fork() still has it. */
static void stop_in_child(struct cp_http *http)
{
    if (http->listener != NULL)
        cp__http_socket_close(http->listener);
    http->listener = NULL;
}

/* Shuts the socket down before anything else: a child of a fork() from now on does not close the socket, but
 * must not listen either. */
static void stop_server(struct cp_http *http)
{
    shutdown(cp__http_socket_forget(http->listener), SHUT_RDWR);
    MHD_stop_daemon(http->daemon);
    pthread_join(http->keeper, NULL);
}

void cp_http_stop(struct cp_http *http)
{
    if (http == NULL)
        return;
    if (http->pid != getpid()) {
        stop_in_child(http);
        return;
    }
    cp_http_quiesce(http);
    if (http->daemon != NULL)
        stop_server(http);
    free_http(http);
}
