/* /debug/pprof/goroutine, of a program whose Gs wait. */
#include "http_tools.h"
#include "runtime/sched.h"

static struct cp_chan *never;

static __attribute__((noinline)) void waits_for_work(void *arg)
{
    (void)arg;
    CHECK_EQ(cp_chan_recv(never, NULL), -EPIPE);
    __asm__ volatile("");
}

static void asks(void *arg)
{
    struct cp_http *http = start_http(NULL);
    char url[200], *top;

    CHECK_EQ(cp_label_set("route", "/slow"), 0);
    for (int i = 0; i < 20; i++)
        CHECK_EQ(cp_go(waits_for_work, arg), 0);
    cp_sleep(50000000);
    check_answer(http, "$base/goroutine", 200, "\nContent-Type: application/octet-stream\n",
                 "\nContent-Disposition: attachment; filename=\"goroutine\"\n", NULL);
    check_answer(http, "\"$base/goroutine?debug=1\"", 200, "\nContent-Type: text/plain; charset=utf-8\n",
                 "goroutine profile: total 21\n20 @ 0x", "# labels: {\"route\":\"/slow\"}\n",
                 "\twaits_for_work+0x", NULL);
    check_answer(http, "\"$base/goroutine?debug=2\"", 200, " [channel receive]:\n",
                 "\nwaits_for_work(...)\n\t", "\ncreated by asks in goroutine ", " [running]:\n", NULL);
    check_answer(http, "\"$base/goroutine?debug=3\"", 400, NULL);
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

CP_TEST(without_a_scheduler_there_is_none)
{
    struct cp_http *http = start_http(NULL);

    check_answer(http, "\"$base/goroutine?debug=1\"", 200, "goroutine profile: total 0\n", NULL);
    cp_http_stop(http);
}
