/* Sessions: which options are accepted, that sessions are independent, and what their profiles contain. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/pprof_inside.h"
#include "tests/support/refuse.h"
#include "tests/support/session_tools.h"

/* ---- Bad input ------------------------------------------------------------------------------- */

CP_TEST(bad_options_are_refused_in_words)
{
    struct cp_memory a = {0};
    struct cp_memory b = {0};
    const struct {
        struct cp_profiling_option option;
        const char *part;
    } bad[] = {
        {cp_option_event(cp_writer_memory(&a), "bogus", 0), "no event named \"bogus\""},
        {cp_option_event(cp_writer_memory(&a), "", 0), "has no name"},
        {cp_option_event(cp_writer_memory(&a), NULL, 0), "has no name"},
        {cp_option_event(cp_writer_memory(&a), "rxyz", 0), "no event named"},
        {cp_option_event(cp_writer_memory(&a), "taskClock", 9999), "smallest is 10000 ns"},
        {cp_option_event(cp_writer_memory(&a), "cycles", 1), "smallest is 1000"},
        {cp_option_event(cp_writer_memory(&a), "contextSwitches", 0), "no preset"},
        {cp_option_event(cp_writer_memory(&a), "taskClock", UINT64_MAX), "too large"},
        {cp_option_event((struct cp_writer){.ops = NULL}, "taskClock", 0), "no writer"},
    };
    struct state before;
    struct cp_error err;

    attach();
    before = state_now();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        memset(&err, 0, sizeof err);
        check_refused(cp_start_cpu_profile_with_config(&err, bad[i].option), -EINVAL, &err, bad[i].part,
                      &before);
        CHECK_EQ(cp_start_cpu_profile_with_config(NULL, bad[i].option), -EINVAL);
    }
    setenv("CP_PPROF_ENABLE_MULTIPLE_CPU_PROFILES", "true", 1);
    check_refused(cp_start_cpu_profile_with_config(&err,
                                                   cp_option_event(cp_writer_memory(&a), "taskClock", 0),
                                                   cp_option_event(cp_writer_memory(&b), "task-clock", 0)),
                  -EINVAL, &err, "taskClock was given twice", &before);
    check_refused(cp_start_cpu_profile_with_config(&err,
                                                   cp_option_event(cp_writer_memory(&a), "taskClock", 0),
                                                   cp_option_event(cp_writer_memory(&a), "cpuClock", 0)),
                  -EINVAL, &err, "the same buffer", &before);
    check_refused(cp_start_cpu_profile_with_options(NULL, 0, &err), -EINVAL, &err, "No event was given",
                  &before);
}

CP_TEST(nine_events_are_refused)
{
    struct cp_profiling_option options[CP_EV_MAX + 1];
    struct cp_memory memory[CP_EV_MAX + 1];
    struct cp_error err;
    struct state before;

    attach();
    before = state_now();
    setenv("CP_PPROF_ENABLE_MULTIPLE_CPU_PROFILES", "true", 1);
    for (int i = 0; i <= CP_EV_MAX; i++)
        options[i] = cp_cpu_raw_event(cp_writer_memory(&memory[i]), 0, (uint64_t)i);
    check_refused(cp_start_cpu_profile_with_options(options, CP_EV_MAX + 1, &err), -EINVAL, &err,
                  "9 events were given", &before);
}

SIM_TEST(several_events_need_the_environment)
{
    struct cp_memory a = {0};
    struct cp_memory b = {0};
    struct cp_error err;
    struct state before;

    attach();
    before = state_now();
    unsetenv("CP_PPROF_ENABLE_MULTIPLE_CPU_PROFILES");
    check_refused(cp_start_cpu_profile_with_config(&err,
                                                   cp_option_event(cp_writer_memory(&a), "taskClock", 0),
                                                   cp_option_event(cp_writer_memory(&b), "cpuClock", 0)),
                  -EPERM, &err, "CP_PPROF_ENABLE_MULTIPLE_CPU_PROFILES=true", &before);
    setenv("CP_PPROF_ENABLE_MULTIPLE_CPU_PROFILES", "true", 1);
    CHECK_EQ(cp_start_cpu_profile_with_config(&err, cp_option_event(cp_writer_memory(&a), "taskClock", 0),
                                              cp_option_event(cp_writer_memory(&b), "cpuClock", 0)),
             0);
    CHECK_EQ(cp_stop_cpu_profile(&err), 0);
    CHECK(a.size > 0 && b.size > 0);
    free(a.data);
    free(b.data);
}

SIM_TEST(a_second_start_and_a_stop_without_start_are_refused)
{
    struct cp_memory a = {0};
    struct cp_memory b = {0};
    struct cp_error err;
    struct state before;

    attach();
    before = state_now();
    check_refused(cp_stop_cpu_profile(&err), -ESRCH, &err, "No CPU profile is being taken", &before);
    CHECK_EQ(cp_start_cpu_profile(cp_writer_memory(&a), &err), 0);
    CHECK_EQ(cp_start_cpu_profile(cp_writer_memory(&b), &err), -EBUSY);
    CHECK_CONTAINS(err.message, "cp_stop_cpu_profile()");
    CHECK_EQ(cp_stop_cpu_profile(&err), 0);
    check_refused(cp_stop_cpu_profile(&err), -ESRCH, &err, "No CPU profile is being taken", &before);
    CHECK(a.size > 0);
    CHECK_EQ(b.size, 0);
    free(a.data);
}

SIM_TEST(a_refused_event_undoes_the_others)
{
    struct cp_memory memory = {0};
    char path[512];
    struct cp_error err;
    struct state before;
    const char *name = "cycles"; /* the simulated kernel has no PMU */
    int result;

    attach();
    before = state_now();
    setenv("CP_PPROF_ENABLE_MULTIPLE_CPU_PROFILES", "true", 1);
    snprintf(path, sizeof path, "%s", file_in_dir("new.pb.gz"));
    result = cp_start_cpu_profile_with_config(&err, cp_option_event(cp_writer_path(path), "taskClock", 0),
                                              cp_option_event(cp_writer_memory(&memory), name, 0));
    check_refused(result, -ENOENT, &err, name, &before);
    CHECK_EQ(access(path, F_OK), -1);
}

/* Checks that one start can take all slots. */
static void check_all_slots_free(void)
{
    struct cp_slot_request requests[CP_EV_MAX];
    struct cp_event_spec timer = {.size = sizeof timer};
    struct cp_error err;
    int slots[CP_EV_MAX];

    CHECK_EQ(cp_event_parse("timer", &timer, NULL), 0);
    for (int i = 0; i < CP_EV_MAX; i++) {
        requests[i] = (struct cp_slot_request){
            .event = timer.event, .name = timer.name, .config.size = sizeof requests[i].config};
        CHECK_EQ(cp_cpu_profile_config_init(&requests[i].config, &timer, 0, NULL), 0);
    }
    CHECKF(cp_slots_start(requests, CP_EV_MAX, slots, &err) == 0, "%s", err.message);
    cp_slots_stop(slots, CP_EV_MAX);
    cp_slots_release(slots, CP_EV_MAX);
}

/* If a limit on threads (RLIMIT_NPROC, pids.max) is reached, clone() fails with EAGAIN. */
SIM_TEST(without_a_thread_to_read_samples_nothing_is_armed)
{
    struct cp_memory memory = {0};
    struct cp_error err;
    struct state before;

    if (TEST_TSAN || TEST_ASAN)
        SKIP("the sanitizers end a program that can start no thread");
    attach();
    refuse_call(SYS_clone3, EAGAIN);
    refuse_call(SYS_clone, EAGAIN);
    before = state_now();
    for (int i = 0; i < 2 * CP_EV_MAX; i++)
        check_refused(cp_start_cpu_profile(cp_writer_memory(&memory), &err), -EAGAIN, &err,
                      "The profile-writer thread could not be started: Resource temporarily unavailable.",
                      &before);
    check_all_slots_free();
}

/* ---- Sessions side by side ------------------------------------------------------------------- */

SIM_TEST(sessions_are_independent)
{
    static const char *const events[3] = {"timer", "taskClock", "taskClock"};
    static const uint64_t periods[3] = {0, 200000, 200000};
    static const int samples[3] = {30, 1000, 500}; /* in 300, 200 and 100 ms */
    struct cp_memory memory[3] = {0};
    struct cp_session *sessions[3];
    struct cp_slot_stats stats = {.size = sizeof stats};
    struct cp_error err;

    attach();
    for (int i = 0; i < 3; i++) {
        const struct cp_profiling_option option =
            cp_option_event(cp_writer_memory(&memory[i]), events[i], periods[i]);

        CHECKF(cp_session_start(&sessions[i], &option, 1, &err) == 0, "%s", err.message);
        burn_here(100000000);
    }
    for (int i = 2; i >= 0; i--) {
        CHECK_EQ(cp_session_stop(sessions[i], &err), 0);
        CHECK_EQ(cp_session_stats(sessions[i], 0, &stats), 0);
        CHECK_EQ(stats.samples, samples[i]);
        CHECK_EQ(stats.signals, samples[i]);
        CHECK_EQ(stats.dropped + stats.lost + stats.late + stats.truncated + stats.foreign, 0);
        if (i > 0)
            CHECK_EQ(stats.count, (uint64_t)samples[i] * periods[i]);
        save(&memory[i], file_in_dir("side.pb.gz"));
        check_burnt(file_in_dir("side.pb.gz"), samples[i]);
        cp_session_close(sessions[i]);
        free(memory[i].data);
    }
}

static int start_timer(struct cp_session **session, struct cp_memory *memory, struct cp_error *err)
{
    const struct cp_profiling_option option = cp_os_timer(cp_writer_memory(memory));

    return cp_session_start(session, &option, 1, err);
}

SIM_TEST(sessions_share_eight_slots)
{
    struct cp_session *sessions[CP_EV_MAX + 1];
    struct cp_memory memory[CP_EV_MAX + 1] = {0};
    struct cp_slot_stats stats = {.size = sizeof stats};
    struct cp_error err;

    attach();
    for (int i = 0; i < CP_EV_MAX; i++)
        CHECKF(start_timer(&sessions[i], &memory[i], &err) == 0, "%s", err.message);
    CHECK_EQ(start_timer(&sessions[CP_EV_MAX], &memory[CP_EV_MAX], &err), -EBUSY);
    CHECK_CONTAINS(err.message, "Stop another session");
    cp_session_close(sessions[3]); /* without writing the profile */
    CHECK_EQ(memory[3].size, 0);
    CHECK_EQ(start_timer(&sessions[3], &memory[3], &err), 0);
    burn_here(50000000);
    for (int i = 0; i < CP_EV_MAX; i++) {
        CHECK_EQ(cp_session_stop(sessions[i], &err), 0);
        CHECK_EQ(cp_session_stats(sessions[i], 0, &stats), 0);
        CHECK_EQ(stats.samples, 5);
        cp_session_close(sessions[i]);
        CHECK(memory[i].size > 0);
        free(memory[i].data);
    }
}

/* ---- The end of sampling --------------------------------------------------------------------- */

SIM_TEST(a_profile_can_be_written_long_after_its_sampling_has_ended)
{
    struct cp_memory memory = {0}, early = {0};
    const struct cp_profiling_option option = cp_option_event(cp_writer_memory(&memory), "taskClock", 100000);
    struct cp_slot_stats then = {.size = sizeof then}, now = {.size = sizeof now};
    struct cp_session *session;
    struct cp_error err;
    int64_t before, sampled;

    attach();
    before = (int64_t)wall_ns();
    CHECKF(cp_session_start(&session, &option, 1, &err) == 0, "%s", err.message);
    burn_here(50000000);
    CHECK_EQ(cp_session_halt(session, &err), 0);
    sampled = (int64_t)wall_ns() - before;
    CHECK_EQ(cp_session_stats(session, 0, &then), 0);
    check_all_slots_free();
    burn_here(50000000);
    CHECK_EQ(cp_session_halt(session, &err), 0);
    CHECK_EQ(memory.size, 0);
    CHECK_EQ(cp_session_write_text(session, 0, cp_writer_memory(&early), &err), 0);
    CHECK(early.size > 0);
    CHECK_EQ(cp_session_stop(session, &err), 0);
    CHECK_EQ(cp_session_halt(session, &err), 0);
    CHECK_EQ(cp_session_stats(session, 0, &now), 0);
    CHECK_EQ(then.samples, 500);
    CHECK_EQ(now.samples, 500);
    CHECKF(session_duration_ns(session) >= 50000000 && session_duration_ns(session) <= sampled,
           "%lld of %lld ns", (long long)session_duration_ns(session), (long long)sampled);
    save(&memory, file_in_dir("halted.pb.gz"));
    check_burnt(file_in_dir("halted.pb.gz"), 500);
    cp_session_close(session);
    free(memory.data);
    free(early.data);
}

/* Lets the unwinder know the code that has been loaded meanwhile. A start does so; the profile-writer thread
 * would do so when 100 ms have passed. */
static void know_loaded_code(void)
{
    struct cp_memory memory = {0};
    struct cp_session *session;
    struct cp_error err;

    CHECKF(start_timer(&session, &memory, &err) == 0, "%s", err.message);
    cp_session_close(session);
}

/* The mappings are noted at the end of sampling at the latest, because the code may be unloaded before the
 * profile is written. */
SIM_TEST(code_that_is_unloaded_before_the_profile_is_written_has_names)
{
    struct cp_memory memory = {0};
    const struct cp_profiling_option option = cp_option_event(cp_writer_memory(&memory), "taskClock", 100000);
    struct cp_session *session;
    struct cp_error err;
    void (*call)(void (*)(long), long);
    void *library;
    char *text;

    free(test_command(
        NULL,
        "cd %s && echo 'void call_from_library(void (*f)(long), long ns) { f(ns); __asm__(\"\"); "
        "}' | gcc -xc -O1 -g -shared -fPIC -fno-omit-frame-pointer -o libcall.so -",
        test_dir()));
    attach();
    CHECKF(cp_session_start(&session, &option, 1, &err) == 0, "%s", err.message);
    library = dlopen(file_in_dir("libcall.so"), RTLD_NOW);
    CHECKF(library != NULL, "%s", dlerror());
    *(void **)&call = dlsym(library, "call_from_library");
    know_loaded_code();
    call(burn_here, 50000000);
    CHECK_EQ(cp_session_halt(session, &err), 0);
    dlclose(library);
    CHECKF(cp_session_stop(session, &err) == 0, "%s", err.message);
    save(&memory, file_in_dir("unloaded.pb.gz"));
    check_burnt(file_in_dir("unloaded.pb.gz"), 500);
    text = pprof("-symbolize=none -traces", file_in_dir("unloaded.pb.gz"));
    CHECK_CONTAINS(text, "      50ms   burn_here\n             call_from_library");
    free(text);
    cp_session_close(session);
    free(memory.data);
}

SIM_TEST(the_default_session_keeps_its_place_until_it_is_written)
{
    struct cp_memory a = {0}, b = {0};
    struct cp_error err;

    attach();
    CHECK_EQ(cp_start_cpu_profile(cp_writer_memory(&a), &err), 0);
    CHECK_EQ(cp_session_halt(cp_default_session(), &err), 0);
    CHECK_EQ(cp_start_cpu_profile(cp_writer_memory(&b), &err), -EBUSY);
    CHECK_CONTAINS(err.message, "has not been written yet");
    CHECK_EQ(a.size, 0);
    CHECK_EQ(cp_stop_cpu_profile(&err), 0);
    CHECK(a.size > 0);
    CHECK(cp_default_session() == NULL);
    free(a.data);
}

/* ---- What a profile contains ----------------------------------------------------------------- */

SIM_TEST(a_profile_says_how_it_was_measured)
{
    const char *path = file_in_dir("said.pb.gz");
    const char *why;
    enum cp_engine engine;
    char *text;

    attach();
    CHECK_EQ(cp_engine_choose(&engine, &why, NULL), 0);
    CHECK_EQ(cp_label_set("route", "/index"), 0);
    profile_to(cp_writer_path(path));
    text = pprof("-raw", path);
    CHECK_CONTAINS(text, "PeriodType: cpu nanoseconds");
    CHECK_CONTAINS(text, "Period: 100000");
    CHECK_CONTAINS(text, "samples/count cpu/nanoseconds[dflt]\n        500   50000000: 1 2 3 ");
    CHECK_CONTAINS(text, "\n                route:[/index]\nLocations\n"); /* all samples have one stack */
    CHECK_CONTAINS(text, "session_test.c");
    free(text);
    text = pprof("-comments", path);
    CHECK_CONTAINS(text, engine == CP_ENGINE_TRAP ? "event: taskClock\nengine: trap # "
                                                  : "event: taskClock\nengine: signal # ");
    CHECK_CONTAINS(text, "modes: user,kernel # ");
    CHECK_CONTAINS(text, "period: 100000 # ");
    CHECK_CONTAINS(text, "threads: 1 # ");
    CHECK_CONTAINS(text, "count: 50000000 # ");
    CHECK_CONTAINS(text, "samples: 500 # ");
    CHECK_CONTAINS(text, "signals: 500 # ");
    CHECK_CONTAINS(text, "rate_asked: 10000 # samples a CPU second\nrate: 10000 # ");
    CHECK_CONTAINS(text, "coverage: 100.00 # ");
    CHECK_CONTAINS(text, "limits: none # ");
    free(text);
    text = pprof("-traces", path);
    CHECK_CONTAINS(text, "      50ms   burn_here\n             profile_to");
    free(text);
}

/* ---- Configs of the caller's own ------------------------------------------------------------- */

static struct cp_cpu_profile_config config_for(const char *name, uint64_t period)
{
    struct cp_cpu_profile_config config = {.size = sizeof config};
    struct cp_event_spec spec = {.size = sizeof spec};
    struct cp_error err;

    CHECKF(cp_event_parse(name, &spec, &err) == 0, "%s", err.message);
    CHECKF(cp_cpu_profile_config_init(&config, &spec, period, &err) == 0, "%s", err.message);
    return config;
}

/* Returns a config of an older library's size. Its size ends where a page without access begins. */
static const struct cp_cpu_profile_config *small_config(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t *size = (size_t *)(memory + page) - 1;

    CHECK(memory != MAP_FAILED);
    CHECK_EQ(mprotect(memory + page, page, PROT_NONE), 0);
    *size = sizeof *size;
    return (const struct cp_cpu_profile_config *)size;
}

SIM_TEST(a_config_is_checked_and_copied)
{
    struct cp_cpu_profile_config config = config_for("taskClock", 1000000), bad = config;
    struct cp_memory memory = {0};
    struct cp_error err;
    struct state before;
    char *text;

    attach();
    before = state_now();
    check_refused(cp_start_cpu_profile_with_config(
                      &err, cp_option_config(cp_writer_memory(&memory), "taskClock", small_config())),
                  -EINVAL, &err, "struct cp_cpu_profile_config was given with the size 8", &before);
    bad.period = 0;
    check_refused(cp_start_cpu_profile_with_config(
                      &err, cp_option_config(cp_writer_memory(&memory), "taskClock", &bad)),
                  -EINVAL, &err, "The config for taskClock has a period of 0", &before);
    check_refused(
        cp_start_cpu_profile_with_config(&err, cp_option_config(cp_writer_memory(&memory), "bogus", &config)),
        -EINVAL, &err, "bogus", &before);
    config.is_kernel_included = false;
    CHECKF(cp_start_cpu_profile_with_config(
               &err, cp_option_config(cp_writer_memory(&memory), "taskClock", &config)) == 0,
           "%s", err.message);
    config = (struct cp_cpu_profile_config){.size = 1};
    burn_here(20000000);
    CHECKF(cp_stop_cpu_profile(&err) == 0, "%s", err.message);
    save(&memory, file_in_dir("configured.pb.gz"));
    check_burnt(file_in_dir("configured.pb.gz"), 20);
    text = pprof("-raw", file_in_dir("configured.pb.gz"));
    CHECK_CONTAINS(text, "modes: user # ");
    CHECK_CONTAINS(text, "Period: 1000000\n");
    free(text);
    free(memory.data);
}

SIM_TEST(the_name_says_which_event_it_is)
{
    struct cp_cpu_profile_config config = config_for("taskClock", 1000000);
    const char *path = file_in_dir("named.pb.gz");
    struct cp_error err;
    char *text;

    attach();
    CHECKF(cp_start_cpu_profile_with_config(
               &err, cp_option_config(cp_writer_path(path), "majorFaults", &config)) == 0,
           "%s", err.message);
    burn_here(10000000);
    CHECKF(cp_stop_cpu_profile(&err) == 0, "%s", err.message);
    text = pprof("-comments", path);
    CHECK_CONTAINS(text, "event: majorFaults\n");
    CHECK_CONTAINS(text, "count: 0 # the event did not happen");
    CHECK_CONTAINS(text, "encoding: type=1,config=0x6 # ");
    free(text);
}

SIM_TEST(an_event_is_counted_in_its_own_unit)
{
    const char *path = file_in_dir("faults.pb.gz");
    struct cp_error err;
    char *text;

    attach();
    CHECK_EQ(cp_start_cpu_profile_with_config(&err, cp_option_event(cp_writer_path(path), "pageFaults", 1)),
             0);
    for (int i = 0; i < 200; i++)
        SIM_FAULT(path);
    CHECK_EQ(cp_stop_cpu_profile(&err), 0);
    text = pprof("-raw", path);
    CHECK_CONTAINS(text, "PeriodType: pageFaults count");
    CHECK_CONTAINS(text, "samples/count pageFaults/count[dflt]\n        200        200: 1 ");
    free(text);
}

/* ---- Fork ------------------------------------------------------------------------------------ */

SIM_TEST(a_child_has_no_session_and_may_start_one)
{
    struct cp_memory memory = {0};
    const char *path = file_in_dir("parent.pb.gz");
    struct cp_session *parents;
    struct cp_error err;
    int status;
    pid_t pid;

    if (TEST_TSAN || TEST_ASAN)
        SKIP("in a child of a process with threads ThreadSanitizer lets no thread start, and the lock of "
             "AddressSanitizer's allocator may be held for ever");
    attach();
    CHECK_EQ(
        cp_start_cpu_profile_with_config(&err, cp_option_event(cp_writer_path(path), "taskClock", 100000)),
        0);
    parents = cp_default_session();
    pid = fork();
    if (pid == 0) {
        CHECK_EQ(cp_session_halt(parents, &err), -ECHILD);
        CHECK_EQ(cp_session_stop(parents, &err), -ECHILD);
        CHECK_EQ(cp_stop_cpu_profile(&err), -ESRCH);
        profile_to(cp_writer_memory(&memory));
        save(&memory, file_in_dir("child.pb.gz"));
        check_burnt(file_in_dir("child.pb.gz"), PROFILED);
        _exit(0);
    }
    burn_here(50000000);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    CHECK_EQ(access(path, F_OK), 0);
    CHECK_EQ(cp_stop_cpu_profile(&err), 0);
    check_burnt(file_in_dir("parent.pb.gz"), 500);
}

static ssize_t fork_meanwhile(void *context, const void *data, size_t size)
{
    struct cp_memory memory = {0};
    struct cp_error err;
    pid_t *pid = context;

    (void)data;
    *pid = fork();
    if (*pid > 0)
        return (ssize_t)size;
    attach();
    CHECK_EQ(cp_stop_cpu_profile(&err), -ESRCH);
    CHECKF(cp_start_cpu_profile(cp_writer_memory(&memory), &err) == 0, "%s", err.message);
    CHECK_EQ(cp_stop_cpu_profile(&err), 0);
    _exit(0);
}

/* The fork happens while the parent writes the profile of the default session. The child lacks the parent's
 * threads, and so the thread that would release the default session's lock. */
SIM_TEST(a_child_has_no_session_of_which_its_parent_writes_the_profile)
{
    struct cp_error err;
    int status;
    pid_t pid = -1;

    if (TEST_TSAN || TEST_ASAN)
        SKIP("as above");
    attach();
    CHECK_EQ(cp_start_cpu_profile(cp_writer_callback(fork_meanwhile, &pid), &err), 0);
    CHECK_EQ(cp_stop_cpu_profile(&err), 0);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
}
