/* `counterpoint run` with programs that know nothing of it: tests/support/run_target.c, and shell scripts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/target_tools.h"

/* The command runs where it was built, because it finds its library there. */
static void need_target(void)
{
    build_stranger("target", "run_target.c");
}

/* Runs a command line, with the program and with it under `counterpoint run`, and checks that both print and
 * return the same. */
static void check_runs_alike(const char *command)
{
    int bare_status, status;
    char *bare = test_command(&bare_status, "cd %s && %s 2> /dev/null", test_dir(), command);
    char *out =
        test_command(&status, "cd %s && %s/bin/counterpoint run -e taskClock:1000000 -o out -- %s 2> said",
                     test_dir(), test_build_dir(), command);

    CHECK_STR(out, bare);
    CHECK_EQ(status, bare_status);
    free(bare);
    free(out);
}

/* Checks what the command has said at the end, and that go tool pprof finds at least so much time (ms) in
 * work(), whose stacks all begin in one of the functions. */
static void check_profiles(int files, int least_ms, const char *begins)
{
    char *said = test_command(NULL, "cat %s/said", test_dir());
    char *out;
    int n;

    CHECK_CONTAINS(said, "taskClock: ");
    free(said);
    out = test_command(NULL, "cd %s/out && ls target.*.pb.gz | wc -l", test_dir());
    CHECKF(atoi(out) == files, "%s", out);
    free(out);
    out = test_command(
        NULL,
        "cd %s/out && PPROF_TMPDIR=. HOME=. go tool pprof -traces target.*.pb.gz 2> /dev/null | "
        "awk '/^-----/ { if (leaf ~ /^work/) { all += ms; if (root ~ /^(%s)$/) good += ms }; leaf = \"\" } "
        "!/^-----/ && NF >= 1 { if ($1 ~ /^[0-9.]+m?s$/) { ms = $1 ~ /ms$/ ? $1 + 0 : 1000 * $1; "
        "leaf = $2 } root = $NF } END { print good + 0, all + 0 }'",
        test_dir(), begins);
    n = atoi(out);
    CHECKF(n >= least_ms, "%s", out);
    CHECKF(n == atoi(strchr(out, ' ') + 1), "stacks of work() that do not begin in %s: %s", begins, out);
    free(out);
}

static void check_run(const char *what, int files, int least_ms, const char *begins)
{
    char command[200];

    need_target();
    snprintf(command, sizeof command, "./target %s", what);
    check_runs_alike(command);
    check_profiles(files, least_ms, begins);
}

CP_TEST(a_program_that_returns)
{
    check_run("return", 1, 40, "_start|main");
}

CP_TEST(a_program_that_calls__exit)
{
    check_run("_exit", 1, 40, "_start|main");
    check_run("quick_exit", 2, 90, "_start|main");
}

CP_TEST(threads_are_sampled_from_their_first_function_on_and_have_names)
{
    char *out;

    check_run("threads", 1, 180, "_start|main|clone3|start_thread|__clone");
    out = test_command(NULL, "cd %s/out && PPROF_TMPDIR=. HOME=. go tool pprof -tags *.pb.gz 2> /dev/null",
                       test_dir());
    CHECK_CONTAINS(out, ": one");
    CHECK_CONTAINS(out, ": two");
    CHECK_CONTAINS(out, ": eleven");
    CHECK_CONTAINS(out, ": target");
    free(out);
}

/* The library's own threads do not keep the process. */
CP_TEST(a_process_whose_last_thread_ends)
{
    check_run("main-leaves", 1, 40, "clone3|start_thread|__clone");
}

CP_TEST(children_have_files_of_their_own)
{
    char *out;

    need_target();
    check_run("children", 2, 90, "_start|main");
    out = test_command(NULL, "cat %s/said", test_dir());
    CHECK_CONTAINS(out, " processes");
    free(out);
}

/* The thread's child is sampled as any other: no signal stays blocked in it. */
CP_TEST(a_thread_with_a_small_stack_forks)
{
    check_run("small-thread", 2, 80, "_start|main|clone3|start_thread|__clone");
}

CP_TEST(what_a_process_was_before_it_executes_a_program_is_kept)
{
    check_run("execute", 3, 120, "_start|main");
}

CP_TEST(a_signal_that_ends_the_program_leaves_a_profile)
{
    static const int numbers[] = {1, 2, 5, 6, 11, 13, 15};
    char what[20];

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        snprintf(what, sizeof what, "signal %d", numbers[i]);
        check_run(what, (int)i + 1, 40 * ((int)i + 1), "_start|main");
    }
}

/* Either the signal is there before the library is, and there is no file, or the process writes it. */
CP_TEST(a_signal_while_the_program_starts)
{
    char *said, *where;
    int profiles = 0;

    need_target();
    said = test_command(
        NULL,
        "cd %s && for ms in 00 02 03 04 05 06 07 08 10 12 14 16 20 25; do "
        "%s/bin/counterpoint run -e taskClock:1000000 -o out -- ./target return 2>&1 > /dev/null & "
        "sleep 0.0$ms; kill -TERM $(cat /proc/$!/task/$!/children) 2> no-child; wait $!; done; ls "
        "out/*.pb.gz",
        test_dir(), test_build_dir());
    CHECKF(strstr(said, "without a profile") == NULL, "%s", said);
    for (where = said; (where = strstr(where, "The profile")) != NULL; where++)
        profiles++;
    for (where = said; (where = strstr(where, "before one could begin")) != NULL; where++)
        profiles++;
    CHECKF(profiles >= 14, "%s", said);
    free(said);
}

/* Nobody can catch it; the command says so, and leaves no empty file. */
CP_TEST(a_program_that_sigkill_ends_is_told)
{
    char *said;

    need_target();
    check_runs_alike("./target signal 9");
    said = test_command(NULL, "cat %s/said; find %s/out -name '*.gz'", test_dir(), test_dir());
    CHECK_CONTAINS(said, "1 process ended without a profile");
    CHECK_CONTAINS(said, "SIGKILL");
    CHECKF(strstr(said, "pb.gz") == NULL, "%s", said);
    free(said);
}

CP_TEST(a_stack_that_overflows_leaves_a_profile)
{
    need_target();
    check_runs_alike("./target overflow");
}

/* The handlers that the program sets and sees are its own, of the profiler's signals, too. */
CP_TEST(the_program_has_the_handlers_that_it_sets)
{
    check_run("handlers", 1, 90, "_start|main");
}

CP_TEST(the_program_has_the_descriptors_that_it_would_have)
{
    check_run("descriptors", 1, 130, "_start|main");
}

/* The shell waits for the daemon, because the daemon has the pipe. */
CP_TEST(a_daemon_leaves_a_profile_when_it_ends)
{
    check_run("daemon", 2, 90, "_start|main");
}

/* A process that has written over its arguments is still called what it was; and nobody else may write the
 * file. */
CP_TEST(the_files_have_the_programs_name_and_are_the_users_alone)
{
    char *out;

    umask(0);
    check_run("title", 2, 90, "_start|main");
    out = test_command(NULL, "cd %s/out && find . -type f -perm /022 && ls | grep -v '^target[.]' || true",
                       test_dir());
    CHECK_STR(out, "");
    free(out);
}

/* Go's runtime ends the process without the C library, and has a handler for each signal. */
CP_TEST(a_program_with_gos_runtime)
{
    int status;

    need_target();
    free(test_command(&status, "cd %s && HOME=. GOCACHE=$PWD/cache GO111MODULE=off go build -o go-program %s",
                      test_dir(), test_source("go_target.go")));
    if (status != 0)
        SKIP("go builds no programs with cgo here");
    check_runs_alike("./go-program");
    free(test_command(NULL, "cd %s/out && [ -s go-program.*.pb.gz ]", test_dir()));
    free(test_command(
        NULL, "cd %s/out && PPROF_TMPDIR=. HOME=. go tool pprof -top *.pb.gz 2> /dev/null | grep ' work$'",
        test_dir()));
}

CP_TEST(a_script_that_executes_the_program)
{
    need_target();
    test_write_file("wrapper", "#!/bin/sh\necho wrapped\nexec ./target \"$@\"\n");
    free(test_command(NULL, "chmod +x %s/wrapper", test_dir()));
    check_runs_alike("./wrapper return");
    free(test_command(NULL, "ls %s/out/target.*.pb.gz", test_dir()));
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void check_run_refuses(const char *arguments, int expected, const char *sentence)
{
    int status;
    char *said =
        test_command(&status, "cd %s && %s/bin/counterpoint run %s", test_dir(), test_build_dir(), arguments);

    CHECK_CONTAINS(said, sentence);
    CHECKF(status == expected, "%d: %s", status, said);
    free(said);
}

CP_TEST(what_cannot_be_profiled_is_refused)
{
    need_target();
    free(test_command(
        NULL,
        "cd %s && echo 'int main(void) { return 0; }' > static.c && gcc -static static.c -o static && "
        "cp target rights && { chown 1 rights || true; } && chmod 4755 rights",
        test_dir()));
    check_run_refuses("./static", 2, "is linked statically");
    free(test_command(NULL, "cd %s && gcc -fsanitize=address static.c -o sanitized", test_dir()));
    check_run_refuses("./sanitized", 2, "is built with a sanitizer");
    check_run_refuses("-e cycle ./target", 2, "cycle");
    check_run_refuses("-e taskClock:0 ./target", 2, "taskClock");
    check_run_refuses("-p 1", 2, "cannot be profiled yet");
    check_run_refuses("--duration x ./target", 2, "--duration must be");
    check_run_refuses("-o /dev/null/x ./target", 3, "cannot be made");
    check_run_refuses("-o target ./target", 3, "cannot be written into \"target/\": Not a directory.");
    check_run_refuses("nonexistent-program", 2, "There is no program");
    check_run_refuses("/", 2, "a folder");
    check_run_refuses("", 2, "Name the program");
    if (getuid() == 0)
        check_run_refuses("./rights", 2, "set-user-id");
}

/* ---- The environment ------------------------------------------------------------------------- */

static char *preloaded(int *status, const char *variables, const char *what)
{
    return test_command(status, "cd %s && LD_PRELOAD=%s/lib/libcounterpoint-preload.so %s ./target %s 2>&1",
                        test_dir(), test_build_dir(), variables, what);
}

CP_TEST(the_environment_is_enough)
{
    char *out;

    need_target();
    out = preloaded(NULL, "CP_CPUPROFILE=x.pb.gz CP_CPUPROFILE_EVENT=taskClock:1ms,pageFaults:1", "children");
    CHECK_STR(out, "5 0\n6 0\n");
    free(out);
    free(test_command(NULL, "cd %s && ls x.taskClock.pb.gz x.pageFaults.pb.gz && ls x.*.taskClock.pb.gz",
                      test_dir()));
    out = test_command(NULL, "cd %s && PPROF_TMPDIR=. HOME=. go tool pprof -top x.taskClock.pb.gz 2>&1",
                       test_dir());
    CHECK_CONTAINS(out, " work");
    free(out);
    out = preloaded(NULL, "", "return");
    CHECK_STR(out, "");
    free(out);
}

CP_TEST(a_wrong_environment_is_told_and_the_program_runs)
{
    static const char *const wrong[] = {"CP_CPUPROFILE=y.pb.gz CP_CPUPROFILE_EVENT=cycle",
                                        "CP_CPUPROFILE=y.pb.gz CP_CPUPROFILE_SECONDS=-1",
                                        "CP_CPUPROFILE=/nonexistent/y.pb.gz"};
    int status;

    need_target();
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char *out = preloaded(&status, wrong[i], "_exit");

        CHECK_EQ(status, 3);
        CHECK_CONTAINS(out, "counterpoint: ");
        free(out);
    }
    free(test_command(NULL, "[ ! -e %s/y.pb.gz ]", test_dir()));
}

/* Python, for one, handles SIGINT only if it finds no handler of others. */
CP_TEST(handlers_are_the_programs_without_a_profile)
{
    char *bare, *out;

    need_target();
    bare = test_command(NULL, "cd %s && ./target handlers", test_dir());
    out = preloaded(NULL, "CP_CPUPROFILE=/nonexistent/y.pb.gz", "handlers");
    CHECK_CONTAINS(out, "counterpoint: ");
    CHECK_CONTAINS(out, bare);
    free(bare);
    free(out);
}

CP_TEST(a_profile_ends_after_its_seconds)
{
    char *out;

    need_target();
    out = test_command(
        NULL,
        "cd %s; LD_PRELOAD=%s/lib/libcounterpoint-preload.so CP_CPUPROFILE=z.pb.gz "
        "CP_CPUPROFILE_EVENT=taskClock:1ms CP_CPUPROFILE_SECONDS=0.05 ./target loop & pid=$!; "
        "for i in $(seq 600); do [ -s z.pb.gz ] && break; sleep 0.1; done; kill -0 $pid && echo runs; "
        "kill $pid; wait; [ -s z.pb.gz ] && echo written",
        test_dir(), test_build_dir());
    CHECK_CONTAINS(out, "runs");
    CHECK_CONTAINS(out, "written");
    free(out);
}

/* The program sees its own handlers still, when its profile has ended. */
CP_TEST(handlers_stay_the_programs_after_a_profile)
{
    char *bare, *out;

    need_target();
    bare = test_command(NULL, "cd %s && ./target late-handlers", test_dir());
    out =
        preloaded(NULL, "CP_CPUPROFILE=h.pb.gz CP_CPUPROFILE_EVENT=taskClock:1ms CP_CPUPROFILE_SECONDS=0.02",
                  "late-handlers");
    CHECK_STR(out, bare);
    free(bare);
    free(out);
}

/* Its seconds begin with it. */
CP_TEST(a_child_that_begins_after_its_parents_profile)
{
    char *bare, *out;

    need_target();
    bare = test_command(NULL, "cd %s && ./target late-child", test_dir());
    out = preloaded(NULL,
                    "CP_CPUPROFILE=l.pb.gz CP_CPUPROFILE_EVENT=taskClock:1ms CP_CPUPROFILE_SECONDS=0.02 "
                    "CP_CPUPROFILE_NAMES=later",
                    "late-child l.pb.gz");
    CHECK_STR(out, bare);
    free(test_command(NULL, "[ -s %s/l.*.pb.gz ]", test_dir()));
    free(bare);
    free(out);
}
