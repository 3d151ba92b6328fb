/* Programs that are built with a sanitizer, while the library is not. ThreadSanitizer keeps signals back, and
 * calls their handlers in functions of the C library that it replaces, also in those that the library calls.
 * */
#include <stdlib.h>

#include "tests/support/profile_tools.h"

/* Builds a program with a sanitizer, and has it profile itself. Returns its exit status; *output is what it
 * prints. */
static int run_sanitized(const char *sanitizer, const char *engine, char **output)
{
    int status;

    if (TEST_ASAN || TEST_TSAN)
        SKIP("this build of the library has a sanitizer of its own");
    test_need_events();
    *output = test_command(
        &status,
        "cd %s && top=$(dirname %s)/../.. && echo 'int main(void) { return 0; }' > empty.c && "
        "{ gcc -fsanitize=%s empty.c -o empty 2> /dev/null && ./empty || exit 77; } && "
        "gcc -O1 -g -fsanitize=%s -iquote $top/pprof -iquote $top/runtime -iquote $top/runtime/base -iquote "
        "$top/runtime/event %s %s/lib/libcounterpoint.a -lprotobuf-c -lz -ldw -lelf -lpfm -liberty -ldl -lrt "
        "-pthread -o sanitized 2>&1 && CP_ENGINE=%s ./sanitized x.pb.gz taskClock 2>&1",
        test_dir(), test_source("tsan_target.c"), sanitizer, sanitizer, test_source("tsan_target.c"),
        test_build_dir(), engine);
    if (status == 77)
        SKIP("no program with this sanitizer runs here");
    return status;
}

/* Checks what the program's profile says. */
static void check_runs(const char *sanitizer, const char *engine, const char *says)
{
    char *output, *comments;
    int status = run_sanitized(sanitizer, engine, &output);

    CHECKF(status == 0, "%d: %s", status, output);
    free(output);
    comments =
        test_command(NULL, "cd %s && PPROF_TMPDIR=. HOME=. go tool pprof -comments x.pb.gz", test_dir());
    CHECK_CONTAINS(comments, "event: taskClock\n");
    CHECK_CONTAINS(comments, says);
    free(comments);
}

CP_TEST(a_program_with_threadsanitizer_is_sampled)
{
    check_runs("thread", "", "engine_reason: the program is built with ThreadSanitizer # ");
}

CP_TEST(a_program_with_threadsanitizer_has_no_traps)
{
    char *output;

    CHECK_EQ(run_sanitized("thread", "trap", &output), 3);
    CHECK_CONTAINS(output, "cannot be sampled by traps: the program is built with ThreadSanitizer.");
    free(output);
}

CP_TEST(a_program_with_addresssanitizer_is_sampled)
{
    check_runs("address,undefined", "", "engine: ");
}

CP_TEST(a_program_with_addresssanitizer_is_sampled_by_sigprof)
{
    check_runs("address,undefined", "signal", "engine: signal # ");
}
