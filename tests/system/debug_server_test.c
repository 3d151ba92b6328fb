/* The library asks no debuginfod server for symbols, neither after a crash nor when it writes a profile. */
#include "tests/support/test.h"

#include <dlfcn.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "atomic.h"

static uint32_t requests;

/* Accepts each connection and closes it at once, so that a client does not wait. */
static void *count_requests(void *listener)
{
    int fd;

    while ((fd = accept(*(int *)listener, NULL, NULL)) >= 0) {
        cp_fetch_add_acq_rel(&requests, 1u);
        close(fd);
    }
    return NULL;
}

/* Starts a server and names it in DEBUGINFOD_URLS, which libdw's own search would use. */
static void start_server(void)
{
    static int listener;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    pthread_t thread;
    char url[60];

    if (dlopen("libdebuginfod.so.1", RTLD_NOW) == NULL)
        SKIP("libdebuginfod, which asks servers, is not installed");
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(listener, (struct sockaddr *)&address, size), 0);
    CHECK_EQ(listen(listener, 50), 0);
    CHECK_EQ(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    CHECK_EQ(pthread_create(&thread, NULL, count_requests, &listener), 0);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", ntohs(address.sin_port));
    setenv("DEBUGINFOD_URLS", url, 1);
    setenv("DEBUGINFOD_CACHE_PATH", test_dir(), 1);
}

/* Runs a program of the build without its debug information, which a search might look for elsewhere. */
static char *run_stripped(int *status, const char *program, const char *flags)
{
    return test_command(status, "cd %s && strip --strip-debug -o stripped %s/%s && ./stripped %s", test_dir(),
                        test_build_dir(), program, flags);
}

CP_TEST(a_crash_asks_no_server)
{
    int status;
    char *output;

    start_server();
    output = run_stripped(&status, "tests/runner_sample", "-run crash_abort");
    CHECK_EQ(status, 1);
    CHECK_CONTAINS(output, "\n    calls_abort");
    CHECK(strstr(output, "runner_sample.c:") == NULL);
    CHECK_EQ(cp_load_acquire(&requests), 0);
    free(output);
}

CP_TEST(a_profile_asks_no_server)
{
    start_server();
    free(
        run_stripped(NULL, "examples/serial", "-seconds 0.1 -cpuprofile x.pb.gz -cpuprofileevent taskClock"));
    CHECK_EQ(cp_load_acquire(&requests), 0);
}
