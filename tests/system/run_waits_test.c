/* `counterpoint run -e wait`, and the other events of waits, with programs of pthreads that know nothing of
 * it: tests/support/waits_target.c, which waits for known causes, and answers_target.c, which prints what
 * calls return. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/clock.h"
#include "tests/support/pprof_lines.h"
#include "tests/support/target_tools.h"

static char *read_times(const char *type, const char *options)
{
    return test_command(NULL,
                        "cd %s/out && PPROF_TMPDIR=. HOME=. go tool pprof -sample_index=%s -unit=ms %s "
                        "*.pb.gz 2> /dev/null",
                        test_dir(), type, options);
}

static char *read_delays(const char *options)
{
    return read_times("delay", options);
}

/* Runs a command line under `counterpoint run`, with options. Returns what the program prints. */
static char *run_waiting(const char *options, const char *command)
{
    return test_command(NULL, "cd %s && rm -rf out && %s/bin/counterpoint run %s -o out -- %s 2> said",
                        test_dir(), test_build_dir(), options, command);
}

static void check_prints_alike(const char *options, const char *command)
{
    char *bare = test_command(NULL, "cd %s && %s", test_dir(), command);
    char *out = run_waiting(options, command);

    CHECK_STR(out, bare);
    free(bare);
    free(out);
}

/* A function that waits 100 ms, and which call it waits in. */
struct cause {
    const char *function;
    const char *call;
};

/* The wait begins after the helper's 100 ms, if this thread had no CPU for a while. */
CP_TEST(known_causes_have_their_time)
{
    static const struct cause causes[] = {{"wait_for_lock", "pthread_mutex_lock"},
                                          {"wait_for_reader", "pthread_rwlock_wrlock"},
                                          {"wait_for_condition", "pthread_cond_wait"},
                                          {"wait_for_semaphore", "sem_wait"},
                                          {"wait_at_barrier", "pthread_barrier_wait"},
                                          {"wait_for_pipe", "read"},
                                          {"wait_for_poll", "poll"},
                                          {"wait_for_thread", "pthread_join"},
                                          {"wait_for_child", "waitpid"},
                                          {"wait_asleep", "nanosleep"}};
    char *top, *traces, pair[80];

    build_stranger("target", "waits_target.c");
    free(run_waiting("-e wait:1000", "./target causes"));
    top = read_delays("-top -cum -nodecount=1000 -nodefraction=0");
    traces = read_delays("-traces");
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++) {
        CHECKF(ms_in(top, causes[i].function) >= 10, "%s: %s", causes[i].function, top);
        snprintf(pair, sizeof pair, "%s\n             %s", causes[i].call, causes[i].function);
        CHECK_CONTAINS(traces, pair);
    }
    free(top);
    free(traces);
}

/* The helper holds two locks, a tenth of a second each after this thread has come. */
CP_TEST(who_holds_a_lock_is_credited_with_the_waits)
{
    char *top, *traces;

    build_stranger("target", "waits_target.c");
    free(run_waiting("-e lock:1000", "./target causes"));
    top = read_delays("-top -cum -nodecount=1000 -nodefraction=0");
    traces = read_delays("-traces");
    CHECKF(ms_in(top, "end_waits") >= 20, "%s", top);
    CHECKF(ms_in(top, "pthread_mutex_unlock") >= 10, "%s", top);
    CHECKF(ms_in(top, "pthread_rwlock_unlock") >= 10, "%s", top);
    CHECK_CONTAINS(traces, "pthread_mutex_unlock\n             end_waits");
    CHECK_CONTAINS(traces, "pthread_rwlock_unlock\n             end_waits");
    CHECK_CONTAINS(traces, "reason:  lock");
    CHECK(strstr(traces, "wait_for_lock") == NULL);
    free(top);
    free(traces);
}

/* The helper is late with what this thread waits for. */
CP_TEST(who_is_late_is_credited_with_the_waits)
{
    static const char *const calls[][2] = {{"condition", "pthread_cond_signal"},
                                           {"semaphore", "sem_post"},
                                           {"wait group", "pthread_barrier_wait"}};
    char *top, *traces, text[120];

    build_stranger("target", "waits_target.c");
    free(run_waiting("-e lock:1000", "./target causes"));
    top = read_delays("-top -cum -nodecount=1000 -nodefraction=0");
    traces = read_delays("-traces");
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        CHECKF(ms_in(top, calls[i][1]) >= 10, "%s: %s", calls[i][1], top);
        snprintf(text, sizeof text, "%s\n             end_waits", calls[i][1]);
        CHECK_CONTAINS(traces, text);
        snprintf(text, sizeof text, "reason:  %s", calls[i][0]);
        CHECK_CONTAINS(traces, text);
    }
    free(top);
    free(traces);
}

/* A wait for a condition gives the mutex back. */
CP_TEST(who_waits_for_a_condition_has_made_others_wait_for_its_mutex)
{
    char *top, *traces;

    build_stranger("target", "waits_target.c");
    free(run_waiting("-e lock:1000", "./target gives"));
    top = read_delays("-top -cum -nodecount=1000 -nodefraction=0");
    traces = read_delays("-traces");
    CHECKF(ms_in(top, "give_back_by_waiting") >= 10, "%s", top);
    CHECK_CONTAINS(traces, "pthread_cond_timedwait\n             give_back_by_waiting");
    CHECK_CONTAINS(traces, "reason:  lock");
    free(top);
    free(traces);
}

/* A few of the 32 may come late. */
CP_TEST(who_makes_a_crowd_wait_is_credited_with_all_of_them)
{
    char *top;

    build_stranger("target", "waits_target.c");
    free(run_waiting("-e lock:1", "./target crowd"));
    top = read_times("contentions", "-top -cum -nodecount=1000 -nodefraction=0");
    CHECKF(ms_in(top, "unlock_for_crowd") >= 20, "%s", top);
    free(top);
}

/* The wait is in no profile of the event wait. */
CP_TEST(nobody_is_credited_with_the_wait_of_an_unknown_thread)
{
    char *top;

    build_stranger("target", "waits_target.c");
    free(run_waiting("-e lock:1", "./target unknown"));
    top = read_times("delay", "-top -cum -nodecount=1000 -nodefraction=0");
    CHECKF(strstr(top, "unlock_for_crowd") == NULL, "%s", top);
    free(top);
}

/* One thread sleeps for a second, one waits for a lock of the main thread, which computes meanwhile. The
 * looks may come late, and what is after the last one is in no sample. */
CP_TEST(what_threads_do_has_its_time)
{
    char *tags, *waits, *runs;
    uint64_t begin;
    double most;

    build_stranger("target", "waits_target.c");
    begin = wall_ns();
    free(run_waiting("-e wall", "./target lives"));
    most = (double)(wall_ns() - begin) / 1e6;
    tags = read_times("wall", "-tags");
    waits = read_times("wall", "-top -cum -nodecount=1000 -nodefraction=0 -tagfocus=state=waiting");
    runs = read_times("wall", "-top -cum -nodecount=1000 -nodefraction=0 -tagfocus=state=running");
    printf("%s%s%s", tags, waits, runs);
    CHECK(ms_of_tag(tags, "sleep") >= 300 && ms_of_tag(tags, "sleep") <= 2 * most);
    CHECK(ms_of_tag(tags, "lock") >= 300 && ms_of_tag(tags, "lock") <= most);
    CHECK(ms_of_tag(tags, "running") >= 300 && ms_of_tag(tags, "running") <= 3 * most);
    CHECK(ms_in(waits, "sleep_long") >= 300 && ms_in(waits, "sleep_long") <= most);
    CHECK(ms_in(waits, "wait_for_lock") >= 300);
    CHECK(ms_in(runs, "compute_long") > 0);
    CHECK(ms_in(waits, "compute_long") == 0);
    free(tags);
    free(waits);
    free(runs);
}

/* The child of a fork has the parent's memory, but none of the threads that wait. */
CP_TEST(a_child_has_made_nobody_wait)
{
    char *traces;

    build_stranger("target", "waits_target.c");
    free(run_waiting("-e lock:1000", "./target forks"));
    traces = read_delays("-traces");
    CHECK_CONTAINS(traces, "unlock_as_parent");
    CHECK(strstr(traces, "unlock_as_child") == NULL);
    free(traces);
}

/* A free lock is no wait, and the profiler's own calls are not the program's. */
CP_TEST(what_does_not_wait_is_not_there)
{
    char *traces;

    build_stranger("target", "waits_target.c");
    free(run_waiting("-e wait:1", "./target alone"));
    traces = read_delays("-traces");
    CHECK_CONTAINS(traces, "nanosleep");
    CHECK(strstr(traces, "pthread_mutex_lock") == NULL);
    CHECK(strstr(traces, "sem_wait") == NULL);
    CHECK(strstr(traces, "cp_") == NULL);
    free(traces);
}

CP_TEST(calls_return_what_they_return_without_a_profile)
{
    build_stranger("answers", "answers_target.c");
    check_prints_alike("-e wait:1", "./answers");
    check_prints_alike("-e taskClock:1ms,wait:1", "./answers");
    check_prints_alike("-e lock:1", "./answers");
    check_prints_alike("-e wall:1ms", "./answers");
}

/* A wait that a handler has jumped out of ends there. The thread's later waits are told. */
CP_TEST(waits_after_a_jump_out_of_one_are_told)
{
    char *top;

    build_stranger("target", "waits_target.c");
    free(run_waiting("-e wait:1000", "./target jumps"));
    top = read_delays("-top -cum -nodecount=1000 -nodefraction=0");
    CHECKF(ms_in(top, "wait_until_jump") >= 10, "%s", top);
    CHECKF(ms_in(top, "wait_asleep") >= 10, "%s", top);
    free(top);
}

/* The same if the handler has jumped out of the library itself. */
CP_TEST(waits_after_jumps_out_of_the_telling_are_told)
{
    char *top;

    build_stranger("target", "waits_target.c");
    check_prints_alike("-e wait:1", "./target tosses");
    top = read_delays("-top -cum -nodecount=1000 -nodefraction=0");
    CHECKF(ms_in(top, "wait_asleep") >= 10, "%s", top);
    free(top);
}

CP_TEST(eight_threads_take_one_lock)
{
    build_stranger("target", "waits_target.c");
    check_prints_alike("-e wait:1", "./target torture");
    check_prints_alike("-e wait:1 --duration 0.02", "./target torture");
    check_prints_alike("-e lock:1,wait:1", "./target torture");
    check_prints_alike("-e wall:1ms", "./target torture");
}

/* The program allocates with a lock that is pthread's, and a handler that waits interrupts the
 * allocator. */
CP_TEST(waits_of_an_allocator_allocate_nothing)
{
    build_stranger("target", "waits_target.c");
    check_prints_alike("-e wait:1", "timeout -s KILL 10 ./target allocator"); /* it would hang for good */
    check_prints_alike("-e lock:1", "timeout -s KILL 10 ./target allocator");
    check_prints_alike("-e wall:1ms", "timeout -s KILL 10 ./target allocator");
}

CP_TEST(programs_of_cxx)
{
    char *top;

    if (system("command -v g++ > /dev/null") != 0)
        SKIP("g++ is not here");
    build_stranger("target", "waits_target.c");
    free(test_command(NULL, "cd %s && g++ -O1 -g -pthread %s -o cxx", test_dir(),
                      test_source("waits_target.cc")));
    check_prints_alike("-e wait:1000", "./cxx");
    top = read_delays("-top -cum -nodecount=1000 -nodefraction=0");
    CHECKF(ms_in(top, "wait_for_mutex") >= 10, "%s", top);
    CHECKF(ms_in(top, "wait_for_notice") >= 10, "%s", top);
    CHECKF(ms_in(top, "wait_for_end") >= 10, "%s", top);
    free(top);
}

/* Programs of which CPU events are profiled have none of these calls taken; nor have those without a
 * profile. */
CP_TEST(only_who_asks_for_waits_has_the_library)
{
    char *maps;

    build_stranger("target", "waits_target.c");
    maps = run_waiting("-e taskClock:1ms", "cat /proc/self/maps");
    CHECK_CONTAINS(maps, "libcounterpoint-preload.so");
    CHECK(strstr(maps, "preload-waits") == NULL);
    free(maps);
    maps = run_waiting("-e lock", "cat /proc/self/maps");
    CHECK_CONTAINS(maps, "libcounterpoint-preload-waits.so");
    free(maps);
}

/* Without the other library, the program is as without both. */
CP_TEST(the_library_of_waits_alone_does_nothing)
{
    char *bare, *out;

    build_stranger("answers", "answers_target.c");
    bare = test_command(NULL, "cd %s && ./answers", test_dir());
    out = test_command(NULL, "cd %s && LD_PRELOAD=%s/lib/libcounterpoint-preload-waits.so ./answers",
                       test_dir(), test_build_dir());
    CHECK_STR(out, bare);
    free(bare);
    free(out);
}
