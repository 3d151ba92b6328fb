/* What /proc says about this process: its arguments, and the descriptors that the profiler holds. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "exchange.h"
#include "stalls.h"
#include "watches.h"

/* ---- cmdline --------------------------------------------------------------------------------- */

int cp__http_cmdline(struct cp__exchange *exchange)
{
    FILE *file = fopen("/proc/self/cmdline", "re");
    char *text = NULL;
    size_t capacity = 0;
    ssize_t n = file != NULL ? getdelim(&text, &capacity, EOF, file) : -1;
    int result;

    if (n > 0 && text[n - 1] == '\0')
        n--; /* zero bytes separate the arguments, and the last one is dropped */
    if (n < 0)
        result = cp__http_refuse(exchange, 500, "The arguments cannot be read: %s.", strerror(errno));
    else
        result = cp__http_reply_body(exchange, cp__http_text, text, (size_t)n);
    free(text);
    if (file != NULL)
        fclose(file);
    return result;
}

/* ---- metrics --------------------------------------------------------------------------------- */

/* What the process holds, counted in /proc. */
struct held {
    uint64_t descriptors;
    uint64_t events; /* descriptors of perf events */
    uint64_t rings;
};

static void count_descriptors(struct held *held)
{
    DIR *directory = opendir("/proc/self/fd");
    const struct dirent *entry;

    if (directory == NULL)
        return;
    while ((entry = readdir(directory)) != NULL) {
        char target[32] = "";

        if (entry->d_name[0] == '.' || atoi(entry->d_name) == dirfd(directory))
            continue;
        held->descriptors++;
        if (readlinkat(dirfd(directory), entry->d_name, target, sizeof target - 1) > 0)
            held->events += strcmp(target, "anon_inode:[perf_event]") == 0;
    }
    closedir(directory);
}

/* Counts the mappings of perf events' rings. */
static void count_rings(struct held *held)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char *line = NULL;
    size_t capacity = 0;

    if (maps == NULL)
        return;
    while (getline(&line, &capacity, maps) >= 0)
        held->rings += strstr(line, " anon_inode:[perf_event]") != NULL;
    free(line);
    fclose(maps);
}

static void print_metric(FILE *out, const char *name, const char *type, const char *help, uint64_t value)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n%s %" PRIu64 "\n", name, help, name, type, name, value);
}

static void print_totals(FILE *out, const struct cp_slot_stats *totals)
{
    const struct {
        const char *name;
        const char *help;
        uint64_t value;
    } counters[] = {
        {"counterpoint_samples_total", "Periods that were sampled.", totals->samples},
        {"counterpoint_signals_total", "Signals that brought the samples.", totals->signals},
        {"counterpoint_samples_dropped_total", "Periods lost to full sample buffers.", totals->dropped},
        {"counterpoint_records_lost_total", "Records lost to full rings.", totals->lost},
        {"counterpoint_samples_late_total",
         "Periods of samples without callers, because SIGPROF was blocked.", totals->late},
        {"counterpoint_samples_truncated_total", "Samples with too many frames.", totals->truncated},
        {"counterpoint_samples_incomplete_total", "Samples whose stack may lack frames.", totals->incomplete},
        {"counterpoint_samples_unknown_stack_total", "Samples on a stack that the profiler was not told of.",
         totals->unknown_stacks},
        {"counterpoint_samples_stalled_total", "Periods in which the virtual machine stood still.",
         totals->stalled},
        {"counterpoint_throttled_total", "Times that the kernel throttled an event.", totals->throttled},
        {"counterpoint_signals_foreign_total", "SIGPROF signals that the profiler did not cause.",
         totals->foreign},
        {"counterpoint_events_armed_total", "Events armed on a thread.", totals->ms},
        {"counterpoint_events_ringless_total", "Events armed on a thread without a ring.",
         totals->ms_ringless},
        {"counterpoint_events_refused_total", "Events that the system refused a thread.", totals->ms_refused},
        {"counterpoint_events_stopped_total", "Events stopped on a thread because of their cost.",
         totals->ms_overloaded},
    };

    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++)
        print_metric(out, counters[i].name, "counter", counters[i].help, counters[i].value);
}

static void print_handler_time(FILE *out, uint64_t ns)
{
    fprintf(out,
            "# HELP counterpoint_handler_seconds_total Time spent in the signal handler.\n"
            "# TYPE counterpoint_handler_seconds_total counter\n"
            "counterpoint_handler_seconds_total %" PRIu64 ".%09" PRIu64 "\n",
            ns / 1000000000, ns % 1000000000);
}

static void print_gauges(FILE *out, const struct cp_runtime_stats *stats, const struct held *held)
{
    struct rlimit limit;

    print_metric(out, "counterpoint_threads", "gauge", "Threads that are profiled while a profile runs.",
                 stats->ms);
    print_metric(out, "counterpoint_slots", "gauge", "Events that are being sampled.", stats->slots);
    print_metric(out, "counterpoint_slots_max", "gauge", "Events that can be sampled at once.", CP_EV_MAX);
    print_metric(out, "counterpoint_perf_descriptors", "gauge", "Descriptors of perf events.", held->events);
    print_metric(out, "counterpoint_perf_rings", "gauge", "Rings of perf events that are mapped.",
                 held->rings);
    print_metric(out, "process_open_fds", "gauge", "Number of open file descriptors.", held->descriptors);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        print_metric(out, "process_max_fds", "gauge", "Maximum number of open file descriptors.",
                     limit.rlim_cur);
}

int cp__http_metrics(struct cp__exchange *exchange)
{
    const struct cp_http_header type = {"Content-Type", "text/plain; version=0.0.4; charset=utf-8"};
    struct cp_runtime_stats stats = {.size = sizeof stats};
    struct cp_slot_stats totals = {.size = sizeof totals};
    struct held held = {.descriptors = 0};
    struct cp__http_page page;

    cp_runtime_stats(&stats);
    cp_slots_totals(&totals);
    count_descriptors(&held);
    count_rings(&held);
    cp__http_page_open(&page);
    if (page.out != NULL) {
        print_totals(page.out, &totals);
        print_handler_time(page.out, stats.handler_ns);
        print_gauges(page.out, &stats, &held);
        cp__http_print_stalls(page.out);
        if (cp_accounts_print(page.out) < 0 ||
            cp__http_print_watches(page.out, CP_WATCH_PROMETHEUS, NULL) < 0)
            page.is_cut = true; /* 503 */
    }
    return cp__http_page_send(exchange, &page, &type, 1);
}
