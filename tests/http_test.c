/* The HTTP endpoint, asked by curl, go tool pprof, gperftools' pprof, and by hand. */
#include "http_tools.h"

#include <microhttpd.h>

#include "pprof/table.h"
#include "resources.h"

#include <sys/resource.h>

/* ---- Profiles -------------------------------------------------------------------------------- */

CP_TEST(go_tool_pprof_fetches_a_profile, .timeout_s = 60 * TEST_SLOWDOWN)
{
    struct cp_http *http = start_http(NULL);
    char url[200];

    start_service();
    snprintf(url, sizeof url, "'http://%s" PPROF "/profile?seconds=2&event=taskClock&period=100000'",
             cp_http_address(http));
    char *top = pprof("-top", url);
    printf("%s", top);
    CHECK_CONTAINS(top, "burn_here");
    CHECK_CONTAINS(top, "serve_customers");
    CHECK_CONTAINS(top, "Duration: 2");
    free(top);
    stop_service();
    cp_http_stop(http);
}

CP_TEST(a_profile_has_the_headers_of_net_http_pprof, .timeout_s = 60 * TEST_SLOWDOWN)
{
    struct cp_http *http = start_http(NULL);

    start_service();
    check_answer(http, "-D - -o /dev/null \"$base/profile?seconds=1\"", 200,
                 "\nContent-Type: application/octet-stream\n",
                 "\nContent-Disposition: attachment; filename=\"profile\"\n",
                 "\nX-Content-Type-Options: nosniff\n", "\nContent-Length: ", NULL);
    check_answer(http, "\"$base/profile?seconds=1&debug=1&event=taskClock&unknown=x\"", 200,
                 "\nContent-Type: text/plain; charset=utf-8\n", "samples profile: total ", "\tburn_here\t",
                 "# labels: {\"role\":\"service\"}", NULL);
    stop_service();
    cp_http_stop(http);
}

CP_TEST(two_profiles_at_a_time_are_each_of_its_own_event, .timeout_s = 60 * TEST_SLOWDOWN)
{
    struct cp_http *http = start_http(NULL);

    start_service();
    free(test_command(NULL,
                      "cd %s; base=http://%s" PPROF "\n"
                      "curl -sSf -o a \"$base/profile?seconds=1&event=taskClock\" & a=$!\n"
                      "curl -sSf -o b \"$base/profile?seconds=1&event=cpuClock\" & b=$!\n"
                      "wait $a && wait $b",
                      test_dir(), cp_http_address(http)));
    char *comments = pprof("-comments", file_in_dir("a"));
    CHECK_CONTAINS(comments, "engine: taskClock");
    free(comments);
    comments = pprof("-comments", file_in_dir("b"));
    CHECK_CONTAINS(comments, "engine: cpuClock");
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

CP_TEST(a_query_is_read_strictly, .timeout_s = 60 * TEST_SLOWDOWN)
{
    static const char *const bad[][2] = {
        {"seconds=-1", "seconds=-1 is not possible: it must be a whole number from 1 to 600.\n"},
        {"seconds=0", "whole number from 1 to 600"},
        {"seconds=601", "whole number from 1 to 600"},
        {"seconds=1e9", "seconds=1e9 is not possible"},
        {"seconds=NaN", "seconds=NaN is not possible"},
        {"seconds=", "seconds= is not possible"},
        {"seconds", "seconds= is not possible"},
        {"seconds=+1", "seconds= 1 is not possible"},
        {"seconds=1%00", "escape that is none, or a zero byte"},
        {"seconds=18446744073709551617", "is not possible"},
        {"seconds=1111111111111111111111111111", "too long: 23 characters"},
        {"period=0x10", "period=0x10 is not possible"},
        {"period=0", "period=0 is not possible"},
        {"period=-5", "period=-5 is not possible"},
        {"period=1&event=taskClock", "too small for taskClock"},
        {"event=", "The event has no name"},
        {"event=%00", "escape that is none, or a zero byte"},
        {"event=timer%0", "escape that is none, or a zero byte"},
        {"event=timer&unknown=%zz", "escape that is none, or a zero byte"},
        {"event=timer&unknown=%", "escape that is none, or a zero byte"},
        {"event=timer&event=timer", "more than once"},
        {"seconds=1&seconds=1", "more than once"},
        {"seconds=1&se%63onds=1", "more than once"},
        {"event=timer,taskClock", "timer,taskClock are several events"},
        {"event=no%0Asuch", "no?such"},
        {"event=nosuch", "nosuch"},
        {"event=pfm:nosuch", "nosuch"},
        {"event=pageFaults", "has no preset period"},
        {"debug=3", "debug=3 is not possible"},
        {"debug=x", "debug=x is not possible"},
    };
    struct cp_http *http = start_http(NULL);

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        check_bad(http, bad[i][0], bad[i][1]);
    cp_http_stop(http);
}

CP_TEST(other_errors_have_statuses_of_their_own, .timeout_s = 60 * TEST_SLOWDOWN)
{
    struct cp_http *http = start_http(NULL);

    check_answer(http, "$base/heap", 404, "\nX-Go-Pprof: 1\n", "/debug/pprof/ lists what there is", NULL);
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

CP_TEST(an_event_that_the_machine_lacks_is_501)
{
    /* Where there is a PMU, it may lack others. */
    static const char *const names[] = {"cycles", "refCycles", "busCycles", "LLC-stores", "L1-icache-stores"};
    struct cp_event_spec spec;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char arguments[100], sentence[100];
        struct cp_http *http;

        if (cp_event_parse(names[i], &spec, NULL) < 0 || cp_event_probe(&spec, NULL) == 0)
            continue;
        http = start_http(NULL);
        snprintf(arguments, sizeof arguments, "\"$base/profile?event=%s&seconds=1\"", names[i]);
        snprintf(sentence, sizeof sentence, "The event %s cannot run", names[i]);
        check_answer(http, arguments, 501, "\nX-Go-Pprof: 1\n", sentence, NULL);
        cp_http_stop(http);
        return;
    }
    SKIP("This machine has every event that was tried.");
}

CP_TEST(what_the_system_forbids_is_403)
{
    struct cp_event_spec spec;
    struct cp_http *http;
    int probed;

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
        const struct cp_profiling_option option = cp_event(cp_writer_memory(&memories[i]), "timer", 0);

        CHECK_EQ(cp_session_start(&sessions[i], &option, 1, NULL), 0);
    }
    check_answer(http, "$base/profile?seconds=1", 409, "\nX-Go-Pprof: 1\n", "0 of the 8", NULL);
    cp_session_close(sessions[0]);
    check_answer(http, "-o /dev/null -D - $base/profile?seconds=1", 200, NULL);
    for (int i = 1; i < CP_EV_MAX; i++)
        cp_session_close(sessions[i]);
    cp_http_stop(http);
}

/* ---- The other endpoints --------------------------------------------------------------------- */

CP_TEST(the_index_links_to_the_events_that_work)
{
    struct cp_http *http = start_http(NULL);
    struct cp_event_spec spec;
    char *page;

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
    CHECK_EQ(cp_event_parse("cycles", &spec, NULL), 0);
    if (cp_event_probe(&spec, NULL) < 0) {
        CHECK(strstr(page, "event=cycles") == NULL);
        CHECK_CONTAINS(strstr(page, "<summary>"), "<tr><td>cycles</td><td>");
    }
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
        /* The date is another one. */
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

CP_TEST(go_tool_pprof_fetches_names_of_a_text_profile, .timeout_s = 60 * TEST_SLOWDOWN)
{
    struct cp_http *http = start_http(NULL);
    char url[200];

    start_service();
    snprintf(url, sizeof url, "'http://%s" PPROF "/profile?seconds=1&event=taskClock&period=100000&debug=1'",
             cp_http_address(http));
    char *top = pprof("-symbolize=remote -top", url);
    printf("%s", top);
    CHECK_CONTAINS(top, "burn_here");
    CHECK_CONTAINS(top, "serve_customers");
    free(top);
    stop_service();
    cp_http_stop(http);
}

/* gperftools' pprof reads CPU profiles in a binary form of its own only, so what it fetches is made of the
 * text on the way; it asks for the names itself. */
CP_TEST(the_pprof_of_gperftools_fetches_names, .timeout_s = 60 * TEST_SLOWDOWN)
{
    static const char curl[] = "#!/bin/sh\n"
                               "for last; do :; done\n"
                               "case $last in\n"
                               "*/pprof/profile*) exec /usr/bin/curl -sS "
                               "\"$last&event=taskClock&period=1000000&debug=1\" | perl -ne '\n"
                               "    BEGIN { print pack(\"Q<*\", 0, 3, 0, 1000, 0) }\n"
                               "    if (/^(\\d+) \\@ (.*)/) { @a = map { hex } split(/ /, $2); print "
                               "pack(\"Q<*\", $1, 0 + @a, @a) }\n"
                               "    END { print pack(\"Q<*\", 0, 1, 0) }' ;;\n"
                               "*) exec /usr/bin/curl \"$@\" ;;\n"
                               "esac\n";
    struct cp_http *http = start_http(NULL);
    FILE *file;

    file = fopen(file_in_dir("curl"), "w");
    fputs(curl, file);
    fclose(file);
    start_service();
    char *top = test_command(NULL,
                             "cd %s && chmod +x curl && PATH=$PWD:$PATH HOME=$PWD PPROF_TMPDIR=$PWD "
                             "google-pprof --seconds=1 --text http://%s" PPROF "/profile 2>&1",
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
    usleep(50000);
    check_answer(http, "$base/threadcreate?debug=1", 200, "\nContent-Type: text/plain; charset=utf-8\n",
                 "threadcreate profile: total 1\n1 @ 0x", "\trun_service+0x", NULL);
    check_answer(http, "-o /dev/null -D - $base/threadcreate", 200,
                 "\nContent-Disposition: attachment; filename=\"threadcreate\"\n", NULL);
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

CP_TEST(metrics_tell_what_the_profiler_does)
{
    struct cp_http *http = start_http(NULL);
    struct cp_memory memory = {0};
    const struct cp_profiling_option option = cp_event(cp_writer_memory(&memory), "taskClock", 100000);
    struct cp_slot_stats stats;
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
    CHECK(metric(http, "counterpoint_handler_seconds_total") < 0.05); /* of which it was a part */
    CHECK_EQ(metric(http, "counterpoint_slots"), 0);
    CHECK_EQ(metric(http, "counterpoint_perf_descriptors"), 0);
    cp_session_close(session);
    free(memory.data);
    cp_http_stop(http);
}

/* ---- Who may ask ----------------------------------------------------------------------------- */

CP_TEST(foreign_hosts_and_origins_are_refused, .timeout_s = 60 * TEST_SLOWDOWN)
{
    static const struct {
        const char *headers;
        int status;
    } cases[] = {
        {"-H 'Host: localhost'", 200},
        {"-H 'Host: LOCALHOST:6060'", 200},
        {"-H 'Host: 192.168.7.7:1'", 200},
        {"-H 'Host: [::1]:6060'", 200},
        {"-H 'Host: my.example:80'", 200},
        {"-H 'Host: evil.example'", 403},
        {"-H 'Host: localhost.evil.example'", 403},
        {"-H 'Host: evil.example:6060'", 403},
        {"-H 'Host: 127.0.0.1.evil.example'", 403},
        {"-H 'Host: localhost:'", 200},
        {"-H 'Host: localhost:1x'", 403},
        {"-H 'Host: localhost@evil.example'", 403},
        {"-H 'Host: [::1'", 403},
        {"-H 'Host: [::1]x'", 403},
        {"-H 'Host: :80'", 403},
        {"-0 -H 'Host;'", 403},
        {"-0 -H 'Host:'", 200}, /* none: no browser */
        {"-H 'Host: localhost' -H 'Origin: http://localhost'", 200},
        {"-H 'Host: localhost:1' -H 'Origin: http://localhost:1'", 200},
        {"-H 'Host: localhost:1' -H 'Origin: http://localhost:2'", 403},
        {"-H 'Host: localhost' -H 'Origin: http://evil.example'", 403},
        {"-H 'Host: localhost' -H 'Origin: null'", 403},
        {"-H 'Sec-Fetch-Site: same-origin'", 200},
        {"-H 'Sec-Fetch-Site: none'", 200},
        {"-H 'Sec-Fetch-Site: same-site'", 403},
        {"-H 'Sec-Fetch-Site: cross-site'", 403},
    };
    const char *host = "my.example";
    struct cp_http *http = start_http(
        &(struct cp_http_options){.size = sizeof(struct cp_http_options), .hosts = &host, .n_hosts = 1});

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *status =
            test_command(NULL, "curl -sS -o /dev/null -w '%%{http_code}' %s http://%s" PPROF "/cmdline",
                         cases[i].headers, cp_http_address(http));

        CHECKF(atoi(status) == cases[i].status, "%s: %s", cases[i].headers, status);
        free(status);
    }
    cp_http_stop(http);
}

CP_TEST(a_token_is_asked_for)
{
    static const char *const wrong[] = {"",
                                        "-H 'Authorization: Bearer'",
                                        "-H 'Authorization: Bearer '",
                                        "-H 'Authorization: Bearer secre'",
                                        "-H 'Authorization: Bearer secrets'",
                                        "-H 'Authorization: Bearer secretsecret'",
                                        "-H 'Authorization: Digest secret'",
                                        "-H 'Authorization: Basic !!!!'",
                                        "-u secret:",
                                        "-u any:wrong"};
    static const char *const right[] = {"-H 'Authorization: Bearer secret'",
                                        "-H 'Authorization: bearer secret'", "-u any:secret", "-u :secret"};
    struct cp_http *http =
        start_http(&(struct cp_http_options){.size = sizeof(struct cp_http_options), .token = "secret"});
    char arguments[200];

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(arguments, sizeof arguments, "%s $base/cmdline", wrong[i]);
        check_answer(http, arguments, 401, "\nWWW-Authenticate: Basic realm=", "\nX-Go-Pprof: 1\n", NULL);
    }
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        snprintf(arguments, sizeof arguments, "%s $base/cmdline", right[i]);
        check_answer(http, arguments, 200, NULL);
    }
    snprintf(arguments, sizeof arguments, "http://any:secret@%s" PPROF "/profile?seconds=1",
             cp_http_address(http));
    free(pprof("-top", arguments));
    cp_http_stop(http);
}

static char *read_text(const char *name)
{
    return test_command(NULL, "cat %s", file_in_dir(name));
}

CP_TEST(tls_serves_the_same)
{
    free(test_command(NULL,
                      "cd %s && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 "
                      "-subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 -keyout key -out cert 2>&1",
                      test_dir()));
    char *certificate = read_text("cert"), *key = read_text("key");
    struct cp_http *http = start_http(&(struct cp_http_options){
        .size = sizeof(struct cp_http_options), .certificate = certificate, .key = key});
    free(certificate);
    free(key);
    free(test_command(NULL,
                      "cd %s && curl -sSf --cacert cert https://%s" PPROF "/cmdline > a && "
                      "curl -sSf --cacert cert -o b 'https://%s" PPROF
                      "/profile?seconds=1' && test -s a -a -s b && "
                      "! curl -sSf -m 5 http://%s" PPROF "/cmdline",
                      test_dir(), cp_http_address(http), cp_http_address(http), cp_http_address(http)));
    free(pprof("-top", file_in_dir("b")));
    cp_http_stop(http);
}

/* ---- What goes wrong ------------------------------------------------------------------------- */

/* Waits until so many slots are in use; false after so long. */
static bool slots_become(uint32_t n, int timeout_ms)
{
    struct cp_runtime_stats stats;

    for (int i = 0; i <= timeout_ms / 10; i++, usleep(10000)) {
        cp_runtime_stats(&stats);
        if (stats.slots == n)
            return true;
    }
    return false;
}

/* What is held once it is no more than it was; a thread that was joined, or a connection that the client
 * closed, is gone a moment later only. */
static struct resources settle(const struct resources *then)
{
    struct resources now = resources_now();

    for (int i = 0; i < 300 && (now.fds > then->fds || now.threads > then->threads); i++) {
        usleep(10000);
        now = resources_now();
    }
    return now;
}

static int request(const struct cp_http *http, const char *path)
{
    int fd = connect_to(http);
    char text[300];

    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    send_all(fd, text, strlen(text));
    return fd;
}

CP_TEST(a_client_that_goes_away_ends_its_session)
{
    struct cp_http *http = start_http(NULL);
    int fd = request(http, PPROF "/profile?seconds=600");

    CHECK(slots_become(1, 5000));
    usleep(300000);
    CHECK(slots_become(1, 0));
    close(fd);
    CHECK(slots_become(0, 1000));
    cp_http_stop(http);
}

static void stop_while_profiles_run(void)
{
    struct cp_http *http = start_http(NULL);
    int fds[3];

    for (int i = 0; i < 3; i++)
        fds[i] = request(http, PPROF "/profile?seconds=600");
    CHECK(slots_become(3, 5000));
    cp_http_stop(http);
    CHECK(slots_become(0, 0));
    for (int i = 0; i < 3; i++) {
        char *answer = receive_all(fds[i], 1000);

        CHECK_STR(answer, "");
        free(answer);
        close(fds[i]);
    }
}

CP_TEST(a_stop_ends_running_profiles)
{
    struct resources now, then;

    stop_while_profiles_run(); /* threads leave stacks and arenas to the next ones */
    then = resources_now();
    stop_while_profiles_run();
    now = settle(&then);
    check_resources(&now, &then, 20);
}

/* A server that was asked anything answers the next one. */
static void check_alive(const struct cp_http *http)
{
    int fd = connect_to(http);
    static const char text[] =
        "GET " PPROF "/cmdline HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    char *answer;

    send_all(fd, text, strlen(text));
    answer = receive_all(fd, 10000);
    CHECKF(strncmp(answer, "HTTP/1.1 200 OK\r\n", 17) == 0, "%s", answer);
    free(answer);
    close(fd);
}

CP_TEST(requests_cut_off_at_every_byte_do_no_harm, .timeout_s = 60 * TEST_SLOWDOWN)
{
    static const char *const requests[] = {
        "GET " PPROF
        "/profile?seconds=600&event=taskClock HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n",
        "POST " PPROF "/symbol HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n0x1+0x222",
        "POST " PPROF "/symbol HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        "3\r\n0x1\r\n0\r\n\r\n"};
    struct resources now, then;
    struct cp_http *http = start_http(NULL);

    check_alive(http);
    then = resources_now();
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        for (size_t n = 0; n <= strlen(requests[i]); n++) {
            int fd = connect_to(http);

            send_all(fd, requests[i], n);
            close(fd);
        }
        check_alive(http);
    }
    CHECK(slots_become(0, 2000));
    now = settle(&then);
    CHECK(now.fds <= then.fds); /* what was asked before may not have been closed then */
    cp_http_stop(http);
}

CP_TEST(what_is_too_large_is_refused, .timeout_s = 60 * TEST_SLOWDOWN)
{
    struct cp_http *http = start_http(NULL);
    const size_t size = 1 << 20;
    char *big = malloc(size), *answer;
    static const struct {
        const char *begin, *end, *status;
    } cases[] = {
        {"GET " PPROF "/profile?x=", " HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 414 "},
        {"GET " PPROF "/cmdline HTTP/1.1\r\nHost: localhost\r\nX: ", "\r\n\r\n", "HTTP/1.1 431 "},
        {"POST " PPROF "/symbol HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n100002\r\n",
         "xx\r\n", ""},
    };

    memset(big, 'x', size);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int fd = connect_to(http);

        send_all(fd, cases[i].begin, strlen(cases[i].begin));
        send_all(fd, big, size);
        send_all(fd, cases[i].end, strlen(cases[i].end));
        answer = receive_all(fd, 5000);
        printf("%zu: %.40s\n", i, answer);
        /* An answer may be lost where the server closes before all was sent. */
        CHECKF(answer[0] == '\0' || strncmp(answer, cases[i].status, strlen(cases[i].status)) == 0, "%s",
               answer);
        free(answer);
        close(fd);
        check_alive(http);
    }
    free(big);
    cp_http_stop(http);
}

CP_TEST(a_body_that_is_announced_as_too_large_is_not_waited_for)
{
    static const char header[] =
        "POST " PPROF "/symbol HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048577\r\n\r\n";
    struct cp_http *http = start_http(NULL);
    int fd = connect_to(http);
    char *answer;

    send_all(fd, header, strlen(header));
    answer = receive_all(fd, 500);
    CHECKF(strncmp(answer, "HTTP/1.1 413 ", 13) == 0, "%s", answer);
    CHECK_CONTAINS(answer, "1048576 bytes at most");
    free(answer);
    close(fd);
    cp_http_stop(http);
}

/* ---- Many at a time -------------------------------------------------------------------------- */

static int status_of(int fd)
{
    char *answer = receive_all(fd, 20000);
    int status = 0;

    sscanf(answer, "HTTP/1.1 %d ", &status);
    free(answer);
    close(fd);
    return status;
}

static void ask_for_200(void)
{
    enum { N = 200 };
    const struct cp_http_options options = {.size = sizeof options, .max_connections = N + 1};
    struct cp_http *http = start_http(&options);
    static const char text[] = "GET " PPROF "/profile?seconds=2 HTTP/1.1\r\nHost: localhost\r\n"
                               "Connection: close\r\n\r\n";
    int fds[N], taken = 0, refused = 0, status;

    for (int i = 0; i < N; i++) {
        fds[i] = connect_to(http);
        send_all(fds[i], text, strlen(text));
    }
    for (int i = 0; i < N; i++) {
        status = status_of(fds[i]);
        CHECKF(status == 200 || status == 409, "%d", status);
        taken += status == 200;
        refused += status == 409;
    }
    printf("%d taken, %d refused\n", taken, refused);
    CHECK(taken >= CP_EV_MAX);
    CHECK_EQ(taken + refused, N);
    check_alive(http);
    cp_http_stop(http);
}

CP_TEST(of_200_profiles_at_a_time_as_many_as_there_are_slots_are_taken, .timeout_s = 60 * TEST_SLOWDOWN)
{
    struct resources now, then;

    ask_for_200();
    then = resources_now();
    ask_for_200();
    now = settle(&then);
    check_resources(&now, &then, 40);
}

CP_TEST(a_request_must_arrive_in_time_however_busily, .timeout_s = 60 * TEST_SLOWDOWN)
{
    const struct cp_http_options options = {.size = sizeof options, .request_timeout_s = 1};
    struct cp_http *http = start_http(&options);
    int fd = connect_to(http);
    int sent = 0;

    send_all(fd, "GET / HTTP/1.1\r\nX: ", 19);
    while (sent < 100 && send(fd, "x", 1, MSG_NOSIGNAL) == 1) {
        usleep(100000);
        sent++;
    }
    printf("cut after %d bytes\n", sent);
    CHECK(sent >= 8 && sent < 60);
    close(fd);
    check_alive(http);
    cp_http_stop(http);
}

CP_TEST(an_answer_may_take_longer_than_the_request)
{
    const struct cp_http_options options = {.size = sizeof options, .request_timeout_s = 1};
    struct cp_http *http = start_http(&options);

    check_answer(http, "-o /dev/null -D - $base/profile?seconds=4", 200, NULL);
    cp_http_stop(http);
}

CP_TEST(a_kept_connection_has_its_time_anew_with_each_request)
{
    const struct cp_http_options options = {.size = sizeof options, .request_timeout_s = 1};
    struct cp_http *http = start_http(&options);
    static const char text[] = "GET " PPROF "/index.css HTTP/1.1\r\nHost: localhost\r\n\r\n";
    int fd = connect_to(http);
    char *answer;

    for (int i = 0; i < 5; i++) {
        usleep(500000);
        send_all(fd, text, strlen(text));
        answer = receive_all(fd, 100);
        CHECK(strncmp(answer, "HTTP/1.1 200 OK\r\n", 17) == 0);
        free(answer);
    }
    close(fd);
    cp_http_stop(http);
}

static void raise_descriptor_limit(rlim_t n)
{
    struct rlimit limit;

    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max < n)
        SKIP("There are not enough descriptors for as many clients.");
    limit.rlim_cur = limit.rlim_cur < n ? n : limit.rlim_cur;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

CP_TEST(slow_clients_keep_nobody_out, .timeout_s = 60 * TEST_SLOWDOWN)
{
    enum { N = 1000, ROUNDS = 3 };
    struct resources now, then;
    static int fds[N];
    struct cp_http *http = start_http(NULL);
    struct timespec before, after;
    long longest_ms = 0, ms;

    raise_descriptor_limit(2 * N);
    cp_http_stop(http); /* the first thread of a process may leave more behind */
    then = resources_now();
    http = start_http(NULL);
    for (int i = 0; i < N; i++)
        fds[i] = connect_to(http);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N; i++) {
            if (send(fds[i], "G", 1, MSG_NOSIGNAL) == 1)
                continue;
            close(fds[i]); /* it was cut, and comes again */
            fds[i] = connect_to(http);
        }
        clock_gettime(CLOCK_MONOTONIC, &before);
        check_alive(http);
        clock_gettime(CLOCK_MONOTONIC, &after);
        ms = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
        longest_ms = ms > longest_ms ? ms : longest_ms;
        now = resources_now();
        printf("%d descriptors are the server's\n", now.fds - then.fds - N);
        CHECK(now.fds - then.fds - N < 150);
    }
    printf("answered in at most %ld ms beside %d slow clients\n", longest_ms, N);
    for (int i = 0; i < N; i++)
        close(fds[i]);
    cp_http_stop(http);
    now = settle(&then);
    check_resources(&now, &then, 20);
}

/* ---- Starting -------------------------------------------------------------------------------- */

static void check_start_fails(const char *address, struct cp_http_options options, int code, const char *part)
{
    struct cp_http *http = NULL;
    struct cp_error err;
    int before = open_descriptors();

    options.size = options.size != 0 ? options.size : sizeof options;
    CHECK_EQ(cp_http_start(&http, address, &options, NULL), code);
    CHECK_EQ(cp_http_start(&http, address, &options, &err), code);
    printf("%s\n", err.message);
    CHECK_EQ(err.code, code);
    CHECK_CONTAINS(err.message, part);
    CHECK_EQ(open_descriptors(), before);
    CHECK(http == NULL);
}

CP_TEST(a_start_that_fails_says_why_and_leaves_nothing)
{
    static const char *const addresses[] = {
        "",         "6060",      "127.0.0.1", "127.0.0.1:",       ":65536",  "name:1", "127.0.0.1:1x",
        "::1:6060", "[::1:6060", "[::1]",     "127.0.0.256:6060", "[]:6060", ":-1",    "127.0.0.1:080000"};
    struct cp_http *http = start_http(NULL);
    struct resources now, then = resources_now();

    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++)
        check_start_fails(addresses[i], (struct cp_http_options){0}, -EINVAL, "is no address to listen on");
    check_start_fails(cp_http_address(http), (struct cp_http_options){0}, -EADDRINUSE,
                      "listens on 127.0.0.1:");
    check_start_fails("192.0.2.1:0", (struct cp_http_options){0}, -EADDRNOTAVAIL, "192.0.2.1:0");
    check_start_fails(":0", (struct cp_http_options){.size = 8}, -EINVAL, "8 bytes long");
    check_start_fails(":0", (struct cp_http_options){.token = ""}, -EINVAL, "token is empty");
    check_start_fails(":0", (struct cp_http_options){.key = "x"}, -EINVAL, "only one was given");
    check_start_fails(":0", (struct cp_http_options){.certificate = "x", .key = "x"}, -EINVAL,
                      "its certificate or key");
    now = resources_now();
    CHECK_EQ(now.threads, then.threads);
    cp_http_stop(http);
    cp_http_stop(NULL);
}

CP_TEST(it_listens_where_it_is_told_to)
{
    static const char *const addresses[][2] = {{":0", "127.0.0.1:"},
                                               {"localhost:0", "127.0.0.1:"},
                                               {"[::1]:0", "[::1]:"},
                                               {"0.0.0.0:0", "0.0.0.0:"}};
    struct cp_http *http;
    struct cp_error err;

    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        int result = cp_http_start(&http, addresses[i][0], NULL, &err);

        if (result == -EAFNOSUPPORT || result == -EADDRNOTAVAIL)
            continue; /* no IPv6 here */
        CHECKF(result == 0, "%s", err.message);
        CHECK_CONTAINS(cp_http_address(http), addresses[i][1]);
        check_answer(http, "$base/cmdline", 200, NULL);
        cp_http_stop(http);
    }
}

CP_TEST(its_threads_take_no_signals_and_are_no_Ms)
{
    struct cp_http *http = start_http(NULL);
    int fd = request(http, PPROF "/profile?seconds=600");
    struct cp_runtime_stats stats;
    char *masks;

    CHECK(slots_become(1, 5000));
    masks =
        test_command(NULL, "for t in /proc/%d/task/*; do [ ${t##*/} = %d ] || grep SigBlk $t/status; done",
                     (int)getpid(), (int)getpid());
    CHECK_EQ(count_lines("/proc/self/status", "SigBlk:\t0000000000000000"), 1);
    CHECK(strlen(masks) > 0);
    for (char *line = strtok(masks, "\n"); line != NULL; line = strtok(NULL, "\n"))
        CHECK_STR(line, "SigBlk:\tfffffffe7ffbfeff"); /* all but SIGKILL, SIGSTOP, and the C library's */
    free(masks);
    cp_runtime_stats(&stats);
    CHECK_EQ(stats.ms, 0);
    close(fd);
    cp_http_stop(http);
}

/* ---- In other servers ------------------------------------------------------------------------ */

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

CP_TEST(it_can_be_mounted_in_a_daemon_of_the_caller)
{
    struct cp_error err;
    struct MHD_Daemon *daemon;
    static const char text[] = "GET " PPROF "/profile HTTP/1.1\r\nHost: localhost\r\n\r\n";
    unsigned port;
    char *got;
    int fd;

    CHECKF(cp_http_mount(&mounted, NULL, &err) == 0, "%s", err.message);
    daemon = MHD_start_daemon(MHD_USE_AUTO_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
                              embedder_answers, NULL, MHD_OPTION_NOTIFY_COMPLETED, embedder_completed, NULL,
                              MHD_OPTION_END);
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
    CHECK_CONTAINS(got, "ownThe query has an escape that is none, or a zero byte, at \"%00b%26c\"");
    CHECK_CONTAINS(got, "\n200 ");
    CHECK_CONTAINS(got, "\tburn_here\nnum_symbols: 1\n");
    CHECK_CONTAINS(strstr(got, "\tburn_here\n") + 1, "\tburn_here\n");
    free(got);

    fd = connect_to_port(port);
    send_all(fd, text, strlen(text));
    CHECK(slots_become(1, 5000));
    cp_http_quiesce(mounted);
    MHD_stop_daemon(daemon);
    cp_http_stop(mounted);
    CHECK(slots_become(0, 0));
    close(fd);
}

/* A server of no kind: what is asked stands in here, and what is answered. */
struct fake {
    const char *headers[8]; /* name, value, ... NULL */
    int status;
    char answered[1000]; /* "NAME: VALUE\n" */
    struct cp_memory body;
    int begin_result, write_result;
    int looks; /* is_gone() becomes true at this one; 0: never */
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

static int fake_write(void *context, const void *data, size_t size)
{
    struct fake *fake = context;

    if (fake->write_result == 0) {
        CHECK_EQ(CP__RESERVE(fake->body.data, fake->body.capacity, fake->body.size + size + 1), 0);
        memcpy(fake->body.data + fake->body.size, data, size);
        fake->body.size += size;
        fake->body.data[fake->body.size] = '\0';
    }
    return fake->write_result;
}

static int ask_fake(struct fake *fake, const char *path, const char *query)
{
    const struct cp_http_request request = {.size = sizeof request,
                                            .method = "GET",
                                            .path = path,
                                            .query = query,
                                            .header = fake_header,
                                            .is_gone = fake_is_gone,
                                            .context = fake};
    const struct cp_http_response response = {
        .size = sizeof response, .begin = fake_begin, .write = fake_write, .context = fake};

    return cp_http_handle(&request, &response, NULL);
}

CP_TEST(it_can_be_called_from_any_server)
{
    struct fake fake = {.status = 0};

    CHECK_EQ(ask_fake(&fake, PPROF "/profile", "seconds=1&debug=1"), 0);
    CHECK_EQ(fake.status, 200);
    CHECK_CONTAINS(fake.answered, "Content-Type: text/plain; charset=utf-8\n");
    CHECK_CONTAINS((char *)fake.body.data, "samples profile: total 0\n");
    free(fake.body.data);

    fake = (struct fake){.headers = {"host", "evil.example"}};
    CHECK_EQ(ask_fake(&fake, PPROF "/cmdline", NULL), 0);
    CHECK_EQ(fake.status, 403);
    free(fake.body.data);
}

CP_TEST(what_the_server_says_is_heeded)
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
