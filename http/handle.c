/* Which endpoint answers, and to what. */
#include <errno.h>
#include <string.h>

#include "exchange.h"

static const struct endpoint {
    const char *path; /* below the root */
    cp__http_endpoint_fn *answer;
    bool takes_post;
    bool is_slow; /* it waits, or reads symbols */
} endpoints[] = {
    {"/", cp__http_index, false, true},           {"/index.css", cp__http_style, false, false},
    {"/profile", cp__http_profile, false, true},  {"/threadcreate", cp__http_threadcreate, false, true},
    {"/symbol", cp__http_symbol, true, true},     {"/cmdline", cp__http_cmdline, false, false},
    {"/metrics", cp__http_metrics, false, false}, {"/goroutine", cp__http_goroutine, false, true},
    {"/ui/", cp__http_ui, false, false},          {"/ui/events.json", cp__http_ui_events, false, true},
    {"/ui/icon.svg", cp__http_ui, false, false},  {"/ui/licenses.txt", cp__http_ui, false, false},
    {"/ui/page.css", cp__http_ui, false, false},  {"/ui/page.js", cp__http_ui, false, false},
};

/* NULL: there is none of that name. */
static const struct endpoint *find(const char *path)
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

bool cp__http_is_slow(const char *path)
{
    const struct endpoint *endpoint = find(path);

    return endpoint != NULL && endpoint->is_slow;
}

/* To HEAD the answer is GET's, of which the server sends no body; but nobody records a profile for that. */
static const char *methods_of(const struct endpoint *endpoint)
{
    if (endpoint->answer == cp__http_profile)
        return "GET";
    return endpoint->takes_post ? "GET, HEAD, POST" : "GET, HEAD";
}

static bool takes(const struct endpoint *endpoint, const char *method)
{
    if (strcmp(method, "HEAD") == 0)
        return endpoint->answer != cp__http_profile;
    return strcmp(method, "GET") == 0 || (endpoint->takes_post && strcmp(method, "POST") == 0);
}

static int refuse_method(struct cp__exchange *exchange, const struct endpoint *endpoint)
{
    const struct cp_http_header allow = {"Allow", methods_of(endpoint)};
    char text[64];

    snprintf(text, sizeof text, "What is possible here is: %s.", allow.value);
    return cp__http_refuse_with(exchange, 405, &allow, text);
}

static int route(struct cp__exchange *exchange)
{
    static const struct cp_http_header there = {"Location", CP__HTTP_ROOT "/"};
    static const struct cp_http_header ui = {"Location", CP__HTTP_ROOT "/ui/"};
    const struct cp_http_request *request = exchange->request;
    const struct endpoint *endpoint = find(request->path);

    if (strcmp(request->path, CP__HTTP_ROOT) == 0)
        return cp__http_refuse_with(exchange, 301, &there, "It is at " CP__HTTP_ROOT "/.");
    if (strcmp(request->path, CP__HTTP_ROOT "/ui") == 0)
        return cp__http_refuse_with(exchange, 301, &ui, "It is at " CP__HTTP_ROOT "/ui/.");
    if (endpoint == NULL)
        return cp__http_refuse(exchange, 404,
                               "There is nothing here. " CP__HTTP_ROOT "/ lists what there is.");
    if (!takes(endpoint, request->method))
        return refuse_method(exchange, endpoint);
    return endpoint->answer(exchange);
}

int cp_http_handle(const struct cp_http_request *request, const struct cp_http_response *response,
                   const struct cp_http_options *options)
{
    static const struct cp_http_options none = {.size = sizeof none};
    struct cp__exchange exchange = {
        .request = request, .response = response, .options = options != NULL ? options : &none};
    int result;

    if (request->size != sizeof *request || response->size != sizeof *response ||
        exchange.options->size != sizeof none)
        return -EINVAL;
    if (exchange.options->token != NULL && exchange.options->token[0] == '\0')
        return -EINVAL; /* an empty password would do */
    if (!cp__http_admit(&exchange, &result))
        return result;
    if (request->query != NULL && strlen(request->query) > CP__HTTP_MAX_QUERY)
        return cp__http_refuse(&exchange, 414, "The query is too long: %d bytes at most.",
                               CP__HTTP_MAX_QUERY);
    return route(&exchange);
}
