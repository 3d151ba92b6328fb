/*
 * How much of what it should have seen a profile has seen, and what is missing.
 *
 * The whole is the CPU time of the process. What the samples stand for is what the events have counted, less
 * what is known to be lost; the samples and the count are compared on each M, to one period
 * (runtime/coverage.c). Events that do not count time are converted by their rate while they were counted.
 */
#include <string.h>

#include "session.h"

/* What is less than a hundredth is not told. The clocks of a virtual machine may differ by another hundredth:
 * see docs/accuracy.md. */
#define TOLERANCE 0.01
/* The most that a switch to a thread takes of its CPU time before its events count, which they begin to do
 * last: docs/accuracy.md has the figures. */
#define SWITCH_NS 4000

bool cp__part_is_time(const struct cp__part *part)
{
    return part->event.kind == CP_EVENT_TIMER || part->event.kind == CP_EVENT_CLOCK;
}

bool cp__part_has_rate(const struct cp__part *part)
{
    return cp__part_is_time(part) || part->event.kind == CP_EVENT_HARDWARE;
}

uint64_t cp__part_period(const struct cp__part *part)
{
    if (part->event.kind == CP_EVENT_TIMER)
        return 1000000000u / part->config.hz;
    return part->config.period;
}

struct cp__yield cp__part_yield(const struct cp__part *part, const struct cp_slot_stats *stats)
{
    return (struct cp__yield){.event = part->event.name,
                              .kind = part->event.kind,
                              .period = cp__part_period(part),
                              .samples = stats->samples,
                              .lost = stats->unsampled + stats->dropped + stats->lost,
                              .count = cp__yield_count(stats->count, stats->excluded_ns),
                              .threads = stats->ms,
                              .refused = stats->ms_refused,
                              .refused_errno = stats->refused_errno};
}

/* ---- In ns ----------------------------------------------------------------------------------- */

/* The figures of a slot as ns of CPU time. */
struct account {
    double whole;   /* of the process, less what was not to be sampled */
    double rate;    /* how much the event counts in a ns */
    double counted; /* the time for which it counted */
    double lost;    /* the part of that whose samples were taken, or should have been, and are not there */
};

/* Returns how many periods were sampled that the profile has not been told of. */
static uint64_t unread_of(const struct cp__part *part, const struct cp_slot_stats *stats)
{
    return stats->samples > part->read && part->read != 0 ? stats->samples - part->read : 0;
}

/* Returns the time of stalls that is a part of the threads' CPU time. What a virtual machine's host took away
 * is not, on kernels that know of it: then the events have counted more than the CPU clocks. */
static double stalled_ns(const struct cp_slot_stats *stats, double period)
{
    const double ns = (double)stats->stalled * period, beyond = (double)stats->overcounted_ns;

    return ns > beyond ? ns - beyond : 0;
}

/* A PMU's event counts nothing while the kernel throttles it, and a clock does. While others have its
 * counter, its count stands still, too: a comment tells the share, by which values are to be divided. */
static struct account account_of(const struct cp__part *part, const struct cp_slot_stats *stats)
{
    const bool is_time = cp__part_is_time(part);
    const double period = (double)cp__part_period(part);
    struct account account = {.rate = 1, .counted = (double)stats->count};

    if (!is_time && stats->cpu_ns != 0) {
        account.counted = (double)stats->time_enabled - (double)stats->throttled_ns;
        account.rate = account.counted > 0 ? (double)stats->count / account.counted : 0;
    }
    account.lost =
        (double)(stats->unsampled + stats->dropped + stats->lost + part->unfolded + unread_of(part, stats)) *
        (account.rate > 0 ? period / account.rate : 0);
    if (is_time)
        account.lost += (double)stats->throttled_ns + stalled_ns(stats, period);
    account.counted -= (double)stats->excluded_ns + (double)stats->overcounted_ns;
    if (account.lost > account.counted)
        account.lost = account.counted;
    account.whole = stats->cpu_ns != 0 ? (double)stats->cpu_ns - (double)stats->excluded_ns : account.counted;
    return account;
}

/* Returns a number of periods as ns. */
static uint64_t ns_of(const struct account *account, const struct cp__part *part, uint64_t periods)
{
    return account->rate > 0 ? (uint64_t)((double)(periods * cp__part_period(part)) / account->rate) : 0;
}

/* Returns the part of uncounted_ns that switches to threads have taken. */
static uint64_t switching_ns(const struct cp_slot_stats *stats)
{
    const uint64_t most = SWITCH_NS * stats->switches;

    return stats->uncounted_ns < most ? stats->uncounted_ns : most;
}

/* ---- What is missing ------------------------------------------------------------------------- */

#define OF_THREADS(key_, number, sentence_)                                                                  \
    .threads_key = (key_), .threads = (number), .threads_sentence = (sentence_)

/* Returns what is missing of account, less what the parts explain. */
static uint64_t unexplained(const struct account *account, const struct cp__missing *missing, size_t n,
                            uint64_t told)
{
    double rest = account->whole - (account->counted - account->lost) - (double)told;

    for (size_t i = 0; i < n; i++)
        rest -= (double)missing[i].ns;
    return rest > 0 ? (uint64_t)rest : 0;
}

/* Takes those of the n parts that are more than a hundredth. The last part is the rest; told is the time that
 * is told elsewhere. */
static void take_missing(struct cp__coverage *coverage, const struct account *account,
                         struct cp__missing *all, size_t n, uint64_t told)
{
    all[n - 1].ns = unexplained(account, all, n - 1, told);
    for (size_t i = 0; i < n; i++) {
        if ((double)all[i].ns > TOLERANCE * account->whole)
            coverage->missing[coverage->n++] = all[i];
    }
}

static void find_missing(struct cp__coverage *coverage, const struct account *account,
                         const struct cp__part *part, const struct cp_slot_stats *stats)
{
    /* what other comments tell, and other frames stand for */
    const uint64_t told = stats->overloaded_ns + ns_of(account, part, stats->dropped + stats->lost) +
                          ns_of(account, part, part->unfolded) +
                          (uint64_t)stalled_ns(stats, (double)cp__part_period(part));
    struct cp__missing all[] = {
        {.key = "library_ns",
         .sentence = "ns of it had the profiler's own threads",
         .frame = "[not sampled: the profiler's own threads]",
         .ns = stats->library_ns},
        {OF_THREADS("threads_unattached", stats->threads_unattached,
                    "were alive at the stop, are not known to the profiler, and had CPU time, during the "
                    "profile or before it"),
         .key = "unattached_ns",
         .sentence = "ns of it had threads that had not called cp_m_attach(), or not yet",
         .frame = "[not sampled: threads that never attached]", .ns = stats->unattached_ns, .is_limit = true},
        {OF_THREADS("threads_unarmed", stats->ms_unarmed, "had no event for a part of their time"),
         .key = "unarmed_ns",
         .sentence = "ns of it had threads while they had no event, because they slept when the profile "
                     "began, or the system refused the event",
         .frame = "[not sampled: threads without an event]", .ns = stats->unarmed_ns, .is_limit = true},
        {OF_THREADS("threads_blocked", stats->ms_blocked, "had the profiler's signals blocked at the stop"),
         .key = "blocked_ns", .sentence = "ns of it had threads that had the profiler's signals blocked",
         .frame = "[not sampled: signal blocked]", .ns = stats->blocked_ns, .is_limit = true},
        {.key = "disabled_ns",
         .sentence = "ns of it passed while the program had disabled the event, by "
                     "prctl(PR_TASK_PERF_EVENTS_DISABLE)",
         .frame = "[not sampled: event disabled by the program]",
         .ns = stats->disabled_ns,
         .is_limit = true},
        {OF_THREADS("threads_closed", stats->ms_closed, "had an event whose descriptor the program closed"),
         .key = "closed_ns", .sentence = "ns of it passed on these threads after that",
         .frame = "[not sampled: event closed by the program]", .ns = stats->closed_ns, .is_limit = true},
        {.frame = "[not sampled: event throttled by the kernel]", .ns = stats->throttled_ns},
        {.key = "switching_ns",
         .sentence = "ns of it went by while the kernel switched to threads whose events did not count yet",
         .frame = "[not sampled: switching between threads]",
         .ns = switching_ns(stats),
         .is_limit = true},
        {.key = "ticks_ns",
         .sentence = "ns of it had threads after the last of the kernel's ticks, at which it looks at timers",
         .frame = "[not sampled: after the kernel's last tick]",
         .ns = stats->ticks_ns,
         .is_limit = true},
        {.key = "unexplained_ns",
         .sentence = "ns of it have no samples, for a reason that is not known",
         .frame = "[not sampled: reason unknown]",
         .is_limit = true},
    };

    take_missing(coverage, account, all, sizeof all / sizeof all[0], told);
}

/* The first period of an event without a rate is a whole one (engine/first_linux.c), so threads that are
 * shorter than a period have no sample, and what any thread counted after its last one is missing. Less than
 * a period in all is no loss. */
static void compare_with_count(struct cp__coverage *coverage, const struct cp__part *part,
                               const struct cp_slot_stats *stats)
{
    const double period = (double)cp__part_period(part), count = (double)stats->count;
    const double taken = (double)(stats->samples - unread_of(part, stats)) - (double)part->unfolded;
    double missing = count - taken * period;

    if (missing < period)
        missing = 0;
    coverage->percent = count > 0 ? 100 * (1 - missing / count) : 100;
    coverage->is_complete = missing <= TOLERANCE * count;
}

struct cp__coverage cp__coverage_of(const struct cp__part *part, const struct cp_slot_stats *stats)
{
    const struct account account = account_of(part, stats);
    const double most = TOLERANCE * account.whole;
    struct cp__coverage coverage = {.n = 0, .percent = 100};
    double missing = account.whole - (account.counted - account.lost);
    double disagreement = (double)(stats->uncounted_ns - switching_ns(stats));

    if (account.whole <= 0)
        return coverage;
    coverage.percent = 100 * (1 - missing / account.whole);
    if (stats->ms_ns != 0)
        coverage.clocks =
            100 * ((double)stats->uncounted_ns - (double)stats->overcounted_ns) / (double)stats->ms_ns;
    missing -= (double)stats->library_ns + (disagreement < most ? disagreement : most);
    coverage.is_complete = missing <= most;
    if (!cp__part_has_rate(part))
        compare_with_count(&coverage, part, stats);
    if (stats->cpu_ns != 0)
        find_missing(&coverage, &account, part, stats);
    return coverage;
}

/* ---- Frames ---------------------------------------------------------------------------------- */

/* Returns what the event would have counted in ns of CPU time, as periods. */
static uint64_t periods_of(const struct account *account, const struct cp__part *part, uint64_t ns)
{
    if (!cp__part_has_rate(part))
        return 0;
    return (uint64_t)((double)ns * account->rate / (double)cp__part_period(part));
}

static int add_loss(struct cp__part *part, const char *frame, uint64_t periods)
{
    return periods != 0 ? cp__profile_add_named(part->profile, frame, periods) : 0;
}

int cp__report_losses(struct cp__part *part, const struct cp_slot_stats *stats)
{
    const struct account account = account_of(part, stats);
    const struct cp__coverage coverage = cp__coverage_of(part, stats);
    const struct {
        const char *frame;
        uint64_t periods;
    } losses[] = {
        {"[dropped: sample buffer full]", stats->dropped},
        {"[lost: perf ring full]", stats->lost},
        {"[lost: no memory to fold samples]", part->unfolded},
        {"[stopped: samples left the thread no time]", periods_of(&account, part, stats->overloaded_ns)},
    };
    int result = 0;

    for (size_t i = 0; i < sizeof losses / sizeof losses[0] && result == 0; i++)
        result = add_loss(part, losses[i].frame, losses[i].periods);
    for (size_t i = 0; i < coverage.n && result == 0; i++)
        result =
            add_loss(part, coverage.missing[i].frame, periods_of(&account, part, coverage.missing[i].ns));
    return result;
}
