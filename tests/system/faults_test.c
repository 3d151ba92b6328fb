/*
 * Each system call of a start, of arming, sampling, stopping and of a fork fails in turn. Whatever comes
 * of it: an error has words, a profile tells all periods or who was refused, nothing is left behind, and
 * the next profile is whole.
 */
#include "tests/support/burn.h"
#include "tests/support/resources.h"

#include <sys/wait.h>

#define N 4
#define BURNT_NS (10 * MS)

enum { TASK_CLOCK, CPU_CLOCK, TIMER, PAGE_FAULTS };
static const uint64_t periods[N] = {MS, 2 * MS, 10 * MS, 1};

/* ---- A profile of everything ----------------------------------------------------------------- */

struct run {
    struct cp_slot_request requests[N];
    struct profile profile;
    struct cp_error err;
    int result;   /* of the start */
    int attached; /* how many threads have become Ms */
};

static char page;

CODE(b) void fault_b(void)
{
    SIM_FAULT(&page);
}

/* A thread that attaches while the profile runs, if it may. */
static void *attach_and_burn(void *arg)
{
    struct run *run = arg;
    struct cp_m *m;

    if (cp_m_attach(&m, NULL) < 0)
        return NULL;
    run->attached++;
    burn_a(BURNT_NS);
    fault_b();
    cp_m_detach(m);
    return NULL;
}

/* A child forgets the parent's profile and has one of its own. */
static void fork_child(const struct cp_slot_request *requests)
{
    int status = 0;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        struct cp_m *m = cp_m_self();
        int slots[N];

        if (cp_slots_start(requests, N, slots, NULL) == 0) {
            cp_execute(m, NULL);
            burn_b(BURNT_NS);
            cp_slots_stop(slots, N);
            cp_slots_release(slots, N);
        }
        _exit(resources_now().perf_fds + resources_now().rings != 0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

/* The thread is an M already, and whoever reads the profile arms its events. No other thread reads, so the
 * calls are the same in each run. */
static void run_all(struct run *run)
{
    struct cp_m *m = cp_m_self();
    pthread_t thread;

    run->result = cp_slots_start(run->requests, N, run->profile.slots, &run->err);
    if (run->result < 0)
        return;
    run->profile.n = N;
    read_profile(&run->profile);
    burn_a(BURNT_NS);
    fault_b();
    CHECK_EQ(pthread_create(&thread, NULL, attach_and_burn, run), 0);
    pthread_join(thread, NULL);
    fork_child(run->requests);
    cp_execute(m, NULL);
    cp_slots_stop(run->profile.slots, N);
    cp_execute(m, NULL);
    for (int tries = 0; tries < 3 && !is_read_up(&run->profile); tries++)
        read_profile(&run->profile);
    cp_slots_release(run->profile.slots, N);
}

static struct run new_run(enum cp_engine engine)
{
    struct run run = {.requests = {request("taskClock", periods[0]), request("cpuClock", periods[1]),
                                   request("timer", periods[2]), request("pageFaults", periods[3])}};

    for (int i = 0; i < N; i++)
        run.requests[i].config.engine = i != TIMER ? engine : CP_ENGINE_AUTO;
    return run;
}

/* ---- What must hold -------------------------------------------------------------------------- */

static void check_nothing_is_left(void)
{
    struct resources now = resources_now();

    CHECK_EQ(now.perf_fds + now.rings + now.timers, 0);
    CHECK(sigprof_is(SIG_DFL)); /* the handler of SIGTRAP stays: design/0027-traps.md */
}

/* Each thread runs for BURNT_NS under the clocks. The page faults pause in the handler: a fault is not
 * counted if the event cannot go on. */
static void check_slot(const struct run *run, int i)
{
    const struct cp_slot_stats *stats = &run->profile.stats[i];
    uint64_t told = stats->samples + stats->lost + stats->dropped;

    CHECK_EQ(run->profile.seen[i].weight, stats->samples);
    CHECK_EQ(stats->foreign, 0);
    CHECK(stats->ms_refused == 0 || stats->refused_errno < 0);
    CHECK_EQ(stats->ms + stats->ms_refused, 1 + run->attached);
    if (i == TASK_CLOCK || i == CPU_CLOCK) /* the timer's first expiry is random */
        CHECK_EQ(told, stats->ms * (BURNT_NS / periods[i]));
    if (i == PAGE_FAULTS)
        CHECK_EQ(told, stats->count);
}

static void check_run(const struct run *run)
{
    if (run->result < 0) {
        CHECK_EQ(run->result, run->err.code);
        CHECK(run->err.message[0] != '\0');
    } else {
        for (int i = 0; i < N; i++)
            check_slot(run, i);
    }
    check_nothing_is_left();
}

static void check_whole_run(enum cp_engine engine)
{
    struct run run = new_run(engine);

    run_all(&run);
    CHECKF(run.result == 0, "%s", run.err.message);
    check_run(&run);
    for (int i = 0; i < N; i++)
        CHECK(run.profile.stats[i].ms == 2 && run.profile.stats[i].ms_ringless == 0);
    CHECK_EQ(run.profile.seen[TASK_CLOCK].leaf[IN_A], 2 * BURNT_NS / periods[TASK_CLOCK]);
    CHECK_EQ(run.profile.seen[PAGE_FAULTS].leaf[IN_B], 2);
}

/* ---- Each call in turn ----------------------------------------------------------------------- */

/* A call of such a profile, and how it may fail. */
struct fault {
    long number;
    int errors[6];
};

enum { OPEN, RING, MEMORY, IOCTL, FCNTL, READ, OPENAT, TIMER_CREATE, TIMER_SETTIME, MADVISE, FUTEX, CALLS };
static const struct fault faults[CALLS] = {
    [OPEN] = {SYS_perf_event_open, {EMFILE, ENOMEM, EINVAL, EACCES, EBUSY, ENOSPC}},
    [RING] = {SYS_mmap, {EPERM, ENOMEM}},
    [MEMORY] = {SIM_MEMORY, {ENOMEM}},
    [IOCTL] = {SYS_ioctl, {EINVAL}},
    [FCNTL] = {SYS_fcntl, {EINVAL}},
    [READ] = {SYS_read, {EIO}},
    [OPENAT] = {SYS_openat, {EMFILE}},
    [TIMER_CREATE] = {SYS_timer_create, {EAGAIN}},
    [TIMER_SETTIME] = {SYS_timer_settime, {EINVAL}},
    [MADVISE] = {SYS_madvise, {EINVAL}},
    [FUTEX] = {SYS_futex, {EINTR}},
};

/* These do not fail if their arguments are right; close(2) closes whatever it returns. */
static const long never_fail[] = {SYS_gettid, SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_rt_sigpending,
                                  SYS_close,  SYS_munmap,         SYS_timer_delete};

/* These are made once for each object that is mapped; object_rows_test.c lets them fail. */
static const long of_objects[] = {SYS_pread64, SYS_process_vm_readv};

/* These are made for an M of another thread; keep_off_test.c lets them fail. */
static const long for_others[] = {SYS_membarrier};

#define MOST_CALLS 1000

/* Returns how many calls have failed. */
static int fail_in_turn(long number, int error, enum cp_engine engine)
{
    int refused = 0, ran = 0;

    for (int n = 1; n < MOST_CALLS; n++) {
        struct run run = new_run(engine); /* asks the kernel whether it may be counted */
        int failed;

        sim_fail(number, n, error, false);
        run_all(&run);
        failed = sim_failed();
        sim_fail(SIM_NONE, 0, 0, false);
        printf("call %d, %s: %s\n", n, strerror(error), run.result < 0 ? run.err.message : "runs");
        fflush(stdout);
        check_run(&run);
        if (failed == 0)
            break;
        refused += run.result < 0;
        ran += run.result == 0;
    }
    check_whole_run(engine);
    CHECK(refused + ran < MOST_CALLS - 1);
    printf("%d refused, %d ran\n", refused, ran);
    return refused + ran;
}

static void fail_each(const struct fault *fault)
{
    struct worker worker = {.body = NULL};
    int failed = 0;

    attach(&worker);
    for (int engine = CP_ENGINE_TRAP; engine <= CP_ENGINE_SIGNAL; engine++) {
        check_whole_run((enum cp_engine)engine);
        for (size_t i = 0; i < ARRAY_SIZE(fault->errors) && fault->errors[i] != 0; i++)
            failed += fail_in_turn(fault->number, fault->errors[i], (enum cp_engine)engine);
    }
    cp_m_detach(worker.m);
    if (failed == 0)
        SKIP(
            "a profile makes no such call in this build"); /* a sanitizer has an alternate stack of its own */
}

SIM_TEST(open_fails)
{
    fail_each(&faults[OPEN]);
}

SIM_TEST(ring_fails)
{
    fail_each(&faults[RING]);
}

SIM_TEST(memory_fails)
{
    fail_each(&faults[MEMORY]);
}

SIM_TEST(ioctl_fails)
{
    fail_each(&faults[IOCTL]);
}

SIM_TEST(fcntl_fails)
{
    fail_each(&faults[FCNTL]);
}

SIM_TEST(read_fails)
{
    fail_each(&faults[READ]);
}

SIM_TEST(openat_fails)
{
    fail_each(&faults[OPENAT]);
}

SIM_TEST(timer_create_fails)
{
    fail_each(&faults[TIMER_CREATE]);
}

SIM_TEST(timer_settime_fails)
{
    fail_each(&faults[TIMER_SETTIME]);
}

SIM_TEST(madvise_fails)
{
    fail_each(&faults[MADVISE]);
}

SIM_TEST(futex_fails)
{
    fail_each(&faults[FUTEX]);
}

/* ---- The list is whole ----------------------------------------------------------------------- */

static bool is_listed(long number)
{
    for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
        if (faults[i].number == number)
            return true;
    for (size_t i = 0; i < ARRAY_SIZE(never_fail); i++)
        if (never_fail[i] == number)
            return true;
    for (size_t i = 0; i < ARRAY_SIZE(of_objects); i++)
        if (of_objects[i] == number)
            return true;
    for (size_t i = 0; i < ARRAY_SIZE(for_others); i++)
        if (for_others[i] == number)
            return true;
    return false;
}

static long unlisted = -1; /* atomic */

static long note_unlisted(long number, const long a[6])
{
    if (!is_listed(number))
        cp_store_relaxed(&unlisted, number); /* relaxed: read when all is over */
    return sim_hand_on(number, a);
}

SIM_TEST(no_call_is_left_out)
{
    struct worker worker = {.body = NULL};

    sim_hook(note_unlisted);
    attach(&worker);
    check_whole_run(CP_ENGINE_TRAP);
    check_whole_run(CP_ENGINE_SIGNAL);
    cp_m_detach(worker.m);
    CHECK_EQ(cp_load_relaxed(&unlisted), -1); /* relaxed: all is over */
}
