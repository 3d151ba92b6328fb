/* What the endpoint tells of the watches of its program. */
#include "tests/support/http_tools.h"
#include "tests/support/stopwatch.h"

/* Opens a watch, and makes three rounds of it. */
static struct cp_watch *measured_watch(const char *name)
{
    const struct cp_watch_options options = {
        .size = sizeof options, .name = name, .quantities = "cpuTime", .labels = "route"};
    struct cp_watch *watch = open_watch_of(&options);

    for (int i = 0; i < 3; i++) {
        CP_WATCH(watch)
        {
            sink++;
        }
    }
    return watch;
}

CP_TEST(watches_are_a_table_or_json)
{
    struct cp_http *http = start_http(NULL);
    struct cp_m *m = attach_m();
    struct cp_watch *watch;
    char *text;

    check_answer(http, "$base/watches", 200, "\nContent-Type: text/plain; charset=utf-8\n",
                 "\nThere are no watches.\n", NULL);
    watch = measured_watch("parse");
    check_answer(http, "$base/watches", 200, "\nwatch  labels  quantity  count ",
                 "\nparse  route=  time          3 ", "\nparse  route=  cpuTime       3 ", NULL);
    check_answer(http, "\"$base/watches?format=json\"", 200, "\nContent-Type: application/json\n", NULL);
    text = test_command(NULL,
                        "curl -sSf 'http://%s" PPROF "/watches?format=json' |\n"
                        "jq -c '[.rows[] | [.watch, .labels.route, .quantity, .count]], .states[0].open'",
                        cp_http_address(http));
    CHECK_STR(text, "[[\"parse\",\"\",\"time\",3],[\"parse\",\"\",\"cpuTime\",3]]\n0\n");
    free(text);
    check_answer(http, "\"$base/watches?format=xml\"", 400, "There is no format \"xml\". Take text or json",
                 NULL);
    check_answer(http, "\"$base/watches?name=x\"", 400, "This path takes: format.\n", NULL);
    check_answer(http, "$base/", 200, "<a href=\"watches\">watches</a>", NULL);
    cp_watch_close(watch);
    cp_m_detach(m);
    cp_http_stop(http);
}

CP_TEST(metrics_tell_of_watches)
{
    struct cp_http *http = start_http(NULL);
    struct cp_m *m = attach_m();
    struct cp_watch *watch = measured_watch("parse");

    check_answer(http, "$base/metrics", 200, "\nContent-Type: text/plain; version=0.0.4; charset=utf-8\n",
                 "\ncounterpoint_samples_total 0\n", "\n# TYPE counterpoint_watch_time_seconds histogram\n",
                 "\ncounterpoint_watch_time_seconds_bucket{watch=\"parse\",route=\"\",le=\"+Inf\"} 3\n",
                 "\ncounterpoint_watch_cpu_seconds_count{watch=\"parse\",route=\"\"} 3\n",
                 "\ncounterpoint_watch_rounds_open{watch=\"parse\"} 0\n", NULL);
    cp_watch_close(watch);
    cp_m_detach(m);
    cp_http_stop(http);
}

CP_TEST(promtool_accepts_the_metrics)
{
    struct cp_http *http = start_http(NULL);
    struct cp_m *m = attach_m();
    struct cp_watch *watch = measured_watch("a \"b\" \\");
    int status;
    char *text = test_command(&status,
                              "PATH=$PATH:" CP_TOOLS "; command -v promtool > /dev/null || exit 77\n"
                              "curl -sSf http://%s" PPROF "/metrics | promtool check metrics",
                              cp_http_address(http));

    if (status == 77)
        SKIP("promtool is not there: \"make deps\" brings it.");
    CHECKF(status == 0 && *text == '\0', "promtool says with status %d: %s", status, text);
    free(text);
    cp_watch_close(watch);
    cp_m_detach(m);
    cp_http_stop(http);
}
