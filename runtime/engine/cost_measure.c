/*
 * What a sample costs: a thread of the library's own does nothing but read the clock while an event
 * interrupts it, and sees how long it was away each time.
 *
 * Its event has a limit that nothing renews, so the kernel ends the event after that many samples, whatever
 * they cost.
 */
#include "cost_measure.h"

#include <errno.h>
#include <string.h>

#include "engines.h"
#include "measuring.h"
#include "runtime/base/fail.h"
#include "runtime/base/os.h"
#include "runtime/cost.h"
#include "runtime/m.h"
#include "runtime/turn.h"

#define SAMPLES 8
/* On a busy machine the thread waits for a CPU now and then. After SOON_NS fewer samples are enough, and
 * if even these take too long, the cost stays unknown. */
#define LEAST_SAMPLES 4
#define SOON_NS 12000000u
#define LATE_NS 300000000u
/* The readings of the clock by which the thread learns how long one takes. */
#define READINGS 100
/* The interrupt of the clock and that of its signal may come one after the other. What comes after a longer
 * pause is something else, such as another thread's changes of the process's memory. */
#define PAUSE_NS 2000

struct measurement {
    struct cp__m *m;
    uint64_t reading_ns; /* a reading of the clock that takes longer was interrupted */
    uint64_t start_ns;
    unsigned samples;
    uint64_t ns; /* the cost of a sample; 0: unknown */
};

static uint64_t now_ns(void)
{
    return cp__os_clock_ns_from_handler(CLOCK_MONOTONIC);
}

static uint64_t interrupts_so_far(const struct cp__m *m)
{
    return cp_load_relaxed(&m->stats[0].interrupts); /* relaxed: of this thread */
}

/* Finds out how long a reading of the clock takes that nothing interrupts. */
static void read_undisturbed(struct measurement *measurement)
{
    uint64_t last = now_ns();
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < READINGS; i++) {
        uint64_t now = now_ns();

        least = now - last < least ? now - last : least;
        last = now;
    }
    measurement->reading_ns = 4 * least + 100;
}

/* Returns whether the thread has measured for long enough. If the machine is busy and the thread has few
 * samples so far, the thread goes on for longer. */
static bool is_late(const struct measurement *measurement, uint64_t now)
{
    return now - measurement->start_ns >= (measurement->samples < LEAST_SAMPLES ? LATE_NS : SOON_NS);
}

static void note_samples(struct measurement *measurement, uint64_t n, uint64_t away)
{
    uint64_t each = away / n;

    if (each == 0)
        return;
    if (measurement->ns == 0 || each < measurement->ns)
        measurement->ns = each;
    measurement->samples += (unsigned)n;
}

/* Watches samples until there are enough of them. A sample has cost what the thread was away just before
 * the thread heard of it; if the thread hears of several samples at once, they came one right after the
 * other. The least counts, because whatever else happens on the machine only adds to a sample. A SIGPROF of
 * the program ends the round: the handler has given that signal back, and left SIGPROF blocked. */
static void watch_samples(struct measurement *measurement, uint64_t foreign)
{
    const struct cp__m *m = measurement->m;
    uint64_t taken = interrupts_so_far(m);
    uint64_t last = now_ns();
    uint64_t back = last; /* when the thread was last away, it came back then */
    uint64_t away = 0;

    while (measurement->samples < SAMPLES && m->foreign == foreign && !is_late(measurement, last)) {
        uint64_t heard = interrupts_so_far(m); /* before the clock, which then tells how long they took */
        uint64_t now = now_ns();

        if (now - last > measurement->reading_ns) {
            away = now - last + (last - back < PAUSE_NS ? away : 0);
            back = now;
        }
        last = now;
        if (heard == taken)
            continue;
        note_samples(measurement, heard - taken, away);
        taken = heard;
        away = 0;
    }
}

static int do_round(struct measurement *measurement)
{
    struct cp__m *m = measurement->m;
    uint64_t foreign = m->foreign;
    int result = cp__measuring_arm(m, CP_CPUPROF_SW_TASK_CLOCK, cp__measuring_interval_ns(), 2 * SAMPLES);

    if (result < 0)
        return result;
    watch_samples(measurement, foreign);
    cp__measuring_disarm(m);
    return 0;
}

static int measure(struct cp__m *m, void *arg)
{
    struct measurement *measurement = arg;
    int result;

    measurement->m = m;
    read_undisturbed(measurement);
    measurement->start_ns = now_ns();
    do {
        result = do_round(measurement);
    } while (result == 0 && measurement->samples < SAMPLES && !is_late(measurement, now_ns()));
    if (result == 0 && (measurement->samples < LEAST_SAMPLES || measurement->ns == 0))
        result = -ENODATA;
    return result;
}

/* Measures the cost, on a thread of its own, and notes it. */
static int measure_cost(struct cp_error *err)
{
    struct measurement measurement = {.samples = 0};
    int result = cp__measuring_run(measure, &measurement, err);

    if (result == 0)
        cp__cost_note(measurement.ns);
    return result;
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static const char *why_not(int result)
{
    switch (result) {
    case -ENODATA:
        return "a taskClock has no samples, or no CPU was free for it in the last 10 s";
    case -EBUSY:
        return "another thread has been measuring it for more than a second";
    default:
        return strerror(-result);
    }
}

uint64_t cp_sample_cost_ns(struct cp_error *err)
{
    const uint32_t times = cp_load_acquire(&cp__cost_measured.times); /* pairs with measure_now(), turn.c */
    int result;

    if (cp__cost_known() != 0)
        return cp__cost_known();
    cp__engines_prepare();
    result = cp__measure_in_turn(&cp__cost_measured, times, measure_cost, err);
    if (result < 0)
        cp__error(err, result,
                  "What a sample costs cannot be measured here: %s. A taskClock of perf_event_open is needed "
                  "for it.",
                  why_not(result));
    return cp__cost_known();
}

/* A cost that would refuse a start is measured again, because a busy machine makes it too high, at most this
 * often. */
#define MOST_TRIES 3

void cp__cost_make_sure(const struct cp_slot_request *requests, size_t n, double running)
{
    cp_sample_cost_ns(NULL);
    for (int tries = 1; tries < MOST_TRIES && cp__cost_known() != 0 && !cp__cost_is_set() &&
                        cp__cost_check(requests, n, running, NULL) < 0;
         tries++)
        cp__measure_in_turn(&cp__cost_measured, cp_load_relaxed(&cp__cost_measured.times), measure_cost,
                            NULL); /* relaxed: a measurement more does no harm */
}
