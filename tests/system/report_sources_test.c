/* Where the command report has profiles from beside files of pprof: perf record, and servers. */
#include "tests/support/made_profiles.h"
#include "tests/support/report_run.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- perf record ----------------------------------------------------------------------------- */

/* What perf script prints, by a program of that name. */
static const char perf_text[] =
    "#!/bin/sh\ncat << 'END'\n"
    "my program    41  10.500000:    1000000 task-clock:u: \n"
    "\t     55d0 void sort<int>(int*, int) (/opt/my program/prog)\n"
    "\t     55a0 main (/opt/my program/prog)\n"
    "\t        0 [unknown] ([unknown])\n"
    "\n"
    "my program    41  10.600000:    1000000 task-clock:u: \n"
    "\t     55d0 void sort<int>(int*, int) (/opt/my program/prog)\n"
    "\t     55a0 main (/opt/my program/prog)\n"
    "\t        0 [unknown] ([unknown])\n"
    "\n"
    "my program    41  10.700000:          3 page-faults:u: \n"
    "\t     77d0 [unknown] (/tmp/gone.so (deleted))\n"
    "\n"
    "other    50  10.750000:    2000000 task-clock:u:      55f0 idle (/opt/my program/prog)\n"
    "END\n";

CP_TEST(files_of_perf_record_are_read_by_perf_script)
{
    char *text, *path;

    test_write_file("perf.data", "PERFILE2 and more");
    test_write_file("perf", perf_text);
    free(test_command(NULL, "chmod 755 %s/perf", test_dir()));
    path = test_command(NULL, "printf %s:$PATH", test_dir());
    setenv("PATH", path, 1);
    free(path);
    check_output("--collapsed perf.data", "<unknown>;main;void sort<int>(int*, int) 2000000\nidle 2000000\n");
    check_output("--collapsed --event samples perf.data",
                 "<unknown>;main;void sort<int>(int*, int) 2\n[gone.so] 1\nidle 1\n");
    check_output("--collapsed --event page-faults:u perf.data", "[gone.so] 3\n");
    check_report("perf.data", 0, "File: prog\nType: task-clock:u\nDuration: 250ms, Total samples = 4ms (");
    check_report("--merge out.pb.gz perf.data", 0, "out.pb.gz");
    text = test_command(NULL, "cd %s && HOME=%s go tool pprof -symbolize=none -tags out.pb.gz 2> /dev/null",
                        test_dir(), test_dir());
    CHECK_CONTAINS(text, "my program/41");
    free(text);
    test_write_file("perf", "#!/bin/sh\nprintf 'a 1 1.0: 2 cycles: f0 f (/x)\n"
                            "a 1 99999999999999.0: 9223372036854775807 cycles: f0 f (/x)\n'\n");
    text = report(NULL, "--top --event samples perf.data");
    CHECKF(strstr(text, "Duration") == NULL && strstr(text, "accounting for 2, ") != NULL, "%s", text);
    free(text);
    test_write_file("perf", "#!/bin/sh\necho 'incompatible file format' >&2; exit 1\n");
    check_report("perf.data 2>&1", 3, "perf script cannot read perf.data: incompatible file format.");
    check_report("- < perf.data 2>&1", 3,
                 "- is a file of perf record, which perf script reads from a file only");
    free(test_command(NULL, "rm %s/perf", test_dir()));
    setenv("PATH", test_dir(), 1);
    check_report("perf.data 2>&1", 3, "perf is not here. Its Debian package is linux-perf.");
}

/* ---- Servers --------------------------------------------------------------------------------- */

/* Answers one request with the status line and the headers `head`, and with a file of the test's directory.
 * Returns the port. */
static int serve_once(const char *head, const char *file)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char request[4096];

    CHECK(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    if (fork() == 0) {
        int connection = accept(listener, NULL, NULL);

        if (read(connection, request, sizeof request) > 0 && chdir(test_dir()) == 0) {
            dprintf(connection, "HTTP/1.0 %s\r\n\r\n", head);
            dup2(connection, STDOUT_FILENO);
            execlp("cat", "cat", file, NULL);
        }
        _exit(1);
    }
    close(listener);
    return ntohs(address.sin_port);
}

CP_TEST(a_url_is_fetched)
{
    char arguments[100], *local, *remote;

    make_cpu_profile("calls", "", calls);
    test_write_file("said", "The period is too short: it is at least 100 us.\n");
    local = report(NULL, "--top calls.pb.gz");
    snprintf(arguments, sizeof arguments, "--top 127.0.0.1:%d/debug/pprof/profile",
             serve_once("200 OK", "calls.pb.gz"));
    remote = report(NULL, arguments);
    CHECK_STR(local, remote);
    snprintf(arguments, sizeof arguments, "--top http://127.0.0.1:%d 2>&1",
             serve_once("400 Bad Request", "said"));
    check_report(arguments, 3, "The server answers 400 to http://127.0.0.1:");
    snprintf(arguments, sizeof arguments, "--top http://127.0.0.1:%d/ 2>&1",
             serve_once("400 Bad Request", "said"));
    check_report(arguments, 3, "/debug/pprof/profile: The period is too short: it is at least 100 us.\n");
    check_report("http://127.0.0.1:1/x 2>&1", 3, "http://127.0.0.1:1/x cannot be fetched: curl: (7) ");
    while (wait(NULL) > 0)
        continue;
    setenv("PATH", test_dir(), 1);
    check_report("127.0.0.1:1 2>&1", 3, "the program curl is not here");
    free(local);
    free(remote);
}
