/* What cannot run is refused in words, and nothing of it stays behind. */
#include "burn.h"
#include "refuse.h"
#include "resources.h"

#include <sys/wait.h>

#define PERIOD 100000

/* Runs child() in a child, where a failed check is an exit status other than 0, and a skip is one too. */
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

/* A start that must fail with code, and say so with these words in it; nothing stays behind. */
static void check_refused(const struct cp_slot_request *requests, size_t n, int code, const char *word1,
                          const char *word2)
{
    struct resources before = resources_now(), after;
    struct cp_error err = {0};
    int slots[CP_EV_MAX + 1];
    int result = cp_slots_start(requests, n, slots, &err);

    printf("%d: %s\n", result, err.message);
    CHECK_EQ(result, code);
    CHECK_EQ(err.code, code);
    CHECK_CONTAINS(err.message, word1);
    CHECK_CONTAINS(err.message, word2);
    CHECKF(has_remedy(err.message) && err.message[strlen(err.message) - 1] == '.', "%s", err.message);
    CHECK_EQ(cp_slots_start(requests, n, slots, NULL), code);
    after = resources_now();
    check_resources(&after, &before, 1);
    CHECK(sigprof_is(SIG_DFL));
}

/* All slots are free: eight events can start. */
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

    attach(&worker); /* the error is the starter's, M or not */
    refuse_call(SYS_perf_event_open, refusals[i].error);
    check_refused(&requests[1], 1, -refusals[i].error, "taskClock", refusals[i].word);
    check_refused(requests, 2, -refusals[i].error, "taskClock", refusals[i].word);
    check_slots_are_free();
    cp_m_detach(worker.m);
}

CP_TEST(perf_event_open_may_be_refused_in_many_ways)
{
    for (int i = 0; i < (int)ARRAY_SIZE(refusals); i++)
        in_child(child_refused, i);
}

CP_TEST(cycles_are_refused_where_there_is_no_pmu)
{
    struct cp_event_spec spec;
    struct cp_slot_request requests[] = {request("taskClock", PERIOD), request("timer", MS),
                                         request("cpuClock", PERIOD), request("cycles", 0)};
    struct cp_error err = {0};
    int slot;

    if (cp_slots_start(&requests[3], 1, &slot, &err) == 0)
        SKIP("this machine has a PMU");
    check_refused(&requests[3], 1, err.code, "cycles", "taskClock");
    check_refused(requests, 4, err.code, "cycles", "taskClock"); /* the others are undone */
    CHECK_EQ(cp_event_parse("r1c2", &spec, &err), 0);
    requests[3] = (struct cp_slot_request){.event = spec.event};
    CHECK_EQ(cp_cpu_profile_config_init(&requests[3].config, &spec, 0, &err), 0);
    CHECK(cp_slots_start(&requests[3], 1, &slot, &err) < 0);
    CHECK_CONTAINS(err.message, "r1c2");
    check_slots_are_free();
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

/* resources_now() needs descriptors of its own, so check_refused() does not do here. */
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
    in_child(child_without_descriptors, 0);
    in_child(child_without_descriptors, 1); /* enough for the event, not for its ring */
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
    check_bad(bad, "taskClock", "size");
    bad.config.size = sizeof bad.config + 8;
    check_bad(bad, "taskClock", "size");
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

/* It happens in kernel mode only: without that the profile would be empty for ever. */
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
    limit.rlim_cur = (rlim_t)number_in("/proc/self/status", "VmSize:") * 1024;
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    CHECK_EQ(cp_m_attach(&m, &err), -ENOMEM);
    CHECK_EQ(err.code, -ENOMEM);
    CHECK_CONTAINS(err.message, "memory");
    CHECK(cp_m_self() == NULL);
    limit.rlim_cur += 96 << 10; /* an alternate signal stack */
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    attach(&worker);
    check_refused(requests, 1, -ENOMEM, "sample buffers", "memory");
    limit.rlim_cur = RLIM_INFINITY;
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    check_slots_are_free();
    cp_m_detach(worker.m);
}
