/* The table of events, and the configs that are made of them. */
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>

#include "tests/support/event_tools.h"

/* The order of the proposal, section 4.2. Programs are compiled with these numbers, so they must not
 * change. */
_Static_assert(CP_CPUPROF_OS_TIMER == 0, "");
_Static_assert(CP_CPUPROF_HW_CPU_CYCLES == 1, "");
_Static_assert(CP_CPUPROF_HW_INSTRUCTIONS == 2, "");
_Static_assert(CP_CPUPROF_HW_CACHE_REFERENCES == 3, "");
_Static_assert(CP_CPUPROF_HW_CACHE_MISSES == 4, "");
_Static_assert(CP_CPUPROF_HW_BRANCH_INSTRUCTIONS == 5, "");
_Static_assert(CP_CPUPROF_HW_BRANCH_MISSES == 6, "");
_Static_assert(CP_CPUPROF_HW_RAW == 7, "");
_Static_assert(CP_EV_MAX == 8, "");
_Static_assert(CP_CPUPROF_SW_TASK_CLOCK == 8, "");
_Static_assert(CP_CPUPROF_SW_CPU_CLOCK == 9, "");
_Static_assert(CP_CPUPROF_SW_PAGE_FAULTS == 10, "");
_Static_assert(CP_CPUPROF_SW_CONTEXT_SWITCHES == 11, "");
_Static_assert(CP_CPUPROF_SW_CPU_MIGRATIONS == 12 && CP_CPUPROF_NAMED == 13, "");
_Static_assert(CP_CPUPROF_WAIT == 14 && CP_CPUPROF_RUNNABLE == 15 && CP_CPUPROF_LOCK == 16, "");
_Static_assert(CP_CPUPROF_WALL == 17, "");
_Static_assert(CP_CPUPROF_EVENT_COUNT == 18, "");
_Static_assert(CP_EVENT_WATCHPOINT == 5 && CP_EVENT_WAIT == 6, "");
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
    {"wait", NULL, CP_CPUPROF_WAIT, CP_EVENT_WAIT, 0, 0, 1000000},
    {"runnable", NULL, CP_CPUPROF_RUNNABLE, CP_EVENT_WAIT, 0, 0, 1000000},
    {"lock", NULL, CP_CPUPROF_LOCK, CP_EVENT_WAIT, 0, 0, 1000000},
    {"wall", NULL, CP_CPUPROF_WALL, CP_EVENT_WAIT, 0, 0, 10000000},
    {"busCycles", "bus-cycles", CP_CPUPROF_NAMED, CP_EVENT_HARDWARE, PERF_TYPE_HARDWARE,
     PERF_COUNT_HW_BUS_CYCLES, 1000000},
    {"refCycles", "ref-cycles", CP_CPUPROF_NAMED, CP_EVENT_HARDWARE, PERF_TYPE_HARDWARE,
     PERF_COUNT_HW_REF_CPU_CYCLES, 10000000},
    {"stalledCyclesFrontend", "stalled-cycles-frontend", CP_CPUPROF_NAMED, CP_EVENT_HARDWARE,
     PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND, 1000000},
    {"stalledCyclesBackend", "stalled-cycles-backend", CP_CPUPROF_NAMED, CP_EVENT_HARDWARE,
     PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND, 1000000},
    {"minorFaults", "minor-faults", CP_CPUPROF_NAMED, CP_EVENT_SOFTWARE, PERF_TYPE_SOFTWARE,
     PERF_COUNT_SW_PAGE_FAULTS_MIN, 0},
    {"majorFaults", "major-faults", CP_CPUPROF_NAMED, CP_EVENT_SOFTWARE, PERF_TYPE_SOFTWARE,
     PERF_COUNT_SW_PAGE_FAULTS_MAJ, 0},
    {"alignmentFaults", "alignment-faults", CP_CPUPROF_NAMED, CP_EVENT_SOFTWARE, PERF_TYPE_SOFTWARE,
     PERF_COUNT_SW_ALIGNMENT_FAULTS, 0},
    {"emulationFaults", "emulation-faults", CP_CPUPROF_NAMED, CP_EVENT_SOFTWARE, PERF_TYPE_SOFTWARE,
     PERF_COUNT_SW_EMULATION_FAULTS, 0},
    {"cgroupSwitches", "cgroup-switches", CP_CPUPROF_NAMED, CP_EVENT_SOFTWARE, PERF_TYPE_SOFTWARE,
     PERF_COUNT_SW_CGROUP_SWITCHES, 0},
};

CP_TEST(each_event_has_its_names)
{
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        const char *const spellings[] = {table[i].name, table[i].perf_name};

        for (size_t j = 0; j < 2 && spellings[j] != NULL; j++) {
            struct cp_event_spec spec = parse(spellings[j]);

            CHECK_EQ(spec.event, table[i].event);
            CHECK_EQ(spec.raw_event, 0);
            CHECK_STR(spec.name, table[i].name);
            CHECK_EQ(spec.modes, 0);
            CHECK_EQ(spec.precise_ip, CP_CPUPROF_IP_ARBITRARY_SKID);
        }
        if (table[i].event != CP_CPUPROF_NAMED)
            CHECK_STR(cp_event_name(table[i].event), table[i].name);
    }
    CHECK_STR(cp_event_name(CP_CPUPROF_HW_RAW), "raw");
    CHECK_STR(cp_event_name(CP_CPUPROF_NAMED), "named");
    CHECK(cp_event_name(CP_CPUPROF_EVENT_COUNT) == NULL);
    CHECK(cp_event_name((enum cp_cpu_event) - 1) == NULL);
}

CP_TEST(some_events_have_a_third_spelling)
{
    CHECK_STR(parse("branchInstructions").name, "branches");
    CHECK_STR(parse("idle-cycles-frontend").name, "stalledCyclesFrontend");
    CHECK_STR(parse("idle-cycles-backend").name, "stalledCyclesBackend");
    CHECK_STR(parse("faults").name, "pageFaults");
    CHECK_STR(parse("cs").name, "contextSwitches");
    CHECK_STR(parse("migrations").name, "cpuMigrations");
}

CP_TEST(each_event_has_a_kind_a_preset_and_an_encoding)
{
    const struct cp_event_encoding none = {.type = 0};

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct cp_event_spec spec = parse(table[i].name);
        const struct cp__event *row = cp__event(spec.event, &spec.encoding);

        CHECK_EQ(spec.kind, table[i].kind);
        CHECK_EQ(spec.preset_period, table[i].preset);
        CHECK_STR(row->name, table[i].name);
        CHECK_EQ(row->perf_type, table[i].type);
        CHECK_EQ(row->perf_config, table[i].config);
        CHECK_EQ(spec.encoding.type, spec.event == CP_CPUPROF_NAMED ? table[i].type : 0);
        CHECK_EQ(spec.encoding.config, spec.event == CP_CPUPROF_NAMED ? table[i].config : 0);
    }
    CHECK_EQ(parse("r1").kind, CP_EVENT_HARDWARE);
    CHECK(parse("r1").preset_period != 0);
    CHECK(cp__event(CP_CPUPROF_EVENT_COUNT, &none) == NULL);
    CHECK(cp__event((enum cp_cpu_event) - 1, &none) == NULL);
}

/* Lists show each row once, in the order of the numbers; rows without a number come last. */
CP_TEST(rows_stand_in_the_order_of_the_numbers)
{
    size_t n = 0;
    const struct cp__event *row;

    for (size_t i = 0; (row = cp__event_row(i)) != NULL; i++) {
        CHECK(row->description != NULL);
        if (i == CP_CPUPROF_HW_RAW || i == CP_CPUPROF_NAMED)
            continue;
        CHECK_STR(row->name, table[n].name);
        CHECK_EQ(i < CP_CPUPROF_EVENT_COUNT ? i : CP_CPUPROF_NAMED, table[n].event);
        n++;
    }
    CHECK_EQ(n, ARRAY_SIZE(table));
}

/* For an encoding that no row has, the encoding's type decides. */
CP_TEST(an_encoding_tells_its_kind)
{
    static const struct {
        uint32_t type;
        enum cp_event_kind kind;
        enum cp__kernel_mode mode;
        uint64_t preset;
    } types[] = {
        {PERF_TYPE_SOFTWARE, CP_EVENT_SOFTWARE, CP__KERNEL_PREFERRED, 0},
        {PERF_TYPE_TRACEPOINT, CP_EVENT_TRACEPOINT, CP__KERNEL_REQUIRED, 1},
        {PERF_TYPE_BREAKPOINT, CP_EVENT_WATCHPOINT, CP__KERNEL_NEVER, 1},
        {PERF_TYPE_HW_CACHE, CP_EVENT_HARDWARE, CP__KERNEL_NEVER, 100000},
        {PERF_TYPE_RAW, CP_EVENT_HARDWARE, CP__KERNEL_NEVER, 100000},
        {17, CP_EVENT_HARDWARE, CP__KERNEL_NEVER, 100000},
    };

    for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
        const struct cp_event_encoding encoding = {.type = types[i].type, .config = 0x1234};
        const struct cp__event *row = cp__event(CP_CPUPROF_NAMED, &encoding);

        CHECK_EQ(row->kind, types[i].kind);
        CHECK_EQ(row->kernel_mode, types[i].mode);
        CHECK_EQ(row->preset_period, types[i].preset);
        CHECK_STR(row->name, "named");
    }
}

/* ---- Configs --------------------------------------------------------------------------------- */

static int check(enum cp_cpu_event event, const struct cp_cpu_profile_config *config, struct cp_error *err)
{
    const struct cp_slot_request request = {.event = event, .config = *config};

    return cp__request_check(&request, err);
}

static struct cp_cpu_profile_config config_of(const char *name, uint64_t period)
{
    struct cp_cpu_profile_config config = {.size = sizeof config};
    struct cp_event_spec spec = parse(name);
    struct cp_error err = {0};

    memset(&config, 0xff, sizeof config);
    config.size = sizeof config;
    CHECKF(cp_cpu_profile_config_init(&config, &spec, period, &err) == 0, "%s: %s", name, err.message);
    CHECKF(check(spec.event, &config, &err) == 0, "%s: %s", name, err.message);
    CHECK_EQ(config.size, sizeof config);
    return config;
}

/* The proposal's default: samples have the program counter and nothing else. */
CP_TEST(a_config_has_the_program_counter_and_nothing_else)
{
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct cp_cpu_profile_config config = config_of(table[i].name, 1234567);

        CHECK_EQ(config.period, 1234567);
        CHECK_EQ(config.hz, table[i].kind == CP_EVENT_TIMER ? 810 : 0);
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

CP_TEST(periods_have_presets)
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

CP_TEST(the_timers_rate_follows_from_its_period)
{
    CHECK_EQ(config_of("timer", 1000).hz, 1000000);
    CHECK_EQ(config_of("timer", 1001).hz, 999000);
    CHECK_EQ(config_of("timer", 1000000).hz, 1000);
    CHECK_EQ(config_of("timer", 30000000).hz, 33);
    CHECK_EQ(config_of("timer", 999999999).hz, 1);
    CHECK_EQ(config_of("timer", 1000000000).hz, 1);
    CHECK_EQ(config_of("timer", 1000000001).hz, 1); /* the lowest rate */
    CHECK_EQ(config_of("timer", INT64_MAX).hz, 1);
}

static void refuse_period(const char *name, uint64_t period, const char *remedy)
{
    struct cp_cpu_profile_config config = {.size = sizeof config};
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

CP_TEST(bad_periods_are_refused)
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
        refuse_period(least[i].name, 1, "and the preset 10");
        config_of(least[i].name, INT64_MAX);
        refuse_period(least[i].name, (uint64_t)INT64_MAX + 1, "the largest is 9223372036854775807");
        refuse_period(least[i].name, UINT64_MAX, "the largest is");
    }
    refuse_period("pageFaults", 0, "Give a period");
    refuse_period("contextSwitches", 0, "Give a period");
    refuse_period("cpuMigrations", 0, "Give a period");
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

/* The configs were filled by hand, not by cp_cpu_profile_config_init(). */
CP_TEST(bad_configs_are_refused)
{
    struct cp_cpu_profile_config config = config_of("r1c2", 0);
    struct cp_event_spec spec = {.size = sizeof spec, .event = CP_CPUPROF_EVENT_COUNT};
    struct cp_error err = {0};

    config.period = 0;
    refuse_config(CP_CPUPROF_HW_RAW, &config, "r1c2");
    refuse_config(CP_CPUPROF_HW_RAW, &config, "100000"); /* the message names the preset */
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
    refuse_config(CP_CPUPROF_EVENT_COUNT, &config, "17");
    refuse_config((enum cp_cpu_event) - 1, &config, "0 to 17");
    config = config_of("wait", 0);
    config.period = 0;
    refuse_config(CP_CPUPROF_WAIT, &config, "1000000 ns");
    CHECK_EQ(cp_cpu_profile_config_init(&config, &spec, 1000, &err), -EINVAL);
    check_message(&err);
}

/* ---- The kernel's part ----------------------------------------------------------------------- */

/* Asks perf_event_open() itself whether kernel mode may count. */
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
    CHECK_EQ(cp__event_may_count_kernel(), may);
    CHECK_EQ(config_of("taskClock", 0).is_kernel_included, may);
    CHECK_EQ(config_of("cpuClock", 0).is_kernel_included, may);
    CHECK_EQ(config_of("pageFaults", 1).is_kernel_included, may);
    CHECK(config_of("timer", 0).is_kernel_included); /* a CPU clock always counts both modes */
    CHECK(config_of("contextSwitches", 1).is_kernel_included);
    CHECK(config_of("cpuMigrations", 1).is_kernel_included);
    CHECK(!config_of("cycles", 0).is_kernel_included);
    CHECK(!config_of("r1c2", 0).is_kernel_included);
}

CP_TEST(the_kernel_is_counted_where_that_is_allowed)
{
    check_kernel();
}

/* The test drops the privileges that this process may have, so that perf_event_paranoid alone decides. */
CP_TEST(without_privileges_the_paranoid_level_decides)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}, {0}};

    CHECK_EQ(syscall(SYS_capset, &header, none), 0);
    check_kernel();
}
