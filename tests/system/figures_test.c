/* What the figures of slots and of the process say, exactly. */
#include "tests/support/burn.h"
#include "tests/support/resources.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>

static void block_sigprof(int how)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    pthread_sigmask(how, &set, NULL);
}

/* ---- Signals --------------------------------------------------------------------------------- */

/* Five records wait, and one signal brings them. */
SIM_TEST(a_signal_that_brings_many_samples_is_one)
{
    struct cp_slot_request requests[] = {signal_request("taskClock", MS)};
    struct profile profile = {.n = 0};
    struct worker worker = {.body = NULL};

    attach(&worker);
    start_unread(&profile, requests, 1);
    cp_execute(worker.m, NULL);
    burn_a(10 * MS);
    block_sigprof(SIG_BLOCK);
    burn_b(5 * MS);
    block_sigprof(SIG_UNBLOCK);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].samples, 15);
    CHECK_EQ(profile.stats[0].signals, 11);
    CHECK_EQ(profile.stats[0].late, 5);
    CHECK_EQ(profile.seen[0].in[IN_B], 5);
}

/* The signals wait until the thread, which keeps them blocked, stops its events itself. */
SIM_TEST(what_is_pending_at_the_stop_is_taken)
{
    struct cp_slot_request requests[] = {signal_request("taskClock", MS), request("timer", 10 * MS)};
    struct profile profile = {.n = 0};
    struct worker worker = {.body = NULL};

    attach(&worker);
    start_unread(&profile, requests, 2);
    cp_execute(worker.m, NULL);
    block_sigprof(SIG_BLOCK);
    burn_b(55 * MS);
    cp_slots_stop(profile.slots, 2);
    cp_execute(worker.m, NULL);
    block_sigprof(SIG_UNBLOCK);
    profile.n = 2;
    read_profile(&profile);
    CHECK(is_read_up(&profile));
    CHECK_EQ(profile.stats[0].samples + profile.stats[0].lost, 55);
    CHECK(profile.stats[1].samples == 5 || profile.stats[1].samples == 6); /* the first expiry is random */
    CHECK_EQ(profile.stats[0].foreign + profile.stats[1].foreign, 0);
    cp_slots_release(profile.slots, 2);
    cp_m_detach(worker.m);
}

/* Without a ring, the one signal that waits is a sample, and the others were lost. */
SIM_TEST(what_is_pending_at_the_stop_is_taken_without_a_ring_too)
{
    struct cp_slot_request requests[] = {signal_request("taskClock", MS)};
    struct profile profile = {.n = 0};
    struct worker worker = {.body = NULL};

    start_unread(&profile, requests, 1);
    sim_fail(SYS_mmap, 1, EPERM, true);
    attach(&worker);
    sim_fail(SIM_NONE, 0, 0, false);
    block_sigprof(SIG_BLOCK);
    burn_b(5 * MS);
    cp_slots_stop(profile.slots, 1);
    cp_execute(worker.m, NULL);
    block_sigprof(SIG_UNBLOCK);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].ms_ringless, 1);
    CHECK_EQ(profile.stats[0].samples, 1);
    CHECK_EQ(profile.stats[0].lost, 4);
    cp_m_detach(worker.m);
}

/* ---- Threads that are refused ---------------------------------------------------------------- */

SIM_TEST(the_totals_have_threads_that_were_refused)
{
    struct cp_slot_request requests[] = {request("taskClock", MS), request("cpuClock", MS)};
    struct cp_slot_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    struct profile profile = {.n = 0};
    struct worker worker;
    uint64_t ns = 20 * MS;

    CHECK_EQ(cp_slots_totals(&before), 0);
    start_profile(&profile, requests, 2);
    run_attached(&worker, body_a, &ns);
    sim_fail(SYS_perf_event_open, 1, EACCES, true);
    run_attached(&worker, body_b, &ns);
    sim_fail(SIM_NONE, 0, 0, false);
    stop_profile(&profile);
    CHECK_EQ(cp_slots_totals(&after), 0);
    CHECK_EQ(after.ms - before.ms, 2);
    CHECK_EQ(after.ms_refused - before.ms_refused, 2);
    CHECK_EQ(after.samples - before.samples, 40);
    CHECK_EQ(after.refused_errno, -EACCES);
}

/* A slot that is free has no figures, and nothing is added to the totals a second time. */
SIM_TEST(a_slot_that_is_released_twice_is_counted_once)
{
    struct cp_slot_request clock = request("taskClock", MS);
    struct cp_slot_stats once = {.size = sizeof once}, twice = once, of_slot = once;
    struct profile profile = {.n = 0};
    struct worker self = {.body = NULL};

    attach(&self);
    start_unread(&profile, &clock, 1);
    burn_a(20 * MS);
    stop_profile(&profile);
    CHECK_EQ(cp_slots_totals(&once), 0);
    CHECK_EQ(cp_slots_stats(profile.slots[0], &of_slot), 0);
    CHECK_EQ(of_slot.samples + of_slot.cpu_ns + of_slot.ms_ns + of_slot.ms, 0);
    CHECK_EQ(cp_slots_release(profile.slots, 1), 0);
    CHECK_EQ(cp_slots_totals(&twice), 0);
    CHECK_EQ(once.samples, 20);
    CHECK_EQ(twice.samples, once.samples);
    CHECK_EQ(twice.ms, once.ms);
    CHECK_EQ(twice.cpu_ns, once.cpu_ns);
    CHECK_EQ(twice.ms_ns, once.ms_ns);
    cp_m_detach(self.m);
}

static long refuse_to_enable(long number, const long a[6])
{
    if (number != SYS_ioctl || a[1] != PERF_EVENT_IOC_REFRESH)
        return sim_hand_on(number, a);
    errno = EINVAL;
    return -1;
}

SIM_TEST(an_event_that_is_not_enabled_is_closed_at_once)
{
    struct cp_slot_request requests[] = {request("taskClock", MS)};
    struct profile profile = {.n = 0};
    struct worker worker = {.body = NULL};

    start_unread(&profile, requests, 1);
    sim_hook(refuse_to_enable);
    attach(&worker);
    CHECK_EQ(resources_now().perf_fds + resources_now().rings, 0);
    burn_a(10 * MS);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].ms, 0);
    CHECK_EQ(profile.stats[0].ms_refused, 1);
    CHECK_EQ(profile.stats[0].refused_errno, -EINVAL);
    CHECK_EQ(profile.stats[0].samples, 0);
}

/* ---- Time ------------------------------------------------------------------------------------ */

static uint64_t handler_ns(void)
{
    struct cp_runtime_stats stats = {.size = sizeof stats};

    CHECK_EQ(cp_runtime_stats(&stats), 0);
    return stats.handler_ns;
}

static void body_burns_and_tells(struct worker *worker)
{
    burn_a(50 * MS);
    *(uint64_t *)worker->arg = handler_ns();
}

SIM_TEST(the_handlers_time_stays_when_its_thread_has_ended)
{
    struct cp_slot_request requests[] = {request("taskClock", MS)};
    struct profile profile = {.n = 0};
    struct worker worker;
    uint64_t while_it_ran = 0;

    sim->clock_ns = 1000; /* between the two readings of a handler that is timed */
    start_profile(&profile, requests, 1);
    run_attached(&worker, body_burns_and_tells, &while_it_ran);
    CHECK(while_it_ran > 0);
    CHECK(handler_ns() >= while_it_ran);
    stop_profile(&profile);
    CHECK(handler_ns() >= while_it_ran);
}

static void body_in_kernel(struct worker *worker)
{
    (void)worker;
    burn_a(10 * MS);
    SIM_RUN_KERNEL(5 * MS);
}

/* Without a ring, a clock that takes samples in user mode only cannot tell the kernel's periods from lost
 * ones. */
SIM_TEST(periods_in_the_kernel_are_not_lost_if_the_kernel_is_excluded)
{
    for (int ringless = 0; ringless < 2; ringless++) {
        struct cp_slot_request requests[1];
        struct profile profile = {.n = 0};
        struct worker worker;

        sim->paranoid = 2;
        requests[0] = request("taskClock", MS);
        CHECK(!requests[0].config.is_kernel_included);
        start_profile(&profile, requests, 1);
        if (ringless)
            sim_fail(SYS_mmap, 1, EPERM, true);
        run_attached(&worker, body_in_kernel, NULL);
        sim_fail(SIM_NONE, 0, 0, false);
        stop_profile(&profile);
        CHECK_EQ(profile.stats[0].ms_ringless, ringless);
        CHECK_EQ(profile.stats[0].samples, 10);
        CHECK_EQ(profile.stats[0].count, 15 * MS);
        CHECK_EQ(profile.stats[0].lost, 0);
    }
}

SIM_TEST(time_in_the_kernel_has_samples_if_the_kernel_is_included)
{
    struct cp_slot_request requests[] = {request("taskClock", MS)};
    struct profile profile = {.n = 0};
    struct worker worker;

    CHECK(requests[0].config.is_kernel_included);
    start_profile(&profile, requests, 1);
    run_attached(&worker, body_in_kernel, NULL);
    stop_profile(&profile);
    CHECK_EQ(profile.stats[0].samples, 15);
    CHECK_EQ(profile.seen[0].leaf[IN_A], 10);
}

/* How many samples have the kernel's frame first, and the function that called the kernel after it. */
struct chains {
    uint64_t samples, of_kernel, from_a;
};

static void look_at_chain(void *context, const struct cp_sample *sample)
{
    struct chains *chains = context;

    chains->samples += sample->weight;
    if (sample->kernel_depth != 1 || sample->frames[0] != SIM_KERNEL_PC)
        return;
    chains->of_kernel += sample->weight;
    chains->from_a += sample->depth > 1 && is_in(IN_A, sample->frames[1]) ? sample->weight : 0;
}

CODE(a) void call_kernel_a(void)
{
    SIM_RUN_KERNEL(5 * MS);
}

static void body_calls_kernel(struct worker *worker)
{
    (void)worker;
    burn_b(10 * MS);
    call_kernel_a();
}

SIM_TEST(the_kernels_frames_stand_before_the_programs)
{
    for (int without_user = 0; without_user < 2; without_user++) {
        struct cp_slot_request made = request("taskClock", MS);
        struct chains chains = {.samples = 0};
        struct profile profile = {.look = look_at_chain, .context = &chains};
        struct worker worker;

        made.config.is_sample_callchain_included = true;
        made.config.is_callchain_kernel_included = true;
        made.config.is_user_excluded = without_user;
        start_profile(&profile, &made, 1);
        run_attached(&worker, body_calls_kernel, NULL);
        stop_profile(&profile);
        CHECK_EQ(chains.samples, without_user ? 5 : 15);
        CHECK_EQ(chains.of_kernel, 5);
        CHECK_EQ(chains.from_a, 5);
        CHECK_EQ(profile.stats[0].lost + profile.stats[0].late, 0);
    }
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* The calling thread becomes an M while an event runs, and each of its mappings fails in turn. */
SIM_TEST(an_attach_that_fails_keeps_no_mapping)
{
    struct cp_slot_request requests[] = {request("taskClock", MS)};
    struct profile profile = {.n = 0};
    struct cp_error err = {0};
    struct cp_m *m;
    int mappings, n = 0, failed;

    CHECK_EQ(sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL), 0); /* the runner's */
    start_unread(&profile, requests, 1);
    CHECK_EQ(cp_m_attach(&m, NULL), 0); /* maps what all Ms share */
    cp_m_detach(m);
    read_profile(&profile);
    mappings = count_lines("/proc/self/maps", "", "");
    do {
        int result;

        sim_fail(SIM_MEMORY, ++n, ENOMEM, false);
        result = cp_m_attach(&m, &err);
        failed = sim_failed();
        sim_fail(SIM_NONE, 0, 0, false);
        if (result == 0)
            cp_m_detach(m);
        if (failed != 0)
            CHECKF(count_lines("/proc/self/maps", "", "") <= mappings, "after mapping %d", n);
    } while (failed != 0 && n < 100);
    CHECK(n > 1 && n < 100);
    stop_profile(&profile);
}
