/* What the machine's kernel answers, and how the library explains it. */
#include "tests/support/refusal_tools.h"

#include <linux/capability.h>
#include <sys/mman.h>

/* ---- A filter of system calls ---------------------------------------------------------------- */

static void check_forbidden(const struct cp_event_spec *spec, const char *word)
{
    refuse_call(SYS_perf_event_open, EPERM);
    check_probe(spec, -EPERM, "forbidden by seccomp", word);
}

CP_TEST(a_clock_that_a_filter_forbids_is_told)
{
    struct cp_event_spec spec = parsed("taskClock");

    check_forbidden(&spec, "--cap-add PERFMON");
}

CP_TEST(an_event_that_a_filter_forbids_is_told)
{
    struct cp_event_spec spec = parsed("cycles");

    check_forbidden(&spec, "--cap-add PERFMON");
}

CP_TEST(a_tracepoint_that_a_filter_forbids_is_told)
{
    struct cp_event_spec spec = named(PERF_TYPE_TRACEPOINT, 1);

    check_forbidden(&spec, "seccomp");
}

/* ---- Watchpoints ----------------------------------------------------------------------------- */

static long watched;

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

/* ---- A user ---------------------------------------------------------------------------------- */

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

/* Maps rings until the kernel refuses one, each of so many pages and the first. */
static void use_up_rings(size_t pages)
{
    struct perf_event_attr attr = {.size = sizeof attr,
                                   .type = PERF_TYPE_SOFTWARE,
                                   .config = PERF_COUNT_SW_DUMMY,
                                   .disabled = 1,
                                   .exclude_kernel = 1,
                                   .exclude_hv = 1};
    void *ring;

    do {
        int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

        CHECKF(fd >= 0, "%s", strerror(errno));
        ring = mmap(NULL, (1 + pages) * (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                    0);
    } while (ring != MAP_FAILED);
    CHECK_EQ(errno, EPERM);
}

/* A user may lock 516 KiB for each CPU, and what ulimit -l allows besides. The user is nobody else's, because
 * all processes of a user share what they may lock. */
CP_TEST(a_user_hears_that_the_ring_memory_is_used_up)
{
    const struct rlimit none = {0, 0};
    long paranoid = become_user(1000000 + (uid_t)getpid());
    struct cp_event_spec spec = parsed("taskClock");

    test_need_events();
    if (paranoid < 0 || paranoid > 2)
        SKIP("kernel.perf_event_paranoid is %ld", paranoid);
    CHECK_EQ(setrlimit(RLIMIT_MEMLOCK, &none), 0);
    CHECK_EQ(cp_event_probe(&spec, NULL), 0);
    use_up_rings(64);
    use_up_rings(1);
    check_probe(&spec, -EPERM, "no ring memory left", "perf_event_mlock_kb");
}
