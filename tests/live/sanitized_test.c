/* Programs that are built with a sanitizer, while the library is not. ThreadSanitizer keeps signals back, and
 * calls their handlers in functions of the C library that it replaces, also in those that the library calls.
 * */
#include "tests/support/target_tools.h"

/* Builds the program with a sanitizer, if such a program runs here. */
static void build_sanitized(const char *sanitizer)
{
    char flags[64], needed[256];

    snprintf(flags, sizeof flags, "-fsanitize=%s", sanitizer);
    snprintf(needed, sizeof needed,
             "echo 'int main(void) { return 0; }' > empty.c && gcc %s empty.c -o empty && ./empty", flags);
    build_target(flags, needed, "no program with this sanitizer runs here");
}

/* Runs the program, and checks that the sanitizer has nothing to say, and what the profiles say. */
static void check_runs(const char *sanitizer, const char *engine, const char *says)
{
    char *output, before[32];
    int status;

    build_sanitized(sanitizer);
    snprintf(before, sizeof before, "CP_ENGINE=%s", engine);
    status = run_target(before, &output);
    CHECKF(status == 0 && output[0] == '\0', "%d: %s", status, output);
    free(output);
    check_target("x.pb.gz", "event: taskClock\n", " work");
    check_target("x.pb.gz", says, NULL);
    check_target("y.pb.gz", "event: timer\n", " work");
}

/* Returns why programs without a sanitizer are not sampled by traps here; NULL: they are. */
static const char *obstacle_here(void)
{
    enum cp_engine engine;
    const char *why = NULL;

    unsetenv("CP_ENGINE");
    CHECK_EQ(cp_engine_choose(&engine, &why, NULL), 0);
    return why;
}

CP_TEST(a_program_with_threadsanitizer_is_sampled)
{
    check_runs("thread", "",
               obstacle_here() == NULL ? "engine_reason: the program is built with ThreadSanitizer # "
                                       : "engine: signal # ");
}

CP_TEST(a_program_with_threadsanitizer_has_no_traps)
{
    char *output;

    if (obstacle_here() != NULL)
        SKIP("%s", obstacle_here());
    build_sanitized("thread");
    CHECK_EQ(run_target("CP_ENGINE=trap", &output), 3);
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
