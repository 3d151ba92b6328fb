/*
 * Sums of accounts for Prometheus, in its text format.
 *
 * Label sets are shown in the order in which they came, so that a series that was there once stays: the first
 * SHOWN ones, and all others as one. All keys of these sets get their names together, because two sets must
 * not become one series by names that are the same.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "pprof.h"
#include "runtime/base/table.h"
#include "runtime/watch/print.h"

enum { SHOWN = 100 };

struct shown {
    struct cp_labels *labels;
    bool is_other;
    uint64_t running, runnable, waiting, ended;
    struct cp_account sum;
};

struct accounts_printer {
    FILE *out;
    struct shown shown[SHOWN + 1];
    size_t n;
    char **keys; /* those of all labels that are shown */
    size_t n_keys, keys_capacity;
    char (*names)[CP__PROMETHEUS_NAME_MAX]; /* of each key */
};

/* ---- Which sums are shown -------------------------------------------------------------------- */

static void add_account(struct cp_account *to, const struct cp_account *sum)
{
    to->running_ns += sum->running_ns;
    to->runnable_ns += sum->runnable_ns;
    to->switches += sum->switches;
    for (unsigned i = 0; i < CP_WAIT_REASONS; i++) {
        to->waited_ns[i] += sum->waited_ns[i];
        to->waits[i] += sum->waits[i];
    }
}

static int show_sum(void *context, const struct cp_accounts_info *info)
{
    struct accounts_printer *p = context;
    const bool is_other = info->is_rest || p->n >= SHOWN;
    struct shown *shown = &p->shown[is_other ? SHOWN : p->n++];

    shown->labels = is_other ? NULL : info->labels;
    shown->is_other = is_other;
    shown->running += info->running;
    shown->runnable += info->runnable;
    shown->waiting += info->waiting;
    shown->ended += info->ended;
    add_account(&shown->sum, info->sum);
    return 0;
}

static size_t number_of_key(const struct accounts_printer *p, const char *key)
{
    size_t i = 0;

    while (i < p->n_keys && strcmp(p->keys[i], key) != 0)
        i++;
    return i;
}

/* Returns 0 or -ENOMEM. */
static int name_keys(struct accounts_printer *p)
{
    static const char *const taken[] = {"state", "reason", "labels", NULL};

    for (size_t i = 0; i < p->n; i++) {
        for (size_t k = 0; k < cp_labels_count(p->shown[i].labels); k++) {
            const char *key = cp_labels_key(p->shown[i].labels, k);

            if (number_of_key(p, key) < p->n_keys)
                continue;
            if (CP__RESERVE(p->keys, p->keys_capacity, p->n_keys + 1) < 0)
                return -ENOMEM;
            p->keys[p->n_keys++] = (char *)(uintptr_t)key;
        }
    }
    p->names = malloc((p->n_keys + 1) * sizeof p->names[0]);
    if (p->names == NULL)
        return -ENOMEM;
    cp__prometheus_labels(p->names, p->keys, p->n_keys, taken);
    return 0;
}

/* ---- Printing -------------------------------------------------------------------------------- */

/* Prints a sample's name and labels. state and reason may be NULL. */
static void print_series(const struct accounts_printer *p, const struct shown *shown, const char *name,
                         const char *state, const char *reason)
{
    const char *before = "{";

    fputs(name, p->out);
    if (state != NULL)
        fprintf(p->out, "%sstate=\"%s\"", before, state), before = ",";
    if (reason != NULL)
        fprintf(p->out, "%sreason=\"%s\"", before, reason), before = ",";
    if (shown->is_other)
        fprintf(p->out, "%slabels=\"(other)\"", before), before = ",";
    for (size_t i = 0; i < cp_labels_count(shown->labels); i++, before = ",") {
        const char *value = cp_labels_value(shown->labels, i);

        fprintf(p->out, "%s%s=\"", before, p->names[number_of_key(p, cp_labels_key(shown->labels, i))]);
        /* for Prometheus, a label without a value is none */
        cp__prometheus_text(p->out, value[0] != '\0' ? value : "(empty)", true);
        fputc('"', p->out);
    }
    fputs(before[0] == '{' ? " " : "} ", p->out);
}

static void print_head_of_family(const struct accounts_printer *p, const char *name, const char *type,
                                 const char *help)
{
    fprintf(p->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void print_seconds(const struct accounts_printer *p, const struct shown *shown, const char *state,
                          const char *reason, uint64_t ns)
{
    print_series(p, shown, "counterpoint_g_seconds_total", state, reason);
    fprintf(p->out, "%" PRIu64 ".%09" PRIu64 "\n", ns / 1000000000, ns % 1000000000);
}

static void print_times_of(const struct accounts_printer *p, const struct shown *shown)
{
    print_seconds(p, shown, "running", NULL, shown->sum.running_ns);
    print_seconds(p, shown, "runnable", NULL, shown->sum.runnable_ns);
    for (unsigned i = 0; i < CP_WAIT_REASONS; i++) {
        if (shown->sum.waited_ns[i] > 0 || shown->sum.waits[i] > 0)
            print_seconds(p, shown, "waiting", cp_wait_reason_name(i), shown->sum.waited_ns[i]);
    }
}

static void print_count(const struct accounts_printer *p, const struct shown *shown, const char *name,
                        const char *state, const char *reason, uint64_t count)
{
    print_series(p, shown, name, state, reason);
    fprintf(p->out, "%" PRIu64 "\n", count);
}

static void print_waits(const struct accounts_printer *p, const struct shown *shown)
{
    for (unsigned i = 0; i < CP_WAIT_REASONS; i++) {
        if (shown->sum.waited_ns[i] > 0 || shown->sum.waits[i] > 0)
            print_count(p, shown, "counterpoint_g_waits_total", NULL, cp_wait_reason_name(i),
                        shown->sum.waits[i]);
    }
}

static void print_switches(const struct accounts_printer *p, const struct shown *shown)
{
    print_count(p, shown, "counterpoint_g_switches_total", NULL, NULL, shown->sum.switches);
}

static void print_ended(const struct accounts_printer *p, const struct shown *shown)
{
    print_count(p, shown, "counterpoint_gs_ended_total", NULL, NULL, shown->ended);
}

static void print_living(const struct accounts_printer *p, const struct shown *shown)
{
    print_count(p, shown, "counterpoint_gs", "running", NULL, shown->running);
    print_count(p, shown, "counterpoint_gs", "runnable", NULL, shown->runnable);
    print_count(p, shown, "counterpoint_gs", "waiting", NULL, shown->waiting);
}

static void print_accounts(const struct accounts_printer *p)
{
    static const struct {
        const char *name, *type, *help;
        void (*print)(const struct accounts_printer *p, const struct shown *shown);
    } families[] = {
        {"counterpoint_g_seconds_total", "counter",
         "Time that green threads ran, were ready without a thread to run on, and waited, by reason.",
         print_times_of},
        {"counterpoint_g_waits_total", "counter", "Waits of green threads that have ended, by reason.",
         print_waits},
        {"counterpoint_g_switches_total", "counter", "Times that a green thread began to run or went on.",
         print_switches},
        {"counterpoint_gs_ended_total", "counter", "Green threads that have ended.", print_ended},
        {"counterpoint_gs", "gauge", "Green threads that run, are ready, and wait.", print_living},
    };

    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        print_head_of_family(p, families[i].name, families[i].type, families[i].help);
        for (size_t k = 0; k <= SHOWN; k++) {
            if (k < p->n || p->shown[k].is_other)
                families[i].print(p, &p->shown[k]);
        }
    }
}

int cp_accounts_print(FILE *out)
{
    struct accounts_printer *p = calloc(1, sizeof *p);
    int result = p != NULL ? cp_accounts_each(show_sum, p) : -ENOMEM;

    if (result == 0)
        result = name_keys(p);
    if (result == 0) {
        p->out = out;
        if (p->n > 0 || p->shown[SHOWN].is_other)
            print_accounts(p);
    }
    if (p != NULL) {
        free(p->names);
        free(p->keys);
    }
    free(p);
    return result;
}
