#include "judge.h"

static uint64_t passed(uint64_t from, uint64_t to)
{
    return to > from ? to - from : 0;
}

static uint64_t at_most(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Returns for how long at least the host has not run the thread's CPU: the figure moves in steps, so that one
 * step may stand for hardly any time. If the thread has come to another CPU, it is unknown. */
static uint64_t stolen(const struct cp__stint_clocks *first, const struct cp__stint_clocks *last)
{
    const uint64_t ns = passed(first->stolen, last->stolen);

    if (first->cpu_number < 0 || first->cpu_number != last->cpu_number)
        return 0;
    return passed(CP__STOLEN_STEP_NS, ns);
}

/* The CPU clock counts no stolen time, so that all that is neither computed nor queued is slept or stolen.
 * The CPU's stolen time is that of other threads, too: what remains bounds it. The kernel tells of time in
 * its queue when that is over: if the thread is ready, what remains may be such time. */
enum cp_stall_kind cp__stall_judge(const struct cp__stint_clocks *first, const struct cp__stint_clocks *last,
                                   uint64_t lasted, uint64_t threshold)
{
    const uint64_t wall = passed(first->wall, last->wall);
    const uint64_t computed = at_most(wall, passed(first->cpu, last->cpu));
    const uint64_t queued = at_most(wall - computed, passed(first->queued, last->queued));
    const uint64_t rest = wall - computed - queued;
    const uint64_t away = queued + (last->is_ready ? rest : at_most(rest, stolen(first, last)));

    if (passed(away, lasted) < threshold)
        return CP_STALL_NOT_RUN;
    return computed >= wall - away - computed ? CP_STALL_COMPUTED : CP_STALL_WAITED;
}
