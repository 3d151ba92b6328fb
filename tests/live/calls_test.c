/* What the profiler has to do with the program's system calls: whether it cuts them short, and whether
 * their time counts. */
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/epoll.h>

#include "tests/support/burn.h"

#define PERIOD test_period(100000, 1)

/* ThreadSanitizer holds signals back until the program makes a call that it intercepts. */
static void need_prompt_signals(void)
{
    if (TEST_TSAN)
        SKIP("ThreadSanitizer delivers signals late: what they count means nothing");
}

/* ---- Calls that are cut short ---------------------------------------------------------------- */

#define WAITS 400

/* What the waits of a thread came to. */
struct waits {
    int cut_short;
};

/* Waits in the calls that SA_RESTART does not restart. */
static void body_waits(struct worker *worker)
{
    struct waits *waits = worker->arg;
    int set = epoll_create1(EPOLL_CLOEXEC);

    for (int i = 0; i < WAITS; i++) {
        const struct timespec ms = {.tv_nsec = 1000000};
        struct epoll_event event;

        waits->cut_short += epoll_wait(set, &event, 1, 1) < 0 && errno == EINTR;
        waits->cut_short += nanosleep(&ms, NULL) < 0 && errno == EINTR;
        burn_a(MS / 20);
    }
    close(set);
}

CP_TEST(traps_cut_no_call_short)
{
    struct cp_slot_request requests[] = {request("taskClock", PERIOD), request("contextSwitches", 1)};
    struct profile profile = {.n = 0};
    struct waits waits = {.cut_short = 0};
    struct worker worker;

    kernel_request("taskClock", PERIOD); /* or the test is skipped */
    need_prompt_signals();
    need_traps(requests[0]);
    requests[0].config.engine = requests[1].config.engine = CP_ENGINE_TRAP;
    start_profile(&profile, requests, 2);
    run_attached(&worker, body_waits, &waits);
    stop_profile(&profile);
    printf("%d calls cut short, %llu and %llu samples\n", waits.cut_short,
           (unsigned long long)profile.stats[0].samples, (unsigned long long)profile.stats[1].samples);
    CHECK_EQ(waits.cut_short, 0);
    CHECK(profile.stats[0].samples > 100);
    CHECK(profile.stats[1].samples >= 2 * WAITS);
    CHECK(profile.stats[1].late <= profile.stats[1].samples / 10);
    check_told(&profile, 0, PERIOD);
    check_told(&profile, 1, 1);
    CHECK_EQ(profile.stats[0].engine, CP_ENGINE_TRAP);
    CHECK_EQ(profile.stats[1].engine, CP_ENGINE_TRAP);
}

/* The situation that the test above makes is one in which calls are cut short. */
CP_TEST(signals_cut_calls_short)
{
    struct cp_slot_request requests[] = {kernel_request("contextSwitches", 1)};
    struct profile profile = {.n = 0};
    struct waits waits = {.cut_short = 0};
    struct worker worker;

    requests[0].config.engine = CP_ENGINE_SIGNAL;
    start_profile(&profile, requests, 1);
    run_attached(&worker, body_waits, &waits);
    stop_profile(&profile);
    CHECK(waits.cut_short > WAITS);
    CHECK_EQ(profile.stats[0].engine, CP_ENGINE_SIGNAL);
    CHECK_STR(profile.stats[0].engine_reason, "it was asked for");
}

/* ---- The time in calls ----------------------------------------------------------------------- */

/* Spends nearly all of its time in the kernel. */
CODE(b) void call_b(uint64_t ns)
{
    static char block[64 << 10];
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);

    CHECK(fd >= 0);
    for (uint64_t end = cpu_ns() + ns; cpu_ns() < end;)
        CHECK(read(fd, block, sizeof block) > 0);
    close(fd);
}

static void body_calls(struct worker *worker)
{
    call_b(*(const uint64_t *)worker->arg);
}

/* Counts samples that were interrupted outside this program: in the C library's read(). */
static void count_elsewhere(void *context, const struct cp_sample *sample)
{
    Dl_info leaf, here;

    CHECK(dladdr(__start_code_a, &here) != 0);
    if (dladdr((void *)sample->frames[0], &leaf) != 0 && leaf.dli_fbase != here.dli_fbase)
        *(uint64_t *)context += sample->weight;
}

CP_TEST(time_in_system_calls_counts_where_the_kernel_is_included)
{
    struct cp_slot_request requests[] = {kernel_request("taskClock", test_period(200000, 1))};
    uint64_t elsewhere = 0;
    struct profile profile = {.look = count_elsewhere, .context = &elsewhere};
    struct worker worker;
    uint64_t ns = 100 * MS;

    need_prompt_signals();
    start_profile(&profile, requests, 1);
    run_attached(&worker, body_calls, &ns);
    stop_profile(&profile);
    check_told(&profile, 0, test_period(200000, 1));
    CHECK((double)profile.stats[0].count > 0.98 * (double)worker.cpu);
    CHECKF((double)elsewhere > 0.8 * (double)profile.seen[0].weight, "%llu of %llu",
           (unsigned long long)elsewhere, (unsigned long long)profile.seen[0].weight);
}

static void body_calls_and_own(struct worker *worker)
{
    body_calls(worker);
    body_a(worker);
}

CP_TEST(time_in_system_calls_does_not_count_where_it_is_not)
{
    struct cp_slot_request requests[] = {request("taskClock", MS), request("cpuClock", 13 * MS / 10)};
    struct profile profile = {.n = 0};
    struct worker worker;
    uint64_t ns = 150 * MS;

    need_prompt_signals();
    requests[0].config.is_kernel_included = false;
    requests[1].config.is_kernel_included = false;
    start_profile(&profile, requests, 2);
    run_attached(&worker, body_calls_and_own, &ns);
    stop_profile(&profile);
    for (size_t i = 0; i < 2; i++) {
        double all = (double)profile.stats[i].samples * (double)requests[i].config.period / (double)ns;
        double own = (double)profile.seen[i].in[IN_A] * (double)requests[i].config.period / (double)ns;

        printf("%.3f of what it burnt by itself, and %.3f in calls\n", own, all - own);
        CHECK(own > 0.7 && own < 1.1 && all - own < 0.3);
    }
}
