/* See empty.h. */
#include "empty.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The number of samples for which a shorter period is proposed. */
#define ENOUGH 100

static bool yields_time(const struct cp__yield *yield)
{
    return yield->kind == CP_EVENT_TIMER || yield->kind == CP_EVENT_CLOCK;
}

/* Returns the largest of 1, 2, 5, 10, 20, 50 and so on that is not above n; 0 for 0. */
static uint64_t round_down(uint64_t n)
{
    uint64_t unit = 1;

    while (unit <= n / 10)
        unit *= 10;
    return n == 0 ? 0 : n / 5 >= unit ? 5 * unit : n / 2 >= unit ? 2 * unit : unit;
}

/* Returns the longest period that would have brought enough samples, but none that is shorter than what any
 * machine can sample by, or than an event of a PMU may have. Returns 0 if that is not below the period. */
static uint64_t better_period(const struct cp__yield *yield)
{
    const uint64_t least = yields_time(yield) ? 100000 : yield->kind == CP_EVENT_HARDWARE ? 1000 : 1;
    const uint64_t enough = round_down(yield->count / ENOUGH), better = enough > least ? enough : least;

    return better < yield->period ? better : 0;
}

/* Waits have no threads, and no count besides what was recorded. */
static bool are_waits_short(const struct cp__yield *yield, char value[CP__EMPTY_VALUE],
                            char phrase[CP__EMPTY_TEXT])
{
    if (yield->samples != 0 || yield->lost != 0)
        return false;
    snprintf(value, CP__EMPTY_VALUE, "longer");
    if (strcmp(yield->event, "wall") == 0) {
        snprintf(phrase, CP__EMPTY_TEXT,
                 "no green thread was there when the library looked, each %" PRIu64
                 " ns; let the program run for longer",
                 yield->period);
        return true;
    }
    snprintf(phrase, CP__EMPTY_TEXT,
             "%s as long as the period of %" PRIu64
             " ns, and shorter times are recorded in proportion to their "
             "length; take a shorter period, or let the program run for longer",
             strcmp(yield->event, "lock") == 0   ? "nobody is known to have made others wait"
             : strcmp(yield->event, "wait") == 0 ? "nothing that the runtime tells of has ended a wait"
                                                 : "no green thread is known to have been runnable for",
             yield->period);
    return true;
}

bool cp__empty_by_period(const struct cp__yield *yield, char value[CP__EMPTY_VALUE],
                         char phrase[CP__EMPTY_TEXT])
{
    const uint64_t better = better_period(yield), n = yield->threads;
    const bool is_time = yields_time(yield);
    char advice[80] = "let the program run for longer";

    if (yield->kind == CP_EVENT_WAIT)
        return are_waits_short(yield, value, phrase);
    if (yield->samples != 0 || yield->lost != 0 || yield->count == 0 || n == 0 ||
        yield->count / n >= yield->period)
        return false;
    snprintf(value, CP__EMPTY_VALUE, "longer");
    if (better != 0) {
        snprintf(value, CP__EMPTY_VALUE, "%" PRIu64, better);
        snprintf(advice, sizeof advice, "take a period of at most %s%s", value,
                 is_time ? " ns, or let the program run for longer" : "");
    }
    snprintf(phrase, CP__EMPTY_TEXT,
             "%" PRIu64 " %s on %" PRIu64 " thread%s, less than the period of %" PRIu64 "%s%s; %s",
             yield->count, is_time ? "ns of CPU time passed" : "events were counted", n, n == 1 ? "" : "s",
             yield->period, is_time ? " ns" : "", n == 1 ? "" : " on each", advice);
    return true;
}

void cp__empty_warn(const struct cp__yield *yield, char text[CP__EMPTY_TEXT])
{
    char value[CP__EMPTY_VALUE], phrase[CP__EMPTY_TEXT];
    const char *why = phrase, *error = "the system refused the event";
    const char *lost = "samples were lost, as the comments of the profile say";

    text[0] = '\0';
    if (yield->samples != 0)
        return;
    if (yield->kind == CP_EVENT_WAIT)
        why = cp__empty_by_period(yield, value, phrase) ? phrase : lost;
    else if (yield->threads == 0 && yield->refused == 0)
        why = "no thread that had called cp_m_attach() ran";
    else if (yield->threads == 0 && yield->refused_errno != 0)
        snprintf(phrase, sizeof phrase, "%s (%s)", error, strerror(-yield->refused_errno));
    else if (yield->threads == 0)
        why = error;
    else if (yield->count == 0 && yield->lost == 0)
        why = yield->kind == CP_EVENT_TIMER ? "the threads that were sampled used no CPU time"
              : yield->kind == CP_EVENT_CLOCK
                  ? "the threads that were sampled used no CPU time in the modes that are sampled"
                  : "the event did not happen, or this machine does not count it";
    else if (!cp__empty_by_period(yield, value, phrase))
        why = lost;
    snprintf(text, CP__EMPTY_TEXT, "The profile of %.60s is empty: %.220s.", yield->event, why);
}
