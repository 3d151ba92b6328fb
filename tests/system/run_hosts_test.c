/* `counterpoint run` with programs that end in unusual ways: tests/support/hosts_target.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/target_tools.h"

static void need_host(void)
{
    build_stranger("host", "hosts_target.c");
}

/* Runs the program bare and under `counterpoint run`, and checks that both print and return the same, that
 * the latter does not hang, and that each process has left a profile. */
static void check_host(const char *what)
{
    int bare_status, status;
    char *bare, *out, *said;

    need_host();
    bare = test_command(&bare_status, "cd %s && sh -c './host %s; exit $?' 2> /dev/null", test_dir(), what);
    out = test_command(
        &status,
        "cd %s && timeout -k 5 60 %s/bin/counterpoint run -e taskClock:1000000 -o out -- ./host %s "
        "2> said",
        test_dir(), test_build_dir(), what);
    said = test_command(NULL, "cat %s/said", test_dir());
    CHECK_STR(out, bare);
    CHECK_EQ(status, bare_status);
    CHECK(bare_status != 98 && bare_status != 99);
    CHECKF(strstr(said, "without a profile") == NULL && strstr(said, "taskClock: ") != NULL, "%s", said);
    free(bare);
    free(out);
    free(said);
}

CP_TEST(the_thread_of_main_ends_by_thrd_exit)
{
    check_host("thrd_exit");
}

CP_TEST(the_thread_of_main_is_cancelled)
{
    check_host("cancelled-main");
}

CP_TEST(the_last_thread_runs_its_handlers_and_destructors)
{
    check_host("cleanup");
}

CP_TEST(a_thread_that_has_forked_ends_before_another_one_in_the_child)
{
    check_host("fork-in-thread");
}

CP_TEST(a_thread_that_is_cancelled_forks)
{
    check_host("cancelled-fork");
}

CP_TEST(threads_that_are_cancelled_while_they_end)
{
    check_host("cancelled-anywhere");
}

CP_TEST(a_kernel_that_closes_no_ranges)
{
    check_host("old-kernel");
}

CP_TEST(the_name_of_a_child_of_vfork)
{
    char *out;

    check_host("vfork-name");
    out = test_command(NULL, "cd %s/out && PPROF_TMPDIR=. HOME=. go tool pprof -tags *.pb.gz 2> /dev/null",
                       test_dir());
    CHECK_CONTAINS(out, ": host");
    CHECKF(strstr(out, "vforked") == NULL, "%s", out);
    free(out);
}

/* Both processes: the one that daemon() ends has no other file. */
CP_TEST(a_process_that_daemon_ends)
{
    check_host("daemon");
    free(test_command(NULL, "[ -s $(ls %s/out/host.*.pb.gz | head -n 1) ]", test_dir()));
}

/* One of them begins the next profile. */
CP_TEST(two_threads_that_fail_to_execute_a_program)
{
    check_host("execute-twice");
}

CP_TEST(a_handler_that_is_to_interrupt_calls)
{
    check_host("siginterrupt");
}

CP_TEST(handlers_that_sigset_sets)
{
    check_host("sigset");
}

CP_TEST(handlers_for_one_signal)
{
    check_host("one-signal");
}

CP_TEST(a_real_time_signal_that_ends_the_program)
{
    check_host("real-time");
}

CP_TEST(the_first_of_several_signals_ends_the_program)
{
    for (int i = 0; i < 5; i++)
        check_host("three-signals");
}

CP_TEST(two_threads_that_call_exit)
{
    for (int i = 0; i < 5; i++)
        check_host("exit-twice");
}

CP_TEST(errno_is_what_it_would_be)
{
    check_host("errno");
}

/* ---- The folder ------------------------------------------------------------------------------ */

CP_TEST(a_folder_whose_name_has_percent_signs)
{
    need_host();
    free(test_command(NULL,
                      "cd %s && cp host 'a%%p %%n%%' && %s/bin/counterpoint run -e taskClock:1000000 -- "
                      "'./a%%p %%n%%' cleanup 2>&1 && ls 'a%%p %%n%%'.*.profiles/'a%%p %%n%%'.*.pb.gz",
                      test_dir(), test_build_dir()));
}

CP_TEST(a_folder_that_the_program_removes)
{
    int status;
    char *said;

    need_host();
    said = test_command(&status,
                        "cd %s && %s/bin/counterpoint run -e taskClock:1000000 -o gone -- sh -c 'rm -r gone; "
                        "exit 3' 2>&1",
                        test_dir(), test_build_dir());
    CHECK_EQ(status, 3);
    CHECK_CONTAINS(said, "could not be written to ");
    free(said);
}

CP_TEST(what_is_said_does_not_wait_for_a_stream_of_the_program)
{
    char *said;
    int status;

    need_host();
    said = test_command(&status,
                        "cd %s && timeout -k 5 20 %s/bin/counterpoint run -e taskClock:1000000 -o out -- "
                        "./host locked-stream 2>&1",
                        test_dir(), test_build_dir());
    CHECK_EQ(status, 0);
    CHECK_CONTAINS(said, "could not be written to ");
    free(said);
}

/* Whoever starts the command may have left SIGCHLD ignored, as some services do. */
CP_TEST(the_exit_status_if_ended_children_are_ignored)
{
    int status;

    need_host();
    test_write_file("ignore.py", "import os, signal, sys\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
                                 "os.execv(sys.argv[1], sys.argv[1:])\n");
    free(
        test_command(&status,
                     "cd %s && python3 ignore.py %s/bin/counterpoint run -e taskClock:1000000 -- sh -c 'exit "
                     "3' 2>&1",
                     test_dir(), test_build_dir()));
    CHECK_EQ(status, 3);
}
