/* See test.h. */
#include "test.h"

#include <errno.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "atomic.h"
#include "counter.h"
#include "runtime/cost.h"
#include "runtime/event/rows.h"
#include "runtime/slot.h"
#include "tests/support/sim/sim.h"

void test_check_str(const char *file, int line, const char *what, const char *a, const char *b)
{
    if (a != b && (!a || !b || strcmp(a, b) != 0))
        cp_t_report_and_end(cp_t_self(), CP_T_FATAL, file, line, "%s: \"%s\" and \"%s\"", what,
                            a ? a : "(null)", b ? b : "(null)");
}

void test_check_contains(const char *file, int line, const char *what, const char *text, const char *part)
{
    if (!text || !strstr(text, part))
        cp_t_report_and_end(cp_t_self(), CP_T_FATAL, file, line, "%s: no \"%s\" in:\n%s", what, part,
                            text ? text : "(null)");
}

/* ---- Machines that refuse all events --------------------------------------------------------- */

/* The errno value with which this user, or this container, is refused the thread's own CPU clock before any
 * test; 0: the clock is allowed. */
static int refused;

static void find_out_what_is_refused(void)
{
    struct perf_event_attr attr = {.size = sizeof(attr),
                                   .type = PERF_TYPE_SOFTWARE,
                                   .config = PERF_COUNT_SW_TASK_CLOCK,
                                   .disabled = 1,
                                   .exclude_kernel = 1,
                                   .exclude_hv = 1};
    int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    refused = fd < 0 ? errno : 0;
    close(fd);
}

void test_need_events(void)
{
    if (refused != 0 && !sim_is_on())
        SKIP("this machine refuses all events: %s", strerror(refused));
}

/* A tick may have more than its share of samples. */
void test_need_rate(uint64_t rate)
{
    FILE *file = sim_is_on() ? NULL : fopen("/proc/sys/kernel/perf_event_max_sample_rate", "re");
    unsigned long long limit;
    if (!file)
        return;
    if (fscanf(file, "%llu", &limit) == 1 && limit < rate + rate / 5)
        SKIP(TEST_THROTTLED);
    fclose(file);
}

static int skip_if_refused(int result, const struct cp_error *err)
{
    if (refused != 0 && result == -refused && !sim_is_on())
        SKIP("this machine refuses all events: %s", err ? err->message : strerror(refused));
    return result;
}

/* ---- Clocks that leave a thread no time ------------------------------------------------------ */

/*
 * A clock whose period is shorter than what a sample costs leaves its thread no time. If the thread's process
 * is killed meanwhile, nobody can disable the clock any more: the thread stays, and takes a CPU, for as long
 * as the machine runs. So no test arms more than these samples a second on a thread, nor more than what takes
 * half of the thread's time. Tests of what starves run on the simulated kernel, or in the emulated machine,
 * which can be killed as a whole.
 */
#define MOST_SAMPLES 10000
#define MOST_OF_THE_TIME 0.5

/* How many samples a second this thread has asked for in vain. */
static _Thread_local double too_many;

bool test_is_emulated(void)
{
    return getenv("CP_TEST_EMULATED") != NULL;
}

/* Tells the library what a sample costs in the emulated machine. Tests of a PMU sample there more often than
 * a sample really takes. */
static void tell_cost_in_emulation(void)
{
    const char *cost = getenv("CP_TEST_COST");
    if (cost && test_is_emulated())
        cp__cost_note(strtoull(cost, NULL, 10));
}

uint64_t test_period(uint64_t wanted_ns, unsigned clocks)
{
    static uint64_t known; /* shared, atomic: the first figure, so that the answer stays the same */
    uint64_t cost = cp_load_relaxed(&known), least; /* relaxed: nothing else depends on the number */
    if (sim_is_on() || test_is_emulated())
        return wanted_ns;
    if (cost == 0) {
        cost = cp_sample_cost_ns(NULL);
        cost = cost != 0 ? cost : CP_SAMPLE_COST_ASSUMED_NS;
        cp_store_relaxed(&known, cost); /* relaxed: as above */
    }
    least = 4 * cost > 1000000000 / MOST_SAMPLES ? 4 * cost : 1000000000 / MOST_SAMPLES;
    return wanted_ns > clocks * least ? wanted_ns : clocks * least;
}

static double samples_of(enum cp_event_kind kind, const struct cp_cpu_profile_config *config)
{
    return kind == CP_EVENT_CLOCK && config->period != 0 ? 1e9 / (double)config->period : 0;
}

static double samples_of_running_slots(void)
{
    double sum = 0;
    for (int slot = 0; slot < CP_EV_MAX; slot++) {
        struct cp__slot_config running;
        if (cp__slot_config_from_handler(slot, &running))
            sum += samples_of(running.kind, &running.config);
    }
    return sum;
}

/* The linker puts the functions that begin with __wrap_ in the place of the library's: see the Makefile. */

/* What is published is what will be armed. A period that is too short is published as a second; the start
 * that asked for the period fails its test. */
void __real_cp__slot_publish(int slot, const struct cp_slot_request *request, const struct cp__engine *engine,
                             double rate);
void __wrap_cp__slot_publish(int slot, const struct cp_slot_request *request, const struct cp__engine *engine,
                             double rate);
void __wrap_cp__slot_publish(int slot, const struct cp_slot_request *request, const struct cp__engine *engine,
                             double rate)
{
    const struct cp__event *row = cp__config_event(request->event, &request->config);
    double samples = samples_of_running_slots() + (row ? samples_of(row->kind, &request->config) : 0);
    struct cp_slot_request harmless = *request;
    double taken = samples * (double)cp__cost_or_assumed_from_handler() / 1e9;
    if ((samples > MOST_SAMPLES || taken > MOST_OF_THE_TIME) && !test_is_emulated() && !sim_is_on()) {
        too_many = samples;
        harmless.config.period = 1000000000;
    }
    __real_cp__slot_publish(slot, &harmless, engine, rate);
}

static void check_time_left(void)
{
    double samples = too_many;
    too_many = 0;
    if (samples > 0)
        TEST_FAIL("Clocks that take %.0f samples a second would leave a thread no time; tests take at most "
                  "%d, and at most half of the time: see test_period().",
                  samples, MOST_SAMPLES);
}

int __real_cp_slots_start(const struct cp_slot_request *requests, size_t n, int *slots, struct cp_error *err);
int __wrap_cp_slots_start(const struct cp_slot_request *requests, size_t n, int *slots, struct cp_error *err);
int __wrap_cp_slots_start(const struct cp_slot_request *requests, size_t n, int *slots, struct cp_error *err)
{
    int result = __real_cp_slots_start(requests, n, slots, err);
    check_time_left();
    return skip_if_refused(result, err);
}

int __real_cp_counter_open(struct cp_counter **counter, const struct cp_event_spec *spec,
                           struct cp_error *err);
int __wrap_cp_counter_open(struct cp_counter **counter, const struct cp_event_spec *spec,
                           struct cp_error *err);
int __wrap_cp_counter_open(struct cp_counter **counter, const struct cp_event_spec *spec,
                           struct cp_error *err)
{
    return skip_if_refused(__real_cp_counter_open(counter, spec, err), err);
}

/* ---- Surroundings ---------------------------------------------------------------------------- */

const char *test_dir(void)
{
    return cp_t_temp_dir(cp_t_self());
}

void test_write_file(const char *name, const char *text)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", test_dir(), name);
    FILE *file = fopen(path, "we");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        TEST_FAIL("%s: %s", path, strerror(errno));
}

const char *test_build_dir(void)
{
    static char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (n < 0)
        TEST_FAIL("readlink /proc/self/exe: %s", strerror(errno));
    path[n] = 0;
    for (int levels = 0; levels < 2; levels++)
        *strrchr(path, '/') = 0;
    return path;
}

/* Reads a stream to its end, with a terminating zero. Continues after a signal handler has interrupted the
 * read. */
static char *read_all(FILE *stream)
{
    char *text = NULL;
    size_t size = 0;
    FILE *copy = open_memstream(&text, &size);
    char buf[4096];
    for (;;) {
        size_t n = fread(buf, 1, sizeof(buf), stream);
        fwrite(buf, 1, n, copy);
        if (feof(stream) || (ferror(stream) && errno != EINTR))
            break;
        clearerr(stream);
    }
    fclose(copy);
    return text;
}

char *test_command(int *status, const char *format, ...)
{
    char *command, *wrapped;
    va_list args;
    va_start(args, format);
    if (vasprintf(&command, format, args) < 0 || asprintf(&wrapped, "{ %s\n} 2>&1", command) < 0)
        TEST_FAIL("out of memory");
    va_end(args);
    FILE *pipe = popen(wrapped, "re");
    if (!pipe)
        TEST_FAIL("%s: %s", command, strerror(errno));
    char *output = read_all(pipe);
    int raw = pclose(pipe);
    int code = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
    if (status)
        *status = code;
    else if (code == TEST_REFUSED && refused != 0)
        SKIP("this machine refuses all events: %s", output);
    else if (code != 0)
        TEST_FAIL("%s: exit status %d\n%s", command, code, output);
    free(command);
    free(wrapped);
    return output;
}

/* ---- Running --------------------------------------------------------------------------------- */

/* The CPU time that one process of a test may use, in seconds. CPU time is the same on a busy machine as on
 * an idle one. */
enum { ENOUGH_CPU_S = 60 * TEST_SLOWDOWN };

static int run_on_plain_thread(void (*fn)(void *), void *arg, unsigned threads, struct cp_error *err)
{
    struct rlimit limit;
    (void)threads, (void)err;
    if (getrlimit(RLIMIT_CPU, &limit) == 0 && limit.rlim_max > ENOUGH_CPU_S) {
        limit.rlim_cur = ENOUGH_CPU_S; /* at a hard limit the kernel kills, and a starved thread stays */
        setrlimit(RLIMIT_CPU, &limit);
    }
    fn(arg);
    return 0;
}

int main(int argc, char **argv)
{
    tell_cost_in_emulation();
    find_out_what_is_refused();
    const struct cp_test_main_options options = {
        .size = sizeof(options), .timeout_s = 300 * TEST_SLOWDOWN, .run = run_on_plain_thread, .idle_s = 5};
    return cp_test_main(argc, argv, &options);
}
