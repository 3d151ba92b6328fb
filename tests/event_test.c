/* Events: their names, and the configs that are made of them. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>
#include <linux/perf_event.h>

#include "runtime/event.h"
#include "runtime/os.h"
#include "test.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* The order of the proposal, section 4.2; programs are compiled with these numbers. */
_Static_assert(CP_CPUPROF_OS_TIMER == 0 && CP_CPUPROF_FIRST_EVENT == 0, "");
_Static_assert(CP_CPUPROF_HW_CPU_CYCLES == 1 && CP_CPUPROF_FIRST_PMU_EVENT == 1, "");
_Static_assert(CP_CPUPROF_HW_INSTRUCTIONS == 2, "");
_Static_assert(CP_CPUPROF_HW_CACHE_REFERENCES == 3, "");
_Static_assert(CP_CPUPROF_HW_CACHE_MISSES == 4, "");
_Static_assert(CP_CPUPROF_HW_BRANCH_INSTRUCTIONS == 5, "");
_Static_assert(CP_CPUPROF_HW_BRANCH_MISSES == 6, "");
_Static_assert(CP_CPUPROF_HW_RAW == 7 && CP_CPUPROF_LAST_EVENT == 7, "");
_Static_assert(CP_CPUPROF_EVENTS_MAX == 8 && CP_EV_MAX == 8, "");
_Static_assert(CP_CPUPROF_SW_TASK_CLOCK == 8, "");
_Static_assert(CP_CPUPROF_SW_CPU_CLOCK == 9, "");
_Static_assert(CP_CPUPROF_SW_PAGE_FAULTS == 10, "");
_Static_assert(CP_CPUPROF_SW_CONTEXT_SWITCHES == 11, "");
_Static_assert(CP_CPUPROF_SW_CPU_MIGRATIONS == 12 && CP_CPUPROF_NAMED == 13, "");
_Static_assert(CP_CPUPROF_EVENT_COUNT == 14, "");
_Static_assert(CP_CPUPROF_IP_ARBITRARY_SKID == 0 && CP_CPUPROF_IP_CONSTANT_SKID == 1 &&
                   CP_CPUPROF_IP_SUGGEST_NO_SKID == 2 && CP_CPUPROF_IP_NO_SKID == 3,
               "the kernel's precise_ip");

/* ---- Names ----------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    const char *perf_name; /* NULL: perf has none */
    enum cp_cpu_event event;
    enum cp_event_kind kind;
    uint32_t type;
    uint64_t config;
    uint64_t preset;
} table[] = {
    {"timer", NULL, CP_CPUPROF_OS_TIMER, CP_EVENT_TIMER, 0, 0, 10000000},
    {"cycles", "cpu-cycles", CP_CPUPROF_HW_CPU_CYCLES, CP_EVENT_HARDWARE, PERF_TYPE_HARDWARE,
     PERF_COUNT_HW_CPU_CYCLES, 10000000},
    {"instructions", "instructions", CP_CPUPROF_HW_INSTRUCTIONS, CP_EVENT_HARDWARE, PERF_TYPE_HARDWARE,
     PERF_COUNT_HW_INSTRUCTIONS, 1000000},
    {"cacheReferences", "cache-references", CP_CPUPROF_HW_CACHE_REFERENCES, CP_EVENT_HARDWARE,
     PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES, 100000},
    {"cacheMisses", "cache-misses", CP_CPUPROF_HW_CACHE_MISSES, CP_EVENT_HARDWARE, PERF_TYPE_HARDWARE,
     PERF_COUNT_HW_CACHE_MISSES, 10000},
    {"branches", "branch-instructions", CP_CPUPROF_HW_BRANCH_INSTRUCTIONS, CP_EVENT_HARDWARE,
     PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS, 100000},
    {"branchMisses", "branch-misses", CP_CPUPROF_HW_BRANCH_MISSES, CP_EVENT_HARDWARE, PERF_TYPE_HARDWARE,
     PERF_COUNT_HW_BRANCH_MISSES, 10000},
    {"taskClock", "task-clock", CP_CPUPROF_SW_TASK_CLOCK, CP_EVENT_CLOCK, PERF_TYPE_SOFTWARE,
     PERF_COUNT_SW_TASK_CLOCK, 10000000},
    {"cpuClock", "cpu-clock", CP_CPUPROF_SW_CPU_CLOCK, CP_EVENT_CLOCK, PERF_TYPE_SOFTWARE,
     PERF_COUNT_SW_CPU_CLOCK, 10000000},
    {"pageFaults", "page-faults", CP_CPUPROF_SW_PAGE_FAULTS, CP_EVENT_SOFTWARE, PERF_TYPE_SOFTWARE,
     PERF_COUNT_SW_PAGE_FAULTS, 0},
    {"contextSwitches", "context-switches", CP_CPUPROF_SW_CONTEXT_SWITCHES, CP_EVENT_SOFTWARE,
     PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, 0},
    {"cpuMigrations", "cpu-migrations", CP_CPUPROF_SW_CPU_MIGRATIONS, CP_EVENT_SOFTWARE, PERF_TYPE_SOFTWARE,
     PERF_COUNT_SW_CPU_MIGRATIONS, 0},
};

static struct cp_event_spec parse(const char *name)
{
    struct cp_event_spec spec;
    struct cp_error err = {.code = 1};

    memset(&spec, 0xff, sizeof spec);
    CHECKF(cp_event_parse(name, &spec, &err) == 0, "%s: %s", name, err.message);
    CHECK_EQ(err.code, 1); /* untouched */
    return spec;
}

CP_TEST(names)
{
    CHECK_EQ(ARRAY_SIZE(table), CP_CPUPROF_EVENT_COUNT - 2); /* all but the raw and the named one */
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        const char *const spellings[] = {table[i].name, table[i].perf_name};

        for (size_t j = 0; j < 2 && spellings[j] != NULL; j++) {
            struct cp_event_spec spec = parse(spellings[j]);

            CHECK_EQ(spec.event, table[i].event);
            CHECK_EQ(spec.raw_event, 0);
            CHECK_STR(spec.name, table[i].name);
        }
        CHECK_STR(cp_event_name(table[i].event), table[i].name);
    }
    CHECK_STR(cp_event_name(CP_CPUPROF_HW_RAW), "raw");
    CHECK(cp_event_name(CP_CPUPROF_EVENT_COUNT) == NULL);
    CHECK(cp_event_name((enum cp_cpu_event) - 1) == NULL);
}

CP_TEST(what_events_are)
{
    const struct cp_event_encoding none = {.type = 0};

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        const struct cp__event *row = cp__event(table[i].event, &none);
        struct cp_event_spec spec = parse(table[i].name);

        CHECK_EQ(spec.kind, table[i].kind);
        CHECK_EQ(spec.preset_period, table[i].preset);
        CHECK_EQ(row->perf_type, table[i].type);
        CHECK_EQ(row->perf_config, table[i].config);
    }
    CHECK_EQ(parse("r1").kind, CP_EVENT_HARDWARE);
    CHECK(parse("r1").preset_period != 0);
    CHECK(cp__event(CP_CPUPROF_EVENT_COUNT, &none) == NULL);
    CHECK(cp__event((enum cp_cpu_event) - 1, &none) == NULL);
}

CP_TEST(raw_events)
{
    static const struct {
        const char *name;
        uint64_t raw;
        const char *canonical;
    } raws[] = {
        {"r0", 0, "r0"},
        {"r1c2", 0x1c2, "r1c2"},
        {"r1C2", 0x1c2, "r1c2"},
        {"rABCDEF", 0xabcdef, "rabcdef"},
        {"rabcdef", 0xabcdef, "rabcdef"},
        {"r00c4", 0xc4, "rc4"},
        {"r0000000000000001", 1, "r1"},
        {"rFFFFFFFFFFFFFFFF", UINT64_MAX, "rffffffffffffffff"},
        {"r8000000000000000", (uint64_t)1 << 63, "r8000000000000000"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(raws); i++) {
        struct cp_event_spec spec = parse(raws[i].name);

        CHECK_EQ(spec.event, CP_CPUPROF_HW_RAW);
        CHECKF(spec.raw_event == raws[i].raw, "%s", raws[i].name);
        CHECK_STR(spec.name, raws[i].canonical);
        spec = parse(spec.name); /* a canonical name is a name */
        CHECKF(spec.raw_event == raws[i].raw, "%s", raws[i].name);
    }
}

/* The message is text that a terminal shows as it is, and ends within its place. */
static void check_message(const struct cp_error *err)
{
    size_t n = strnlen(err->message, sizeof err->message);

    CHECK(n > 20 && n < sizeof err->message);
    CHECK_STR(strrchr(err->message, '.'), ".");
    for (size_t i = 0; i < n; i++)
        CHECKF((unsigned char)err->message[i] >= ' ' && err->message[i] != 0x7f, "byte %d is %#x", (int)i,
               (unsigned char)err->message[i]);
}

static void refuse(const char *name, const char *shown)
{
    struct cp_event_spec spec;
    struct cp_error err = {0};
    char quoted[64];

    CHECKF(cp_event_parse(name, &spec, &err) == -EINVAL, "%s", name);
    CHECK_EQ(err.code, -EINVAL);
    check_message(&err);
    snprintf(quoted, sizeof quoted, "\"%s\"", shown);
    CHECK_CONTAINS(err.message, quoted);
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) /* what to use instead */
        CHECK_CONTAINS(err.message, table[i].name);
    CHECK_CONTAINS(err.message, "rHEX");
    CHECK_EQ(cp_event_parse(name, &spec, NULL), -EINVAL);
}

CP_TEST(names_of_nothing)
{
    static const char *const names[] = {
        "",     " ",     "cycle",  "Cycles", "CYCLES", " cycles", "cycles ",   "cycles\t",    "cycles:u",
        "cpu/", "raw",   "r",      "rxyz",   "r1g",    "R1c2",    "r 1c2",     "r1c2 ",       "r0x1c2",
        "r-1",  "r+1",   "rr1",    "0x1c2",  "1c2",    "r1,c2",   "taskclock", "task_clock",  "timer,cycles",
        "r.",   "clock", "faults", "all",    "-",      "%s%n%x",  "\"",        "branchmisses"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcmp(names[i], "cycles\t") != 0)
            refuse(names[i], names[i]);
    refuse("cycles\t", "cycles?");
    refuse("r12345678123456781", "r12345678123456781"); /* 17 digits */
    refuse("r00000000000000001", "r00000000000000001");
    refuse(NULL, "");
}

/* No byte of a name can do anything to whom it is shown. */
CP_TEST(names_of_odd_bytes)
{
    char name[4] = "a?c";

    for (int byte = 1; byte < 256; byte++) {
        char shown[4] = "a?c";

        name[1] = (char)byte;
        if (byte >= ' ' && byte != 0x7f)
            shown[1] = (char)byte;
        refuse(name, shown);
    }
    refuse("\033[2J\033]0;title\007cycles\r\n", "?[2J?]0;title?cycles??");
}

CP_TEST(names_of_any_length)
{
    char *name = malloc(100001);
    char shown[64];

    for (size_t n = 1; n <= 100000; n = n < 600 ? n + 1 : n * 3) {
        memset(name, 'x', n);
        name[n] = 0;
        snprintf(shown, sizeof shown, "%.40s%s", name, n > 40 ? "..." : "");
        refuse(name, shown);
    }
    free(name);
}

/* ---- Configs --------------------------------------------------------------------------------- */

static int check(enum cp_cpu_event event, const struct cp_cpu_profile_config *config, struct cp_error *err)
{
    const struct cp_slot_request request = {.event = event, .config = *config};

    return cp__request_check(&request, err);
}

static struct cp_cpu_profile_config config_of(const char *name, uint64_t period)
{
    struct cp_cpu_profile_config config;
    struct cp_event_spec spec = parse(name);
    struct cp_error err = {0};

    memset(&config, 0xff, sizeof config);
    CHECKF(cp_cpu_profile_config_init(&config, &spec, period, &err) == 0, "%s: %s", name, err.message);
    CHECKF(check(spec.event, &config, &err) == 0, "%s: %s", name, err.message);
    CHECK_EQ(config.size, sizeof config);
    return config;
}

/* What the proposal has by default: the program counter and nothing else. */
CP_TEST(configs)
{
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct cp_cpu_profile_config config = config_of(table[i].name, 123456);

        CHECK_EQ(config.period, 123456);
        CHECK_EQ(config.hz, table[i].kind == CP_EVENT_TIMER ? 8100 : 0);
        CHECK_EQ(config.raw_event, 0);
        CHECK_EQ(config.precise_ip, CP_CPUPROF_IP_ARBITRARY_SKID);
        CHECK(config.is_sample_ip_included);
        CHECK(!config.is_sample_addr_included && !config.is_hv_included && !config.is_idle_included);
        CHECK(!config.is_sample_callchain_included && !config.is_callchain_kernel_included &&
              !config.is_callchain_user_included);
    }
    CHECKF(config_of("rffffffffffffffff", 5000).raw_event == UINT64_MAX, "raw_event");
    CHECK_EQ(config_of("r1c2", 0).raw_event, 0x1c2);
}

CP_TEST(preset_periods)
{
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        if (table[i].preset != 0)
            CHECK_EQ(config_of(table[i].name, 0).period, table[i].preset);
        else
            CHECK_EQ(config_of(table[i].name, 1).period, 1);
    }
    CHECK_EQ(config_of("timer", 0).hz, 100);
    CHECK_EQ(config_of("r1c2", 0).period, 100000);
}

CP_TEST(rates_of_the_timer)
{
    CHECK_EQ(config_of("timer", 1000).hz, 1000000);
    CHECK_EQ(config_of("timer", 1001).hz, 999000);
    CHECK_EQ(config_of("timer", 1000000).hz, 1000);
    CHECK_EQ(config_of("timer", 30000000).hz, 33);
    CHECK_EQ(config_of("timer", 999999999).hz, 1);
    CHECK_EQ(config_of("timer", 1000000000).hz, 1);
    CHECK_EQ(config_of("timer", 1000000001).hz, 1); /* no slower than that */
    CHECK_EQ(config_of("timer", INT64_MAX).hz, 1);
}

static void refuse_period(const char *name, uint64_t period, const char *remedy)
{
    struct cp_cpu_profile_config config;
    struct cp_event_spec spec = parse(name);
    struct cp_error err = {0};

    CHECKF(cp_cpu_profile_config_init(&config, &spec, period, &err) == -EINVAL, "%s %llu", name,
           (unsigned long long)period);
    CHECK_EQ(err.code, -EINVAL);
    check_message(&err);
    CHECK_CONTAINS(err.message, spec.name);
    CHECK_CONTAINS(err.message, remedy);
    CHECK_EQ(cp_cpu_profile_config_init(&config, &spec, period, NULL), -EINVAL);
}

CP_TEST(periods_that_are_refused)
{
    static const struct {
        const char *name;
        uint64_t smallest;
        const char *said;
    } least[] = {
        {"timer", 1000, "the smallest is 1000 ns"},      {"taskClock", 10000, "the smallest is 10000 ns"},
        {"cpuClock", 10000, "the smallest is 10000 ns"}, {"cycles", 1000, "the smallest is 1000,"},
        {"branchMisses", 1000, "the smallest is 1000,"}, {"r1c2", 1000, "the smallest is 1000,"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(least); i++) {
        config_of(least[i].name, least[i].smallest);
        refuse_period(least[i].name, least[i].smallest - 1, least[i].said);
        refuse_period(least[i].name, 1, "0 takes the preset");
        config_of(least[i].name, INT64_MAX);
        refuse_period(least[i].name, (uint64_t)INT64_MAX + 1, "the largest is 9223372036854775807");
        refuse_period(least[i].name, UINT64_MAX, "the largest is");
    }
    refuse_period("pageFaults", 0, "Give one");
    refuse_period("contextSwitches", 0, "Give one");
    refuse_period("cpuMigrations", 0, "Give one");
    refuse_period("pageFaults", UINT64_MAX, "the largest is");
}

static void refuse_config(enum cp_cpu_event event, const struct cp_cpu_profile_config *config,
                          const char *said)
{
    struct cp_error err = {0};

    CHECK_EQ(check(event, config, &err), -EINVAL);
    CHECK_EQ(err.code, -EINVAL);
    check_message(&err);
    CHECK_CONTAINS(err.message, said);
}

/* Configs that somebody filled by hand. */
CP_TEST(configs_that_are_refused)
{
    struct cp_cpu_profile_config config = config_of("r1c2", 0);
    struct cp_event_spec spec = {.event = CP_CPUPROF_EVENT_COUNT};
    struct cp_error err = {0};

    config.period = 0;
    refuse_config(CP_CPUPROF_HW_RAW, &config, "r1c2");
    refuse_config(CP_CPUPROF_HW_RAW, &config, "100000"); /* the preset */
    config = config_of("r1c2", 0);
    config.size--;
    refuse_config(CP_CPUPROF_HW_RAW, &config, "r1c2");
    config = config_of("cycles", 0);
    config.precise_ip = CP_CPUPROF_IP_NO_SKID;
    CHECK_EQ(check(CP_CPUPROF_HW_CPU_CYCLES, &config, NULL), 0);
    config.precise_ip = (enum cp_profile_pc_precision)4;
    refuse_config(CP_CPUPROF_HW_CPU_CYCLES, &config, "cycles is not one of 0 to 3");
    config = config_of("contextSwitches", 1);
    config.is_kernel_included = false;
    refuse_config(CP_CPUPROF_SW_CONTEXT_SWITCHES, &config, "is_kernel_included");
    config = config_of("timer", 0);
    config.hz = 0;
    refuse_config(CP_CPUPROF_OS_TIMER, &config, "1 to 1000000");
    config.hz = 1000001;
    refuse_config(CP_CPUPROF_OS_TIMER, &config, "1 to 1000000");
    refuse_config(CP_CPUPROF_EVENT_COUNT, &config, "13");
    refuse_config((enum cp_cpu_event) - 1, &config, "0 to 13");
    CHECK_EQ(cp_cpu_profile_config_init(&config, &spec, 1000, &err), -EINVAL);
    check_message(&err);
}

/* ---- The kernel's part ----------------------------------------------------------------------- */

/* What perf_event_open itself says. */
static bool kernel_may_count(void)
{
    struct perf_event_attr attr = {.size = sizeof attr,
                                   .type = PERF_TYPE_SOFTWARE,
                                   .config = PERF_COUNT_SW_TASK_CLOCK,
                                   .sample_period = 1000000000,
                                   .disabled = 1};
    int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

    if (fd < 0)
        return false;
    close(fd);
    return true;
}

static void check_kernel(void)
{
    bool may = kernel_may_count();

    printf("kernel mode: %s\n", may ? "yes" : "no");
    CHECK_EQ(cp__os_may_count_kernel(), may);
    CHECK_EQ(config_of("taskClock", 0).is_kernel_included, may);
    CHECK_EQ(config_of("cpuClock", 0).is_kernel_included, may);
    CHECK_EQ(config_of("pageFaults", 1).is_kernel_included, may);
    CHECK(config_of("timer", 0).is_kernel_included); /* a CPU clock has both */
    CHECK(config_of("contextSwitches", 1).is_kernel_included);
    CHECK(config_of("cpuMigrations", 1).is_kernel_included);
    CHECK(!config_of("cycles", 0).is_kernel_included);
    CHECK(!config_of("r1c2", 0).is_kernel_included);
}

CP_TEST(kernel_mode_where_it_is_allowed)
{
    check_kernel();
}

/* Without the privileges that this process may have, perf_event_paranoid decides alone. */
CP_TEST(kernel_mode_without_privileges)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}, {0}};

    CHECK_EQ(syscall(SYS_capset, &header, none), 0);
    check_kernel();
}
