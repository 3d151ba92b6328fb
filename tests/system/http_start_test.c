/* Starting the HTTP endpoint: addresses, refusals, and the threads of the server. */
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/support/http_tools.h"

#include "tests/support/resources.h"

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
        check_start_fails(addresses[i], (struct cp_http_options){0}, -EINVAL,
                          "is not an address to listen on");
    check_start_fails(cp_http_address(http), (struct cp_http_options){0}, -EADDRINUSE,
                      "listens on 127.0.0.1:");
    check_start_fails("192.0.2.1:0", (struct cp_http_options){0}, -EADDRNOTAVAIL, "192.0.2.1:0");
    check_start_fails(":0", (struct cp_http_options){.size = 8}, -EINVAL, "size 8");
    check_start_fails(":0", (struct cp_http_options){.token = ""}, -EINVAL, "token is empty");
    check_start_fails(":0", (struct cp_http_options){.token = "a b:c\n"}, -EINVAL, "remove the newline");
    check_start_fails(":0", (struct cp_http_options){.token = "a\tb"}, -EINVAL, "a control character");
    check_start_fails(":0", (struct cp_http_options){.token = "a\x7f"}, -EINVAL, "control character");
    check_start_fails(":0", (struct cp_http_options){.token = "a "}, -EINVAL, "ends in a blank");
    check_start_fails(":0", (struct cp_http_options){.key = "x"}, -EINVAL, "only one was given");
    check_start_fails(
        ":0", (struct cp_http_options){.certificate = "/etc/cert.pem", .key = KEY}, -EINVAL,
        "The certificate is not PEM text: it has no line \"-----BEGIN CERTIFICATE-----\". Give the "
        "contents of the file, not its name.");
    check_start_fails(":0", (struct cp_http_options){.certificate = CERTIFICATE, .key = CERTIFICATE}, -EINVAL,
                      "The key is not PEM text: it has no line \"-----BEGIN PRIVATE KEY-----\"");
    check_start_fails(":0", (struct cp_http_options){.certificate = CERTIFICATE, .key = KEY}, -EINVAL,
                      "The key must be the certificate's, without a password");
    now = resources_now();
    CHECK_EQ(now.threads, then.threads);
    cp_http_stop(http);
    cp_http_stop(NULL);
}

/* If libmicrohttpd (0.9.75) does not start, in some cases it has closed the socket that it was given, and in
 * others it has left the socket open: for example, if it gets no descriptor of its own. */
CP_TEST(a_server_without_descriptors_for_libmicrohttpd_leaves_nothing)
{
    struct rlimit limit, less;
    struct cp_http *http = start_http(NULL); /* has looked up what is looked up once */
    char address[80];
    struct cp_error err;
    int result, before, next = dup(0);

    strcpy(address, cp_http_address(http));
    cp_http_stop(http);
    close(next);
    next = dup(0); /* the lowest number that is free */
    close(next);
    before = open_descriptors();
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    less = (struct rlimit){.rlim_cur = (rlim_t)next + 1, .rlim_max = limit.rlim_max};
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &less), 0);
    for (int i = 0; i < 2; i++) {
        result = cp_http_start(&http, address, NULL, &err);
        CHECKF(result == -EMFILE, "%d: %s", result, err.message);
        CHECK_CONTAINS(err.message, "Too many open files. It takes a thread and two descriptors.");
        CHECK_EQ(open_descriptors(), before);
    }
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    CHECKF(cp_http_start(&http, address, NULL, &err) == 0, "%s", err.message);
    cp_http_stop(http);
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
            continue; /* this machine has no IPv6 */
        CHECKF(result == 0, "%s", err.message);
        CHECK_CONTAINS(cp_http_address(http), addresses[i][1]);
        check_answer(http, "$base/cmdline", 200, NULL);
        cp_http_stop(http);
    }
}

static void check_warning(const char *address, struct cp_http_options options, const char *part)
{
    struct cp_http *http;
    struct cp_error err;
    int result;

    options.size = sizeof options;
    result = cp_http_start(&http, address, &options, &err);
    if (result == -EAFNOSUPPORT || result == -EADDRNOTAVAIL)
        return; /* this machine has no IPv6 */
    CHECKF(result == 0, "%s", err.message);
    printf("%s: %s\n", cp_http_address(http), cp_http_warning(http) != NULL ? cp_http_warning(http) : "-");
    if (part == NULL) {
        CHECK(cp_http_warning(http) == NULL);
    } else {
        CHECK(cp_http_warning(http) != NULL);
        CHECK_CONTAINS(cp_http_warning(http), part);
        CHECK_CONTAINS(cp_http_warning(http), cp_http_address(http));
    }
    cp_http_stop(http);
}

CP_TEST(other_addresses_without_token_or_tls_are_warned_of)
{
    char *made = test_command(NULL,
                              "cd %s && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
                              "-days 1 -subj /CN=localhost -keyout key -out cert 2>&1",
                              test_dir());
    char *cert = test_command(NULL, "cat %s/cert", test_dir());
    char *key = test_command(NULL, "cat %s/key", test_dir());
    const struct cp_http_options none = {.size = sizeof none}, token = {.token = "secret"},
                                 tls = {.certificate = cert, .key = key},
                                 both = {.token = "secret", .certificate = cert, .key = key};

    check_warning(":0", none, NULL);
    check_warning("127.0.0.2:0", none, NULL);
    check_warning("[::1]:0", none, NULL);
    check_warning("0.0.0.0:0", none, "has neither a token nor TLS");
    check_warning("[::]:0", none, "has neither a token nor TLS");
    check_warning("0.0.0.0:0", token, "has no TLS");
    check_warning("0.0.0.0:0", tls, "has no token");
    check_warning("0.0.0.0:0", both, NULL);
    free(made);
    free(cert);
    free(key);
}

CP_TEST(its_threads_take_no_signals_and_are_no_Ms)
{
    struct cp_http *http = start_http(NULL);
    int fd = request(http, PPROF "/profile?seconds=600");
    struct cp_runtime_stats stats = {.size = sizeof stats};
    char *masks;

    CHECK(slots_become(1, PATIENCE_MS));
    masks =
        test_command(NULL, "for t in /proc/%d/task/*; do [ ${t##*/} = %d ] || grep SigBlk $t/status; done",
                     (int)getpid(), (int)getpid());
    CHECK_EQ(count_lines("/proc/self/status", "SigBlk:\t0000000000000000", ""), 1);
    CHECK(strlen(masks) > 0);
    for (char *line = strtok(masks, "\n"); line != NULL; line = strtok(NULL, "\n"))
        /* all signals except SIGKILL, SIGSTOP and the C library's own */
        CHECK_STR(line, "SigBlk:\tfffffffe7ffbfeff");
    free(masks);
    cp_runtime_stats(&stats);
    CHECK_EQ(stats.ms, 0);
    close(fd);
    cp_http_stop(http);
}

/* A child that ends in the same way as its parent does this. */
CP_TEST(a_child_may_stop_what_is_its_parents)
{
    struct cp_http *http = start_http(NULL);
    int fd = request(http, PPROF "/profile?seconds=600");
    int status;
    pid_t pid;

    CHECK(slots_become(1, PATIENCE_MS));
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

/* ---- The listening socket -------------------------------------------------------------------- */

/* Returns how many of this process's descriptors are listening sockets; *fd is the last of them. */
static int listening_sockets(int *fd)
{
    int n = 0;

    for (int i = 0; i < 1000; i++) {
        int is_listening = 0;
        socklen_t size = sizeof is_listening;

        if (getsockopt(i, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &size) == 0 && is_listening) {
            *fd = i;
            n++;
        }
    }
    return n;
}

/* Tells the parent how many listening sockets the child has, and lives until the parent has closed go. */
static void run_child(struct cp_http *http, bool stops, int go, int said)
{
    unsigned char n;
    int fd;

    if (stops)
        cp_http_stop(http);
    n = (unsigned char)listening_sockets(&fd);
    if (write(said, &n, 1) != 1 || read(go, &n, 1) != 0)
        _exit(1);
    _exit(0);
}

static void check_fork(bool stops)
{
    struct cp_http *http = start_http(NULL), *next;
    unsigned char n;
    char address[80];
    struct cp_error err;
    int go[2], said[2], status;
    pid_t pid;

    strcpy(address, cp_http_address(http));
    CHECK_EQ(pipe(go), 0);
    CHECK_EQ(pipe(said), 0);
    pid = fork();
    if (pid == 0) {
        close(go[1]);
        run_child(http, stops, go[0], said[1]);
    }
    CHECK_EQ(read(said[0], &n, 1), 1);
    CHECK_EQ(n, 0);
    cp_http_stop(http);
    CHECKF(cp_http_start(&next, address, NULL, &err) == 0, "%s", err.message);
    check_answer(next, "$base/cmdline", 200, NULL);
    close(go[0]);
    close(go[1]);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    close(said[0]);
    close(said[1]);
    cp_http_stop(next);
}

CP_TEST(the_child_of_a_fork_does_not_keep_the_socket)
{
    check_fork(false);
    check_fork(true);
}

/* A program that calls clone(2) itself makes such a child. */
CP_TEST(a_child_that_fork_did_not_make_gives_the_socket_up_when_it_stops)
{
    struct cp_http *http = start_http(NULL);
    int fd, status;
    pid_t pid = _Fork();

    if (pid == 0) {
        int before = listening_sockets(&fd);

        cp_http_stop(http);
        _exit(10 * before + listening_sockets(&fd));
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(WEXITSTATUS(status), 10);
    check_answer(http, "$base/cmdline", 200, NULL);
    cp_http_stop(http);
}

CP_TEST(a_child_may_listen_by_itself)
{
    struct cp_http *http;
    int status;
    pid_t pid;

    if (TEST_TSAN || TEST_ASAN)
        SKIP("in a child of a process with threads ThreadSanitizer lets no thread start, and the lock of "
             "AddressSanitizer's allocator may be held for ever");
    http = start_http(NULL);
    pid = fork();
    if (pid == 0) {
        struct cp_http *own = start_http(NULL);

        cp_http_stop(http);
        check_answer(own, "$base/cmdline", 200, NULL);
        cp_http_stop(own);
        _exit(0);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    cp_http_stop(http);
}

CP_TEST(an_executed_program_does_not_have_the_socket)
{
    struct cp_http *http = start_http(NULL);
    char path[32], name[64] = "", command[200] = "";
    char sh[] = "sh", of_text[] = "-c";
    char *const arguments[] = {sh, of_text, command, NULL};
    int fd, status;
    pid_t pid;

    CHECK_EQ(listening_sockets(&fd), 1);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    CHECK(readlink(path, name, sizeof name - 1) > 0);
    snprintf(command, sizeof command, "! ls -l /proc/self/fd/ | grep -F '%s'", name);
    /* posix_spawn(3) does not run the handlers of pthread_atfork(). */
    CHECK_EQ(posix_spawnp(&pid, "sh", NULL, NULL, arguments, environ), 0);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    cp_http_stop(http);
}
