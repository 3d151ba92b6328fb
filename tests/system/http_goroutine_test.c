/* /debug/pprof/goroutine in a program whose Gs wait. */
#include "sched.h"
#include "tests/support/http_tools.h"

static struct cp_chan *never;

static __attribute__((noinline)) void waits_for_work(void *arg)
{
    (void)arg;
    CHECK_EQ(cp_chan_recv(never, NULL), -EPIPE);
    __asm__ volatile("");
}

/* The Gs have waited for some time, and for no hour. The running one has not waited. */
static void check_leaks(const struct cp_http *http)
{
    char url[200], object[40], *top;

    snprintf(object, sizeof object, "\"object\":\"%p\"", (void *)never);
    check_answer(http, "\"$base/goroutineleak?debug=1&age=1ms\"", 200, "profile: total 20\n20 @ 0x", object,
                 "\"reason\":\"channel receive\"", "\"route\":\"/slow\"", "\tasks+0x", NULL);
    snprintf(object, sizeof object, " s, for %p\n", (void *)never);
    check_answer(http, "\"$base/goroutineleak?debug=2&age=1ms\"", 200, " [channel receive]:\n",
                 "\ncreated by asks in goroutine ", "\n# waited: 0.", object, NULL);
    check_answer(http, "\"$base/goroutineleak?debug=1&age=1h\"", 200, "profile: total 0\n", NULL);
    check_answer(http, "\"$base/goroutineleak?age=1\"", 400, "as in 90s", NULL);
    check_answer(http, "\"$base/goroutineleak?age=0s\"", 400, NULL);
    check_answer(http, "\"$base/goroutineleak?age=99999999h\"", 400, NULL);
    snprintf(url, sizeof url, "'http://%s" PPROF "/goroutineleak?age=1ms'", cp_http_address(http));
    top = pprof("-top -cum -sample_index=waited", url);
    CHECK_CONTAINS(top, "Type: waited\n");
    CHECK_CONTAINS(top, " waits_for_work\n");
    CHECK_CONTAINS(top, " asks\n");
    free(top);
}

static void asks(void *arg)
{
    struct cp_http *http = start_http(NULL);
    char url[200], object[60], *top;

    CHECK_EQ(cp_label_set("route", "/slow"), 0);
    /* volatile: an unrolled loop would be several places that start Gs */
    for (volatile int i = 0; i < 20; i++)
        CHECK_EQ(cp_go(waits_for_work, arg), 0);
    cp_sleep(50000000);
    snprintf(object, sizeof object, " ms, waits for %p\n# labels: {", (void *)never);
    check_answer(http, "$base/goroutine", 200, "\nContent-Type: application/octet-stream\n",
                 "\nContent-Disposition: attachment; filename=\"goroutine\"\n", NULL);
    check_answer(http, "\"$base/goroutine?debug=1\"", 200, "\nContent-Type: text/plain; charset=utf-8\n",
                 "goroutine profile: total 21\n20 @ 0x", "# labels: {\"route\":\"/slow\"}\n",
                 "\twaits_for_work+0x", NULL);
    check_answer(http, "\"$base/goroutine?debug=2\"", 200, " [channel receive]:\n",
                 "\nwaits_for_work(...)\n\t", "\ncreated by asks in goroutine ", " [running]:\n", "\n# ran ",
                 " in 1 switches, was runnable for ", object, NULL);
    check_answer(http, "\"$base/goroutine?debug=3\"", 400, NULL);
    check_leaks(http);
    snprintf(url, sizeof url, "'http://%s" PPROF "/goroutine'", cp_http_address(http));
    top = pprof("-top -cum", url);
    CHECK_CONTAINS(top, "Type: goroutine\n");
    CHECK_CONTAINS(top, " waits_for_work\n");
    free(top);
    cp_http_stop(http);
    cp_chan_close(never);
}

CP_TEST(goroutine_lists_the_scheduler)
{
    struct cp_sched_options options = {.size = sizeof options, .threads = 2, .stack_size = 1 << 20};
    struct cp_error err;

    never = cp_chan_new(0, 0);
    CHECKF(cp_sched_run(&options, asks, NULL, &err) == 0, "%s", err.message);
    cp_chan_free(never);
}

/* ---- What changes ---------------------------------------------------------------------------- */

static struct cp_chan *soon;
static uint32_t n_ended, n_begun;

static __attribute__((noinline)) void ends_in_between(void *arg)
{
    (void)arg;
    CHECK_EQ(cp_chan_recv(soon, NULL), -EPIPE);
    cp_fetch_add_acq_rel(&n_ended, 1); /* pairs with the acquire in become() */
}

static __attribute__((noinline)) void begins_in_between(void *arg)
{
    cp_fetch_add_acq_rel(&n_begun, 1); /* pairs with the acquire in become() */
    waits_for_work(arg);
    __asm__ volatile("");
}

static void become(const uint32_t *n, uint32_t wanted)
{
    while (cp_load_acquire(n) != wanted) /* pairs with the additions above */
        cp_sleep(1000000);
}

struct answer {
    bool has_changed;
    int status;
    FILE *out;
};

static const char *no_header(void *context, const char *name)
{
    (void)context, (void)name;
    return NULL;
}

/* The endpoint asks whether the client is gone for the first time after the first state has been taken. */
static bool changes_at_once(void *context)
{
    struct answer *answer = context;

    if (!answer->has_changed) {
        answer->has_changed = true;
        cp_chan_close(soon);
        for (int i = 0; i < 7; i++)
            CHECK_EQ(cp_go(begins_in_between, NULL), 0);
        become(&n_ended, 3);
        become(&n_begun, 7);
    }
    return false;
}

static int take_status(void *context, int status, const struct cp_http_header *headers, size_t n)
{
    ((struct answer *)context)->status = status;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(headers[i].name, "Content-Disposition") == 0)
            CHECK_STR(headers[i].value, "attachment; filename=\"goroutine-delta\"");
    }
    return 0;
}

static int take_body(void *context, const void *data, size_t size)
{
    CHECK_EQ(fwrite(data, 1, size, ((struct answer *)context)->out), size);
    return 0;
}

static void asks_what_changes(void *arg)
{
    struct answer answer = {.out = fopen(file_in_dir("delta"), "w")};
    const struct cp_http_request request = {.size = sizeof request,
                                            .method = "GET",
                                            .path = PPROF "/goroutine",
                                            .query = "seconds=1",
                                            .header = no_header,
                                            .is_gone = changes_at_once,
                                            .context = &answer};
    const struct cp_http_response response = {
        .size = sizeof response, .begin = take_status, .write = take_body, .context = &answer};

    for (int i = 0; i < 20; i++)
        CHECK_EQ(cp_go(waits_for_work, arg), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(cp_go(ends_in_between, arg), 0);
    cp_sleep(50000000);
    CHECK_EQ(cp_http_handle(&request, &response, NULL), 0);
    CHECK_EQ(answer.status, 200);
    fclose(answer.out);
    cp_chan_close(never);
}

CP_TEST(of_some_seconds_there_is_what_changes)
{
    struct cp_sched_options options = {.size = sizeof options, .threads = 2, .stack_size = 1 << 20};
    struct cp_error err;
    char *text;

    never = cp_chan_new(0, 0);
    soon = cp_chan_new(0, 0);
    CHECKF(cp_sched_run(&options, asks_what_changes, NULL, &err) == 0, "%s", err.message);
    cp_chan_free(never);
    cp_chan_free(soon);
    text = pprof("-raw", file_in_dir("delta"));
    printf("%s", text);
    CHECK_CONTAINS(text, "Duration: 1");
    free(text);
    text = pprof("-top -cum -show='waits_for_work|_in_between'", file_in_dir("delta"));
    printf("%s", text);
    CHECK_CONTAINS(text, " begins_in_between\n");
    CHECK_CONTAINS(text, " ends_in_between\n");
    free(text);
    text = test_command(NULL, "cd %s && go tool pprof -traces delta 2>&1", test_dir());
    printf("%s", text);
    CHECK_CONTAINS(text, " 7   ");
    CHECK_CONTAINS(text, " -3   ");
    CHECKF(strstr(text, " 20   ") == NULL, "%s", text);
    free(text);
}

CP_TEST(without_a_scheduler_there_is_none)
{
    struct cp_http *http = start_http(NULL);

    check_answer(http, "\"$base/goroutine?debug=1\"", 200, "goroutine profile: total 0\n", NULL);
    cp_http_stop(http);
}
