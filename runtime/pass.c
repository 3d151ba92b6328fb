/* What a reader does with each of its passes, beside reading. */
#include "pass.h"

#include <time.h>

#include "ended.h"
#include "outside.h"
#include "overload.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/os.h"
#include "share.h"

/*
 * A look at an M takes about 1 us. A pass may look at one M for each 100 us of CPU time that the process has
 * used since the last pass, and at LEAST_LOOKS Ms in any case; the next pass continues with the next Ms. So
 * looks cost about 1 % of the program's own CPU time, and next to nothing in an idle process with a thousand
 * Ms.
 */
#define LEAST_LOOKS 16
#define NS_A_LOOK 100000

static uint64_t process_ns; /* the process's CPU clock at the last pass; under the runtime lock */

/* Returns how many Ms this pass may look at, and notes the process's CPU time for the next pass. In the child
 * of a fork the clock begins anew, and so is behind that of the parent's last pass. */
static uint64_t count_looks(void)
{
    uint64_t now = cp__os_clock_ns_from_handler(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t used = now > process_ns ? now - process_ns : 0;

    process_ns = now;
    return LEAST_LOOKS + used / NS_A_LOOK;
}

/* Brings m in line if m is behind, and checks what m's samples cost and whether its events count. */
static void look_at_m(struct cp__m *m, bool may_open)
{
    uint64_t cpu_ns;

    if (cp__m_is_gone(m))
        return;
    if (m != cp__m_current && may_open) {
        if (cp__outside_find_gone(m))
            return;
        cp__outside_bring_in_line(m);
        if (cp_load_relaxed(&m->armed) !=
            0) /* relaxed: written under the lock, or by an M that wants to be heard */
            cp__outside_hear(m);
    }
    /* relaxed: an M that has just been armed is checked in a later pass */
    if (cp_load_relaxed(&m->armed) == 0)
        return;
    cpu_ns = cp__os_clock_ns_from_handler(m->cpu_clock);
    if (cpu_ns == 0)
        return; /* the thread has just ended */
    cp__overload_look(m, cpu_ns);
    cp__ended_look(m, cpu_ns);
    if (m != cp__m_current && may_open)
        cp__share_look(m, cpu_ns);
}

/* Looks at m, and moves the cursor on. Returns whether m is GONE, and may be freed. */
static bool look_and_go_on(struct cp__m *m, bool may_open)
{
    bool is_gone;

    m->refs++; /* the look may find m gone */
    look_at_m(m, may_open);
    is_gone = cp__m_is_gone(m);
    cp__ms_cursor = m->next;
    if (--m->refs == 0)
        cp__m_free_if_done(m);
    return is_gone;
}

static struct cp__m *at_cursor(void)
{
    return cp__ms_cursor != NULL ? cp__ms_cursor : cp__ms;
}

void cp__pass(void)
{
    uint64_t looks = count_looks();
    bool may_open = cp__fork_delay_from_handler(); /* if another thread forks, a later pass opens events */
    struct cp__m *first = NULL; /* the first M that this pass has looked at, and that is not GONE */

    cp__share_begin(looks);
    for (struct cp__m *m = at_cursor(); m != NULL && m != first && looks > 0; m = at_cursor(), looks--) {
        if (!look_and_go_on(m, may_open) && first == NULL)
            first = m;
    }
    if (may_open)
        cp__fork_allow_from_handler();
}
