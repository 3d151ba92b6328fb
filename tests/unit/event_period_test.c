/* Tests of the period that an event's name may end in. */
#include "tests/support/event_tools.h"

#include <perfmon/pfmlib_perf_event.h>

CP_TEST(periods_are_taken_off_names)
{
    static const struct {
        const char *name, *left;
        uint64_t period;
    } names[] = {
        {"taskClock:100000", "taskClock", 100000},
        {"taskClock:uk:100000", "taskClock:uk", 100000},
        {"taskClock:uk", "taskClock:uk", 0},
        {"pageFaults:1", "pageFaults", 1},
        {"pageFaults:007", "pageFaults", 7}, /* decimal */
        {"pageFaults", "pageFaults", 0},
        {"r1c2:1000", "r1c2", 1000},
        {"r1c2", "r1c2", 0},
        {"cycles:upp:9223372036854775807", "cycles:upp", INT64_MAX},
        /* units of time */
        {"taskClock:1ms", "taskClock", 1000000},
        {"task-clock:u:10us", "task-clock:u", 10000},
        {"cpuClock:250ns", "cpuClock", 250},
        {"timer:1s", "timer", 1000000000},
        {"timer:9223372036s", "timer", 9223372036000000000},
        {"wait:10us", "wait", 10000},
        {"runnable:1ms", "runnable", 1000000},
        {"lock:1", "lock", 1},
        /* tracepoints, whose names may begin with a digit */
        {"sched:sched_switch:1", "sched:sched_switch", 1},
        {"tracepoint:sched:sched_switch:k:5", "tracepoint:sched:sched_switch:k", 5},
        {"sched:sched_switch", "sched:sched_switch", 0},
        {"9p:9p_client_req", "9p:9p_client_req", 0},
        {"9p:9p_client_req:2", "9p:9p_client_req", 2},
        /* watchpoints, whose address may be decimal */
        {"mem:4096", "mem:4096", 0},
        {"mem:4096:1", "mem:4096", 1},
        {"mem:4096/8:2", "mem:4096/8", 2},
        {"mem:0x1234:rw", "mem:0x1234:rw", 0},
        {"mem:0x1234:rw:u:100", "mem:0x1234:rw:u", 100},
        {"mem:", "mem:", 0},
        /* events of PMUs and of libpfm4 */
        {"cpu/event=0x3c/u:1000", "cpu/event=0x3c/u", 1000},
        {"cpu/event=0x3c/:1000", "cpu/event=0x3c/", 1000},
        {"cpu/event=0x3c,inv/", "cpu/event=0x3c,inv/", 0},
        {"MEM_LOAD_RETIRED:L3_MISS:c=1", "MEM_LOAD_RETIRED:L3_MISS:c=1", 0},
        {"MEM_LOAD_RETIRED:L3_MISS:c=1:1000", "MEM_LOAD_RETIRED:L3_MISS:c=1", 1000},
        {"MEM_LOAD_RETIRED:0x10", "MEM_LOAD_RETIRED:0x10", 0},
        {"skl::L1_ITLB_MISS:4K_PAGE_FETCHES", "skl::L1_ITLB_MISS:4K_PAGE_FETCHES", 0},
        {"pfm:skl::INST_RETIRED:ANY_P:1000", "pfm:skl::INST_RETIRED:ANY_P", 1000},
        /* what is no period stays, and cp_event_parse() refuses the name */
        {"taskClock:100k", "taskClock:100k", 0},
        {"taskClock:1MS", "taskClock:1MS", 0},
        {"taskClock:1.5ms", "taskClock:1.5ms", 0},
        {"taskClock:1 ms", "taskClock:1 ms", 0},
        {"taskClock:-1", "taskClock:-1", 0},
        {"taskClock:+1", "taskClock:+1", 0},
        {"taskClock:ms", "taskClock:ms", 0},
        {"taskClock:100:uk", "taskClock:100:uk", 0},
        {"1000", "1000", 0},
        {"", "", 0},
        {":1", "", 1},
    };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        char name[64];
        uint64_t period = 99;
        struct cp_error err = {.code = 1};

        snprintf(name, sizeof name, "%s", names[i].name);
        CHECKF(cp_event_take_period(name, &period, &err) == 0, "%s: %s", names[i].name, err.message);
        CHECK_EQ(err.code, 1);
        CHECK_STR(name, names[i].left);
        CHECKF(period == names[i].period, "%s: %llu", names[i].name, (unsigned long long)period);
    }
}

CP_TEST(bad_periods_are_refused)
{
    static const struct {
        const char *name;
        int code;
        const char *said;
    } bad[] = {
        {"taskClock:0", -EINVAL, "\"taskClock\" cannot have a period of 0"},
        {"taskClock:uk:0ms", -EINVAL, "\"taskClock:uk\" cannot have a period of 0"},
        {"taskClock:", -EINVAL, "\"taskClock:\" ends in a colon. Remove"},
        {"taskClock:1:", -EINVAL, "as in \"taskClock:1:u\""},
        {"taskClock:9223372036854775808", -EINVAL, "too large: the largest is 9223372036854775807"},
        {"taskClock:18446744073709551616", -EINVAL, "too large"},
        {"taskClock:9223372037s", -EINVAL, "\"9223372037s\" of the event \"taskClock\" is too large"},
        {"pageFaults:1ms", -EINVAL, "The event pageFaults cannot have the period \"1ms\""},
        {"mem:4096:1us", -EINVAL, "a number of events, not a time"},
        {"nothing:1ms", -EINVAL, "no event named \"nothing\""},
        {"taskClock:x:1ms", -EINVAL, "cannot have a suffix with \"x\""},
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        char name[64];
        uint64_t period = 99;
        struct cp_error err = {0};
        int result;

        snprintf(name, sizeof name, "%s", bad[i].name);
        result = cp_event_take_period(name, &period, &err);
        CHECKF(result == bad[i].code, "%s: %d, %s", bad[i].name, result, err.message);
        CHECK_EQ(err.code, result);
        check_message(&err);
        CHECK_CONTAINS(err.message, bad[i].said);
        CHECK_STR(name, bad[i].name);
        CHECK_EQ(period, 99);
        CHECK_EQ(cp_event_take_period(name, &period, NULL), result);
    }
    CHECK_EQ(cp_event_take_period(NULL, &(uint64_t){0}, NULL), 0); /* cp_event_parse() refuses it */
}

/* Returns whether a part of a name would be taken for a period. */
static bool is_period(const char *part)
{
    char name[256];
    uint64_t period = 0;

    snprintf(name, sizeof name, "taskClock:%s", part);
    return cp_event_take_period(name, &period, NULL) == 0 && period != 0;
}

/* No event and no unit mask that libpfm4 knows, of any processor, looks like a period. */
CP_TEST(names_of_libpfm4_are_no_periods)
{
    unsigned masks = 0;

    CHECK(is_period("1000") && !is_period("4K_PAGE_FETCHES"));
    CHECK_EQ(pfm_initialize(), PFM_SUCCESS);
    for (pfm_pmu_t pmu = PFM_PMU_NONE; pmu < PFM_PMU_MAX; pmu++) {
        pfm_pmu_info_t info = {.size = sizeof info};

        if (pfm_get_pmu_info(pmu, &info) != PFM_SUCCESS)
            continue;
        for (int i = info.first_event; i != -1; i = pfm_get_event_next(i)) {
            pfm_event_info_t event = {.size = sizeof event};
            pfm_event_attr_info_t mask = {.size = sizeof mask};

            CHECK_EQ(pfm_get_event_info(i, PFM_OS_NONE, &event), PFM_SUCCESS);
            CHECKF(!is_period(event.name), "%s::%s", info.name, event.name);
            for (int n = 0; n < event.nattrs; n++, masks++) {
                CHECK_EQ(pfm_get_event_attr_info(i, n, PFM_OS_NONE, &mask), PFM_SUCCESS);
                CHECKF(!is_period(mask.name), "%s::%s:%s", info.name, event.name, mask.name);
            }
        }
    }
    printf("%u unit masks\n", masks);
    CHECK(masks > 100);
}
