/* Structs that begin with their size, for programs and libraries of different versions. */
#include "runtime/base/sized.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "counter.h"
#include "pprof.h"
#include "sched.h"
#include "tests/support/sim/sim.h"

struct young {
    size_t size;
    uint64_t first;
};
struct grown {
    size_t size;
    uint64_t first, second;
};

CP_TEST(what_a_shorter_struct_lacks_is_zero)
{
    const struct young from = {.size = sizeof from, .first = 7};
    struct grown to = {.second = 1};

    CHECK_EQ(CP__TAKE(grown, &to, &from, NULL), 0);
    CHECK_EQ(to.size, sizeof to);
    CHECK_EQ(to.first, 7);
    CHECK_EQ(to.second, 0);
}

CP_TEST(a_longer_struct_is_refused_unless_its_tail_is_zero)
{
    struct grown from = {.size = sizeof from, .first = 7};
    struct young to;
    struct cp_error err;

    CHECK_EQ(CP__TAKE(young, &to, &from, &err), 0);
    CHECK_EQ(to.size, sizeof to);
    CHECK_EQ(to.first, 7);
    from.second = (uint64_t)1 << 63; /* a bit in the last byte */
    CHECK_EQ(CP__TAKE(young, &to, &from, &err), -E2BIG);
    CHECKF(strstr(err.message, "struct young") != NULL, "%s", err.message);
}

CP_TEST(a_struct_without_a_size_is_refused)
{
    const struct young none = {.size = 0}, garbage = {.size = (size_t)1 << 40};
    struct young to = {.size = 0};
    struct cp_error err;

    CHECK_EQ(CP__TAKE(young, &to, &none, &err), -EINVAL);
    CHECKF(strstr(err.message, "sizeof(struct young)") != NULL, "%s", err.message);
    CHECK_EQ(CP__TAKE(young, &to, &garbage, &err), -EINVAL);
    CHECKF(strstr(err.message, "sizeof(struct young)") != NULL, "%s", err.message);
    CHECK_EQ(CP__GIVE(young, &to, &none, &err), -EINVAL);
    to.size = garbage.size;
    CHECK_EQ(CP__GIVE(young, &to, &none, &err), -EINVAL);
}

CP_TEST(a_shorter_struct_is_filled_to_its_end)
{
    const struct grown from = {.size = sizeof from, .first = 7, .second = 8};
    struct {
        struct young struct_;
        uint64_t behind;
    } to = {.struct_ = {.size = sizeof to.struct_}, .behind = 5};

    CHECK_EQ(CP__GIVE(grown, &to.struct_, &from, NULL), 0);
    CHECK_EQ(to.struct_.size, sizeof to.struct_);
    CHECK_EQ(to.struct_.first, 7);
    CHECK_EQ(to.behind, 5);
}

CP_TEST(the_tail_of_a_longer_struct_is_zeroed)
{
    const struct young from = {.size = sizeof from, .first = 7};
    struct grown to = {.size = sizeof to, .second = 9};

    CHECK_EQ(CP__GIVE(young, &to, &from, NULL), 0);
    CHECK_EQ(to.size, sizeof to);
    CHECK_EQ(to.first, 7);
    CHECK_EQ(to.second, 0);
}

/* ---- Calls that take such a struct ------------------------------------------------------------- */

/* What stands on a stack: a size that nobody has set, and the caller's other variables behind the struct. */
static union stray {
    size_t size;
    struct cp_event_spec spec;
    struct cp_cpu_profile_config config;
    struct cp_slot_stats stats;
    struct cp_runtime_stats runtime;
    struct cp_counter_value value;
    struct cp_sched_options sched;
    unsigned char bytes[2 * CP__STRUCT_MAX];
} stray;

static void fill(size_t size)
{
    memset(&stray, 0xa5, sizeof stray);
    stray.size = size;
}

static bool is_untouched(size_t size)
{
    union stray before = stray;

    fill(size);
    return memcmp(&before, &stray, sizeof stray) == 0;
}

static const struct cp_event_spec timer = {
    .size = sizeof timer, .event = CP_CPUPROF_OS_TIMER, .preset_period = 10000000};

static int parse(struct cp_error *err)
{
    return cp_event_parse("timer", &stray.spec, err);
}

static int probe(struct cp_error *err)
{
    return cp_event_probe(&stray.spec, err);
}

static int encode(struct cp_error *err)
{
    struct cp_event_encoding encoding;

    (void)err;
    return cp_event_encode(&stray.spec, &encoding);
}

static int init_by_spec(struct cp_error *err)
{
    struct cp_cpu_profile_config config = {.size = sizeof config};

    return cp_cpu_profile_config_init(&config, &stray.spec, 0, err);
}

static int init(struct cp_error *err)
{
    return cp_cpu_profile_config_init(&stray.config, &timer, 0, err);
}

static int set_config(struct cp_error *err)
{
    return cp_set_cpu_profile_config(CP_CPUPROF_OS_TIMER, &stray.config, err);
}

static int start_slots(struct cp_error *err)
{
    struct cp_slot_request request = {.event = CP_CPUPROF_OS_TIMER, .config.size = stray.size};
    int slot;

    return cp_slots_start(&request, 1, &slot, err);
}

static int start_session(struct cp_error *err)
{
    struct cp_memory memory = {0};
    const struct cp_profiling_option option =
        cp_option_config(cp_writer_memory(&memory), "timer", &stray.config);
    struct cp_session *session;

    return cp_session_start(&session, &option, 1, err);
}

static int tell_slot(struct cp_error *err)
{
    (void)err;
    return cp_slots_stats(0, &stray.stats);
}

static int tell_totals(struct cp_error *err)
{
    (void)err;
    return cp_slots_totals(&stray.stats);
}

static int tell_runtime(struct cp_error *err)
{
    (void)err;
    return cp_runtime_stats(&stray.runtime);
}

static int tell_session(struct cp_error *err)
{
    struct cp_memory memory = {0};
    const struct cp_profiling_option option = cp_os_timer(cp_writer_memory(&memory));
    struct cp_session *session;
    int running, stopped;

    CHECKF(cp_session_start(&session, &option, 1, err) == 0, "%s", err->message);
    running = cp_session_stats(session, 0, &stray.stats);
    CHECK_EQ(cp_session_stop(session, err), 0);
    stopped = cp_session_stats(session, 0, &stray.stats);
    cp_session_close(session);
    free(memory.data);
    CHECK_EQ(running, stopped);
    return stopped;
}

static int open_counter(struct cp_error *err)
{
    struct cp_counter *counter;

    return cp_counter_open(&counter, &stray.spec, err);
}

static int read_counter(struct cp_error *err)
{
    struct cp_event_spec spec = {.size = sizeof spec};
    struct cp_counter *counter;
    int result;

    CHECK_EQ(cp_event_parse("taskClock", &spec, err), 0);
    CHECKF(cp_counter_open(&counter, &spec, err) == 0, "%s", err->message);
    result = cp_counter_read(counter, &stray.value, err);
    cp_counter_close(counter);
    return result;
}

static void nothing(void *arg)
{
    (void)arg;
}

static int run_scheduler(struct cp_error *err)
{
    return cp_sched_run(&stray.sched, nothing, NULL, err);
}

/* Every public call that reads or fills a struct with a size, except those of the endpoint and of the tests'
 * runner. */
static const struct call {
    const char *name;
    int (*call)(struct cp_error *err);
    bool says; /* whether the call has a struct cp_error */
} calls[] = {
    {"cp_event_parse", parse, true},
    {"cp_event_probe", probe, true},
    {"cp_event_encode", encode, false},
    {"cp_cpu_profile_config_init, the event", init_by_spec, true},
    {"cp_cpu_profile_config_init", init, true},
    {"cp_set_cpu_profile_config", set_config, true},
    {"cp_slots_start", start_slots, true},
    {"cp_session_start", start_session, true},
    {"cp_slots_stats", tell_slot, false},
    {"cp_slots_totals", tell_totals, false},
    {"cp_runtime_stats", tell_runtime, false},
    {"cp_session_stats", tell_session, false},
    {"cp_counter_open", open_counter, true},
    {"cp_counter_read", read_counter, true},
    {"cp_sched_run", run_scheduler, true},
};

SIM_TEST(no_call_believes_a_size_that_was_never_set)
{
    static const size_t sizes[] = {0, sizeof(size_t), CP__STRUCT_MAX + 1, (uintptr_t)calls, SIZE_MAX};

    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            struct cp_error err = {0};
            int result;

            fill(sizes[k]);
            result = calls[i].call(&err);
            CHECKF(result == -EINVAL, "%s, %#zx: %d", calls[i].name, sizes[k], result);
            CHECKF(is_untouched(sizes[k]), "%s, %#zx", calls[i].name, sizes[k]);
            CHECKF(!calls[i].says || strstr(err.message, "Set its member size") != NULL, "%s: %s",
                   calls[i].name, err.message);
        }
    }
}

/* The runner ends with a sentence. */
CP_TEST(the_runner_refuses_options_without_a_size)
{
    const struct cp_test_main_options options = {.size = SIZE_MAX};
    char name[] = "runner", *argv[] = {name, NULL};
    int status;
    pid_t child;

    if (TEST_ASAN)
        SKIP("LeakSanitizer takes what a process has at its early end for a leak");
    child = fork();
    if (child == 0)
        _exit(cp_test_main(1, argv, &options));
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECKF(WIFEXITED(status) && WEXITSTATUS(status) == 2, "%#x", (unsigned)status);
}
