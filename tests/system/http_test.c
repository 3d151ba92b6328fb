/* The answers of the HTTP endpoint to curl, go tool pprof and gperftools' pprof. */
#include "tests/support/http_tools.h"

#include <sys/stat.h>

#include "tests/support/http_inside.h"
#include "tests/support/inside.h"
#include "tests/support/pprof_inside.h"
#include "tests/support/sim/sim.h"

/* ---- Profiles -------------------------------------------------------------------------------- */

CP_TEST(go_tool_pprof_fetches_a_profile)
{
    struct cp_http *http = start_http(NULL);
    char url[200];

    test_need_events();
    start_service();
    snprintf(url, sizeof url, "'http://%s" PPROF "/profile?seconds=2&event=taskClock&period=10000000'",
             cp_http_address(http));
    char *top = pprof("-top", url);
    printf("%s", top);
    CHECK_CONTAINS(top, "burn_here");
    CHECK_CONTAINS(top, "serve_customers");
    CHECK_CONTAINS(top, "Duration: ");
    CHECK(strtod(strstr(top, "Duration: ") + strlen("Duration: "), NULL) >= 2);
    free(top);
    snprintf(url, sizeof url, "http://%s" PPROF "/profile", cp_http_address(http));
    free(pprof("-top -seconds 1", url)); /* pprof adds seconds=1 to the URL */
    snprintf(url, sizeof url, "http://%s" PPROF "/goroutine", cp_http_address(http));
    free(pprof("-top -seconds 1", url));
    stop_service();
    cp_http_stop(http);
}

CP_TEST(a_profile_has_the_headers_of_net_http_pprof)
{
    struct cp_http *http = start_http(NULL);

    test_need_events();
    start_service();
    check_answer(http, "-D - -o /dev/null \"$base/profile?seconds=1\"", 200,
                 "\nContent-Type: application/octet-stream\n",
                 "\nContent-Disposition: attachment; filename=\"profile\"\n",
                 "\nX-Content-Type-Options: nosniff\n", "\nContent-Length: ", NULL);
    check_answer(http, "\"$base/profile?seconds=1&debug=1&event=taskClock&\"", 200,
                 "\nContent-Type: text/plain; charset=utf-8\n", "samples profile: total ", "\tburn_here+0x",
                 "# labels: {\"role\":\"service\"}", NULL);
    stop_service();
    cp_http_stop(http);
}

CP_TEST(two_profiles_at_a_time_are_each_of_its_own_event)
{
    struct cp_http *http = start_http(NULL);

    test_need_events();
    start_service();
    free(test_command(NULL,
                      "cd %s; base=http://%s" PPROF "\n"
                      "curl -sSf -o a \"$base/profile?seconds=1&event=taskClock\" & a=$!\n"
                      "curl -sSf -o b \"$base/profile?seconds=1&event=cpuClock:2ms\" & b=$!\n"
                      "wait $a && wait $b",
                      test_dir(), cp_http_address(http)));
    char *comments = pprof("-comments", file_in_dir("a"));
    CHECK_CONTAINS(comments, "event: taskClock\n");
    CHECK_CONTAINS(comments, "\nperiod: 10000000 # ");
    free(comments);
    comments = pprof("-comments", file_in_dir("b"));
    CHECK_CONTAINS(comments, "event: cpuClock\n");
    CHECK_CONTAINS(comments, "\nperiod: 2000000 # ");
    free(comments);
    check_names_burn(file_in_dir("a"));
    check_names_burn(file_in_dir("b"));
    stop_service();
    cp_http_stop(http);
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void check_bad(const struct cp_http *http, const char *query, const char *part)
{
    char arguments[300];

    snprintf(arguments, sizeof arguments, "\"$base/profile?%s\"", query);
    check_answer(http, arguments, 400, "\nX-Go-Pprof: 1\n", "\nContent-Type: text/plain; charset=utf-8\n",
                 "\nX-Content-Type-Options: nosniff\n", part, NULL);
}

CP_TEST(a_query_is_read_strictly)
{
    static const char *const bad[][2] = {
        {"seconds=-1", "seconds=-1 is invalid. The value must be a whole number from 1 to 600.\n"},
        {"seconds=0", "whole number from 1 to 600"},
        {"seconds=601", "whole number from 1 to 600"},
        {"seconds=1e9", "seconds=1e9 is invalid"},
        {"seconds=NaN", "seconds=NaN is invalid"},
        {"seconds=", "seconds= is invalid"},
        {"seconds", "seconds= is invalid"},
        {"seconds=+1", "seconds= 1 is invalid"},
        {"seconds=1%00", "invalid escape or a zero byte"},
        {"seconds=18446744073709551617", "is invalid"},
        {"seconds=1111111111111111111111111111", "too long: 23 characters"},
        {"period=0x10", "period=0x10 is invalid"},
        {"period=0", "period=0 is invalid"},
        {"period=-5", "period=-5 is invalid"},
        {"period=1&event=taskClock", "too small for taskClock"},
        {"event=", "The event has no name"},
        {"event=%00", "invalid escape or a zero byte"},
        {"event=timer%0", "invalid escape or a zero byte"},
        {"event=timer&unknown=%zz", "invalid escape or a zero byte"},
        {"event=timer&unknown=%", "invalid escape or a zero byte"},
        {"event=timer&event=timer", "more than once"},
        {"seconds=1&seconds=1", "more than once"},
        {"seconds=1&se%63onds=1", "more than once"},
        {"event=timer,taskClock", "timer,taskClock are several events"},
        {"event=taskClock:1ms,mem:64/8:1,timer", "taskClock:1ms,mem:64/8:1,timer are several events"},
        {"event=mem:64/8,timer", "mem:64/8,timer are several events"},
        {"event=taskClock:1ms&period=1000000",
         "The query has two periods: 1000000 in \"period\", and 1000000 after the event's name. Leave one of "
         "them out.\n"},
        {"event=taskClock:0", "\"taskClock\" cannot have a period of 0"},
        {"event=taskClock:", "\"taskClock:\" ends in a colon"},
        {"event=pageFaults:1s", "a number of events, not a time"},
        {"event=taskClock:20us", "A period of 20000 is too small for taskClock over HTTP"},
        {"event=no%0Asuch", "no?such"},
        {"event=nosuch", "nosuch"},
        {"event=pfm:nosuch", "nosuch"},
        {"event=pageFaults", "has no preset period"},
        {"debug=2", "debug=2 is invalid. The value must be a whole number from 0 to 1.\n"},
        {"debug=x", "debug=x is invalid"},
        {"second=1", "The query has the unknown key \"second\". This path takes: event, period, "
                     "seconds, debug, engine.\n"},
        {"engine=steam", "There is no engine \"steam\". Take trap, signal, or auto.\n"},
        {"event=timer&&Period=1", "unknown key \"Period\". This"},
        {"hz", "unknown key \"hz\". This"},
        {"a%26b=1", "unknown key \"a&b\". This"},
        {"a%0D%0ASet-Cookie:%01=1", "unknown key \"a??Set-Cookie:?\". This"},
        {"seconds=%1b[2J", "seconds=?[2J is invalid"},
        {"0123456789abcdef0123456789abcdef0123456789abcdef=1",
         "unknown key \"0123456789abcdef0123456789abcde\". This"},
    };
    struct cp_http *http = start_http(NULL);

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        check_bad(http, bad[i][0], bad[i][1]);
    cp_http_stop(http);
}

struct period {
    uint64_t cost_ns; /* the cost of a sample; 0: it is measured, and the simulated kernel has no samples */
    unsigned percent; /* 0: the default */
    const char *event;
    unsigned long long smallest;
};

static void check_smallest_period(const struct period *period)
{
    const struct cp_http_options options = {.size = sizeof options, .max_cost_percent = period->percent};
    struct cp_http *http = start_http(&options);
    char arguments[200], sentence[100];

    set_sample_cost(period->cost_ns);
    snprintf(arguments, sizeof arguments, "\"$base/profile?event=%s&seconds=1&period=%llu\"", period->event,
             period->smallest - 1);
    snprintf(sentence, sizeof sentence, "The smallest period here is %llu.\n", period->smallest);
    check_answer(http, arguments, 400, "\nX-Go-Pprof: 1\n", " is too small for ", sentence, NULL);
    if (strcmp(period->event, "taskClock") == 0) {
        snprintf(arguments, sizeof arguments,
                 "-o /dev/null -D - \"$base/profile?event=taskClock&seconds=1&period=%llu\"",
                 period->smallest);
        check_answer(http, arguments, 200, NULL);
    }
    cp_http_stop(http);
}

SIM_TEST(samples_over_http_take_a_small_part_of_the_time, .timeout_s = 60 * TEST_SLOWDOWN)
{
    static const struct period periods[] = {
        {50000, 0, "taskClock", 500000},     /* 10 % of the time */
        {50000, 25, "taskClock", 200000},    /* 25 % of the time */
        {10, 0, "taskClock", 100000},        /* the smallest period at all */
        {0, 0, "taskClock", 1000000},        /* the cost cannot be measured, and counts as 100 us */
        {4000000, 0, "taskClock", 10000000}, /* the preset, however slow the machine is */
        {50000, 0, "cpuClock", 500000},      /* asked before the kernel is asked for the event */
        {50000, 0, "cycles", 3000000},       /* 6 cycles in each ns */
        {50000, 0, "refCycles:u", 3000000},  {50000, 0, "instructions", 1000000}, /* the preset */
    };

    for (size_t i = 0; i < sizeof periods / sizeof periods[0]; i++)
        check_smallest_period(&periods[i]);
}

CP_TEST(keys_that_mean_nothing_are_refused_everywhere, .timeout_s = 60 * TEST_SLOWDOWN)
{
    static const char *const cases[][2] = {
        {"/?x", "The query has the unknown key \"x\": this path takes no keys.\n"},
        {"/index.css?x=1", "this path takes no keys"},
        {"/cmdline?debug=1", "has the unknown key \"debug\": this path takes no keys"},
        {"/metrics?name=x", "this path takes no keys"},
        {"/goroutine?second=1", "has the unknown key \"second\". This path takes: debug, seconds.\n"},
        {"/threadcreate?debug=1&x=1", "This path takes: debug, seconds.\n"},
        {"/watch?watch=x", "This path takes: name, debug, seconds.\n"},
        {"/ui/?x", "this path takes no keys"},
        {"/ui/events.json?x", "this path takes no keys"},
        {"/ui/page.js?x", "this path takes no keys"},
        {"/cmdline?%zz", "invalid escape or a zero byte"},
        {"/cmdline?=%00", "invalid escape or a zero byte"},
    };
    struct cp_http *http = start_http(NULL);
    char arguments[200];

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(arguments, sizeof arguments, "\"$base%s\"", cases[i][0]);
        check_answer(http, arguments, 400, "\nX-Go-Pprof: 1\n", cases[i][1], NULL);
    }
    check_answer(http, "\"$base/cmdline?&\"", 200, NULL);
    cp_http_stop(http);
}

CP_TEST(other_errors_have_statuses_of_their_own)
{
    struct cp_http *http = start_http(NULL);

    check_answer(http, "$base/heap", 404, "\nX-Go-Pprof: 1\n", "/debug/pprof/ lists the paths", NULL);
    check_answer(http, "$base/profile/", 404, NULL);
    check_answer(http, "$base/../..", 404, NULL);
    check_answer(http, "$base", 301, "\nLocation: /debug/pprof/\n", NULL);
    check_answer(http, "-X POST $base/profile", 405, "\nAllow: GET\n", NULL);
    check_answer(http, "--head $base/profile", 405, "\nAllow: GET\n", NULL);
    check_answer(http, "-X DELETE $base/symbol", 405, "\nAllow: GET, HEAD, POST\n", NULL);
    check_answer(http, "-X OPTIONS $base/", 405, "\nAllow: GET, HEAD\n", NULL);
    check_answer(http, "\"$base/profile?x=$(printf %05000d 0)\"", 414, "4096 bytes at most", NULL);
    cp_http_stop(http);
}

SIM_TEST(an_event_that_the_machine_lacks_is_501)
{
    struct cp_http *http = start_http(NULL);

    check_answer(http, "\"$base/profile?event=cycles&seconds=1\"", 501, "\nX-Go-Pprof: 1\n",
                 "The event cycles cannot run", NULL);
    cp_http_stop(http);
}

SIM_TEST(an_event_that_counts_nothing_is_501)
{
    struct cp_http *http;

    sim->pmu.is_there = sim->pmu.is_silent = true;
    sim->clock_ns = 10000; /* for the server's trials */
    http = start_http(NULL);
    check_answer(http, "\"$base/profile?event=cycles&seconds=1\"", 501, "\nX-Go-Pprof: 1\n",
                 "The event cycles cannot run", "the PMU stays at 0", NULL);
    check_answer(http, "$base/", 200, "<tr><td>cycles</td><td>opens, but does not count here", NULL);
    cp_http_stop(http);
}

CP_TEST(what_the_system_forbids_is_403)
{
    struct cp_event_spec spec = {.size = sizeof spec};
    struct cp_http *http;
    int probed;

    test_need_events();
    if (geteuid() == 0)
        CHECK_EQ(setresuid(65534, 65534, 65534), 0);
    CHECK_EQ(cp_event_parse("contextSwitches", &spec, NULL), 0);
    probed = cp_event_probe(&spec, NULL);
    if (probed != -EACCES && probed != -EPERM)
        SKIP("perf_event_paranoid lets everybody count in the kernel.");
    http = start_http(NULL);
    check_answer(http, "\"$base/profile?event=contextSwitches&period=1&seconds=1\"", 403, "\nX-Go-Pprof: 1\n",
                 "perf_event_paranoid", NULL);
    cp_http_stop(http);
}

CP_TEST(a_profile_too_many_is_409)
{
    struct cp_session *sessions[CP_EV_MAX];
    struct cp_memory memories[CP_EV_MAX] = {{0}};
    struct cp_http *http = start_http(NULL);

    for (int i = 0; i < CP_EV_MAX; i++) {
        const struct cp_profiling_option option = cp_option_event(cp_writer_memory(&memories[i]), "timer", 0);

        CHECK_EQ(cp_session_start(&sessions[i], &option, 1, NULL), 0);
    }
    check_answer(http, "$base/profile?seconds=1", 409, "\nX-Go-Pprof: 1\n",
                 "\n1 event cannot start: 0 of the 8 that", "or wait for its end.\n", NULL);
    cp_session_close(sessions[0]);
    check_answer(http, "-o /dev/null -D - $base/profile?seconds=1", 200, NULL);
    for (int i = 1; i < CP_EV_MAX; i++)
        cp_session_close(sessions[i]);
    cp_http_stop(http);
}

/* ---- The other endpoints --------------------------------------------------------------------- */

static void check_index_has(const struct cp_http *http, const char *max_rate, const char *task_clock,
                            const char *cpu_clock)
{
    char links[2][120], example[120];

    test_write_file("kernel/perf_event_max_sample_rate", max_rate);
    snprintf(links[0], sizeof links[0], "\"profile?event=taskClock&amp;period=%s&amp;", task_clock);
    snprintf(links[1], sizeof links[1], "\"profile?event=cpuClock&amp;period=%s&amp;", cpu_clock);
    snprintf(example, sizeof example, "/debug/pprof/profile?event=taskClock&amp;period=%s&amp;", task_clock);
    check_answer(http, "$base/", 200, links[0], links[1], example,
                 "\"profile?event=timer&amp;period=10000000&amp;", NULL);
}

SIM_TEST(the_index_offers_periods_that_the_kernel_allows)
{
    struct cp_http *http;
    char path[512];

    snprintf(path, sizeof path, "%s/kernel", test_dir());
    CHECK_EQ(mkdir(path, 0700), 0);
    set_sysctl_folder(test_dir());
    http = start_http(NULL);
    check_index_has(http, "100000\n", "100000", "1000000");
    check_index_has(http, "10000\n", "100000", "1000000");
    check_index_has(http, "9999\n", "200000", "1000000");
    check_index_has(http, "2001\n", "500000", "1000000");
    check_index_has(http, "300\n", "5000000", "5000000");
    check_index_has(http, "0\n", "100000", "1000000");
    set_sample_cost(50000);
    check_index_has(http, "10000\n", "500000", "1000000");
    check_index_has(http, "300\n", "5000000", "5000000");
    set_sample_cost(10);
    check_index_has(http, "nonsense\n", "100000", "1000000");
    unlink(path);
    check_answer(http, "$base/", 200, "\"profile?event=taskClock&amp;period=100000&amp;", NULL);
    cp_http_stop(http);
}

CP_TEST(links_ask_for_no_more_seconds_than_there_may_be)
{
    const struct cp_http_options options = {.size = sizeof options, .max_seconds = 5};
    struct cp_http *http = start_http(&options);

    check_answer(http, "$base/", 200, "href=\"profile?event=timer&amp;period=10000000&amp;seconds=5\"",
                 "records for 5 s and", "&amp;seconds=5'</code>", NULL);
    cp_http_stop(http);
}

SIM_TEST(the_index_links_to_the_events_that_work)
{
    struct cp_http *http;
    char *page;

    sim->pmu.is_there = true;
    sim->clock_ns = 10000; /* for the server's trials */
    set_sysctl_folder("/nowhere");
    http = start_http(NULL);
    check_answer(http, "$base/", 200, "\nContent-Type: text/html; charset=utf-8\n",
                 "\nContent-Security-Policy: default-src 'none'; style-src 'self'; ",
                 "href=\"profile?event=taskClock&amp;period=100000&amp;seconds=10\"",
                 "href=\"profile?event=timer&amp;period=10000000&amp;seconds=10\"", "</html>", NULL);
    check_answer(http, "-H 'Host: localhost:6060' $base/", 200, "http://localhost:6060/debug/pprof/profile?",
                 NULL);
    check_answer(http, "$base/index.css", 200, "\nContent-Type: text/css; charset=utf-8\n", "color-scheme",
                 NULL);
    page = ask(http, "$base/");
    CHECK(strstr(page, "<script") == NULL && strstr(page, "style=") == NULL);
    free(page);
    check_answer(http, "$base/", 200, "href=\"profile?event=cycles&amp;", NULL);
    cp_http_stop(http);
    sim->pmu.is_there = false;
    http = start_http(NULL);
    page = ask(http, "$base/");
    CHECK(strstr(page, "event=cycles") == NULL);
    CHECK_CONTAINS(strstr(page, "<summary>"), "<tr><td>cycles</td><td>");
    free(page);
    cp_http_stop(http);
}

CP_TEST(to_HEAD_the_answer_is_that_of_GET_without_the_body)
{
    static const char *const paths[] = {"/", "/index.css", "/symbol", "/cmdline", "/ui/", "/ui/page.js"};
    struct cp_http *http = start_http(NULL);

    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        char *got = ask(http, "$base%s", paths[i]), *end = strstr(got, "\n\n");

        CHECK(end != NULL);
        end[2] = '\0';
        char *head = ask(http, "--head $base%s", paths[i]);
        /* Only the date differs. */
        CHECK_STR(strstr(head, "\nContent-Type"), strstr(got, "\nContent-Type"));
        CHECK_CONTAINS(head, "HTTP/1.1 200 OK\n");
        free(head);
        free(got);
    }
    cp_http_stop(http);
}

CP_TEST(cmdline_is_the_arguments)
{
    struct cp_http *http = start_http(NULL);
    char *same = test_command(
        NULL,
        "curl -sSf http://%s" PPROF "/cmdline | od -c > %s/a; head -c -1 /proc/%d/cmdline | "
        "od -c > %s/b; cmp %s/a %s/b && wc -l < %s/a",
        cp_http_address(http), test_dir(), (int)getpid(), test_dir(), test_dir(), test_dir(), test_dir());

    CHECK(atoi(same) > 1);
    free(same);
    cp_http_stop(http);
}

CP_TEST(symbol_names_addresses)
{
    struct cp_http *http = start_http(NULL);
    char arguments[200], expected[200];

    snprintf(expected, sizeof expected, "\n\nnum_symbols: 1\n%#lx\tburn_here\n%#lx\tserve_customers\n",
             (unsigned long)burn_here + 4, (unsigned long)serve_customers);
    snprintf(arguments, sizeof arguments, "'%#lx+0x1+%#lx'", (unsigned long)burn_here + 4,
             (unsigned long)serve_customers);
    char *answer = ask(http, "$base/symbol?%s", arguments);
    CHECK_CONTAINS(answer, expected);
    CHECK_CONTAINS(answer, "\nContent-Type: text/plain; charset=utf-8\n");
    free(answer);
    answer = ask(http, "$base/symbol -d %s", arguments);
    CHECK_CONTAINS(answer, expected);
    free(answer);
    check_answer(http, "$base/symbol", 200, "\n\nnum_symbols: 1\n", NULL);
    check_answer(http, "$base/symbol -d 'nonsense+++0x+0x12345678123456781+12'", 200, "\n\nnum_symbols: 1\n",
                 NULL);
    free(test_command(NULL, "head -c 1000000 /dev/zero | tr '\\0' + > %s", file_in_dir("big")));
    answer = ask(http, "--data-binary @%s $base/symbol", file_in_dir("big"));
    CHECK_CONTAINS(answer, "\n\nnum_symbols: 1\n");
    free(answer);
    cp_http_stop(http);
}

CP_TEST(go_tool_pprof_fetches_names_of_a_text_profile)
{
    struct cp_http *http = start_http(NULL);
    char url[200];

    test_need_events();
    start_service();
    snprintf(url, sizeof url,
             "'http://%s" PPROF "/profile?seconds=1&event=taskClock&period=10000000&debug=1'",
             cp_http_address(http));
    char *top = pprof("-symbolize=remote -top", url);
    printf("%s", top);
    CHECK_CONTAINS(top, "burn_here");
    CHECK_CONTAINS(top, "serve_customers");
    free(top);
    stop_service();
    cp_http_stop(http);
}

/* gperftools' pprof reads CPU profiles only in a binary form of its own, so the test converts the text on the
 * way; the script asks for the names itself. By default that pprof removes a caller that all samples have,
 * because it takes the caller for a signal handler's frame. If samples are few, that caller is
 * serve_customers(). */
CP_TEST(the_pprof_of_gperftools_fetches_names)
{
    static const char curl[] = "#!/bin/sh\n"
                               "for last; do :; done\n"
                               "case $last in\n"
                               "*/pprof/profile*) exec /usr/bin/curl -sS "
                               "\"$last&event=taskClock&period=10000000&debug=1\" | perl -ne '\n"
                               "    BEGIN { print pack(\"Q<*\", 0, 3, 0, 1000, 0) }\n"
                               "    if (/^(\\d+) \\@ (.*)/) { @a = map { hex } split(/ /, $2); print "
                               "pack(\"Q<*\", $1, 0 + @a, @a) }\n"
                               "    END { print pack(\"Q<*\", 0, 1, 0) }' ;;\n"
                               "*) exec /usr/bin/curl \"$@\" ;;\n"
                               "esac\n";
    struct cp_http *http = start_http(NULL);
    FILE *file;

    test_need_events();
    file = fopen(file_in_dir("curl"), "w");
    fputs(curl, file);
    fclose(file);
    start_service();
    char *top =
        test_command(NULL,
                     "cd %s && chmod +x curl && PATH=$PWD:$PATH HOME=$PWD PPROF_TMPDIR=$PWD "
                     "google-pprof --seconds=1 --no-auto-signal-frm --text http://%s" PPROF "/profile 2>&1",
                     test_dir(), cp_http_address(http));
    printf("%s", top);
    CHECK_CONTAINS(top, " burn_here\n");
    CHECK_CONTAINS(top, " serve_customers\n");
    free(top);
    stop_service();
    cp_http_stop(http);
}

CP_TEST(threadcreate_shows_who_attached_threads)
{
    struct cp_http *http = start_http(NULL);
    char url[200];

    start_service();
    for (int debug = 1; debug <= 2; debug++) {
        snprintf(url, sizeof url, "$base/threadcreate?debug=%d", debug);
        check_answer(http, url, 200, "\nContent-Type: text/plain; charset=utf-8\n",
                     "threadcreate profile: total 1\n1 @ 0x", "\trun_service+0x", NULL);
    }
    check_answer(http, "-o /dev/null -D - $base/threadcreate", 200,
                 "\nContent-Disposition: attachment; filename=\"threadcreate\"\n", NULL);
    check_answer(http, "$base/threadcreate?debug=3", 400, "from 0 to 2", NULL);
    check_answer(http, "-o /dev/null -D - $base/threadcreate?seconds=1", 200,
                 "\nContent-Disposition: attachment; filename=\"threadcreate-delta\"\n", NULL);
    check_answer(http, "\"$base/threadcreate?seconds=1&debug=1\"", 400, "debug=1 asks for text", NULL);
    check_answer(http, "$base/threadcreate?seconds=0", 400, "from 1 to 600", NULL);
    snprintf(url, sizeof url, "http://%s" PPROF "/threadcreate", cp_http_address(http));
    char *top = pprof("-top", url);
    CHECK_CONTAINS(top, "Type: threadcreate");
    CHECK_CONTAINS(top, "run_service");
    free(top);
    stop_service();
    cp_http_stop(http);
}

static double metric(const struct cp_http *http, const char *name)
{
    char *answer = ask(http, "$base/metrics");
    char line[100];
    const char *at;
    double value;

    snprintf(line, sizeof line, "\n%s ", name);
    CHECK_CONTAINS(answer, "\nContent-Type: text/plain; version=0.0.4; charset=utf-8\n");
    CHECK_CONTAINS(answer, line);
    at = strstr(answer, line);
    value = atof(at + strlen(line));
    free(answer);
    return value;
}

static double seconds_now(void)
{
    return (double)wall_ns() / 1e9;
}

CP_TEST(metrics_tell_what_the_profiler_does)
{
    const double start = seconds_now();
    struct cp_http *http = start_http(NULL);
    struct cp_memory memory = {0};
    const struct cp_profiling_option option =
        cp_option_event(cp_writer_memory(&memory), "taskClock", test_period(100000, 1));
    struct cp_slot_stats stats = {.size = sizeof stats};
    struct cp_session *session;

    CHECK_EQ(metric(http, "counterpoint_threads"), 0);
    CHECK_EQ(metric(http, "counterpoint_samples_total"), 0);
    CHECK_EQ(metric(http, "counterpoint_handler_seconds_total"), 0);
    attach();
    CHECK_EQ(cp_session_start(&session, &option, 1, NULL), 0);
    burn_here(50000000);
    CHECK_EQ(metric(http, "counterpoint_threads"), 1);
    CHECK_EQ(metric(http, "counterpoint_slots"), 1);
    CHECK_EQ(metric(http, "counterpoint_slots_max"), CP_EV_MAX);
    CHECK(metric(http, "counterpoint_perf_descriptors") >= 1);
    CHECK_EQ(metric(http, "counterpoint_perf_rings"), 1);
    CHECK(metric(http, "process_open_fds") > metric(http, "counterpoint_perf_descriptors"));
    CHECK_EQ(cp_session_stop(session, NULL), 0);
    cp_session_stats(session, 0, &stats);
    CHECK_EQ(metric(http, "counterpoint_samples_total"), stats.samples);
    CHECK(metric(http, "counterpoint_handler_seconds_total") > 0);
    /* at most the time of one thread */
    CHECK(metric(http, "counterpoint_handler_seconds_total") < seconds_now() - start);
    CHECK_EQ(metric(http, "counterpoint_slots"), 0);
    CHECK_EQ(metric(http, "counterpoint_perf_descriptors"), 0);
    cp_session_close(session);
    free(memory.data);
    cp_http_stop(http);
}
