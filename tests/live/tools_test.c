/* A program that profiles itself under valgrind, and with allocators of others. */
#include "tests/support/target_tools.h"

/* ---- valgrind -------------------------------------------------------------------------------- */

/* Valgrind 3.19 ends if it meets debug information of clang 14. */
static void build_for_valgrind(void)
{
    build_target("-Wl,--strip-debug", "command -v valgrind && valgrind -q true", "valgrind is not installed");
}

/* Valgrind's code runs in the place of the program's, so its profile has few of the program's functions. It
 * complains of each system call whose arguments look wrong to it. */
CP_TEST(valgrind_has_nothing_to_say)
{
    char *output;
    int status;

    build_for_valgrind();
    status = run_target("valgrind -q --error-exitcode=9", &output);
    CHECKF(status == 0 && output[0] == '\0', "%d: %s", status, output);
    free(output);
    check_target("x.pb.gz", "event: taskClock\nengine: signal # ", NULL);
    check_target("y.pb.gz", "event: timer\n", NULL);
}

CP_TEST(traps_are_refused_under_valgrind)
{
    char *output;

    build_for_valgrind();
    CHECK_EQ(run_target("CP_ENGINE=trap valgrind -q --error-exitcode=9", &output), 3);
    CHECK_CONTAINS(output, "cannot be sampled by traps: valgrind runs the program.");
    free(output);
}

/* ---- Allocators ------------------------------------------------------------------------------ */

static void check_with_allocator(const char *library, const char *engine)
{
    char *output, before[128], needed[96];
    int status;

    snprintf(needed, sizeof needed, "! LD_PRELOAD=%s true 2>&1 | grep -q .", library);
    build_target("", needed, "the library is not installed");
    snprintf(before, sizeof before, "LD_PRELOAD=%s CP_ENGINE=%s", library, engine);
    status = run_target(before, &output);
    CHECKF(status == 0 && output[0] == '\0', "%d: %s", status, output);
    free(output);
    check_target("x.pb.gz", "event: taskClock\n", " work");
    check_target("y.pb.gz", "event: timer\n", " work");
}

CP_TEST(jemalloc)
{
    check_with_allocator("libjemalloc.so.2", "");
}

CP_TEST(jemalloc_and_sigprof)
{
    check_with_allocator("libjemalloc.so.2", "signal");
}

CP_TEST(tcmalloc)
{
    check_with_allocator("libtcmalloc.so.4", "");
}

CP_TEST(tcmalloc_and_sigprof)
{
    check_with_allocator("libtcmalloc.so.4", "signal");
}
