/* What cannot run is refused with a message, and nothing stays open. tests/live/answer_test.c asks the
 * machine's kernel. */
#include "tests/support/refusal_tools.h"

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
    sim_fail(SYS_perf_event_open, 1, refusals[i].error, true);
    check_refused(&requests[1], 1, -refusals[i].error, "taskClock", refusals[i].word);
    check_refused(requests, 2, -refusals[i].error, "taskClock", refusals[i].word);
    check_slots_are_free();
    cp_m_detach(worker.m);
}

SIM_TEST(perf_event_open_may_be_refused_in_many_ways)
{
    for (int i = 0; i < (int)ARRAY_SIZE(refusals); i++)
        in_child(child_refused, i);
}

/* ---- Reasons in a phrase ---------------------------------------------------------------------- */

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

/* The simulated kernel gives these answers without looking at the event, so also for events that it does not
 * have. */
static const struct reason {
    const char *what;
    int error;
    const char *reason;
    const char *word;
} reasons[] = {
    {"taskClock", ENOENT, "not in this kernel", "no such event"},
    {"taskClock", ENOSYS, "no perf_event_open", "sandbox"},
    {"cycles", EMFILE, "no file descriptor left", "ulimit -n"},
    {"cycles", ENFILE, "no file descriptor left", "ulimit -n"},
    {"cycles", EBUSY, "in use by somebody else (EBUSY)", "nmi_watchdog"},
    {"cycles", ENOSPC, "no counter left", "fewer events"},
    {"cycles", E2BIG, "this kernel is too old", "too old"},
    {"cycles", EINVAL, "not in this way (EINVAL)", "period (10000000)"},
    {"tracepoint", ENOENT, "not in this kernel", "no such event"},
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
    sim_fail(SYS_perf_event_open, 1, r->error, true);
    check_probe(&spec, -r->error, r->reason, r->word);
}

SIM_TEST(each_answer_of_the_kernel_has_a_phrase)
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

    sim_fail(SYS_perf_event_open, 1, error, true);
    check_probe(&spec, -error, core ? "not supported by this PMU" : none, "taskClock");
}

SIM_TEST(no_pmu_is_told_apart_from_one_that_lacks_the_event)
{
    static const int errors[] = {ENOENT, ENODEV, ENXIO, EOPNOTSUPP, EINVAL};

    for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
        in_child(child_without_pmu, errors[i]);
}

SIM_TEST(a_probe_needs_ring_memory_and_a_timer)
{
    struct cp_event_spec spec = parsed("pageFaults"); /* an event without a preset period */

    CHECK_EQ(cp_event_probe(&spec, NULL), 0);
    spec = parsed("taskClock");
    CHECK_EQ(cp_event_probe(&spec, NULL), 0);
    sim_fail(SYS_mmap, 1, EPERM, true);
    check_probe(&spec, -EPERM, "no ring memory left", "perf_event_mlock_kb");
    spec = parsed("timer");
    CHECK_EQ(cp_event_probe(&spec, NULL), 0);
    sim_fail(SYS_timer_create, 1, EAGAIN, true);
    check_probe(&spec, -EAGAIN, "no POSIX timer left", "ulimit -i");
}

/* ---- Descriptors ----------------------------------------------------------------------------- */

SIM_TEST(the_soft_limit_of_descriptors_is_raised)
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
    CHECK_EQ(profile.stats[0].samples, 200);
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

SIM_TEST(a_start_without_descriptors_is_refused)
{
    in_child(child_without_descriptors, 0);
    in_child(child_without_descriptors, 1); /* enough for the event, but not for its ring */
}

/* ---- Ring memory ----------------------------------------------------------------------------- */

SIM_TEST(a_start_without_ring_memory_is_refused)
{
    struct cp_slot_request requests[] = {request("timer", MS), request("taskClock", PERIOD)};

    sim_fail(SYS_mmap, 1, EPERM, true);
    check_refused(requests, 2, -EPERM, "ring memory", "perf_event_mlock_kb");
    check_slots_are_free();
}

SIM_TEST(a_timer_is_refused_in_words)
{
    struct cp_slot_request requests[] = {request("taskClock", PERIOD), request("timer", MS)};

    sim_fail(SYS_timer_create, 1, EAGAIN, true);
    check_refused(requests, 2, -EAGAIN, "timer", "ulimit -i");
}

/* ---- An unprivileged user -------------------------------------------------------------------- */

SIM_TEST(an_unprivileged_user_counts_user_mode_only)
{
    struct cp_slot_request requests[2];
    struct profile profile = {.n = 0};
    struct worker worker;
    uint64_t ns = 50 * MS;

    sim->paranoid = 2;
    requests[0] = request("taskClock", PERIOD);
    requests[1] = request("contextSwitches", 1);
    CHECK(!requests[0].config.is_kernel_included);
    start_profile(&profile, requests, 1);
    run_attached(&worker, body_a, &ns);
    stop_profile(&profile);
    CHECK(profile.stats[0].ms == 1 && profile.stats[0].samples == 500);
    CHECK_EQ(profile.seen[0].leaf[IN_A], 500);

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

SIM_TEST(bad_periods_are_refused)
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

SIM_TEST(bad_rates_are_refused)
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

SIM_TEST(bad_configs_are_refused)
{
    struct cp_slot_request bad = request("taskClock", PERIOD);

    bad.config.size = 0;
    check_bad(bad, "cp_cpu_profile_config", "size");
    bad = request("taskClock", PERIOD);
    bad.config.precise_ip = 4;
    check_bad(bad, "taskClock", "precision");
    bad = request("taskClock", PERIOD);
    bad.event = CP_CPUPROF_EVENT_COUNT;
    check_bad(bad, "event", "17");
    bad.event = (enum cp_cpu_event)77777;
    check_bad(bad, "event", "77777");
    bad.event = (enum cp_cpu_event) - 1;
    check_bad(bad, "event", "-1");
    CHECK_EQ(cp_set_cpu_profile_config((enum cp_cpu_event) - 1, &bad.config, NULL), -EINVAL);
    CHECK_EQ(cp_set_cpu_profile_config(CP_CPUPROF_EVENT_COUNT, NULL, NULL), -EINVAL);
}

/* What waits does not run, so no slot can sample it. A session records it. */
SIM_TEST(waits_are_refused_by_slots)
{
    static const char *const names[] = {"wait", "runnable", "lock", "wall"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        struct cp_event_spec spec = {.size = sizeof spec};
        const struct cp_slot_request asked = request(names[i], 10000000);

        check_bad(asked, names[i], "cp_session_start()");
        CHECK_EQ(cp_event_parse(names[i], &spec, NULL), 0);
        CHECK_EQ(cp_event_probe(&spec, NULL), 0);
        CHECK_EQ(cp_switch_cost_ns(spec.kind, 10000), 0);
        CHECK_EQ(cp_set_cpu_profile_config(spec.event, &asked.config, NULL), -EINVAL);
        CHECK_EQ(cp_cpu_profile_read(spec.event, NULL, NULL), -ESRCH);
    }
}

/* The event happens in kernel mode only. If that mode did not count, the profile would always be empty. */
SIM_TEST(an_event_of_the_kernels_is_refused_without_the_kernel)
{
    struct cp_slot_request bad = request("contextSwitches", 1);

    bad.config.is_kernel_included = false;
    check_bad(bad, "contextSwitches", "is_kernel_included");
    bad = request("cpuMigrations", 1);
    bad.config.is_kernel_included = false;
    check_bad(bad, "cpuMigrations", "is_kernel_included");
}

SIM_TEST(a_start_takes_one_to_eight)
{
    struct cp_slot_request requests[9];

    for (int i = 0; i < 9; i++)
        requests[i] = request("timer", MS);
    check_refused(requests, 0, -EINVAL, "0 events", "1 to 8");
    check_refused(requests, 9, -EINVAL, "9 events", "1 to 8");
}

SIM_TEST(without_a_free_slot_a_start_is_refused)
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
