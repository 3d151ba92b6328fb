/* CPU time that has no samples because of its event is told: the program switches the event off or closes it,
 * the kernel throttles it, or another program was to be executed. And what other events than clocks say. */
#include <fcntl.h>
#include <sys/prctl.h>

#include "tests/support/account.h"

/* ---- Events that the program switches off or closes ------------------------------------------ */

SIM_TEST(an_event_that_the_program_disables_is_told)
{
    struct worker worker = {.body = NULL};
    struct account account;

    attach(&worker);
    for (size_t i = 0; i < ARRAY_SIZE(engines); i++) {
        open_account(&account, "taskClock", PERIOD, engines[i]);
        burn_a(100 * MS);
        CHECK_EQ(syscall(SYS_prctl, PR_TASK_PERF_EVENTS_DISABLE), 0);
        burn_b(400 * MS);
        end_account(&account, &disabled, 400 * MS);
    }
}

SIM_TEST(an_event_that_the_program_enables_again_is_told_too)
{
    struct worker worker = {.body = NULL};
    struct account account;

    attach(&worker);
    for (size_t i = 0; i < ARRAY_SIZE(engines); i++) {
        open_account(&account, "taskClock", PERIOD, engines[i]);
        burn_a(100 * MS);
        CHECK_EQ(syscall(SYS_prctl, PR_TASK_PERF_EVENTS_DISABLE), 0);
        burn_b(400 * MS);
        CHECK_EQ(syscall(SYS_prctl, PR_TASK_PERF_EVENTS_ENABLE), 0);
        burn_a(500 * MS);
        pass();
        burn_a(500 * MS);
        close_account(&account);
        check_missing(&account, &disabled, 400 * MS);
        CHECK_PERCENT(&account, weight_of(&account, "burn_a") * PERIOD, 1100 * MS);
        free_account(&account);
    }
}

/* A pass finds that the event does not count, and lets it count again. */
SIM_TEST(an_event_that_the_program_disables_goes_on_with_the_next_pass)
{
    struct worker worker = {.body = NULL};
    struct account account;

    attach(&worker);
    for (size_t i = 0; i < ARRAY_SIZE(engines); i++) {
        open_account(&account, "taskClock", PERIOD, engines[i]);
        burn_a(200 * MS);
        pass();
        CHECK_EQ(syscall(SYS_prctl, PR_TASK_PERF_EVENTS_DISABLE), 0);
        burn_b(200 * MS);
        pass();
        burn_b(200 * MS);
        pass();
        burn_a(1000 * MS);
        close_account(&account);
        CHECK_EQ(weight_of(&account, "[stopped"), 0);
        check_missing(&account, &disabled, account.cpu_ns - weight_of(&account, "burn_") * PERIOD);
        free_account(&account);
    }
}

/* A timer is no event, and prctl(2) does nothing to it. */
SIM_TEST(a_timer_goes_on_without_events)
{
    struct worker worker = {.body = NULL};
    struct account account;

    attach(&worker);
    open_account(&account, "timer", PERIOD, CP_ENGINE_AUTO);
    burn_a(100 * MS);
    CHECK_EQ(syscall(SYS_prctl, PR_TASK_PERF_EVENTS_DISABLE), 0);
    burn_a(400 * MS);
    end_account(&account, &nothing, 0);
}

/* Returns the first descriptor of an event from this one on; -1: none. */
static int event_from(int fd)
{
    char path[40], target[64];

    for (; fd < 256; fd++) {
        ssize_t n;

        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        n = readlink(path, target, sizeof target - 1);
        target[n < 0 ? 0 : n] = '\0';
        if (strstr(target, "[perf_event]") != NULL)
            return fd;
    }
    return -1;
}

static void close_events(void)
{
    for (int fd = event_from(0); fd >= 0; fd = event_from(fd + 1))
        CHECK_EQ(syscall(SYS_close_range, fd, fd, 0), 0);
}

/* The program's own files get the numbers that the events had, and stay open. */
SIM_TEST(events_that_the_program_closes_are_told)
{
    struct worker worker = {.body = NULL};
    struct account account;
    int files[8];

    attach(&worker);
    for (size_t i = 0; i < ARRAY_SIZE(engines); i++) {
        open_account(&account, "taskClock", PERIOD, engines[i]);
        burn_a(600 * MS);
        close_events();
        for (size_t k = 0; k < ARRAY_SIZE(files); k++)
            CHECK((files[k] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0);
        burn_b(300 * MS);
        end_account(&account, &closed, 300 * MS);
        for (size_t k = 0; k < ARRAY_SIZE(files); k++)
            CHECK_EQ(close(files[k]), 0);
    }
}

/* Nothing was counted then, as far as anybody knows. */
SIM_TEST(events_that_the_program_closes_before_their_first_sample_are_told)
{
    static const char *const events[] = {"taskClock", "pageFaults", "cycles"};
    struct worker worker = {.body = NULL};

    sim->pmu.is_there = true;
    attach(&worker);
    for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
        struct account account;

        open_account(&account, events[i], PERIOD, CP_ENGINE_SIGNAL);
        close_events();
        burn_a(300 * MS);
        close_account(&account);
        CHECK_EQ(said(&account, "count"), 0);
        CHECK_PERCENT(&account, said(&account, "closed_ns"), 300 * MS);
        CHECK(is_limit(&account, "closed_ns"));
        free_account(&account);
    }
    cp_m_detach(worker.m);
}

SIM_TEST(time_of_a_throttled_event_is_told)
{
    struct worker worker = {.body = NULL};
    struct account account;

    sim->max_rate = 2000; /* 8 samples and one more in a tick of 4 ms: 0.9 of 4 ms */
    attach(&worker);
    for (size_t i = 0; i < ARRAY_SIZE(engines); i++) {
        open_account(&account, "taskClock", MS / 10, engines[i]);
        burn_a(400 * MS);
        end_account(&account, &throttled, 400 * MS * 31 / 40);
    }
}

/* ---- Other events ---------------------------------------------------------------------------- */

/* The event counts in user mode alone. The other thread, of which nobody knows more, would have had as many
 * cycles a second as this one. */
SIM_TEST(an_event_of_the_pmu_is_told_by_its_rate)
{
    uint64_t ns = 300 * MS;
    struct worker worker = {.body = NULL};
    struct account account;
    pthread_t other;

    sim->pmu.is_there = true;
    attach(&worker);
    open_account(&account, "cycles", PERIOD, CP_ENGINE_SIGNAL);
    burn_a(350 * MS);
    SIM_RUN_KERNEL(350 * MS);
    CHECK_EQ(pthread_create(&other, NULL, burn_alone, &ns), 0);
    pthread_join(other, NULL);
    close_account(&account);
    CHECK_EQ(weight_of(&account, "burn_a"), 350);
    CHECK_EQ(weight_of(&account, "[not sampled: threads that never attached]"), 150);
    CHECK_EQ(whole(&account), 500);
    CHECK_PERCENT(&account, said(&account, "coverage") / 100 * 1000 * MS, 700 * MS);
    CHECK_PERCENT(&account, said(&account, "unattached_ns"), ns);
    free_account(&account);
}

CODE(c) void fault_c(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        SIM_FAULT(i + 1);
}

/* Nobody knows how many faults the other thread has had. */
SIM_TEST(an_event_without_a_rate_is_told_by_the_time)
{
    uint64_t ns = 300 * MS;
    struct worker worker = {.body = NULL};
    struct account account;
    pthread_t other;

    attach(&worker);
    for (int with_other = 0; with_other < 2; with_other++) {
        open_account(&account, "pageFaults", 1, CP_ENGINE_SIGNAL);
        burn_a(700 * MS);
        fault_c(700);
        if (with_other) {
            CHECK_EQ(pthread_create(&other, NULL, burn_alone, &ns), 0);
            pthread_join(other, NULL);
        }
        close_account(&account);
        CHECK_EQ(weight_of(&account, "fault_c"), 700);
        CHECK_EQ(whole(&account), 700);
        CHECK_EQ(said(&account, "coverage"), 100);
        CHECK_EQ(is_limit(&account, "none"), !with_other);
        CHECK_EQ(is_limit(&account, "unattached_ns"), with_other);
        CHECK_PERCENT(&account, said(&account, "unattached_ns"), with_other ? ns : 0);
        free_account(&account);
    }
}

static void body_faults(struct worker *worker)
{
    fault_c(*(const unsigned *)worker->arg);
}

/* The first period of such an event is a whole one. Less than one period in all is no loss. */
SIM_TEST(threads_with_less_faults_than_a_period_are_missing_from_the_coverage)
{
    static const struct {
        unsigned own, each, threads;
        double coverage;
    } cases[] = {{500, 5, 100, 50}, {10, 9, 1, 100}, {10, 10, 100, 100}};
    struct worker worker = {.body = NULL};
    struct account account;

    attach(&worker);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        unsigned each = cases[i].each;

        open_account(&account, "pageFaults", 10, CP_ENGINE_SIGNAL);
        fault_c(cases[i].own);
        for (unsigned k = 0; k < cases[i].threads; k++)
            run_attached(&(struct worker){.body = NULL}, body_faults, &each);
        close_account(&account);
        if (cases[i].each == 5)
            CHECK_PERCENT(&account, said(&account, "coverage"), cases[i].coverage);
        else
            CHECK_EQ(said(&account, "coverage"), cases[i].coverage);
        CHECK_EQ(is_limit(&account, "coverage"), cases[i].coverage < 100);
        free_account(&account);
    }
}

SIM_TEST(an_event_that_never_happened_has_no_coverage)
{
    struct worker worker = {.body = NULL};
    struct account account;

    attach(&worker);
    open_account(&account, "pageFaults", 1, CP_ENGINE_SIGNAL);
    burn_a(100 * MS);
    close_account(&account);
    CHECK_EQ(said(&account, "coverage"), 0);
    CHECK(strstr(account.text, "nan") == NULL);
    CHECK(is_limit(&account, "count"));
    free_account(&account);
}

/* ---- A thread that would execute another program --------------------------------------------- */

SIM_TEST(what_was_sampled_before_an_exec_that_failed_is_kept)
{
    char *const program[] = {(char[]){"none"}, NULL};
    struct worker worker = {.body = NULL};
    struct account account;

    attach(&worker);
    for (size_t way = 0; way < ARRAY_SIZE(ways); way++) {
        open_way(&account, &ways[way]);
        burn_a(600 * MS);
        CHECK_EQ(cp_execve("/there/is/no/such/program", program, program + 1), -1);
        burn_b(400 * MS);
        close_account(&account);
        check_missing(&account, &nothing, 0);
        CHECK_PERCENT(&account, weight_of(&account, "burn_a") * PERIOD, 600 * MS);
        CHECK_EQ(account.stats.ms, 1);
        CHECK_PERCENT(&account, account.stats.samples * PERIOD, account.cpu_ns);
        CHECK_PERCENT(&account, account.stats.count, account.cpu_ns);
        free_account(&account);
    }
}
