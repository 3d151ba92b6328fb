/* `counterpoint watch` with programs that know nothing of it: tests/support/watched_target.c times itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/target_tools.h"

#define WATCH "%s/bin/counterpoint watch "

/* Builds the program, and skips the test if the kernel or the user's rights allow no probes. */
static void need_probes(void)
{
    char *said;
    int status;

    free(test_command(NULL, "cd %s && { [ -x target ] || gcc -D_GNU_SOURCE -O1 -g -pthread %s -o target; }",
                      test_dir(), test_source("watched_target.c")));
    said = test_command(&status, "cd %s && " WATCH "--function quick ./target", test_dir(), test_build_dir());
    if (status == 1)
        SKIP("%s", said);
    CHECKF(status == 0, "%d: %s", status, said);
    free(said);
}

/* Runs the program, whose output is in "printed", and the distributions in "json". */
static void watch_target(const char *options, const char *what, int expected)
{
    char *said;
    int status;

    need_probes();
    said = test_command(&status, "cd %s && " WATCH "--json -o json %s -- ./target %s 2>&1 > printed",
                        test_dir(), test_build_dir(), options, what);
    CHECKF(status == expected, "%d: %s", status, said);
    test_write_file("said", said);
    free(said);
}

/* Returns what jq prints of the distributions. */
static double ask_jq(const char *filter)
{
    char *text = test_command(NULL, "cd %s && jq '%s' json", test_dir(), filter);
    double number = strtod(text, NULL);

    free(text);
    return number;
}

static double ask_row(const char *function, const char *side, const char *quantity, const char *member)
{
    char filter[300];

    snprintf(
        filter, sizeof filter,
        "[.rows[] | select(.watch == \"%s\" and .side == \"%s\" and .quantity == \"%s\") | .%s] | add // 0",
        function, side, quantity, member);
    return ask_jq(filter);
}

static double ask_state(const char *function, const char *member)
{
    char filter[200];

    snprintf(filter, sizeof filter, ".states[] | select(.watch == \"%s\") | .%s", function, member);
    return ask_jq(filter);
}

/* What the program itself has measured of a function. */
struct self {
    double calls, inside, around;
};

static struct self self_of(const char *function)
{
    struct self self = {0, 0, 0};
    char *text = test_command(NULL, "grep '^%s ' %s/printed", function, test_dir());

    CHECKF(sscanf(text, "%*s %lf %lf %lf", &self.calls, &self.inside, &self.around) == 3, "%s", text);
    free(text);
    return self;
}

/* Checks that all rounds were seen, and that they took longer than what is inside of the probes and less than
 * what is around them. */
static void check_against_itself(const char *function, const char *quantity)
{
    const struct self self = self_of(function);
    const double count = ask_row(function, "unforked", quantity, "count"),
                 sum = ask_row(function, "unforked", quantity, "sum");

    CHECKF(count == self.calls && self.inside <= sum && sum <= self.around,
           "%s: count %g of %g; inside %.0f, between the probes %.0f, around %.0f", function, count,
           self.calls, self.inside, sum, self.around);
}

/* ---- What is measured ------------------------------------------------------------------------ */

CP_TEST(rounds_are_as_long_as_the_program_itself_measures)
{
    watch_target("--function work", "main", 3);
    check_against_itself("work", "time");
}

CP_TEST(rounds_of_threads_are_all_seen)
{
    watch_target("--function work", "threads", 0);
    check_against_itself("work", "time");
}

CP_TEST(recursion_tail_calls_and_longjmp_are_told_apart)
{
    watch_target("--function recurse --function jump_out --function leave_by_jump --function tail "
                 "--function last",
                 "turns", 0);
    CHECK_EQ(ask_row("recurse", "unforked", "time", "count"), 10);
    CHECK_EQ(ask_row("jump_out", "unforked", "time", "count"), 5);
    CHECK_EQ(ask_row("leave_by_jump", "unforked", "time", "count"), 0);
    CHECK_EQ(ask_state("leave_by_jump", "dropped"), 15);
    CHECK_EQ(ask_row("tail", "unforked", "time", "count"), 7);
    CHECK_EQ(ask_row("last", "unforked", "time", "count"), 7);
    CHECK_EQ(ask_state("tail", "dropped") + ask_state("tail", "open") + ask_state("tail", "unknown"), 0);
    char *said = test_command(NULL, "cat %s/said", test_dir());
    CHECK_CONTAINS(said, "leave_by_jump: 15 rounds ended without a return");
    free(said);
}

CP_TEST(a_fork_has_two_sides_and_a_child_is_watched)
{
    watch_target("--function fork_inside --function work", "children", 0);
    CHECK_EQ(ask_row("fork_inside", "parent", "time", "count"), 1);
    CHECK_EQ(ask_row("fork_inside", "child", "time", "count"), 1);
    CHECK_EQ(ask_row("work", "unforked", "time", "count"), 1);
}

/* The program sleeps 120 ms of the rounds' time, of which some us may be on the CPU. */
CP_TEST(what_is_counted_is_the_threads_own)
{
    const double slept_ns = 116e6;

    watch_target("-e cpuTime,pageFaults -e contextSwitches --function touch --function work", "counted", 0);
    check_against_itself("touch", "pageFaults");
    CHECK(ask_row("work", "unforked", "cpuTime", "sum") >= self_of("work").inside);
    CHECK(ask_row("work", "unforked", "cpuTime", "sum") <=
          ask_row("work", "unforked", "time", "sum") - slept_ns);
    CHECK(ask_row("work", "unforked", "contextSwitches", "sum") >= 4);
}

/* The command is stopped meanwhile. No round is longer than the longest call. */
CP_TEST(lost_records_are_told_and_make_no_rounds)
{
    char *said;
    double most;

    watch_target("--function quick", "flood", 0);
    said = test_command(NULL, "cat %s/said", test_dir());
    CHECK_CONTAINS(said, "records were lost");
    free(said);
    most = self_of("quick").around;
    CHECK(ask_row("quick", "unforked", "time", "count") < 40002);
    CHECK(ask_row("quick", "unforked", "time", "count") > 100);
    CHECKF(ask_row("quick", "unforked", "time", "max") <= most, "%g", most);
}

CP_TEST(a_table_is_for_people)
{
    char *out;

    need_probes();
    out = test_command(NULL, "cd %s && " WATCH "--function work ./target main > out 2> said; cat out said",
                       test_dir(), test_build_dir());
    CHECK_CONTAINS(out, "work 6 ");
    CHECK_CONTAINS(out, "p99.9");
    CHECK_CONTAINS(out, "\nwork ");
    free(out);
    out = test_command(NULL, "cd %s && " WATCH "--function work ./target", test_dir(), test_build_dir());
    CHECK_CONTAINS(out, "work was not called.");
    free(out);
}

/* script(1) makes the terminal. */
CP_TEST(a_line_on_the_terminal_shows_how_it_goes)
{
    char *out;

    need_probes();
    out = test_command(NULL,
                       "cd %s && script -qec '" WATCH "--function quick ./target loop' /dev/null > shown & "
                       "cd %s; for i in $(seq 100); do sleep 0.1; ! grep -qs rounds shown || break; done; "
                       "kill -USR1 $(sed -n 's/^ready \\([0-9]*\\).*/\\1/p' shown); wait; cat shown",
                       test_dir(), test_build_dir(), test_dir());
    CHECK_CONTAINS(out, "quick: ");
    CHECK_CONTAINS(out, " rounds, 50 % ");
    free(out);
}

/* ---- What the program notices ---------------------------------------------------------------- */

CP_TEST(the_exit_status_is_the_programs)
{
    int status;

    need_probes();
    free(test_command(&status, "cd %s && " WATCH "--function work ./target main", test_dir(),
                      test_build_dir()));
    CHECK_EQ(status, 3);
    char *said = test_command(&status, "cd %s && " WATCH "--function quick -- ./target signal 11", test_dir(),
                              test_build_dir());
    CHECK_EQ(status, 128 + 11);
    CHECK_CONTAINS(said, "target was ended by signal 11");
    CHECK_CONTAINS(said, "\nquick ");
    free(said);
}

/* Some kernels may know to where each stack returns. */
CP_TEST(a_program_that_the_kernel_ends_because_of_its_stacks_is_told_why)
{
    char *said;
    int status;

    need_probes();
    said = test_command(&status, "cd %s && " WATCH "--function change_stack ./target coroutines", test_dir(),
                        test_build_dir());
    if (status == 0)
        SKIP("this kernel does not mind");
    CHECK_EQ(status, 128 + 4);
    CHECK_CONTAINS(said, "If it changes its stack in a watched function");
    free(said);
}

static const char throws_far[] = "static __attribute__((noinline, noipa)) void leave(void) { throw 1; }\n"
                                 "static __attribute__((noinline, noipa)) int stay(void)\n"
                                 "{ try { leave(); } catch (int n) { return n; } return 0; }\n"
                                 "int main() { return stay() + 6; }\n";

/* Some system's search for a handler may know the return addresses that probes have changed. */
CP_TEST(a_program_that_ends_because_an_exception_left_a_watched_function_is_told_why)
{
    char *said;
    int status;

    need_probes();
    test_write_file("throws.cc", throws_far);
    said =
        test_command(&status, "cd %s && g++ -O1 throws.cc -o throws && " WATCH "--function 'stay()' ./throws",
                     test_dir(), test_build_dir());
    CHECKF(status == 7, "%d: %s", status, said);
    free(said);
    said = test_command(&status, "cd %s && " WATCH "--function 'leave()' ./throws", test_dir(),
                        test_build_dir());
    if (status == 7)
        SKIP("this system does not mind");
    CHECK_EQ(status, 128 + 6);
    CHECK_CONTAINS(said, "If an exception (C++) or a panic (Rust) was leaving a watched function");
    free(said);
}

/* Attaches to the loop, ends the command as `end` says, and lets the loop end. Returns what both said. */
static char *attach_and_end(const char *end, int *status)
{
    return test_command(status,
                        "cd %s && rm -f looped watched; mkfifo go 2> /dev/null; "
                        "./target loop > looped & target=$!\n"
                        "until grep -q ready looped; do sleep 0.01; done\n" WATCH
                        "-p $target --function quick %s > watched 2>&1 & watch=$!\n"
                        "sleep 1; %s\n"
                        "wait $watch; status=$?; kill -USR1 $target; wait $target; cat watched looped; "
                        "exit $status",
                        test_dir(), test_build_dir(), strncmp(end, "--", 2) == 0 ? end : "",
                        strncmp(end, "--", 2) == 0 ? ":" : end);
}

/* However the command ends, the code of the program is what it was. */
CP_TEST(a_process_is_attached_to_and_left_as_it_was)
{
    static const struct {
        const char *end;
        int status;
        bool is_table_printed;
    } ways[] = {{"kill -INT $watch", 0, true},
                {"kill -TERM $watch", 0, true},
                {"--duration 0.5", 0, true},
                {"kill -KILL $watch", 128 + 9, false}};

    need_probes();
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        int status;
        char *said = attach_and_end(ways[i].end, &status);

        CHECKF(status == ways[i].status, "%s: %d: %s", ways[i].end, status, said);
        CHECKF((strstr(said, "\nquick ") != NULL) == ways[i].is_table_printed, "%s: %s", ways[i].end, said);
        CHECK_CONTAINS(said, "same");
        free(said);
    }
}

/* The loop is in one call at a time. */
static void check_end_of_loop(void)
{
    CHECK(ask_row("quick", "unforked", "time", "count") > 10);
    CHECKF(ask_state("quick", "open") <= 1 && ask_state("quick", "unknown") <= 1 &&
               ask_state("quick", "dropped") == 0,
           "open %g, unknown %g, dropped %g", ask_state("quick", "open"), ask_state("quick", "unknown"),
           ask_state("quick", "dropped"));
}

/* The loop makes many calls while the kernel removes the probes. */
CP_TEST(calls_after_the_end_of_the_watch_are_not_told)
{
    int status;

    need_probes();
    free(attach_and_end("--duration 0.5 --json -o json", &status));
    CHECK_EQ(status, 0);
    check_end_of_loop();
    free(test_command(&status,
                      "cd %s && rm -f looped; " WATCH
                      "--duration 0.5 --json -o json --function quick ./target "
                      "loop > looped & until grep -q ready %s/looped; do sleep 0.01; done; sleep 1.5; "
                      "kill -USR1 $(sed -n 's/^ready //p' %s/looped); wait $!",
                      test_dir(), test_build_dir(), test_dir(), test_dir()));
    CHECK_EQ(status, 0);
    check_end_of_loop();
}

CP_TEST(a_process_that_ends_ends_the_watch)
{
    int status;
    char *said;

    need_probes();
    said = attach_and_end("kill -USR1 $target", &status);
    CHECKF(status == 0, "%s", said);
    CHECK_CONTAINS(said, "\nquick ");
    free(said);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void check_watch_refuses(const char *arguments, int expected, const char *sentence)
{
    int status;
    char *said = test_command(&status, "cd %s && " WATCH "%s", test_dir(), test_build_dir(), arguments);

    CHECK_CONTAINS(said, sentence);
    CHECKF(status == expected, "%s: %d: %s", arguments, status, said);
    free(said);
}

CP_TEST(what_makes_no_sense_is_refused)
{
    need_probes();
    check_watch_refuses("./target main", 2, "Name a function to watch");
    check_watch_refuses("-- ./target main --function work", 2, "before the program");
    check_watch_refuses("--function work", 2, "Name the program to run");
    check_watch_refuses("--function work -p 1 ./target", 2, "but not both");
    check_watch_refuses("--function work -p x", 2, "-p must be the number of a process");
    check_watch_refuses("--function work -p 999999999", 2, "process 999999999");
    check_watch_refuses("--function work -e cycle ./target", 2, "cycle");
    check_watch_refuses("--function work -e timer ./target", 2, "timer cannot be counted");
    check_watch_refuses("--function work -e lock ./target", 2, "lock cannot be counted");
    check_watch_refuses("--function work -e pageFaults,minorFaults,pageFaults ./target", 2, "named twice");
    check_watch_refuses("--function work --function ./target:work ./target", 2, "are the same function");
    check_watch_refuses("--function work --duration x ./target", 2, "--duration must be");
    check_watch_refuses("--function work ./nowhere", 2, "cannot be run");
    check_watch_refuses("--function work -o /dev/null/x ./target main", 3, "cannot be written");
    check_watch_refuses("--function wrok ./target", 2, "Similar names are: work.");
    check_watch_refuses("--function nothing:work ./target", 2, "no library \"nothing\"");
    check_watch_refuses("--function ./nothing:work ./target", 2,
                        "\"./nothing\" cannot be read: No such file");
    check_watch_refuses("--function work -e time ./target", 2, "The time is always measured");
    free(test_command(NULL, "cd %s && strip -o symbolless target", test_dir()));
    check_watch_refuses("--function work ./symbolless main", 2, "The file is stripped");
    check_watch_refuses("--function always_inlined ./target", 2, "has inlined all of its calls");
    check_watch_refuses("--function libc:memcpy ./target", 2, "only chooses a function");
    free(test_command(NULL, "cd %s && printf '#!/bin/sh\\nexec ./target main\\n' > script && chmod +x script",
                      test_dir()));
    check_watch_refuses("--function work ./script", 2, "is a script");
    check_watch_refuses("--function ./target:work ./script", 3, "./target:work ");
}

CP_TEST(a_users_rights_are_told_with_the_remedy)
{
    need_probes();
    if (geteuid() != 0)
        SKIP("only root can give rights away");
    free(test_command(NULL, "chmod 755 %s", test_dir()));
    char *said = test_command(NULL,
                              "cp %s/bin/counterpoint %s && cd %s && "
                              "setpriv --reuid 65534 --regid 65534 --clear-groups ./counterpoint watch "
                              "--function work ./target main; [ $? = 1 ]",
                              test_build_dir(), test_dir(), test_dir());
    CHECK_CONTAINS(said, "CAP_SYS_ADMIN");
    CHECK_CONTAINS(said, "Run this command as root, with -p");
    free(said);
}

CP_TEST(a_go_program_is_refused)
{
    int status;

    need_probes();
    free(test_command(&status, "cd %s && HOME=. GOCACHE=$PWD/cache GO111MODULE=off go build -o go-program %s",
                      test_dir(), test_source("go_target.go")));
    if (status != 0)
        SKIP("go builds no programs here");
    check_watch_refuses("--function main.main ./go-program", 2, "is a Go program");
}

/* ---- Names ----------------------------------------------------------------------------------- */

static const char two_files[] =
    "#include <unistd.h>\n"
    "namespace ns { struct type {\n"
    "  __attribute__((noinline, noipa)) int f(int x) { usleep(100); return x; }\n"
    "  __attribute__((noinline, noipa)) int f(long) const { return 2; }\n"
    "};\n"
    "static inline __attribute__((always_inline)) int gone(int x) { return x & 0; }\n"
    "}\n"
    "int main(int n, char **) { ns::type t; return t.f(1) + t.f(2L) + ns::gone(n); }\n";

CP_TEST(names_of_cplusplus_are_demangled_and_ambiguity_is_told)
{
    char *said, *choice;

    need_probes();
    test_write_file("names.cc", two_files);
    free(test_command(NULL, "cd %s && g++ -O1 -g names.cc -o names", test_dir()));
    said = test_command(NULL, "cd %s && " WATCH "--function ns::type::f ./names; [ $? = 2 ]", test_dir(),
                        test_build_dir());
    CHECK_CONTAINS(said, "2 functions are called \"ns::type::f\"");
    choice = strstr(said, "ns::type::f@0x");
    CHECKF(choice != NULL, "%s", said);
    choice[strcspn(choice, " ")] = '\0';
    free(test_command(NULL, "cd %s && " WATCH "--json -o json --function '%s' ./names; [ $? = 3 ]",
                      test_dir(), test_build_dir(), choice));
    CHECK_EQ(ask_row(choice, "unforked", "time", "count"), 1);
    free(said);
    check_watch_refuses("--function ns::gone ./names", 2, "has inlined all of its calls");
    free(test_command(NULL,
                      "cd %s && " WATCH "--json -o json --function 'ns::type::f(int)' ./names; [ $? = 3 ]",
                      test_dir(), test_build_dir()));
    CHECK_EQ(ask_row("ns::type::f(int)", "unforked", "time", "count"), 1);
}

/* Names of C++ may be longer than those that a program can give its watches, and differ at their ends only.
 */
CP_TEST(long_names_are_not_cut)
{
    static const char space[] =
        "a_namespace_whose_name_alone_is_longer_than_that_of_a_watch_in_a_program_can_be";
    char name[120];

    need_probes();
    free(test_command(
        NULL,
        "cd %s && printf 'namespace %s {\n"
        "__attribute__((noinline, noipa)) int f() { return 1; }\n"
        "__attribute__((noinline, noipa)) int g() { return 2; } }\n"
        "int main() { return %s::f() + %s::g() + %s::g(); }' > long.cc && g++ -O1 long.cc -o long",
        test_dir(), space, space, space, space));
    free(test_command(NULL,
                      "cd %s && " WATCH "--json -o json --function %s::f --function %s::g ./long; [ $? = 5 ]",
                      test_dir(), test_build_dir(), space, space));
    snprintf(name, sizeof name, "%s::f", space);
    CHECK_EQ(ask_row(name, "unforked", "time", "count"), 1);
    snprintf(name, sizeof name, "%s::g", space);
    CHECK_EQ(ask_row(name, "unforked", "time", "count"), 2);
}

CP_TEST(functions_of_libraries_and_of_separate_debug_files_are_found)
{
    need_probes();
    watch_target("--function libc:usleep", "main", 3);
    CHECK_EQ(ask_row("libc:usleep", "unforked", "time", "count"), 5);
    test_write_file("plugin.c", "int plugged(int n) { return n + 1; }\n");
    test_write_file("loads.c", "#include <dlfcn.h>\n"
                               "int main(void) { void *plugin = dlopen(\"./plugin.so\", RTLD_NOW);\n"
                               "  return ((int (*)(int))dlsym(plugin, \"plugged\"))(4); }\n");
    free(
        test_command(NULL,
                     "cd %s && gcc -shared -fPIC plugin.c -o plugin.so && gcc loads.c -o loads -ldl && " WATCH
                     "--json -o json --function ./plugin.so:plugged ./loads; [ $? = 5 ]",
                     test_dir(), test_build_dir()));
    CHECK_EQ(ask_row("./plugin.so:plugged", "unforked", "time", "count"), 1);
    free(test_command(NULL,
                      "cd %s && objcopy --only-keep-debug target target.debug && "
                      "objcopy --strip-all --add-gnu-debuglink=target.debug target stripped",
                      test_dir()));
    free(test_command(NULL, "cd %s && " WATCH "--json -o json --function work ./stripped main; [ $? = 3 ]",
                      test_dir(), test_build_dir()));
    CHECK_EQ(ask_row("work", "unforked", "time", "count"), 6);
    free(test_command(NULL, "cd %s && gcc -D_GNU_SOURCE -static -O1 -pthread %s -o static", test_dir(),
                      test_source("watched_target.c")));
    free(test_command(NULL, "cd %s && " WATCH "--json -o json --function work ./static main; [ $? = 3 ]",
                      test_dir(), test_build_dir()));
    CHECK_EQ(ask_row("work", "unforked", "time", "count"), 6);
}
