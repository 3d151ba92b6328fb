/* Who may use the HTTP endpoint: hosts, origins, tokens and TLS. */
#include "tests/support/http_tools.h"

CP_TEST(foreign_hosts_and_origins_are_refused)
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
        {"-0 -H 'Host:'", 200}, /* a client without a Host header is no browser */
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

/* The headers that a browser sends if the user follows a link on another site, or on another port of the same
 * site. */
#define LINK "-H 'Sec-Fetch-Mode: navigate' -H 'Sec-Fetch-Dest: document' -H 'Sec-Fetch-Site: cross-site' "
#define NEAR "-H 'Sec-Fetch-Mode: navigate' -H 'Sec-Fetch-Dest: document' -H 'Sec-Fetch-Site: same-site' "

CP_TEST(a_link_of_another_site_leads_to_the_pages_only)
{
    static const struct {
        const char *arguments;
        int status;
    } cases[] = {
        {LINK "$base/", 200},
        {LINK "$base", 301},
        {LINK "$base/ui/", 200},
        {LINK "$base/ui", 301},
        {NEAR "$base/ui/", 200},
        {LINK "--head $base/ui/", 403},
        {LINK "-X POST $base/ui/", 403},
        {LINK "-H 'Origin: http://evil.example' $base/ui/", 403},
        {LINK "-H 'Host: evil.example' $base/ui/", 403},
        {LINK "$base/profile?seconds=1", 403},
        {LINK "$base/symbol?0x1", 403},
        {LINK "$base/goroutine?debug=1", 403},
        {LINK "$base/threadcreate", 403},
        {LINK "$base/cmdline", 403},
        {LINK "$base/metrics", 403},
        {LINK "$base/ui/events.json", 403},
        {LINK "$base/ui/page.js", 403},
        {LINK "$base/nothing", 403},
        {"-H 'Sec-Fetch-Site: cross-site' $base/ui/", 403},
        {"-H 'Sec-Fetch-Site: cross-site' -H 'Sec-Fetch-Mode: navigate' -H 'Sec-Fetch-Dest: iframe' "
         "$base/ui/",
         403},
        {"-H 'Sec-Fetch-Site: cross-site' -H 'Sec-Fetch-Mode: navigate' $base/ui/", 403},
        {"-H 'Sec-Fetch-Site: cross-site' -H 'Sec-Fetch-Mode: no-cors' -H 'Sec-Fetch-Dest: document' "
         "$base/ui/",
         403},
    };
    struct cp_http *http = start_http(NULL);

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_answer(http, cases[i].arguments, cases[i].status, NULL);
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

/* Checks the answer to a header that announces a body which is not sent. */
static void check_announced(const struct cp_http *http, const char *header, const char *expected)
{
    int fd = connect_to(http);
    char line[100];

    send_all(fd, header, strlen(header));
    receive_line(fd, line, sizeof line);
    CHECKF(strncmp(line, expected, strlen(expected)) == 0, "%s: %s", header, line);
    close(fd);
}

CP_TEST(a_body_is_not_waited_for_if_the_header_is_refused)
{
#define HOST " HTTP/1.1\r\nHost: localhost\r\n"
#define TOKEN HOST "Authorization: Bearer secret\r\n"
#define LENGTH "Content-Length: 1048576\r\n\r\n"
    static const struct {
        const char *header, *status;
    } cases[] = {
        {"POST " PPROF "/symbol" HOST LENGTH, "HTTP/1.1 401 "},
        {"POST " PPROF "/symbol" HOST "Transfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 401 "},
        {"POST " PPROF "/symbol" TOKEN "Origin: http://evil.example\r\n" LENGTH, "HTTP/1.1 403 "},
        {"POST " PPROF "/nothing" TOKEN LENGTH, "HTTP/1.1 404 "},
        {"POST " PPROF "/profile" TOKEN LENGTH, "HTTP/1.1 405 "},
        {"GET " PPROF "/symbol" TOKEN LENGTH, "HTTP/1.1 413 "},
        {"GET " PPROF "/cmdline?x" TOKEN LENGTH, "HTTP/1.1 400 "},
        {"POST " PPROF "/symbol" TOKEN "Transfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 411 "},
        {"POST " PPROF "/symbol" TOKEN "Expect: 100-continue\r\n" LENGTH, "HTTP/1.1 100 "},
    };
    struct cp_http *http =
        start_http(&(struct cp_http_options){.size = sizeof(struct cp_http_options), .token = "secret"});

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_announced(http, cases[i].header, cases[i].status);
    cp_http_stop(http);
}

CP_TEST(a_token_may_have_any_character_that_a_header_can_hold)
{
    struct cp_http *http = start_http(
        &(struct cp_http_options){.size = sizeof(struct cp_http_options), .token = " a b:c%\xc3\xa4~"});

    check_answer(http, "-H 'Authorization: Bearer  a b:c%\xc3\xa4~' $base/cmdline", 200, NULL);
    check_answer(http, "-u 'any: a b:c%\xc3\xa4~' $base/cmdline", 200, NULL);
    cp_http_stop(http);
}

/* The index shows a command with the server's token. The command works. */
CP_TEST(the_example_works_where_there_is_a_token)
{
    const struct cp_http_options options = {.size = sizeof options, .token = "secret", .max_seconds = 2};
    struct cp_http *http = start_http(&options);
    char *page = ask(http, "-u any:secret $base/");
    char *url = test_command(NULL,
                             "curl -sSf -u any:secret http://%s" PPROF "/ | sed -n \"s|.*go tool pprof "
                             "-http=: \\('http[^']*'\\).*|\\1|p\" | sed 's|TOKEN|secret|; s|&amp;|\\&|g'",
                             cp_http_address(http));

    printf("%s", url);
    CHECK(strstr(page, "secret") == NULL);
    CHECK_CONTAINS(url, "&seconds=2'");
    url[strcspn(url, "\n")] = '\0';
    free(pprof("-top", url));
    free(url);
    free(page);
    cp_http_stop(http);
}

static char *read_text(const char *name)
{
    return test_command(NULL, "cat %s", file_in_dir(name));
}

/* Starts a server of HTTPS, with the files "cert" and "key". */
static struct cp_http *start_https(void)
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
    return http;
}

CP_TEST(tls_serves_the_same)
{
    struct cp_http *http = start_https();

    free(test_command(NULL,
                      "cd %s && curl -sSf --cacert cert https://%s" PPROF "/cmdline > a && "
                      "curl -sSf --cacert cert -o b 'https://%s" PPROF
                      "/profile?seconds=1' && test -s a -a -s b && "
                      "! curl -sSf -m 5 http://%s" PPROF "/cmdline",
                      test_dir(), cp_http_address(http), cp_http_address(http), cp_http_address(http)));
    free(pprof("-top", file_in_dir("b")));
    cp_http_stop(http);
}

CP_TEST(tls_before_1_2_is_refused)
{
    static const struct {
        const char *version;
        bool is_taken;
    } cases[] = {{"1", false}, {"1_1", false}, {"1_2", true}, {"1_3", true}};
    struct cp_http *http = start_https();

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int status;
        /* By default, openssl would not try old versions. */
        char *said = test_command(&status,
                                  "openssl s_client -connect %s -tls%s -cipher DEFAULT@SECLEVEL=0 "
                                  "-CAfile %s -verify_return_error < /dev/null 2>&1",
                                  cp_http_address(http), cases[i].version, file_in_dir("cert"));

        CHECKF((status == 0) == cases[i].is_taken, "%s: %s", cases[i].version, said);
        CHECK_CONTAINS(said, "CONNECTED(");
        CHECK_CONTAINS(said, cases[i].is_taken ? "Verify return code: 0 (ok)" : "Cipher is (NONE)");
        free(said);
    }
    cp_http_stop(http);
}
