/* The table of endpoints, and the checks that come before an endpoint's function. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "exchange.h"
#include "runtime/base/sized.h"

/* The keys that a query may have. NULL instead of a list: the query has no keys, but another form. */
static const char *const none[] = {NULL};
static const char *const of_profile[] = {"event", "period", "seconds", "debug", "engine", NULL};
static const char *const of_snapshot[] = {"debug", "seconds", NULL};
static const char *const of_contention[] = {"debug", "seconds", "period", NULL};
static const char *const of_leaks[] = {"age", "debug", "seconds", NULL};
static const char *const of_stalls[] = {"threshold", "debug", "seconds", NULL};
static const char *const of_watches[] = {"format", NULL};
static const char *const of_watch[] = {"name", "debug", "seconds", NULL};

enum trait {
    PLAIN = 0,
    POST = 1, /* POST is accepted, too */
    SLOW = 2, /* the endpoint waits, reads symbols, or asks the kernel about many events */
    PAGE = 4, /* people open the endpoint, perhaps by a link of another site */
};

static const struct endpoint {
    const char *path; /* below CP__HTTP_ROOT */
    cp__http_endpoint_fn *answer;
    const char *const *keys;
    unsigned traits;
} endpoints[] = {
    {"/", cp__http_index, none, SLOW | PAGE},
    {"/index.css", cp__http_style, none, PLAIN},
    {"/profile", cp__http_profile, of_profile, SLOW},
    {"/goroutine", cp__http_snapshot, of_snapshot, SLOW},
    {"/goroutineleak", cp__http_leaks, of_leaks, SLOW},
    {"/stalls", cp__http_stalls, of_stalls, SLOW},
    {"/threadcreate", cp__http_snapshot, of_snapshot, SLOW},
    {"/block", cp__http_contention, of_contention, SLOW},
    {"/mutex", cp__http_contention, of_contention, SLOW},
    {"/watch", cp__http_watch, of_watch, SLOW},
    {"/symbol", cp__http_symbol, NULL, POST | SLOW},
    {"/cmdline", cp__http_cmdline, none, PLAIN},
    {"/watches", cp__http_watches, of_watches, PLAIN},
    {"/metrics", cp__http_metrics, none, PLAIN},
    {"/ui/", cp__http_ui, none, PAGE},
    {"/ui/events.json", cp__http_ui_events, none, SLOW},
    {"/ui/icon.svg", cp__http_ui, none, PLAIN},
    {"/ui/licenses.txt", cp__http_ui, none, PLAIN},
    {"/ui/page.css", cp__http_ui, none, PLAIN},
    {"/ui/page.js", cp__http_ui, none, PLAIN},
};

/* Folders without their slash, which are redirected to the name with the slash. */
static const struct cp_http_header redirections[] = {{CP__HTTP_ROOT, CP__HTTP_ROOT "/"},
                                                     {CP__HTTP_ROOT "/ui", CP__HTTP_ROOT "/ui/"}};

/* Returns the endpoint of the path, or NULL. */
static const struct endpoint *find_endpoint(const char *path)
{
    const size_t root = strlen(CP__HTTP_ROOT);

    if (strncmp(path, CP__HTTP_ROOT, root) != 0)
        return NULL;
    for (size_t i = 0; i < sizeof endpoints / sizeof endpoints[0]; i++) {
        if (strcmp(path + root, endpoints[i].path) == 0)
            return &endpoints[i];
    }
    return NULL;
}

/* Returns the path that a request for this one is redirected to, or NULL. */
static const char *redirection_of(const char *path)
{
    for (size_t i = 0; i < sizeof redirections / sizeof redirections[0]; i++) {
        if (strcmp(path, redirections[i].name) == 0)
            return redirections[i].value;
    }
    return NULL;
}

bool cp__http_is_slow(const char *path)
{
    const struct endpoint *endpoint = find_endpoint(path);

    return endpoint != NULL && (endpoint->traits & SLOW) != 0;
}

bool cp__http_is_page(const char *path)
{
    const struct endpoint *endpoint = find_endpoint(path);

    return redirection_of(path) != NULL || (endpoint != NULL && (endpoint->traits & PAGE) != 0);
}

bool cp__http_takes_body(const char *path, const char *method)
{
    const struct endpoint *endpoint = find_endpoint(path);

    return endpoint != NULL && (endpoint->traits & POST) != 0 && strcmp(method, "POST") == 0;
}

/* Returns the methods for the Allow header. HEAD gets the answer of GET, whose body the server does not
 * send; the profile endpoint refuses HEAD, because nobody wants to record a profile for that. */
static const char *methods_of(const struct endpoint *endpoint)
{
    if (endpoint->answer == cp__http_profile)
        return "GET";
    return (endpoint->traits & POST) != 0 ? "GET, HEAD, POST" : "GET, HEAD";
}

/* Returns whether the endpoint accepts the method. */
static bool takes(const struct endpoint *endpoint, const char *method)
{
    if (strcmp(method, "HEAD") == 0)
        return endpoint->answer != cp__http_profile;
    return strcmp(method, "GET") == 0 || ((endpoint->traits & POST) != 0 && strcmp(method, "POST") == 0);
}

static int refuse_method(struct cp__exchange *exchange, const struct endpoint *endpoint)
{
    const struct cp_http_header allow = {"Allow", methods_of(endpoint)};
    char text[64];

    snprintf(text, sizeof text, "This path accepts only: %s.", allow.value);
    return cp__http_refuse_with(exchange, 405, &allow, text);
}

static int redirect_client(struct cp__exchange *exchange, const char *to)
{
    const struct cp_http_header location = {"Location", to};
    char text[64];

    snprintf(text, sizeof text, "The page is at %s.", to);
    return cp__http_refuse_with(exchange, 301, &location, text);
}

/* Checks the length and the keys of the query. Returns as cp__http_check() does. */
static bool check_query(struct cp__exchange *exchange, const struct endpoint *endpoint, int *result)
{
    const char *query = exchange->request->query;
    struct cp_error err;

    if (query != NULL && strlen(query) > CP__HTTP_MAX_QUERY)
        *result =
            cp__http_refuse(exchange, 414, "The query is too long: %d bytes at most.", CP__HTTP_MAX_QUERY);
    else if (endpoint->keys != NULL && cp__http_query_has_only(query, endpoint->keys, &err) < 0)
        *result = cp__http_refuse(exchange, 400, "%s", err.message);
    else
        return true;
    return false;
}

bool cp__http_check(struct cp__exchange *exchange, int *result)
{
    const struct cp_http_request *request = exchange->request;
    const struct endpoint *endpoint = find_endpoint(request->path);

    if (!cp__http_admit(exchange, result))
        return false;
    if (redirection_of(request->path) != NULL)
        *result = redirect_client(exchange, redirection_of(request->path));
    else if (endpoint == NULL)
        *result =
            cp__http_refuse(exchange, 404, "There is no such path. " CP__HTTP_ROOT "/ lists the paths.");
    else if (!takes(endpoint, request->method))
        *result = refuse_method(exchange, endpoint);
    else
        return check_query(exchange, endpoint, result);
    return false;
}

int cp_http_handle(const struct cp_http_request *request, const struct cp_http_response *response,
                   const struct cp_http_options *options)
{
    struct cp_http_request own_request;
    struct cp_http_response own_response;
    struct cp_http_options own_options = {.size = sizeof own_options};
    struct cp__exchange exchange = {
        .request = &own_request, .response = &own_response, .options = &own_options};
    int result = CP__TAKE(cp_http_request, &own_request, request, NULL);
    int cancel_state;

    if (result == 0)
        result = CP__TAKE(cp_http_response, &own_response, response, NULL);
    if (result == 0 && options != NULL)
        result = CP__TAKE(cp_http_options, &own_options, options, NULL);
    if (result < 0)
        return result;
    if (own_options.token != NULL && own_options.token[0] == '\0')
        return -EINVAL; /* an empty password would be accepted */
    /* The thread belongs to the program. A deferred cancellation would leave a turn, a slot or a lock
     * taken. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    if (cp__http_check(&exchange, &result))
        result = find_endpoint(request->path)->answer(&exchange);
    pthread_setcancelstate(cancel_state, NULL);
    return result;
}
