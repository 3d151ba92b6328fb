/* What cannot run is refused with a message, and nothing stays open. */
#include "tests/support/burn.h"
#include "tests/support/refuse.h"
#include "tests/support/resources.h"

#include <linux/capability.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <sys/wait.h>

#define PERIOD 100000

/* Runs child() in a child process. A check that fails there is an exit status other than 0, and a skip is
 * another. */
static void in_child(void (*child)(int), int argument)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        alarm(20);
        child(argument);
        fflush(NULL);
        _exit(0);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECKF(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%d: the child ended with %#x", argument,
           (unsigned)status);
}

/* ---- What a refusal is ----------------------------------------------------------------------- */

static bool has_remedy(const char *message)
{
    static const char *const words[] = {"Use ",           "use ",        "Set ",  "Give ", "Stop ",
                                        "Free ",          "Try ",        "1 to ", "0 to ", "the smallest is",
                                        "the largest is", "has to allow"};

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (strstr(message, words[i]) != NULL)
            return true;
    return false;
}

/* Checks that a start fails with this code and these words, and that nothing stays open. */
static void check_refused(const struct cp_slot_request *requests, size_t n, int code, const char *word1,
                          const char *word2)
{
    struct resources before, after;
    struct cp_error err = {0};
    int slots[CP_EV_MAX + 1];
    int result = cp_slots_start(requests, n, slots, &err);

    printf("%d: %s\n", result, err.message);
    CHECK_EQ(result, code);
    CHECK_EQ(err.code, code);
    CHECK_CONTAINS(err.message, word1);
    CHECK_CONTAINS(err.message, word2);
    CHECKF(has_remedy(err.message) && err.message[strlen(err.message) - 1] == '.', "%s", err.message);
    before = resources_now(); /* after the library has allocated what it allocates once */
    CHECK_EQ(cp_slots_start(requests, n, slots, NULL), code);
    after = resources_now();
    check_resources(&after, &before, 1);
    CHECK(sigprof_is(SIG_DFL));
}

/* Checks that all slots are free: eight events can start. */
static void check_slots_are_free(void)
{
    struct cp_slot_request requests[CP_EV_MAX];
    struct profile profile = {.n = 0};

    for (int i = 0; i < CP_EV_MAX; i++)
        requests[i] = request("timer", 10 * MS);
    start_unread(&profile, requests, CP_EV_MAX);
    for (int i = 0; i < CP_EV_MAX; i++)
        CHECK_EQ(profile.slots[i], i);
    stop_profile(&profile);
}

/* ---- perf_event_open ------------------------------------------------------------------------- */

static const struct refusal {
    int error;
    const char *word;
} refusals[] = {
    {EACCES, "perf_event_paranoid"}, {EPERM, "seccomp"},        {ENOSYS, "no perf_event_open"},
    {EMFILE, "file descriptor"},     {ENODEV, "no such event"}, {EOPNOTSUPP, "no such event"},
    {ENOENT, "no such event"},       {EINVAL, "combination"},   {EBUSY, "Device or resource busy"},
};

static void child_refused(int i)
{
    struct cp_slot_request requests[] = {request("timer", MS), request("taskClock", PERIOD)};
    struct worker worker = {.body = NULL};

    attach(&worker); /* the error is that of the thread which starts, whether it is an M or not */
    refuse_call(SYS_perf_event_open, refusals[i].error);
    check_refused(&requests[1], 1, -refusals[i].error, "taskClock", refusals[i].word);
    check_refused(requests, 2, -refusals[i].error, "taskClock", refusals[i].word);
    check_slots_are_free();
    cp_m_detach(worker.m);
}

CP_TEST(perf_event_open_may_be_refused_in_many_ways)
{
    test_need_events();
    for (int i = 0; i < (int)ARRAY_SIZE(refusals); i++)
        in_child(child_refused, i);
}

/* ---- Reasons in a phrase ---------------------------------------------------------------------- */

/* Checks that a probe answers as a start does, and that nothing stays open. */
static void check_probe(const struct cp_event_spec *spec, int code, const char *reason, const char *word)
{
    struct resources before, after;
    struct cp_error err = {0};
    int result = cp_event_probe(spec, &err);

    printf("%d: %s: %s\n", result, err.reason, err.message);
    CHECKF(result == code, "%s: %d and not %d", spec->name, result, code);
    CHECK_EQ(err.code, code);
    CHECK_STR(err.reason, reason);
    CHECKF(strlen(err.reason) <= 33, "%s", err.reason);
    CHECK_CONTAINS(err.message, spec->name);
    CHECK_CONTAINS(err.message, word);
    CHECKF(has_remedy(err.message) && err.message[strlen(err.message) - 1] == '.', "%s", err.message);
    before = resources_now(); /* after the library has allocated what it allocates once */
    CHECK_EQ(cp_event_probe(spec, NULL), code);
    after = resources_now();
    check_resources(&after, &before, 1);
    CHECK(sigprof_is(SIG_DFL));
    CHECK(cp_m_self() == NULL);
}

/* Returns the type of one of the kernel's PMUs, or 0 if the kernel has none of that name. */
static uint32_t pmu_type(const char *name)
{
    char path[128];

    snprintf(path, sizeof path, "/sys/bus/event_source/devices/%s/type", name);
    return access(path, R_OK) == 0 ? (uint32_t)number_in(path, "") : 0;
}

static bool has_core_pmu(void)
{
    return system("ls -d /sys/bus/event_source/devices/cpu /sys/bus/event_source/devices/*/cpus 2> /dev/null "
                  "| grep -q .") == 0;
}

static struct cp_event_spec named(uint32_t type, uint64_t config)
{
    return (struct cp_event_spec){.size = sizeof(struct cp_event_spec),
                                  .event = CP_CPUPROF_NAMED,
                                  .kind = CP_EVENT_HARDWARE,
                                  .preset_period = 1000000,
                                  .encoding = {.type = type, .config = config},
                                  .name = "its-name"};
}

static struct cp_event_spec watchpoint(void *address, uint32_t access, uint64_t length)
{
    return (struct cp_event_spec){.size = sizeof(struct cp_event_spec),
                                  .event = CP_CPUPROF_NAMED,
                                  .kind = CP_EVENT_WATCHPOINT,
                                  .preset_period = 1,
                                  .encoding = {.type = PERF_TYPE_BREAKPOINT,
                                               .bp_type = access,
                                               .config1 = (uintptr_t)address,
                                               .config2 = length},
                                  .name = "its-name"};
}

static struct cp_event_spec parsed(const char *name)
{
    struct cp_event_spec spec = {.size = sizeof spec};

    CHECK_EQ(cp_event_parse(name, &spec, NULL), 0);
    return spec;
}

static long watched;

static struct cp_event_spec spec_for(const char *what)
{
    if (strcmp(what, "watchpoint") == 0)
        return watchpoint(&watched, HW_BREAKPOINT_W, sizeof watched);
    if (strcmp(what, "tracepoint") == 0)
        return named(PERF_TYPE_TRACEPOINT, 1);
    if (what[0] == '/')
        return named(pmu_type(what + 1), 0);
    return parsed(what);
}

/* A filter gives the kernel's answers, also for PMUs that this machine does not have. */
static const struct reason {
    const char *what;
    int error;
    const char *reason;
    const char *word;
} reasons[] = {
    {"taskClock", ENOENT, "not in this kernel", "no such event"},
    {"taskClock", EPERM, "forbidden by seccomp", "--cap-add PERFMON"},
    {"cycles", EPERM, "forbidden by seccomp", "--cap-add PERFMON"},
    {"taskClock", ENOSYS, "no perf_event_open", "sandbox"},
    {"cycles", EMFILE, "no file descriptor left", "ulimit -n"},
    {"cycles", ENFILE, "no file descriptor left", "ulimit -n"},
    {"cycles", EBUSY, "in use by somebody else (EBUSY)", "nmi_watchdog"},
    {"cycles", ENOSPC, "no counter left", "fewer events"},
    {"cycles", E2BIG, "this kernel is too old", "too old"},
    {"cycles", EINVAL, "not in this way (EINVAL)", "period (10000000)"},
    {"tracepoint", ENOENT, "not in this kernel", "no such event"},
    {"tracepoint", EPERM, "forbidden by seccomp", "seccomp"},
    {"watchpoint", ENOENT, "no debug registers", "debug registers"},
    {"watchpoint", EOPNOTSUPP, "not a place to watch", "1, 2, 4 or 8"},
    {"watchpoint", ENOSPC, "all debug registers are in use", "fewer watchpoints"},
    {"watchpoint", EINVAL, "not a place to watch", "multiple"},
    {"/msr", EINVAL, "counts only, does not sample", "PMU msr"},
    {"/msr", EOPNOTSUPP, "counts only, does not sample", "no interrupt"},
    {"/msr", ENOENT, "not supported by this PMU", "PMU msr"},
    {"/power", EINVAL, "counts the whole machine only", "PMU power"},
};

static void child_reason(int i)
{
    const struct reason *r = &reasons[i];
    struct cp_event_spec spec = spec_for(r->what);

    cp_event_probe(&spec, NULL); /* finds out what the kernel can do, which happens once */
    refuse_call(SYS_perf_event_open, r->error);
    check_probe(&spec, -r->error, r->reason, r->word);
}

CP_TEST(each_answer_of_the_kernel_has_a_phrase)
{
    for (int i = 0; i < (int)ARRAY_SIZE(reasons); i++) {
        if (reasons[i].what[0] != '/' || pmu_type(reasons[i].what + 1) != 0) /* this machine has the PMU */
            in_child(child_reason, i);
    }
}

static void child_without_pmu(int error)
{
    struct cp_event_spec spec = parsed(error == EINVAL ? "LLC-load-misses" : "cycles");
    bool core = has_core_pmu(), virtual = system("grep -qw hypervisor /proc/cpuinfo") == 0;
    const char *none = virtual ? "no hardware PMU (virtual machine)" : "no hardware PMU";

    refuse_call(SYS_perf_event_open, error);
    check_probe(&spec, -error, core ? "not supported by this PMU" : none, "taskClock");
}

CP_TEST(no_pmu_is_told_apart_from_one_that_lacks_the_event)
{
    static const int errors[] = {ENOENT, ENODEV, ENXIO, EOPNOTSUPP, EINVAL};

    for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
        in_child(child_without_pmu, errors[i]);
}

/* The kernel itself gives the answer. */
CP_TEST(a_place_that_cannot_be_watched_is_refused)
{
    struct cp_event_spec spec = watchpoint(&watched, HW_BREAKPOINT_W, sizeof watched);

    if (cp_event_probe(&spec, NULL) != 0)
        SKIP("there are no debug registers here");
    spec = watchpoint((char *)&watched + 1, HW_BREAKPOINT_W, sizeof watched);
    check_probe(&spec, -EINVAL, "not a place to watch", "multiple");
    spec = watchpoint((char *)&watched + 1, HW_BREAKPOINT_W, 16);
    check_probe(&spec, -EINVAL, "not a place to watch", "1, 2, 4 or 8");
}

CP_TEST(more_watchpoints_than_debug_registers_are_refused)
{
    struct cp_slot_request requests[CP_EV_MAX];
    struct cp_event_spec spec = watchpoint(&watched, HW_BREAKPOINT_W, sizeof watched);
    struct cp_error err = {0};
    int slots[CP_EV_MAX];

    if (cp_event_probe(&spec, NULL) != 0)
        SKIP("there are no debug registers here");
    for (int i = 0; i < CP_EV_MAX; i++) {
        requests[i] = (struct cp_slot_request){
            .event = spec.event, .name = spec.name, .config.size = sizeof requests[i].config};
        CHECK_EQ(cp_cpu_profile_config_init(&requests[i].config, &spec, 0, NULL), 0);
    }
    check_refused(requests, CP_EV_MAX, -ENOSPC, "its-name", "debug registers are in use");
    cp_slots_start(requests, CP_EV_MAX, slots, &err);
    CHECK_STR(err.reason, "all debug registers are in use");
}

/* A watchpoint on a kernel address needs more than CAP_PERFMON. */
CP_TEST(a_watchpoint_in_the_kernel_needs_privileges)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct perfmon[2] = {{0}, {.effective = 1u << (CAP_PERFMON - 32)}};
    struct cp_event_spec spec = watchpoint(&watched, HW_BREAKPOINT_W, sizeof watched);

    if (cp_event_probe(&spec, NULL) != 0)
        SKIP("there are no debug registers here");
    if (number_in("/proc/self/status", "Seccomp:") != 0)
        SKIP("a seccomp filter here gives the kernel's answer another meaning");
    if (number_in("/proc/sys/kernel/perf_event_paranoid", "") > 2)
        SKIP("this paranoid level asks for CAP_SYS_ADMIN in the first place");
#if defined(__aarch64__)
    SKIP("here the kernel's addresses cannot be watched for one thread at all");
#endif
    perfmon[1].permitted = perfmon[1].effective;
    if (syscall(SYS_capset, &header, perfmon) < 0)
        SKIP("needs CAP_PERFMON");
    spec = watchpoint((void *)-0x1000l, HW_BREAKPOINT_W, 8); /* an address of the kernel */
    spec.modes = CP_EVENT_KERNEL;
    check_probe(&spec, -EPERM, "needs privileges", "kernel address");
}

CP_TEST(a_user_hears_of_the_paranoid_level)
{
    long paranoid = become_nobody();
    struct cp_event_spec spec = parsed("contextSwitches");
    char reason[64];

    snprintf(reason, sizeof reason, "%s: paranoid level %ld", paranoid > 2 ? "forbidden" : "kernel mode",
             paranoid);
    if (paranoid < 2)
        CHECK_EQ(cp_event_probe(&spec, NULL), 0);
    else
        check_probe(&spec, -EACCES, reason, "CAP_PERFMON");
    spec = parsed("taskClock");
    if (paranoid > 2)
        check_probe(&spec, -EACCES, reason, "CAP_PERFMON");
    else
        CHECK_EQ(cp_event_probe(&spec, NULL), 0);
    spec = parsed("timer");
    CHECK_EQ(cp_event_probe(&spec, NULL), 0);
}

CP_TEST(a_probe_needs_ring_memory_and_a_timer)
{
    struct cp_event_spec spec = parsed("pageFaults"); /* an event without a preset period */

    test_need_events();
    CHECK_EQ(cp_event_probe(&spec, NULL), 0);
    spec = parsed("taskClock");
    CHECK_EQ(cp_event_probe(&spec, NULL), 0);
    refuse_rings(EPERM);
    check_probe(&spec, -EPERM, "no ring memory left", "perf_event_mlock_kb");
    spec = parsed("timer");
    CHECK_EQ(cp_event_probe(&spec, NULL), 0);
    refuse_call(SYS_timer_create, EAGAIN);
    check_probe(&spec, -EAGAIN, "no POSIX timer left", "ulimit -i");
}

/* ---- Descriptors ----------------------------------------------------------------------------- */

CP_TEST(the_soft_limit_of_descriptors_is_raised)
{
    struct cp_slot_request requests[] = {request("taskClock", PERIOD)};
    struct profile profile = {.n = 0};
    rlim_t used = fill_descriptors();
    struct rlimit limit;
    struct worker worker = {.body = NULL};

    limit_descriptors(used, used + 20);
    attach(&worker);
    start_unread(&profile, requests, 1);
    burn_a(20 * MS);
    stop_profile(&profile);
    cp_m_detach(worker.m);
    CHECK_EQ(profile.stats[0].ms_refused, 0);
    CHECK(profile.stats[0].samples > 0);
    getrlimit(RLIMIT_NOFILE, &limit);
    CHECK_EQ(limit.rlim_cur, used + 20);
}

/* resources_now() needs descriptors of its own, so check_refused() cannot be used. */
static void refused_for_descriptors(rlim_t limit)
{
    struct cp_slot_request requests[] = {request("taskClock", PERIOD)};
    struct cp_error err = {0};
    int slot, result;

    limit_descriptors(limit, 100);
    limit_descriptors(limit, limit);
    result = cp_slots_start(requests, 1, &slot, &err);
    printf("%d: %s\n", result, err.message);
    CHECK_EQ(result, -EMFILE);
    CHECK_EQ(err.code, -EMFILE);
    CHECK_CONTAINS(err.message, "file descriptor");
    CHECK_CONTAINS(err.message, "ulimit -n");
    CHECK(sigprof_is(SIG_DFL));
}

static void child_without_descriptors(int more)
{
    refused_for_descriptors(fill_descriptors() + (rlim_t)more);
}

CP_TEST(a_start_without_descriptors_is_refused)
{
    test_need_events();
    in_child(child_without_descriptors, 0);
    in_child(child_without_descriptors, 1); /* enough for the event, but not for its ring */
}

/* ---- Ring memory ----------------------------------------------------------------------------- */

CP_TEST(a_start_without_ring_memory_is_refused)
{
    struct cp_slot_request requests[] = {request("timer", MS), request("taskClock", PERIOD)};

    refuse_rings(EPERM);
    check_refused(requests, 2, -EPERM, "ring memory", "perf_event_mlock_kb");
    check_slots_are_free();
}

CP_TEST(a_timer_is_refused_in_words)
{
    struct cp_slot_request requests[] = {request("taskClock", PERIOD), request("timer", MS)};

    refuse_call(SYS_timer_create, EAGAIN);
    check_refused(requests, 2, -EAGAIN, "timer", "ulimit -i");
}

/* ---- An unprivileged user -------------------------------------------------------------------- */

CP_TEST(an_unprivileged_user_counts_user_mode_only)
{
    long paranoid = become_nobody();
    struct cp_slot_request requests[] = {request("taskClock", PERIOD), request("contextSwitches", 1)};
    struct profile profile = {.n = 0};
    struct worker worker;
    uint64_t ns = 50 * MS;

    if (paranoid != 2)
        SKIP("kernel.perf_event_paranoid is %ld and not 2", paranoid);
    CHECK(!requests[0].config.is_kernel_included);
    start_profile(&profile, requests, 1);
    run_attached(&worker, body_a, &ns);
    stop_profile(&profile);
    CHECK(profile.stats[0].ms == 1 && profile.stats[0].samples > 300);

    check_refused(&requests[1], 1, -EACCES, "contextSwitches", "perf_event_paranoid");
    requests[0].config.is_kernel_included = true;
    check_refused(&requests[0], 1, -EACCES, "taskClock", "perf_event_paranoid");
    check_slots_are_free();
}

/* ---- Bad requests ---------------------------------------------------------------------------- */

static void check_bad(struct cp_slot_request bad, const char *word1, const char *word2)
{
    struct cp_slot_request requests[] = {request("timer", MS), bad};

    check_refused(&requests[1], 1, -EINVAL, word1, word2);
    check_refused(requests, 2, -EINVAL, word1, word2);
}

CP_TEST(bad_periods_are_refused)
{
    struct cp_slot_request bad = request("taskClock", PERIOD);

    bad.config.period = 0;
    check_bad(bad, "taskClock", "period");
    bad.config.period = 9999;
    check_bad(bad, "taskClock", "10000 ns");
    bad.config.period = (uint64_t)INT64_MAX + 1;
    check_bad(bad, "taskClock", "too large");
    bad = request("pageFaults", 1);
    bad.config.period = 0;
    check_bad(bad, "pageFaults", "period");
    bad.config.period = UINT64_MAX;
    check_bad(bad, "pageFaults", "too large");
}

CP_TEST(bad_rates_are_refused)
{
    struct cp_slot_request bad = request("timer", MS);

    bad.config.hz = 0;
    check_bad(bad, "timer", "0 Hz");
    bad.config.hz = 2000000;
    check_bad(bad, "timer", "1000000");
    bad.config.hz = UINT64_MAX;
    check_bad(bad, "timer", "1000000");
    CHECK_EQ(cp_set_cpu_profile_rate(-5, NULL), -EINVAL);
    CHECK_EQ(cp_set_cpu_profile_rate(2000000, NULL), -EINVAL);
    CHECK_EQ(cp_set_cpu_profile_rate(0, NULL), 0);
}

CP_TEST(bad_configs_are_refused)
{
    struct cp_slot_request bad = request("taskClock", PERIOD);

    bad.config.size = 0;
    check_bad(bad, "cp_cpu_profile_config", "size");
    bad = request("taskClock", PERIOD);
    bad.config.precise_ip = 4;
    check_bad(bad, "taskClock", "precision");
    bad = request("taskClock", PERIOD);
    bad.event = CP_CPUPROF_EVENT_COUNT;
    check_bad(bad, "event", "13");
    bad.event = (enum cp_cpu_event)77777;
    check_bad(bad, "event", "77777");
    bad.event = (enum cp_cpu_event) - 1;
    check_bad(bad, "event", "-1");
    CHECK_EQ(cp_set_cpu_profile_config((enum cp_cpu_event) - 1, &bad.config, NULL), -EINVAL);
    CHECK_EQ(cp_set_cpu_profile_config(CP_CPUPROF_EVENT_COUNT, NULL, NULL), -EINVAL);
}

/* The event happens in kernel mode only. If that mode did not count, the profile would always be empty. */
CP_TEST(an_event_of_the_kernels_is_refused_without_the_kernel)
{
    struct cp_slot_request bad = request("contextSwitches", 1);

    bad.config.is_kernel_included = false;
    check_bad(bad, "contextSwitches", "is_kernel_included");
    bad = request("cpuMigrations", 1);
    bad.config.is_kernel_included = false;
    check_bad(bad, "cpuMigrations", "is_kernel_included");
}

CP_TEST(a_start_takes_one_to_eight)
{
    struct cp_slot_request requests[9];

    for (int i = 0; i < 9; i++)
        requests[i] = request("timer", MS);
    check_refused(requests, 0, -EINVAL, "0 events", "1 to 8");
    check_refused(requests, 9, -EINVAL, "9 events", "1 to 8");
}

CP_TEST(without_a_free_slot_a_start_is_refused)
{
    struct cp_slot_request requests[CP_EV_MAX];
    struct profile six = {.n = 0}, two = {.n = 0};
    struct cp_error err = {0};
    struct resources before, after;
    int slots[CP_EV_MAX];

    for (int i = 0; i < CP_EV_MAX; i++)
        requests[i] = request(i % 2 ? "timer" : "taskClock", 10 * MS);
    start_unread(&six, requests, 6);
    before = resources_now();
    CHECK_EQ(cp_slots_start(requests, 3, slots, &err), -EBUSY);
    CHECK_EQ(err.code, -EBUSY);
    CHECK_CONTAINS(err.message, "2 of the 8");
    after = resources_now();
    check_resources(&after, &before, 1);
    start_unread(&two, requests, 2);
    CHECK_EQ(cp_slots_start(requests, 1, slots, &err), -EBUSY);
    CHECK_EQ(cp_set_cpu_profile_rate(100, &err), -EBUSY);
    stop_profile(&two);
    CHECK_EQ(cp_set_cpu_profile_rate(100, &err), 0);
    CHECK_EQ(cp_set_cpu_profile_rate(0, &err), 0);
    stop_profile(&six);
}

/* ---- No memory ------------------------------------------------------------------------------- */

CP_TEST(without_memory_starts_and_attaches_are_refused)
{
    struct cp_slot_request requests[] = {request("timer", MS)};
    struct worker worker = {.body = NULL};
    struct rlimit limit = {.rlim_max = RLIM_INFINITY};
    struct cp_error err = {0};
    struct cp_m *m;

    if (TEST_ASAN || TEST_TSAN)
        SKIP("a sanitizer's own mappings leave no room for a limit");
    /* disables the runner's alternate stack */
    CHECK_EQ(sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL), 0);
    limit.rlim_cur = (rlim_t)number_in("/proc/self/status", "VmSize:") * 1024;
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    CHECK_EQ(cp_m_attach(&m, &err), -ENOMEM);
    CHECK_EQ(err.code, -ENOMEM);
    CHECK_CONTAINS(err.message, "memory");
    CHECK(cp_m_self() == NULL);
    do { /* until there is memory for an M, and hardly more */
        limit.rlim_cur += 32 << 10;
        CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    } while (cp_m_attach(&m, &err) < 0 && err.code == -ENOMEM);
    attach(&worker);
    check_refused(requests, 1, -ENOMEM, "sample buffers", "memory");
    limit.rlim_cur = RLIM_INFINITY;
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    check_slots_are_free();
    cp_m_detach(worker.m);
}
