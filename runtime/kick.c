#include "kick.h"

#include <time.h>

#include "os.h"
#include "slot.h"

/* How long a stop waits for an M that has work to do and gets no CPU, or keeps SIGPROF blocked. */
#define LONGEST_WAIT_NS 2000000000u
#define LOOK_AGAIN_NS 500000
/* A signal has arrived when the thread has had the CPU for so long; unless it is blocked. */
#define ARRIVED_NS 1000000

/* Whether m holds handles, or is just taking some. */
static bool may_hold(const struct cp__m *m)
{
    /* acquire: pairs with the release in cp__configure_from_handler(), configure.c */
    return cp_load_acquire(&m->configuring) != 0 || cp_load_relaxed(&m->armed) != 0;
}

/* Whether m has not seen that there is something to take or to let go. */
static bool is_behind(const struct cp__m *m)
{
    /* acquire: pairs with the release in cp__configure_from_handler(), configure.c */
    return !m->exited && cp_load_acquire(&m->head.generation) != cp_load_relaxed(&cp_generation) &&
           (cp__slots_running() || may_hold(m));
}

/* Whether m has had the CPU since it was first found behind; says no the first time. */
static bool has_run(struct cp__m *m)
{
    uint64_t generation = cp_load_relaxed(&cp_generation); /* relaxed: changes under the lock that is held */
    uint64_t now = cp__os_clock_ns_from_handler(m->cpu_clock);

    if (m->seen_generation != generation) {
        m->seen_generation = generation;
        m->seen_cpu_ns = now;
        return false;
    }
    return now != m->seen_cpu_ns;
}

bool cp__kick_is_under_way(const struct cp__m *m)
{
    return cp_load_acquire(&m->kick_taken) !=
           m->kick_sent; /* pairs with the release in cp__classify_from_handler() */
}

/*
 * SIGPROF does not queue: where one is pending, a kick is dropped, and that one does the kick's work. Only
 * that no kick is under way any more is not known then. So where the last has not arrived although the M has
 * run, there is another.
 */
static void kick(struct cp__m *m)
{
    uint64_t now = cp__os_clock_ns_from_handler(m->cpu_clock);
    uint32_t last = m->kick_sent;

    if (!cp__slots_have_handler() || (cp__kick_is_under_way(m) && now - m->kick_cpu_ns < ARRIVED_NS))
        return;
    m->kick_sent = (last + 1) % CP__OS_KICKS;
    m->kick_cpu_ns = now;
    if (cp__os_kick(m->tid, m->kick_sent) < 0)
        m->kick_sent = last;
}

/* Whether m runs, up to date, and a kick of it is missing. */
static bool misses_kick(const struct cp__m *m)
{
    return !m->exited && !is_behind(m) && cp__kick_is_under_way(m) && cp__os_thread_is_runnable(m->tid);
}

void cp__kick_stale(void)
{
    for (struct cp__m *m = cp__ms; m != NULL; m = m->next) {
        if (m != cp__m_current && (is_behind(m) ? has_run(m) : misses_kick(m)))
            kick(m);
    }
}

/* Whether a stop should wait for m: it is just letting go, though it may have to wait for the kernel there,
 * or runs with what it holds, or misses a kick. */
static bool is_waited_for(const struct cp__m *m)
{
    /* acquire: pairs with the release in cp__configure_from_handler(), configure.c */
    if (!m->exited && cp_load_acquire(&m->configuring) != 0)
        return true;
    return is_behind(m) ? may_hold(m) && cp__os_thread_is_runnable(m->tid) : misses_kick(m);
}

static bool is_any_waited_for(void)
{
    bool waited_for = false;

    cp__lock(&cp__runtime_lock);
    cp__kick_stale();
    for (struct cp__m *m = cp__ms; m != NULL && !waited_for; m = m->next) {
        waited_for = m != cp__m_current && is_waited_for(m);
    }
    cp__unlock(&cp__runtime_lock);
    return waited_for;
}

void cp__kick_until_settled(void)
{
    const struct timespec pause = {.tv_nsec = LOOK_AGAIN_NS};
    uint64_t deadline = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) + LONGEST_WAIT_NS;

    while (is_any_waited_for() && cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) < deadline)
        nanosleep(&pause, NULL);
}
