/* /debug/pprof/stalls, and stalls in /debug/pprof/metrics. */
#include "sched.h"
#include "stall.h"
#include "tests/support/http_tools.h"

static uint32_t is_enough; /* shared, atomic */

static __attribute__((noinline)) void compute_for_long(void)
{
    for (volatile unsigned i = 0; i < 50000000; i++) {
    }
}

static void computes_until_enough(void *arg)
{
    (void)arg;
    cp_label_set("kind", "busy");
    while (cp_load_relaxed(&is_enough) == 0) {
        compute_for_long();
        cp_sleep(100000);
    }
}

static void *run_gs(void *arg)
{
    struct cp_sched_options options = {.size = sizeof options, .threads = 1};

    (void)arg;
    CHECK_EQ(cp_sched_run(&options, computes_until_enough, NULL, NULL), 0);
    return NULL;
}

static struct cp_stalls_stats stats_now(void)
{
    struct cp_stalls_stats stats = {.size = sizeof stats};

    CHECK_EQ(cp_stalls_stats(&stats), 0);
    return stats;
}

static bool has_computed(void)
{
    return stats_now().stalls[CP_STALL_COMPUTED] > 0;
}

static bool are_looked_for(void)
{
    return stats_now().is_running != 0;
}

static void wait_until_looked_for(bool are)
{
    while (are_looked_for() != are)
        usleep(1000);
}

/* Asks for profiles until one has a stall with its stack. */
static void check_profile(const struct cp_http *http)
{
    bool is_found = false;
    char url[200];

    while (!is_found) {
        char *top;

        snprintf(url, sizeof url, "'http://%s" PPROF "/stalls?seconds=1&threshold=5ms'",
                 cp_http_address(http));
        top = pprof("-traces", url);
        is_found = strstr(top, "compute_for_long") != NULL && strstr(top, "incomplete") == NULL;
        if (is_found) {
            CHECK_CONTAINS(top, "Type: delay\n");
            CHECK_CONTAINS(top, "kind:  busy\n");
            CHECK_CONTAINS(top, "stall:  computed\n");
        }
        free(top);
    }
}

CP_TEST(stalls_are_served)
{
    struct cp_stall_options options = {.size = sizeof options};
    struct cp_http *http = start_http(NULL);
    pthread_t gs;

    CHECK_EQ(pthread_create(&gs, NULL, run_gs, NULL), 0);
    check_answer(http, "\"$base/stalls?seconds=1&threshold=1\"", 400, "as in 90s", NULL);
    check_answer(http, "\"$base/stalls?seconds=1&threshold=1us\"", 400, "2000000 ns at least", NULL);
    check_profile(http);
    CHECK(!are_looked_for()); /* the endpoint has stopped what it has started */

    CHECK_EQ(cp_stalls_start(&options, NULL), 0);
    check_answer(http, "\"$base/stalls?seconds=1&threshold=5ms\"", 409, "a threshold of 10000 us", NULL);
    while (!has_computed())
        usleep(1000);
    check_answer(http, "\"$base/stalls?debug=1\"", 200, "--- contention:\n", NULL);
    check_answer(http, "$base/metrics", 200, "\ncounterpoint_stalls_total{kind=\"computed\"} ",
                 "\ncounterpoint_stalls_total{kind=\"not run\"} ",
                 "\ncounterpoint_stall_seconds_total{kind=\"waited\"} ", NULL);
    cp_store_relaxed(&is_enough, 1u);
    pthread_join(gs, NULL);
    CHECK_EQ(cp_stalls_stop(), 0);
    cp_http_stop(http);
}

/* The request that has begun first ends first, and stalls are looked for until the other one ends, too. */
CP_TEST(requests_share_what_looks_for_stalls)
{
    struct cp_http *http = start_http(NULL);
    int first = request(http, PPROF "/stalls?seconds=1"), second;

    wait_until_looked_for(true);
    second = request(http, PPROF "/stalls?seconds=30");
    free(receive_all(first, PATIENCE_MS));
    wait_until_looked_for(true); /* if the second one has come late, it begins anew */
    close(first);
    close(second);
    cp_http_stop(http);
    CHECK(!are_looked_for());
}

/* Asks for what stalls in some seconds, and returns when it is looked for. */
static int ask_for_stalls(const struct cp_http *http)
{
    int fd = request(http, PPROF "/stalls?seconds=2&threshold=5ms");

    wait_until_looked_for(true);
    return fd;
}

static void check_end(int fd, const char *part)
{
    char *answer = receive_all(fd, PATIENCE_MS);

    CHECK_CONTAINS(answer, part);
    free(answer);
    close(fd);
}

CP_TEST(a_request_is_not_in_the_programs_way)
{
    struct cp_stall_options options = {.size = sizeof options, .threshold_ns = 20000000};
    struct cp_http *http = start_http(NULL);
    int fd = ask_for_stalls(http);

    CHECK_EQ(cp_stalls_start(&options, NULL), 0);
    CHECK_EQ(stats_now().threshold_ns, 20000000);
    check_end(fd, "HTTP/1.1 503 ");
    CHECK(are_looked_for());
    CHECK_EQ(cp_stalls_stop(), 0);
    CHECK(!are_looked_for());
    fd = ask_for_stalls(http);
    CHECK_EQ(cp_stalls_stop(), -ESRCH); /* the program has not started it */
    check_end(fd, "HTTP/1.1 200 ");
    wait_until_looked_for(false);
    cp_http_stop(http);
}
