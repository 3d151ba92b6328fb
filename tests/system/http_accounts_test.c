/* What the endpoint tells of the accounts of its program's Gs. */
#include "tests/support/g_accounts.h"
#include "tests/support/http_tools.h"

static char stack[64];

/* A G that has run, waited once, and ended, or waits still. */
static void live(struct cp_m *m, struct cp_g *g, const struct cp_label *labels, size_t n, bool ends)
{
    cp_g_init(g, stack, stack + sizeof stack, NULL);
    cp_execute(m, g);
    for (size_t i = 0; i < n; i++)
        CHECK_EQ(cp_label_set(labels[i].key, labels[i].value), 0);
    cp_g_park(g, CP_WAIT_CHANNEL_RECEIVE, NULL);
    cp_execute(m, NULL);
    cp_g_ready(g);
    cp_execute(m, g);
    cp_g_park(g, CP_WAIT_SLEEP, NULL);
    cp_execute(m, NULL);
    if (ends)
        cp_g_fini(g);
}

CP_TEST(metrics_tell_of_gs_by_label_set)
{
    const struct cp_label a = {"route", "/a \"x\""};
    struct cp_http *http = start_http(NULL);
    struct cp_m *m = attached();
    struct cp_g g, ended;

    live(m, &ended, &a, 1, true);
    live(m, &g, &a, 1, false);
    check_answer(http, "$base/metrics", 200, "\n# TYPE counterpoint_g_seconds_total counter\n",
                 "\ncounterpoint_g_seconds_total{state=\"running\",route=\"/a \\\"x\\\"\"} 0.0",
                 "\ncounterpoint_g_seconds_total{state=\"waiting\",reason=\"sleep\",route=\"/a \\\"x\\\"\"} ",
                 "\ncounterpoint_g_waits_total{reason=\"channel receive\",route=\"/a \\\"x\\\"\"} 2\n",
                 "\ncounterpoint_g_switches_total{route=\"/a \\\"x\\\"\"} 2\n",
                 "\ncounterpoint_g_switches_total 2\n", /* the first ones, before there was a label */
                 "\ncounterpoint_gs_ended_total{route=\"/a \\\"x\\\"\"} 1\n",
                 "\ncounterpoint_gs{state=\"waiting\",route=\"/a \\\"x\\\"\"} 1\n", NULL);
    cp_g_fini(&g);
    cp_m_detach(m);
    cp_http_stop(http);
}

/* Runs a command whose input is the endpoint's metrics. */
static char *of_metrics(struct cp_http *http, const char *command, int *status)
{
    return test_command(status,
                        "PATH=$PATH:" CP_TOOLS "; command -v promtool > /dev/null || exit 77\n"
                        "curl -sSf http://%s" PPROF "/metrics | %s",
                        cp_http_address(http), command);
}

/* Names that are not allowed, taken, or the same, and values that are none or no text. */
static void live_nastily(struct cp_m *m)
{
    static const struct cp_label sets[][2] = {
        {{"state", "x"}, {"reason", "y"}}, {{"labels", "(other)"}, {"a-b", "1"}},
        {{"a_b", "1"}, {"aB", "1"}},       {{"9", "\xff"}, {"\xc3\xa4", ""}},
        {{"k", ""}, {"K", "2"}},
    };
    struct cp_g g;

    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
        live(m, &g, sets[i], 2, true);
}

CP_TEST(promtool_accepts_metrics_of_any_labels)
{
    struct cp_http *http = start_http(NULL);
    struct cp_m *m = attached();
    int status;
    char *text;

    live_nastily(m);
    text = of_metrics(http, "promtool check metrics", &status);
    if (status == 77)
        SKIP("promtool is not there: \"make deps\" brings it.");
    CHECKF(status == 0 && *text == '\0', "promtool says with status %d: %s", status, text);
    free(text);
    text = of_metrics(http, "grep -v '^#' | sed 's/ [^ ]*$//' | sort | uniq -d", &status);
    CHECK_STR(text, "");
    free(text);
    text = of_metrics(http, "grep -o 'switches_total{[^}]*}' | sort | grep -v '[^ -~]'", &status);
    CHECK_CONTAINS(text, "{label_labels=\"(other)\"}");
    CHECK_CONTAINS(text, "{k=\"(empty)\"}");
    free(text);
    cp_m_detach(m);
    cp_http_stop(http);
}

CP_TEST(metrics_show_a_hundred_label_sets_and_all_others_as_one)
{
    struct cp_http *http = start_http(NULL);
    struct cp_m *m = attached();
    char value[20];
    struct cp_label label = {"n", value};
    struct cp_g g;
    char *text;

    for (int i = 0; i < 300; i++) {
        snprintf(value, sizeof value, "%d", i);
        live(m, &g, &label, 1, true);
    }
    check_answer(http, "$base/metrics", 200, "\ncounterpoint_gs_ended_total{n=\"0\"} 1\n",
                 "\ncounterpoint_gs_ended_total{n=\"98\"} 1\n",
                 "\ncounterpoint_gs_ended_total{labels=\"(other)\"} 201\n", NULL);
    text = test_command(NULL, "curl -sSf http://%s" PPROF "/metrics | grep -c '^counterpoint_gs_ended_total'",
                        cp_http_address(http));
    CHECK_STR(text, "101\n");
    free(text);
    cp_m_detach(m);
    cp_http_stop(http);
}

CP_TEST(metrics_say_nothing_of_gs_if_there_are_none)
{
    struct cp_http *http = start_http(NULL);
    char *text = test_command(NULL, "curl -sSf http://%s" PPROF "/metrics | grep -c counterpoint_g || true",
                              cp_http_address(http));

    CHECK_STR(text, "0\n");
    free(text);
    cp_http_stop(http);
}
