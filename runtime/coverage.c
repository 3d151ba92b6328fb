#include "coverage.h"

#include "engine.h"
#include "m.h"
#include "overload.h"
#include "runtime/base/os.h"
#include "runtime/base/table.h"
#include "runtime/base/thread.h"
#include "slot.h"

/* The clocks of the process, at a slot's start and at its stop (process is 0: that is to come). */
struct clocks {
    uint64_t process;
    uint64_t library;
    uint64_t switches; /* not a clock: how often threads of the process were switched off their CPU */
};

static struct of_process {
    struct clocks since, until;
    uint32_t threads_unattached;
} of_process[CP_EV_MAX]; /* under the runtime lock */

/* What is less than a hundredth of the whole is not told: clocks that are read one after the other do not
 * agree to less. */
static bool is_much(uint64_t part, uint64_t whole)
{
    return part > whole / 100;
}

/* The same for a part of a thread's time; a few calls of the kernel are not worth telling. */
#define LEAST_OF_THREAD_NS 100000

static bool is_much_of_thread(uint64_t part, uint64_t had)
{
    return is_much(part, had) && part >= LEAST_OF_THREAD_NS;
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* ---- What an M has missed -------------------------------------------------------------------- */

/* The CPU time of an M's thread while a slot ran, and the parts of it that the slot has no samples of; ns. */
struct missed {
    uint64_t had;
    uint64_t unarmed;
    uint64_t closed;
    uint64_t uncounted, overcounted;
    uint64_t excluded;
    uint64_t unsampled; /* periods */
    uint64_t ticks;     /* those that the next ticks would have told, as ns */
    uint64_t waiting;   /* the same, as ns */
};

/* Returns the M's CPU clock at the end of the slot, or now. */
static uint64_t until_of(const struct cp__m *m, int slot)
{
    uint64_t until = m->cpu[slot].until;

    return until != 0 ? until : cp__os_clock_ns_from_handler(m->cpu_clock);
}

/* Returns what the slot's events have counted, by their last records, and after their end in all. A timer has
 * no record. */
static struct cp__count counted_of(const struct cp__m *m, int slot)
{
    const struct cp__m_stats *stats = &m->stats[slot];
    struct cp__count counted = {.time_enabled = cp_load_relaxed(&stats->counts[0].time_enabled)};

    /* relaxed, all: numbers of their own */
    for (int i = 0; i < CP__CORE_PMUS; i++) {
        counted.value += cp_load_relaxed(&stats->counts[i].value);
        counted.time_running += cp_load_relaxed(&stats->counts[i].time_running);
    }
    if (cp_load_relaxed(&stats->by_ticks) != 0 && counted.value == 0)
        counted.value = less(until_of(m, slot), cp_load_relaxed(&stats->armed_at));
    return counted;
}

struct cp__count cp__coverage_counted(const struct cp__m *m, int slot)
{
    struct cp__count counted = counted_of(m, slot);

    if (cp_load_relaxed(&m->stats[slot].counts_time) != 0) /* relaxed: a number of its own */
        counted.value = counted.time_running;
    counted.value += cp_load_relaxed(&m->stats[slot].head_ns); /* relaxed: the same */
    return counted;
}

/* Returns whether the thread's blocked signal may be the reason that periods have no sample. With a ring,
 * whoever closes the events finds all samples there, and the kernel tells how many found the ring full. */
static bool may_have_missed_blocked(const struct cp__m *m, int slot)
{
    /* relaxed: a number of its own */
    return m->cpu[slot].is_blocked &&
           (cp_load_relaxed(&m->stats[slot].ringless) != 0 || !cp__perf_has_lost_count);
}

/* The kernel looks at a timer when a tick meets its thread. A thread that is switched often is seldom met:
 * one in e^8 has more than eight ticks' time before. */
#define MOST_TICKS 8

/* Finds what the events have counted without a sample. If a clock excludes a mode, periods that end in that
 * mode have none, and a thread that waits in the kernel may have its signals blocked. A throttled clock
 * counts on. What a clock counted beyond its thread's time, it may have counted after the slot's end. */
static void find_unsampled(const struct cp__m *m, int slot, const struct cp__count *counted,
                           struct missed *missed)
{
    const struct cp__m_stats *stats = &m->stats[slot];
    /* relaxed, all: numbers of their own */
    const bool counts_time = cp_load_relaxed(&stats->counts_time) != 0;
    const uint64_t period = cp_load_relaxed(&stats->period);
    const uint64_t told =
        cp_load_relaxed(&stats->samples) + cp_load_relaxed(&stats->dropped) + cp_load_relaxed(&stats->lost);
    uint64_t count = counted->value + cp_load_relaxed(&stats->phase), rest;

    if (counts_time)
        count = less(count, cp_load_relaxed(&stats->throttled_ns) + missed->overcounted);
    rest = less(count, told * period + cp_load_relaxed(&stats->behind));
    if (period == 0 || rest < period)
        return;
    missed->unsampled = rest / period;
    if (cp_load_relaxed(&stats->by_ticks) != 0 && rest < period + MOST_TICKS * cp__os_tick_ns()) {
        missed->ticks = missed->unsampled * period;
        return;
    }
    if (cp_load_relaxed(&stats->excludes) != 0) {
        missed->unsampled = may_have_missed_blocked(m, slot) ? missed->unsampled : 0;
        missed->excluded = rest - missed->unsampled * period;
    }
    missed->waiting = missed->unsampled * period;
    if (!counts_time && cp_load_relaxed(&stats->by_ticks) == 0 && counted->value != 0)
        missed->waiting =
            (uint64_t)((double)missed->waiting * (double)counted->time_running / (double)counted->value);
}

/* Compares the time that the events counted with that which the thread had, since they were armed. */
static void find_uncounted(const struct cp__m *m, int slot, const struct cp__count *counted,
                           struct missed *missed)
{
    const struct cp__m_stats *stats = &m->stats[slot];
    /* relaxed, all: numbers of their own */
    const bool by_ticks = cp_load_relaxed(&stats->by_ticks) != 0;
    const uint64_t enabled = counted->time_enabled + cp_load_relaxed(&stats->head_ns);
    uint64_t known = (by_ticks ? counted->value : enabled) + missed->unarmed +
                     cp__overload_ns_from_handler(m, slot) + cp_load_relaxed(&stats->disabled_ns);

    if (cp_load_relaxed(&stats->closed) != 0) /* relaxed: a number of its own */
        missed->closed = less(missed->had, known);
    else
        missed->uncounted = less(missed->had, known);
    missed->overcounted = less(known, missed->had);
}

/* Returns what m has missed of the config run. */
static struct missed missed_of(const struct cp__m *m, int slot, uint64_t run)
{
    const struct cp__m_cpu *cpu = &m->cpu[slot];
    const struct cp__m_stats *stats = &m->stats[slot];
    uint64_t until, since = cpu->since, armed_at, head;
    struct missed missed = {.had = 0};
    struct cp__count counted;

    if (cpu->run != run)
        return missed;
    until = until_of(m, slot);
    missed.had = less(until, since);
    missed.unarmed = missed.had;
    /* acquire: pairs with the release in reset_stats_from_handler(), configure.c */
    if (cp_load_acquire(&stats->seq) != run)
        return missed;
    head = cp_load_relaxed(&stats->head_ns); /* relaxed, all: numbers of their own */
    armed_at = cp_load_relaxed(&stats->armed_at);
    if (armed_at >= until || (int64_t)cp_load_relaxed(&stats->refused) < 0)
        return missed;
    if (cpu->is_new)
        since = less(armed_at, head);
    missed.unarmed = less(armed_at, since + head);
    missed.had = less(until, since);
    counted = cp__coverage_counted(m, slot);
    find_uncounted(m, slot, &counted, &missed);
    find_unsampled(m, slot, &counted, &missed);
    return missed;
}

/* If the thread has the library's signals blocked, that is why it was not armed, and why what its events
 * counted has no sample. */
void cp__coverage_add_m(struct cp_slot_stats *stats, int slot, uint64_t run, const struct cp__m *m)
{
    struct missed missed = missed_of(m, slot, run);
    const bool is_blocked = m->cpu[slot].is_blocked;

    stats->ms_ns += missed.had;
    stats->closed_ns += missed.closed;
    stats->ms_closed += is_much_of_thread(missed.closed, missed.had);
    stats->uncounted_ns += missed.uncounted;
    stats->overcounted_ns += missed.overcounted;
    stats->excluded_ns += missed.excluded;
    stats->unsampled += missed.unsampled;
    stats->ticks_ns += missed.ticks;
    if (is_blocked) {
        stats->blocked_ns += missed.unarmed + missed.waiting;
        stats->ms_blocked += is_much_of_thread(missed.unarmed + missed.waiting, missed.had);
    } else {
        stats->unarmed_ns += missed.unarmed;
        stats->ms_unarmed += is_much_of_thread(missed.unarmed, missed.had);
    }
}

/* ---- Start and stop -------------------------------------------------------------------------- */

static struct clocks read_clocks(void)
{
    struct clocks clocks = {.library = cp__own_threads_ns(), .switches = cp__os_switches()};

    clocks.process = cp__os_clock_ns_from_handler(CLOCK_PROCESS_CPUTIME_ID);
    return clocks;
}

static void begin_m(struct cp__m *m, uint32_t slots, bool is_new)
{
    uint64_t now = cp__os_clock_ns_from_handler(m->cpu_clock);

    for (; slots != 0; slots &= slots - 1) {
        int slot = __builtin_ctz(slots);

        m->cpu[slot] = (struct cp__m_cpu){.run = cp__slot_run(slot), .since = now, .is_new = is_new};
    }
}

void cp__coverage_begin(uint32_t slots)
{
    struct clocks now;

    for (struct cp__m *m = cp__ms; m != NULL; m = m->next) {
        if (!cp__m_is_gone(m))
            begin_m(m, slots, false);
    }
    now = read_clocks();
    for (; slots != 0; slots &= slots - 1)
        of_process[__builtin_ctz(slots)] = (struct of_process){.since = now};
}

void cp__coverage_attached(struct cp__m *m)
{
    uint32_t running = 0;

    for (int slot = 0; slot < CP_EV_MAX; slot++)
        running |= (uint32_t)cp__slot_runs(slot) << slot;
    if (running != 0)
        begin_m(m, running, true);
}

/* Returns the M's CPU clock when the M ended its events in the slot, before the slot's end; 0: it has not. */
static uint64_t let_go_at(const struct cp__m *m, int slot)
{
    const struct cp__m_stats *stats = &m->stats[slot];

    /* relaxed, both: stored by m's thread, which has the lock or runs on */
    return cp_load_relaxed(&stats->seq) == cp__slot_run(slot) ? cp_load_relaxed(&stats->disarmed_at) : 0;
}

/* Ends those of the slots that have not ended for m. A thread's clock ends with the thread, and tells 0 then:
 * if no detach has made m GONE, the slots end when m is found gone. */
static uint32_t end_m(struct cp__m *m, uint32_t slots, uint64_t now)
{
    uint32_t ended = 0;

    for (; slots != 0; slots &= slots - 1) {
        int slot = __builtin_ctz(slots);
        struct cp__m_cpu *cpu = &m->cpu[slot];

        if (cpu->run != cp__slot_run(slot) || cpu->until != 0 || (now < cpu->since && !cp__m_is_gone(m)))
            continue;
        cpu->until = let_go_at(m, slot) != 0 ? let_go_at(m, slot) : now;
        if (cpu->until < cpu->since)
            cpu->until = cpu->since;
        ended |= 1u << slot;
    }
    return ended;
}

void cp__coverage_end(uint32_t slots)
{
    struct clocks now;

    for (struct cp__m *m = cp__ms; m != NULL; m = m->next) {
        if (!cp__m_is_gone(m))
            end_m(m, slots, cp__os_clock_ns_from_handler(m->cpu_clock));
    }
    now = read_clocks();
    for (; slots != 0; slots &= slots - 1) {
        struct of_process *process = &of_process[__builtin_ctz(slots)];

        if (process->until.process == 0)
            process->until = now;
    }
}

static void note_blocked(struct cp__m *m, uint32_t slots, uint64_t blocked)
{
    for (; slots != 0; slots &= slots - 1)
        m->cpu[__builtin_ctz(slots)].is_blocked = cp__os_has_own_signal(blocked);
}

void cp__coverage_detached(struct cp__m *m, uint64_t cpu_ns, uint64_t mask)
{
    uint32_t readers = cp__slots_with_reader();

    if (readers != 0)
        note_blocked(m, end_m(m, readers, cpu_ns), mask);
}

bool cp__coverage_end_of(struct cp__m *m, int slot)
{
    return end_m(m, 1u << slot, cp__os_clock_ns_from_handler(m->cpu_clock)) != 0;
}

void cp__coverage_go_on(struct cp__m *m, int slot)
{
    const uint64_t since = m->cpu[slot].until;

    begin_m(m, 1u << slot, false);
    m->cpu[slot].since = since;
}

/* Looks at the slots that have ended for m. Adds the CPU time that m had in each. */
static void look_at_ended(struct cp__m *m, uint32_t slots, uint64_t *ms_ns)
{
    uint32_t doubtful = 0;

    for (; slots != 0; slots &= slots - 1) {
        int slot = __builtin_ctz(slots);
        struct missed missed = missed_of(m, slot, cp__slot_run(slot));

        ms_ns[slot] += missed.had;
        if (is_much_of_thread(missed.unarmed + missed.waiting + missed.excluded, missed.had))
            doubtful |= 1u << slot;
    }
    if (doubtful != 0 && m != cp__m_current && !cp__m_is_gone(m))
        note_blocked(m, doubtful, cp__os_blocked_of(m->tid));
}

/* ---- The process ----------------------------------------------------------------------------- */

/* Returns the CPU time of threads while they were no Ms and none of the library's. */
static uint64_t unattached_of(const struct cp_slot_stats *stats)
{
    return less(stats->cpu_ns, stats->ms_ns + stats->library_ns);
}

void cp__coverage_add_process(struct cp_slot_stats *stats, int slot)
{
    const struct of_process *process = &of_process[slot];
    struct clocks until = process->until;

    if (until.process == 0)
        until = read_clocks();
    stats->cpu_ns = less(until.process, process->since.process);
    stats->library_ns = less(until.library, process->since.library);
    stats->switches = less(until.switches, process->since.switches);
    stats->unattached_ns = unattached_of(stats);
    stats->threads_unattached = process->threads_unattached;
}

/* The threads of the process that are no Ms. */
struct unattached {
    struct cp__table ms; /* has the ids of the Ms' threads as hashes */
    uint32_t n;
};

/* Returns 0 or -ENOMEM. */
static int find_ms(struct cp__table *ms)
{
    for (const struct cp__m *m = cp__ms; m != NULL; m = m->next) {
        if (cp__m_is_gone(m))
            continue;
        if (cp__table_reserve(ms, 1) < 0)
            return -ENOMEM;
        cp__table_insert(ms, (uint32_t)m->tid, 0);
    }
    return 0;
}

static bool is_m(const struct cp__table *ms, pid_t tid)
{
    size_t at = (size_t)tid;
    uint32_t number;

    return cp__table_next(ms, (uint32_t)tid, &at, &number);
}

static void count_unattached(void *context, pid_t tid)
{
    struct unattached *unattached = context;

    if (is_m(&unattached->ms, tid) || cp__own_threads_have(tid))
        return;
    unattached->n += cp__os_clock_ns_from_handler(cp__os_thread_clock(tid)) != 0;
}

static uint32_t count_threads(void)
{
    struct unattached unattached = {.n = 0};

    if (find_ms(&unattached.ms) == 0)
        cp__os_each_thread(count_unattached, &unattached);
    cp__table_free(&unattached.ms);
    return unattached.n;
}

void cp__coverage_settle(uint32_t slots)
{
    uint64_t ms_ns[CP_EV_MAX] = {0};

    for (struct cp__m *m = cp__ms; m != NULL; m = m->next)
        look_at_ended(m, cp__m_is_gone(m) ? slots & m->undrained : slots, ms_ns);
    for (; slots != 0; slots &= slots - 1) {
        int slot = __builtin_ctz(slots);
        struct cp_slot_stats stats = {.ms_ns = cp__slot_kept_stats(slot)->ms_ns + ms_ns[slot]};

        cp__coverage_add_process(&stats, slot);
        of_process[slot].threads_unattached =
            is_much(stats.unattached_ns, stats.cpu_ns) ? count_threads() : 0;
    }
}
