/* Gs that hold their M for too long, and what a test is told of them. */
#ifndef COUNTERPOINT_TESTS_STALLS_H
#define COUNTERPOINT_TESTS_STALLS_H

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "gs.h"
#include "stall.h"

/* What the callback has been told. Written by the library's thread. */
static struct {
    uint32_t reports; /* shared, atomic; stored last */
    struct cp_stall last;
    uintptr_t frames[CP_MAX_FRAMES];
    char label[32];
} told;

static void on_stall(void *context, const struct cp_stall *stall)
{
    CHECK_EQ(stall->size, sizeof *stall);
    cp_fetch_add_relaxed((unsigned *)context, 1u); /* relaxed: a number of its own */
    if (stall->kind == CP_STALL_NOT_RUN || (stall->kind == CP_STALL_COMPUTED && stall->depth == 0))
        return; /* the machine is busy, or the stall ended before its stack was taken */
    told.last = *stall;
    for (unsigned i = 0; i < stall->depth; i++)
        told.frames[i] = stall->frames[i];
    told.label[0] = '\0';
    if (cp_labels_count(stall->labels) > 0)
        snprintf(told.label, sizeof told.label, "%s=%s", cp_labels_key(stall->labels, 0),
                 cp_labels_value(stall->labels, 0));
    cp_store_release(&told.reports, told.reports + 1);
}

static unsigned called;

static void start_with(uint64_t threshold_ns, FILE *log)
{
    struct cp_stall_options options = {.size = sizeof options,
                                       .threshold_ns = threshold_ns,
                                       .callback = on_stall,
                                       .context = &called,
                                       .log = log};
    struct cp_error err;

    memset(&told, 0, sizeof told);
    called = 0;
    CHECKF(cp_stalls_start(&options, &err) == 0, "%s", err.message);
}

static struct cp_stalls_stats stats_now(void)
{
    struct cp_stalls_stats stats = {.size = sizeof stats};

    CHECK_EQ(cp_stalls_stats(&stats), 0);
    return stats;
}

/* ---- What stalls ----------------------------------------------------------------------------- */

/* The functions that compute have a section of their own. */
extern const char __start_stalls_here[], __stop_stalls_here[];
#define HERE __attribute__((section("stalls_here"), noinline))

HERE static void compute(void)
{
    for (volatile unsigned i = 0; i < 50000000; i++) {
    }
}

/* On a busy machine, a stint may be told as one that the system did not run: so there are several. */
HERE static void compute_until(enum cp_stall_kind kind, uint64_t stalls)
{
    while (stats_now().stalls[kind] < stalls) {
        compute();
        cp_sleep(100000);
    }
}

HERE static void computes(void *arg)
{
    cp_label_set("kind", "busy");
    *(uint64_t *)arg = cp_sched_self()->id;
    while (cp_load_acquire(&told.reports) == 0) { /* pairs with the release in on_stall() */
        compute();
        cp_sleep(100000);
    }
}

/* Nobody tells of the wait. */
__attribute__((unused)) static void polls(void *arg)
{
    (void)arg;
    while (stats_now().stalls[CP_STALL_WAITED] == 0) {
        CHECK_EQ(poll(NULL, 0, 50), 0); /* no signal ends it */
        cp_yield();
    }
}

#endif
