/* The HTTP endpoint in other servers: mounted in a daemon of libmicrohttpd, and called by any server. */
#include "tests/support/http_tools.h"

#include <microhttpd.h>

static struct cp_http *mounted;

static enum MHD_Result embedder_answers(void *context, struct MHD_Connection *connection, const char *url,
                                        const char *method, const char *version, const char *data,
                                        size_t *size, void **request)
{
    struct MHD_Response *response;
    enum MHD_Result result;

    (void)context, (void)version;
    if (strncmp(url, PPROF, strlen(PPROF)) == 0)
        return (enum MHD_Result)cp_http_answer(mounted, connection, url, method, data, size, request);
    response = MHD_create_response_from_buffer(3, (void *)(uintptr_t) "own", MHD_RESPMEM_PERSISTENT);
    result = MHD_queue_response(connection, 200, response);
    MHD_destroy_response(response);
    return result;
}

static void embedder_completed(void *context, struct MHD_Connection *connection, void **request,
                               enum MHD_RequestTerminationCode code)
{
    (void)context, (void)connection, (void)code;
    cp_http_completed(request);
}

static void check_mounted(unsigned flags)
{
    struct cp_error err;
    struct MHD_Daemon *daemon;
    static const char text[] = "GET " PPROF "/profile HTTP/1.1\r\nHost: localhost\r\n\r\n";
    unsigned port;
    char *got;
    int fd;

    CHECKF(cp_http_mount(&mounted, NULL, &err) == 0, "%s", err.message);
    daemon = MHD_start_daemon(flags, 0, NULL, NULL, embedder_answers, NULL, MHD_OPTION_NOTIFY_COMPLETED,
                              embedder_completed, NULL, MHD_OPTION_END);
    CHECK(daemon != NULL);
    port = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
    got = test_command(NULL,
                       "base=http://127.0.0.1:%u; curl -sSf $base/ && curl -sS \"$base" PPROF
                       "/profile?seconds=1&event=a%%00b%%26c\" && curl -sSf -o /dev/null -w "
                       "'%%{http_code} %%{size_download}\\n' \"$base" PPROF
                       "/profile?seconds=1&event=task%%43lock\" && curl -sSf $base" PPROF
                       "/symbol -d %#lx && curl -sSf $base" PPROF "/symbol?0x1+%#lx",
                       port, (unsigned long)burn_here, (unsigned long)burn_here);
    printf("%s\n", got);
    CHECK_CONTAINS(got, "ownThe query has an invalid escape or a zero byte at \"%00b%26c\"");
    CHECK_CONTAINS(got, "\n200 ");
    CHECK_CONTAINS(got, "\tburn_here\nnum_symbols: 1\n");
    CHECK_CONTAINS(strstr(got, "\tburn_here\n") + 1, "\tburn_here\n");
    free(got);

    fd = connect_to_port(port);
    send_all(fd, text, strlen(text));
    CHECK(slots_become(1, PATIENCE_MS));
    cp_http_quiesce(mounted);
    MHD_stop_daemon(daemon);
    cp_http_stop(mounted);
    CHECK(slots_become(0, 0));
    close(fd);
}

SIM_TEST(it_can_be_mounted_in_a_daemon_of_the_caller)
{
    check_mounted(MHD_USE_AUTO_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME);
}

/* libmicrohttpd cannot suspend the connections of such a daemon, with any flags. */
SIM_TEST(it_can_be_mounted_where_each_connection_has_a_thread)
{
    check_mounted(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_ALLOW_SUSPEND_RESUME);
    check_mounted(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION);
}

CP_TEST(a_daemon_that_cannot_suspend_says_so)
{
    struct MHD_Daemon *daemon;
    char *got;

    CHECK_EQ(cp_http_mount(&mounted, NULL, NULL), 0);
    daemon = MHD_start_daemon(MHD_USE_AUTO_INTERNAL_THREAD | MHD_USE_ITC, 0, NULL, NULL, embedder_answers,
                              NULL, MHD_OPTION_NOTIFY_COMPLETED, embedder_completed, NULL, MHD_OPTION_END);
    CHECK(daemon != NULL);
    got = test_command(
        NULL,
        "base=http://127.0.0.1:%u" PPROF "; curl -sS -w '%%{http_code}\n' "
        "\"$base/profile?seconds=1\" && curl -sSf -o /dev/null -w '%%{http_code}\n' $base/metrics",
        (unsigned)MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
    CHECK_CONTAINS(got, "was started without MHD_ALLOW_SUSPEND_RESUME.\n500\n200\n");
    free(got);
    MHD_stop_daemon(daemon);
    cp_http_stop(mounted);
}

/* Stands for any server: it holds the request and the answer. */
struct fake {
    const char *method;     /* NULL: GET */
    const char *headers[8]; /* name, value, ... NULL */
    int status;
    char answered[1000]; /* "NAME: VALUE\n" */
    struct cp_memory body;
    int begin_result, write_result;
    int looks;     /* is_gone() returns true at this call; 0: never */
    long burns_ns; /* is_gone() takes so much CPU time once, while a profile is taken */
};

static const char *fake_header(void *context, const char *name)
{
    struct fake *fake = context;

    for (size_t i = 0; fake->headers[i] != NULL; i += 2) {
        if (strcmp(fake->headers[i], name) == 0)
            return fake->headers[i + 1];
    }
    return NULL;
}

static bool fake_is_gone(void *context)
{
    struct fake *fake = context;

    if (fake->burns_ns > 0 && slots_become(1, 0)) {
        burn_here(fake->burns_ns);
        fake->burns_ns = 0;
    }
    return fake->looks > 0 && --fake->looks == 0;
}

static int fake_begin(void *context, int status, const struct cp_http_header *headers, size_t n)
{
    struct fake *fake = context;

    CHECK_EQ(fake->status, 0);
    fake->status = status;
    for (size_t i = 0; i < n; i++)
        snprintf(fake->answered + strlen(fake->answered), sizeof fake->answered - strlen(fake->answered),
                 "%s: %s\n", headers[i].name, headers[i].value);
    return fake->begin_result;
}

static void make_room(struct cp_memory *memory, size_t size)
{
    if (size <= memory->capacity)
        return;
    memory->capacity = 2 * size;
    memory->data = realloc(memory->data, memory->capacity);
    CHECK(memory->data != NULL);
}

static int fake_write(void *context, const void *data, size_t size)
{
    struct fake *fake = context;

    if (fake->write_result == 0) {
        make_room(&fake->body, fake->body.size + size + 1);
        memcpy(fake->body.data + fake->body.size, data, size);
        fake->body.size += size;
        fake->body.data[fake->body.size] = '\0';
    }
    return fake->write_result;
}

static int ask_fake_with(struct fake *fake, const char *path, const char *query,
                         const struct cp_http_options *options)
{
    const struct cp_http_request request = {.size = sizeof request,
                                            .method = fake->method != NULL ? fake->method : "GET",
                                            .path = path,
                                            .query = query,
                                            .header = fake_header,
                                            .is_gone = fake_is_gone,
                                            .context = fake};
    const struct cp_http_response response = {
        .size = sizeof response, .begin = fake_begin, .write = fake_write, .context = fake};

    return cp_http_handle(&request, &response, options);
}

static int ask_fake(struct fake *fake, const char *path, const char *query)
{
    return ask_fake_with(fake, path, query, NULL);
}

SIM_TEST(it_can_be_called_from_any_server)
{
    struct fake fake = {.burns_ns = 1000000000};

    attach();
    CHECK_EQ(ask_fake(&fake, PPROF "/profile", "seconds=1&debug=1"), 0);
    CHECK_EQ(fake.status, 200);
    CHECK_CONTAINS(fake.answered, "Content-Type: text/plain; charset=utf-8\n");
    CHECK_CONTAINS((char *)fake.body.data, "samples profile: total 100\n100 @ 0x");
    CHECK_CONTAINS((char *)fake.body.data, "\tburn_here+0x");
    free(fake.body.data);

    fake = (struct fake){.headers = {"host", "evil.example"}};
    CHECK_EQ(ask_fake(&fake, PPROF "/cmdline", NULL), 0);
    CHECK_EQ(fake.status, 403);
    free(fake.body.data);
}

/* clang's UndefinedBehaviorSanitizer reports arithmetic on the NULL pointer of such a body. */
CP_TEST(a_post_without_a_body_asks_for_nothing)
{
    struct fake fake = {.method = "POST"};

    CHECK_EQ(ask_fake(&fake, PPROF "/symbol", "0x1"), 0);
    CHECK_EQ(fake.status, 200);
    CHECK_STR((char *)fake.body.data, "num_symbols: 1\n");
    free(fake.body.data);
}

SIM_TEST(what_the_server_says_is_heeded)
{
    struct fake gone = {.looks = 3}, no_begin = {.begin_result = -EPIPE}, no_write = {.write_result = -EIO};

    CHECK_EQ(ask_fake(&gone, PPROF "/profile", "seconds=600"), -ECANCELED);
    CHECK_EQ(gone.status, 0);
    CHECK(slots_become(0, 0));
    CHECK_EQ(ask_fake(&no_begin, PPROF "/metrics", NULL), -EPIPE);
    CHECK_EQ(no_begin.body.size, 0);
    CHECK_EQ(ask_fake(&no_write, PPROF "/metrics", NULL), -EIO);
}

CP_TEST(structs_of_another_size_are_refused)
{
    const struct cp_http_request request = {.size = 8};
    const struct cp_http_response response = {.size = sizeof response};

    CHECK_EQ(cp_http_handle(&request, &response, NULL), -EINVAL);
}

CP_TEST(a_size_that_was_never_set_is_refused)
{
    const struct cp_http_request request = {.size = sizeof request}, stray_request = {.size = 4097};
    const struct cp_http_response response = {.size = sizeof response}, stray_response = {.size = SIZE_MAX};
    const struct cp_http_options stray = {.size = (uintptr_t)&request};
    struct cp_http *http;
    struct cp_error err = {0};

    CHECK_EQ(cp_http_handle(&stray_request, &response, NULL), -EINVAL);
    CHECK_EQ(cp_http_handle(&request, &stray_response, NULL), -EINVAL);
    CHECK_EQ(cp_http_handle(&request, &response, &stray), -EINVAL);
    CHECK_EQ(cp_http_mount(&http, &stray, &err), -EINVAL);
    CHECK_CONTAINS(err.message, "sizeof(struct cp_http_options)");
    CHECK_EQ(cp_http_start(&http, "localhost:0", &stray, NULL), -EINVAL);
}

/* A program gets an empty token, for example, from a variable that is not set. Everybody knows the empty
 * password. */
CP_TEST(an_empty_token_is_refused)
{
    struct fake fake = {.headers = {"authorization", "Basic YTo="}};
    const struct cp_http_options options = {.size = sizeof options, .token = ""};

    CHECK_EQ(ask_fake_with(&fake, PPROF "/cmdline", NULL, &options), -EINVAL);
    CHECK_EQ(fake.status, 0);
}

/* ---- Memory that runs out -------------------------------------------------------------------- */

#if TEST_ASAN || TEST_TSAN
CP_TEST(an_answer_without_memory_is_an_error)
{
    SKIP("A sanitizer has the allocator that this test takes the place of.");
}
#else
#include "tests/support/failing_memory.h"

/* Makes the call with this number fail. Returns whether there was such a call. */
static bool ask_with_failure(unsigned call, struct fake *fake)
{
    *fake = (struct fake){.status = 0};
    make_room(&fake->body, 10000); /* leaves only the calls of the endpoint to fail */
    fake->body.data[0] = '\0';
    fail_calls(call, call);
    CHECK_EQ(ask_fake(fake, PPROF "/metrics", NULL), 0);
    return have_failed();
}

CP_TEST(an_answer_without_memory_is_an_error)
{
    struct fake fake;
    unsigned refused = 0;

    for (unsigned i = 1; ask_with_failure(i, &fake); i++) {
        refused += fake.status == 503;
        if (fake.status != 503)
            CHECK_CONTAINS((char *)fake.body.data, "\nprocess_max_fds "); /* the last line */
        free(fake.body.data);
    }
    CHECK(refused > 0);
    CHECK_EQ(fake.status, 200);
    free(fake.body.data);
}
#endif
