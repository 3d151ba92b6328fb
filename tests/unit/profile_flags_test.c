/* Which arguments of a command line are the profile's flags. */
#include <stdlib.h>
#include <string.h>

#include "testing/profile.h"
#include "tests/support/test.h"

CP_TEST(all_spellings_are_taken_and_nothing_else)
{
    char *argv[] = {strdup("prog"),
                    strdup("-v"),
                    strdup("a"),
                    strdup("-test.cpuprofile"),
                    strdup("f"),
                    strdup("--cpuprofileevent=timer,taskClock"),
                    strdup("-"),
                    strdup("--test.cpuprofileperiod=12"),
                    strdup("---cpuprofile"),
                    strdup("-cpuprofiles"),
                    strdup("cpuprofile"),
                    strdup("-cpuprofileperiod"),
                    strdup("18446744073709551615"),
                    strdup("-cpuprofileengine=trap"),
                    strdup("-blockprofile=b"),
                    strdup("-test.blockprofilerate"),
                    strdup("10000"),
                    strdup("--mutexprofile"),
                    strdup("m"),
                    strdup("--"),
                    strdup("-cpuprofile"),
                    NULL};
    static const char *const kept[] = {"prog",         "-v",         "a",  "-",          "---cpuprofile",
                                       "-cpuprofiles", "cpuprofile", "--", "-cpuprofile"};
    char *all[sizeof argv / sizeof argv[0]];
    struct cp__profile_flags flags;
    int argc = sizeof argv / sizeof argv[0] - 1;

    memcpy(all, argv, sizeof all);
    cp__profile_flags_take(&argc, argv, &flags);
    CHECK_STR(flags.file, "f");
    CHECK_STR(flags.events, "timer,taskClock");
    CHECK_EQ(flags.engine, CP_ENGINE_TRAP);
    CHECK_STR(flags.contention_files[CP_CONTENTION_BLOCK], "b");
    CHECK_STR(flags.contention_files[CP_CONTENTION_MUTEX], "m");
    CHECK_EQ(flags.contention_period, 10000);
    CHECKF(flags.period == UINT64_MAX, "%llu", (unsigned long long)flags.period);
    CHECK_EQ(argc, sizeof kept / sizeof kept[0]);
    for (int i = 0; i < argc; i++)
        CHECK_STR(argv[i], kept[i]);
    CHECK(argv[argc] == NULL);
    for (size_t i = 0; all[i] != NULL; i++)
        free(all[i]);
}
