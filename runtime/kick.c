#include "kick.h"

#include <time.h>

#include "os.h"

/* How long a stop waits for an M that has work to do and gets no CPU, or keeps SIGPROF blocked. */
#define LONGEST_WAIT_NS 2000000000u
#define LOOK_AGAIN_NS 500000

static bool is_behind(const struct cp__m *m)
{
    /* acquire: pairs with the release in cp__configure_from_handler(), configure.c */
    return !m->exited && cp_load_acquire(&m->head.generation) != cp_load_relaxed(&cp_generation);
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

static void kick(struct cp__m *m)
{
    if (cp_load_acquire(&m->kicked) != 0) /* pairs with the release in cp__classify_from_handler() */
        return;
    cp_store_relaxed(&m->kicked, 1); /* relaxed: sending the signal orders it before the handler */
    if (cp__os_kick(m->tid) < 0)
        cp_store_relaxed(&m->kicked, 0);
}

unsigned cp__kick_stale(void)
{
    unsigned behind = 0;

    for (struct cp__m *m = cp__ms; m != NULL; m = m->next) {
        if (!is_behind(m) || m == cp__m_current)
            continue;
        behind++;
        if (has_run(m))
            kick(m);
    }
    return behind;
}

/* Whether some M is behind that a stop should wait for: one that has run, or wants to. */
static bool is_waited_for(void)
{
    bool waited_for = false;

    cp__lock(&cp__runtime_lock);
    if (cp__kick_stale() > 0) {
        for (struct cp__m *m = cp__ms; m != NULL && !waited_for; m = m->next) {
            if (is_behind(m) && m != cp__m_current && cp_load_relaxed(&m->armed) != 0)
                waited_for = has_run(m) || cp__os_thread_is_runnable(m->tid);
        }
    }
    cp__unlock(&cp__runtime_lock);
    return waited_for;
}

void cp__kick_until_settled(void)
{
    const struct timespec pause = {.tv_nsec = LOOK_AGAIN_NS};
    uint64_t deadline = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) + LONGEST_WAIT_NS;

    while (is_waited_for() && cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) < deadline)
        nanosleep(&pause, NULL);
}
