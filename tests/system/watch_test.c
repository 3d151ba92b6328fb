/* What tests/support/watch.c does, under which tests/run runs each program. */
#include "tests/support/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

/* Writes a script as a test program, beside the program with which tests/run runs the others. */
static void write_program(const char *name, const char *script)
{
    char path[200], text[600];
    free(test_command(NULL, "mkdir -p %s/tests && ln -sf %s/tests/watch %s/tests", test_dir(),
                      test_build_dir(), test_dir()));
    snprintf(path, sizeof(path), "tests/%s", name);
    snprintf(text, sizeof(text), "#!/bin/sh\n%s\n", script);
    test_write_file(path, text);
    free(test_command(NULL, "chmod 755 %s/%s", test_dir(), path));
}

/* Checks that no process has these words in its command line. */
static void expect_no_process(const char *words)
{
    int status;
    free(test_command(&status,
                      "cat /proc/[0-9]*/cmdline 2> /dev/null | tr '\\0' ' ' | grep -aF '%s' | grep -avF grep",
                      words));
    CHECK_EQ(status, 1);
}

CP_TEST(the_driver_names_and_ends_what_a_program_leaves)
{
    char script[400];
    snprintf(script, sizeof(script),
             "trap '' TERM\n(setsid sh -c 'while [ -n \"$0\" ]; do sleep 0.1; done' %s/left &)\n"
             "echo 'ok 1 - Test_a # time=0.10s'\necho 1..1",
             test_dir());
    write_program("leaves_test", script);
    int status;
    char *output = test_command(&status, "RETRIES=0 tests/run %s leaves", test_dir());
    CHECK_EQ(status, 1);
    CHECK_CONTAINS(output, "FAIL  leaves: the program left something behind, or was ended\n"
                           "      | The command has ended and left these threads:\n      | thread ");
    CHECK_CONTAINS(output, " (sh) of process ");
    free(output);
    snprintf(script, sizeof(script), "%s/left", test_dir());
    expect_no_process(script);
}

CP_TEST(a_program_that_hangs_is_ended)
{
    static const char *const hangs[][2] = {{"-idle 1", "trap 'echo its last words' TERM; sleep 1000 & wait"},
                                           {"-cpu 1", "trap '' TERM; while :; do :; done"}};
    for (int i = 0; i < 2; i++) {
        int status;
        char *output = test_command(&status, "%s/tests/watch -ask 2 %s sh -c \"%s; :\" %s/hangs",
                                    test_build_dir(), hangs[i][0], hangs[i][1], test_dir());
        char words[200];
        CHECK_EQ(status, 125);
        CHECKF(strncmp(output, "The command hangs:\nthread ", 26) == 0, "%s", output);
        CHECK_CONTAINS(output, " (sh) of process ");
        CHECKF(i == 1 || strstr(output, "\nits last words\n"), "%s", output);
        snprintf(words, sizeof(words), "%s/hangs", test_dir());
        expect_no_process(words);
        free(output);
    }
}

/* Traces a process, which then stays after its end, and waits. Returns the tracer. */
static pid_t trace(pid_t pid)
{
    int ready[2];
    char byte = 0;
    CHECK_EQ(pipe(ready), 0);
    pid_t tracer = fork();
    if (tracer == 0) {
        if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0 && write(ready[1], "", 1) == 1)
            alarm(60); /* ends this process if nothing else does */
        else
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        SKIP("this machine lets no process trace another");
    return tracer;
}

CP_TEST(what_cannot_be_ended_is_named_and_has_no_second_try)
{
    char command[300], number[20] = "", output[1000];
    snprintf(command, sizeof(command),
             "%s/tests/watch -idle 1 -ask 1 -kill 1 sh -c 'echo $$; exec sleep 1000'", test_build_dir());
    FILE *watch = popen(command, "re");
    CHECK(fgets(number, sizeof(number), watch));
    pid_t tracer = trace(atoi(number));
    size_t n = fread(output, 1, sizeof(output) - 1, watch);
    output[n] = 0;
    int status = pclose(watch);
    CHECKF(WIFEXITED(status) && WEXITSTATUS(status) == 126, "%#x\n%s", (unsigned)status, output);
    CHECK_CONTAINS(output, "The command hangs:\nthread ");
    CHECK_CONTAINS(output, "These threads could not be ended:\nthread ");
    kill(tracer, SIGKILL);
    CHECK_EQ(waitpid(tracer, NULL, 0), tracer);

    write_program("stays_test",
                  "echo 'ok 1 - Test_a # time=0.10s'\necho 1..1\necho run >> $0.runs\nexit 126");
    char *text = test_command(&status, "RETRIES=3 tests/run %s stays", test_dir());
    CHECK_EQ(status, 1);
    CHECK_CONTAINS(text, "FAIL  stays: the program left threads that cannot be ended\n");
    free(text);
    text = test_command(NULL, "cat %s/tests/stays_test.runs", test_dir());
    CHECK_STR(text, "run\n");
    free(text);
}

CP_TEST(the_watch_has_the_status_of_its_command)
{
    static const struct {
        const char *command;
        int status;
    } cases[] = {
        {"exit 0", 0}, {"exit 7", 7}, {"kill -KILL \\$\\$", 128 + 9}, {"kill -TERM \\$\\$", 128 + 15}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int status;
        free(test_command(&status, "%s/tests/watch -idle 60 sh -c \"%s\"", test_build_dir(),
                          cases[i].command));
        CHECK_EQ(status, cases[i].status);
    }
}
