/* What the comments of a profile say about how it was taken; the test makes the figures up. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pprof/profile_data.h"
#include "pprof/session.h"
#include "pprof/symbol/kernel.h"
#include "runtime/base/sysctl_linux.h"
#include "tests/support/inside.h"
#include "tests/support/report_tools.h"

#define ELSEWHERE                                                                                            \
    " # samples recorded an instruction of another function than the interrupted one, which is shown"

/* ---- The event ------------------------------------------------------------------------------- */

CP_TEST(modes_are_told)
{
    struct cp_session *session = stopped("cycles", 1000000);
    struct cp_cpu_profile_config *config = &session->parts[0].config;

#define ENGINE(modes) "modes: " modes " # are the modes of the processor in which the event counts"
    check_says(session, "event: cycles");
    check_says(session,
               "engine: signal # an event of perf_event_open on each thread sends SIGPROF to the thread");
    session->stats[0].engine_reason = "it is so";
    check_says(session, "engine_reason: it is so # is why the event does not raise SIGTRAP");
    session->stats[0].engine = CP_ENGINE_TRAP;
    session->stats[0].engine_reason = NULL;
    check_says(session,
               "engine: trap # an event of perf_event_open on each thread raises a synchronous SIGTRAP "
               "in the thread");
    check_says(session, "period: 1000000 # events between two samples, as asked");
    check_says(session, ENGINE("user"));
    config->is_kernel_included = true;
    check_says(session, ENGINE("user,kernel"));
    config->is_hv_included = true;
    check_says(session, ENGINE("user,kernel,hypervisor"));
    config->is_user_excluded = true;
    check_says(session, ENGINE("kernel,hypervisor"));
    config->is_kernel_included = false;
    check_says(session, ENGINE("hypervisor"));
    config->is_kernel_included = true;
    config->is_hv_included = false;
    check_says(session, ENGINE("kernel"));
    config->is_idle_included = true;
    check_says(session, ENGINE("kernel,idle"));
    cp__session_free(session);
}

CP_TEST(encodings_are_told)
{
    struct cp_session *session = stopped("r1c2", 100000);
    struct cp__part *part = &session->parts[0];

#define ENCODING(text) "encoding: " text " # the event, as perf_event_open was asked for it"
    check_says(session, ENCODING("type=4,config=0x1c2"));
    part->event.event = CP_CPUPROF_NAMED;
    part->event.kind = CP_EVENT_HARDWARE;
    strcpy(part->event.name, "LLC-load-misses");
    part->config.encoding = (struct cp_event_encoding){.type = 3, .config = 0x10002};
    check_says(session, ENCODING("type=3,config=0x10002"));
    part->config.encoding.config1 = 7;
    check_says(session, ENCODING("type=3,config=0x10002,config1=0x7,config2=0"));
    cp__session_free(session);
    session = stopped("mem:0x1230/8:w", 1);
    check_says(session, ENCODING("type=5,bp_type=2,bp_addr=0x1230,bp_len=8"));
    cp__session_free(session);
    session = stopped("cycles", 100000);
    check_says_nothing_of(session, "encoding");
    cp__session_free(session);
}

/* ---- Losses ---------------------------------------------------------------------------------- */

/* The frame of a loss weighs as much as the samples that were lost. */
CP_TEST(losses_are_frames_of_their_weight)
{
    static const uintptr_t frame = 0x1000;
    const struct cp_sample sample = {.weight = 5, .depth = 1, .frames = &frame};
    struct cp_session *session = stopped("cycles", 1000);
    struct cp__part *part = &session->parts[0];
    const char *path = file_in_dir("losses.pb.gz");
    struct cp_memory memory = {0};
    struct cp_writer w = cp_writer_memory(&memory);
    struct cp_error err;
    char *text;

    session->stats[0].dropped = 11;
    session->stats[0].lost = 22;
    part->unfolded = 33;
    CHECK_EQ(cp__profile_add(part->profile, &sample), 0);
    CHECK_EQ(cp__report_losses(part, &session->stats[0]), 0);
    CHECKF(cp__report_write(session, 0, &w, false, &err) == 0, "%s", err.message);
    save(&memory, path);
    text = pprof("-symbolize=none -traces", path);
    CHECK_CONTAINS(text, "     11000   [dropped: sample buffer full]\n");
    CHECK_CONTAINS(text, "     22000   [lost: perf ring full]\n");
    CHECK_CONTAINS(text, "     33000   [lost: no memory to fold samples]\n");
    free(text);
    free(memory.data);
    cp__session_free(session);
}

/* The time in which the machine stood still is not the program's time. */
CP_TEST(stalls_are_read_and_not_folded)
{
    static const uintptr_t frames[] = {0x1000, 0x2000};
    const struct cp_sample sample = {.weight = 5, .depth = 1, .frames = &frames[0]};
    const struct cp_sample stalled = {
        .weight = 7, .depth = 1, .frames = &frames[1], .flags = CP_SAMPLE_STALLED};
    struct cp_session *session = stopped("taskClock", 1000000);
    struct cp__part *part = &session->parts[0];

    cp__part_fold(part, &sample);
    cp__part_fold(part, &stalled);
    CHECK_EQ(part->read, 12);
    CHECK_EQ(part->unfolded, 0);
    CHECK_EQ(cp__profile_settle(part->profile), 0);
    CHECK(cp__profile_find(part->profile, 0x1000) != NULL);
    CHECK(cp__profile_find(part->profile, 0x2000) == NULL);
    cp__session_free(session);
}

/* An M that slept at the stop may record its last samples after the profile-writer thread has read the rest.
 * In this test it records all of them then. */
SIM_TEST(the_figures_are_of_samples_that_were_read)
{
    struct cp_session *session = stopped("timer", 0);
    struct cp__part *part = &session->parts[0];
    const struct cp_slot_request request = {
        .event = part->event.event, .config = part->config, .name = part->event.name};
    struct cp_error err;

    attach();
    CHECKF(cp_slots_start(&request, 1, session->slots, &err) == 0, "%s", err.message);
    burn_here(100000000);
    cp_slots_stop(session->slots, 1);
    cp__session_read_up(session, 0);
    CHECK_EQ(session->stats[0].samples, 10);
    CHECK_EQ(part->read, 10);
    cp_slots_release(session->slots, 1);
    cp__session_free(session);
}

CP_TEST(losses_are_told_by_their_keys)
{
    struct cp_session *session = stopped("cycles", 1000);

    session->stats[0].ms_ringless = 1;
    session->stats[0].ms_overloaded = 2;
    session->stats[0].overloaded_ns = 3;
    session->stats[0].stalled = 4;
    session->stats[0].dropped = 5;
    session->stats[0].lost = 6;
    session->parts[0].unfolded = 7;
    session->stats[0].late = 8;
    session->stats[0].truncated = 9;
    session->stats[0].incomplete = 10;
    session->stats[0].overruns = 11;
    session->stats[0].foreign = 12;
    session->stats[0].handler_replaced = true;
    check_contains(session, "\nthreads_ringless: 1 # ");
    check_contains(session, "\nhandler_replaced: yes # ");
    check_contains(session, "\nstopped: 2 # ");
    check_contains(session, "\nstopped_ns: 3 # ");
    check_contains(session, "\nstalled_ns: 4000 # ");
    check_contains(session, "\ndropped: 5 # ");
    check_contains(session, "\nlost: 6 # ");
    check_contains(session, "\nunfolded: 7 # ");
    check_contains(session, "\nlate: 8 # ");
    check_contains(session, "\ntruncated: 9 # ");
    check_contains(session, "\nincomplete: 10 # ");
    check_contains(session, "\nfolded: 11 # ");
    check_contains(session, "\nforeign: 12 # ");
    check_limits(session, "threads_ringless,handler_replaced,stopped,stopped_ns,stalled_ns,dropped,lost,"
                          "unfolded,late,truncated,incomplete");
    cp__session_free(session);
}

/* ---- How it ran ------------------------------------------------------------------------------ */

CP_TEST(precision_is_told)
{
    struct cp_session *session = stopped("cycles", 1000000);
    static const uintptr_t frame = 0x1000;
    const struct cp_sample sample = {.weight = 5, .depth = 1, .frames = &frame, .ip = 0x2000};

    check_says_nothing_of(session, "precise_ip");
    session->parts[0].config.precise_ip = CP_CPUPROF_IP_NO_SKID;
    session->stats[0].precise_ip = CP_CPUPROF_IP_CONSTANT_SKID;
    check_says(session, "precise_ip_asked: 3 # is the level that was asked for");
    check_says(session, "precise_ip: 1 # is the level that was reached");
    check_limits(session, "precise_ip");
    check_says_nothing_of(session, "elsewhere");
    session->stats[0].precise_ip = CP_CPUPROF_IP_NO_SKID;
    check_says(session, "precise_ip: 3 # is the level that was reached");
    check_limits(session, NULL);
    CHECK_EQ(cp__profile_add(session->parts[0].profile, &sample), 0);
    check_says(session, "elsewhere: 5" ELSEWHERE);
    check_limits(session, "elsewhere");
    cp__session_free(session);
}

CP_TEST(replaced_code_is_told)
{
    struct cp_session *session = stopped("cycles", 1000000);

    check_says_nothing_of(session, "code_replaced");
    session->parts[0].profile->replaced = 3;
    check_contains(session, "\ncode_replaced: 3 # ");
    check_limits(session, "code_replaced");
    session->parts[0].profile->mappings.unread = -EACCES;
    check_contains(session, "\nmappings: linker (Permission denied) # ");
    check_limits(session, "mappings,code_replaced");
    cp__session_free(session);
}

CP_TEST(taking_turns_is_told)
{
    struct cp_session *session = stopped("cycles", 1000000);
    struct cp_slot_stats *stats = &session->stats[0];

    stats->time_enabled = stats->time_running = 3000000000;
    check_says_nothing_of(session, "multiplexed");
    stats->time_running = 750000000;
    check_says(
        session,
        "multiplexed: 25.0 # percent of the time the event had a counter; divide values by this share");
    stats->time_running = 0;
    check_says(session, "multiplexed: 0.0 # the event never had a counter");
    check_limits(session, "multiplexed");
    stats->time_enabled = 0;
    check_says_nothing_of(session, "multiplexed");
    cp__session_free(session);
}

/* A switch that costs 20 us at most needs no measurement to be told. */
CP_TEST(what_switches_cost_is_told)
{
    struct cp_session *session = stopped("taskClock", 1000000);
    struct cp_slot_stats *stats = &session->stats[0];

    cp__switch_costs_set(&(struct cp__switch_costs){1000, 10000, 10000, 10000});
    stats->cpu_ns = 1000000000;
    stats->switches = 999;
    check_says_nothing_of(session, "switch_cost");
    stats->switches = 1000;
    check_says(
        session,
        "switch_cost: 1.0 # percent of the CPU time went to the event at 1000 switches between threads, "
        "10000 ns at each; a period of 10 ms or more costs less, and the timer nothing");
    stats->switches = 25000;
    check_contains(session, "switch_cost: 25.0 # ");
    stats->switches = 200000; /* the machine was busier when the cost was measured */
    check_contains(session, "switch_cost: 80.0 # ");
    check_contains(session, ", 4000 ns at each");
    session->parts[0].event.kind = CP_EVENT_SOFTWARE;
    check_contains(session, " ns at each\n");
    stats->cpu_ns = 0;
    check_says_nothing_of(session, "switch_cost");
    cp__session_free(session);
}

/* Nothing is missing, so this is no limit. */
CP_TEST(samples_that_may_take_more_than_half_of_the_time_are_told)
{
    struct cp_session *session = stopped("taskClock", 100000);

    session->stats[0].cost_percent = 50;
    check_says_nothing_of(session, "cost_percent");
    session->stats[0].cost_percent = 51;
    check_says(session,
               "cost_percent: 51 # percent of a thread's time may go to the samples of all events that "
               "ran, and to its switches, by what these cost on this machine; take a longer period");
    check_limits(session, NULL);
    cp__session_free(session);
}

CP_TEST(throttling_is_told_with_the_limit)
{
    struct cp_session *session = stopped("cycles", 1000000);

    session->rate_limit = 25000;
    check_says_nothing_of(session, "throttled");
    check_limits(session, NULL);
    session->stats[0].throttled = 12;
    session->stats[0].throttled_ns = 300000000;
    session->stats[0].time_running = session->stats[0].time_enabled = 1000000000;
    check_says(session, "throttled: 12 # times the kernel throttled the event");
    check_says(session, "throttled_ns: 300000000 # ns of CPU time passed while the event was throttled; they "
                        "are not in the profile");
    check_says(session, "running_ns: 1000000000 # ns of CPU time passed in all");
    check_says(session, "rate_limit: 25000 # samples a second are the limit of the kernel, "
                        "kernel.perf_event_max_sample_rate");
    check_limits(session, "count,throttled,throttled_ns");
    session->rate_limit = 0;
    check_says_nothing_of(session, "rate_limit");
    cp__session_free(session);
}

/* Maps an executable page of a new file, and adds a sample there. */
static void add_in_file(struct cp__profile *profile, int i)
{
    char name[32];
    int fd;
    uintptr_t code;
    const struct cp_sample sample = {.weight = 1, .depth = 1, .frames = &code};

    snprintf(name, sizeof name, "code%d", i);
    fd = open(file_in_dir(name), O_RDWR | O_CREAT | O_CLOEXEC, 0700);
    CHECK_EQ(ftruncate(fd, 4096), 0);
    for (int j = 0; j < 2; j++) { /* the module has two mappings, and is told once */
        code = (uintptr_t)mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
        CHECK(code != (uintptr_t)MAP_FAILED);
        CHECK_EQ(cp__profile_add(profile, &sample), 0);
    }
    close(fd);
}

/* Each module without names has a comment, but a profile does not consist of comments. */
CP_TEST(modules_without_names_are_told)
{
    struct cp_session *session = stopped("taskClock", 1000000);
    static const char told[] = "/code0 # has code without names, or without lines: its file is no ELF object "
                               "that can be read\n";
    unsigned n = 0;
    char *text;

    check_limits(session, NULL);
    add_in_file(session->parts[0].profile, 0);
    for (int i = 0; i < 2; i++) { /* the second time is as the first */
        check_contains(session, "\nsymbols_missing: /");
        check_contains(session, told);
        check_limits(session, "symbols_missing");
    }
    check_says_nothing_of(session, "symbols_missing_more");
    for (int i = 1; i < 100; i++)
        add_in_file(session->parts[0].profile, i);
    text = comments_of(session);
    for (const char *at = text; (at = strstr(at, "\nsymbols_missing: ")) != NULL; at++)
        n++;
    CHECK_EQ(n, 6);
    free(text);
    check_says(session, "symbols_missing_more: 94 # further modules have code without names");
    check_limits(session, "symbols_missing");
    cp__session_free(session);
}

/* If a new line does not fit, it is this test that says so. */
CP_TEST(all_comments_fit_at_once)
{
    struct cp_session *session = stopped("r1234", 1000);
    struct cp_slot_stats *stats = &session->stats[0];
    struct cp__part *part = &session->parts[0];
    const uintptr_t frame = CP__KERNEL_START + 4096;
    struct cp_sample sample = {.weight = 1, .depth = 1, .frames = &frame, .ip = frame + 1};
    char *text;
    unsigned n = 0;

    memset(stats, 1, sizeof *stats); /* each number is large, and each length the greatest */
    stats->engine = CP_ENGINE_SIGNAL;
    stats->engine_reason = "it is the default";
    stats->refused_errno = -EPERM;
    stats->time_enabled = stats->time_running + 1;
    stats->precise_ip = 0;
    stats->samples = stats->count / 2000;
    part->config.precise_ip = CP_CPUPROF_IP_NO_SKID;
    part->config.is_kernel_included = part->config.is_hv_included = part->config.is_idle_included = true;
    part->unfolded = part->profile->replaced = UINT64_MAX;
    part->profile->mappings.unread = -EACCES;
    memset(part->warning, 'w', sizeof part->warning - 1);
    part->profile->kallsyms = "/nonexistent";
    CHECK_EQ(cp__profile_add(part->profile, &sample), 0);
    for (int i = 0; i < 10; i++)
        add_in_file(part->profile, i);
    for (uint64_t i = 1; i < 10; i++) /* watches that were never opened have names, too */
        CHECK_EQ(cp__profile_add(part->profile,
                                 &(struct cp_sample){.n_rounds = 1, .rounds = &(uint64_t){i << 48 | i}}),
                 0);
    set_switch_cost(10000);
    stats->switches = stats->cpu_ns / 10000;
    text = comments_of(session);
    for (const char *at = text + 1; (at = strchr(at, '\n')) != NULL; at++)
        n++;
    printf("%u lines\n", n);
    CHECKF(strstr(text, "more_comments") == NULL && n > 47, "%u: %s", n, text);
    CHECK_CONTAINS(text, ",code_replaced,elsewhere # are the keys of the lines that tell what is missing");
    free(text);
    cp__session_free(session);
}

/* Writing a profile twice gives the same file, although the first time finds out things that it keeps. */
CP_TEST(the_second_time_is_as_the_first)
{
    static const uintptr_t frames[] = {0xffffffff81000000, 0x1000};
    const struct cp_sample in_kernel = {.weight = 1, .depth = 2, .kernel_depth = 1, .frames = frames};
    const struct cp_sample precise = {
        .weight = 2, .depth = 1, .frames = &frames[1], .ip = 0x2000, .addr = 0x7f0012345678};
    struct cp_session *session = stopped("cycles:kpp", 1000000);
    struct cp_memory memory[2] = {{0}};
    struct cp_error err;

    session->parts[0].profile->kallsyms = "/nonexistent/kallsyms";
    session->stats[0].throttled = 1;
    session->rate_limit = 1000;
    CHECK_EQ(cp__profile_add(session->parts[0].profile, &in_kernel), 0);
    CHECK_EQ(cp__profile_add(session->parts[0].profile, &precise), 0);
    for (int i = 0; i < 2; i++) {
        struct cp_writer w = cp_writer_memory(&memory[i]);

        CHECKF(cp__report_write(session, 0, &w, false, &err) == 0, "%s", err.message);
    }
    check_says(session, "precise_ip: 0 # is the level that was reached");
    check_says(session, "elsewhere: 2" ELSEWHERE);
    check_limits(session, "precise_ip,kernel_names,throttled,elsewhere");
    check_says(session, "kernel_names: none # /proc/kallsyms cannot be read (No such file or directory). "
                        "Make the file visible to this process, for instance in its container, or use a "
                        "kernel that has the file "
                        "(CONFIG_KALLSYMS).");
    CHECK_EQ(memory[0].size, memory[1].size);
    CHECK(memcmp(memory[0].data, memory[1].data, memory[0].size) == 0);
    free(memory[0].data);
    free(memory[1].data);
    cp__session_free(session);
}

/* ---- Rates ----------------------------------------------------------------------------------- */

CP_TEST(a_rate_past_the_limit_is_told_afterwards)
{
    struct cp_session *session = stopped("instructions", 10000);
    struct cp_slot_stats *stats = &session->stats[0];

    session->rate_limit = 50000;
    stats->count = 2000000000; /* 200000 samples in 2 s */
    stats->time_enabled = stats->time_running = 4000000000;
    check_says_nothing_of(session, "warning");
    stats->time_enabled = stats->time_running = 2000000000;
    check_says(session,
               "warning: A sample of instructions every 10000 came to 100000 a second, and the kernel "
               "stops at 50000 (kernel.perf_event_max_sample_rate). Take a period of 20000 or more, "
               "or raise that with sysctl.");
    stats->time_enabled = stats->time_running = 4000000000;
    stats->throttled_ns = 2000000000;
    check_contains(session, "came to 100000 a second");
    session->rate_limit = 0;
    check_says_nothing_of(session, "warning");
    cp__session_free(session);
}

CP_TEST(that_no_thread_was_sampled_is_told)
{
    struct cp_session *session = stopped("timer", 0);

    check_says(session, "threads: 1 # were sampled");
    session->stats[0].ms = 0;
    check_says(session, "threads: 0 # no thread that had called cp_m_attach() ran during the profile");
    check_limits(session, "threads");
    session->stats[0].ms_refused = 1;
    session->stats[0].refused_errno = -ENOSPC;
    check_says_nothing_of(session, "cp_m_attach");
    check_says(session, "threads_refused: 1 # were not sampled, because the system refused the event");
    check_says(session, "refusal: No space left on device # was the last answer of the system");
    check_limits(session, "threads_refused,refusal");
    cp__session_free(session);
}

/* Replaces the kernel's setting with one of the test's own. */
static void set_limit(const char *limit)
{
    char path[512];

    cp__sysctl_root = test_dir();
    snprintf(path, sizeof path, "%s/kernel", test_dir());
    CHECK(mkdir(path, 0700) == 0 || errno == EEXIST);
    test_write_file("kernel/perf_event_max_sample_rate", limit);
}

/* Checks whether the start of a clock gives a warning with this text, and whether its profile has it, too;
 * NULL: neither has a warning. */
static void check_warning(const char *limit, uint64_t period, const char *part)
{
    struct cp_memory memory = {0};
    const struct cp_profiling_option option = cp_option_event(cp_writer_memory(&memory), "taskClock", period);
    struct cp_session *session;
    struct cp_error err;
    char *text;

    set_limit(limit);
    CHECKF(cp_session_start(&session, &option, 1, &err) == 0, "%s", err.message);
    set_limit("1");
    if (part == NULL)
        CHECK_STR(cp_session_warning(session, 0), NULL);
    else
        CHECK_CONTAINS(cp_session_warning(session, 0), part);
    CHECK_STR(cp_session_warning(session, 1), NULL);
    CHECKF(cp_session_stop(session, &err) == 0, "%s", err.message);
    save(&memory, file_in_dir("warned.pb.gz"));
    text = pprof("-comments", file_in_dir("warned.pb.gz"));
    CHECK((strstr(text, "warning: A sample of taskClock every") != NULL) == (part != NULL));
    free(text);
    cp_session_close(session);
    free(memory.data);
}

SIM_TEST(a_clock_past_the_limit_is_told_at_the_start)
{
    attach();
    check_warning("10000\n", 100000, NULL);
    check_warning(
        "9999\n", 100000,
        "A sample of taskClock every 100000 ns is 10000 a second, and the kernel stops at 9999 "
        "(kernel.perf_event_max_sample_rate). Take a period of 100011 ns or more, or raise that with "
        "sysctl.");
    check_warning("", 100000, NULL);
    check_warning("-1\n", 100000, NULL);
}

/* ---- The count ------------------------------------------------------------------------------- */

CP_TEST(an_event_that_never_happened_is_told)
{
    struct cp_session *session = stopped("cacheMisses", 10000);

    check_says_nothing_of(session, "count: 0"); /* no thread ran */
    session->stats[0].time_enabled = session->stats[0].time_running = 1000000;
    check_says(session, "count: 0 # the event did not happen, or this machine does not count it");
    session->stats[0].count = 1;
    check_says_nothing_of(session, "count: 0");
    cp__session_free(session);
}

/* What a thread counted after its last sample is covered, and not missing. */
CP_TEST(a_coverage_that_misses_more_than_a_hundredth_is_a_limit)
{
    struct cp_session *session = stopped("cycles", 1000);
    struct cp_slot_stats *stats = &session->stats[0];

    stats->ms = 2;
    stats->count = 64500;
    stats->samples = 63;
    stats->signals = 60;
    check_says(session, "count: 64500 # events, by the event's own count");
    check_says(session, "samples: 63 # each stands for one period");
    check_says(session, "signals: 60 # brought the samples");
    check_says(session, "interval: 1023.8 # events between two samples, as delivered");
    check_says(session, "coverage: 100.00 # percent of the event's own count that the samples stand for");
    check_limits(session, NULL);
    stats->unsampled = 2;
    check_says(session, "coverage: 96.90 # percent of the event's own count that the samples stand for");
    check_limits(session, "coverage");
    stats->count = 1000000;
    stats->samples = 990;
    stats->unsampled = 10;
    check_limits(session, NULL);
    stats->samples = 989;
    stats->unsampled = 11;
    check_limits(session, "coverage");
    cp__session_free(session);
}
