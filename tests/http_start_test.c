/* Starting the HTTP endpoint: where it listens, what is refused, its threads. */
#include <sys/wait.h>

#include "http_tools.h"

#include "resources.h"

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

#define CERTIFICATE "-----BEGIN CERTIFICATE-----\nMAo=\n-----END CERTIFICATE-----\n"
#define KEY "-----BEGIN PRIVATE KEY-----\nMAo=\n-----END PRIVATE KEY-----\n"

CP_TEST(a_start_that_fails_says_why_and_leaves_nothing)
{
    static const char *const addresses[] = {
        "",         "6060",      "127.0.0.1", "127.0.0.1:",       ":65536",  "name:1", "127.0.0.1:1x",
        "::1:6060", "[::1:6060", "[::1]",     "127.0.0.256:6060", "[]:6060", ":-1",    "127.0.0.1:080000",
        "*:6060",   "[*]:6060"};
    struct cp_http *http = start_http(NULL);
    struct resources now, then = resources_now();

    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++)
        check_start_fails(addresses[i], (struct cp_http_options){0}, -EINVAL, "is no address to listen on");
    check_start_fails(cp_http_address(http), (struct cp_http_options){0}, -EADDRINUSE,
                      "listens on 127.0.0.1:");
    check_start_fails("192.0.2.1:0", (struct cp_http_options){0}, -EADDRNOTAVAIL, "192.0.2.1:0");
    check_start_fails(":0", (struct cp_http_options){.size = 8}, -EINVAL, "8 bytes long");
    check_start_fails(":0", (struct cp_http_options){.token = ""}, -EINVAL, "token is empty");
    check_start_fails(":0", (struct cp_http_options){.token = "a b:c\n"}, -EINVAL, "take the line's end off");
    check_start_fails(":0", (struct cp_http_options){.token = "a\tb"}, -EINVAL, "a control character");
    check_start_fails(":0", (struct cp_http_options){.token = "a\x7f"}, -EINVAL, "control character");
    check_start_fails(":0", (struct cp_http_options){.token = "a "}, -EINVAL, "a blank at its end");
    check_start_fails(":0", (struct cp_http_options){.key = "x"}, -EINVAL, "only one was given");
    check_start_fails(
        ":0", (struct cp_http_options){.certificate = "/etc/cert.pem", .key = KEY}, -EINVAL,
        "The certificate is no PEM text: it has no line \"-----BEGIN CERTIFICATE-----\". Give what "
        "its file holds, not the file's name.");
    check_start_fails(":0", (struct cp_http_options){.certificate = CERTIFICATE, .key = CERTIFICATE}, -EINVAL,
                      "The key is no PEM text: it has no line \"-----BEGIN PRIVATE KEY-----\"");
    check_start_fails(":0", (struct cp_http_options){.certificate = CERTIFICATE, .key = KEY}, -EINVAL,
                      "The key must be the certificate's, without a password");
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

/* As where it ends in the same way as its parent. */
CP_TEST(a_child_may_stop_what_is_its_parents)
{
    struct cp_http *http = start_http(NULL);
    int fd = request(http, PPROF "/profile?seconds=600");
    int status;
    pid_t pid;

    CHECK(slots_become(1, 5000));
    pid = fork();
    if (pid == 0) {
        cp_http_stop(http);
        _exit(0);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    check_answer(http, "$base/cmdline", 200, NULL);
    close(fd);
    cp_http_stop(http);
}
