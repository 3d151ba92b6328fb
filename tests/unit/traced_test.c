/* A debugger, or strace, stops a thread with a signal that the kernel has taken off the queue, and the kernel
 * looks for the handler when the tracer lets the thread go on. */
#include "tests/support/puppet.h"
#include "tests/support/resources.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>

#include "runtime/base/os.h"
#include "runtime/m.h"

static void on_host_signal(int signal)
{
    (void)signal;
}

static void start_and_stop(struct cp_slot_request made, struct puppet *puppet)
{
    struct cp_error err = {0};
    int slot;

    made.config.engine = CP_ENGINE_SIGNAL;
    CHECKF(cp_slots_start(&made, 1, &slot, &err) == 0, "%s", err.message);
    if (puppet != NULL) {
        run_puppet(puppet, block_samples, 3 * MS);
        run_puppet(puppet, burn_a, 2 * MS); /* the thread does not block the signal for a moment only */
    }
    CHECK_EQ(cp_slots_stop(&slot, 1), 0);
    cp_slots_release(&slot, 1);
}

/* Says that a process traces the thread. */
static long be_traced(long number, const long arguments[6])
{
    static const char nobody[] = "\nTracerPid:\t0";
    const long result = sim_hand_on(number, arguments);
    char *found = NULL;

    if (number == SYS_read && result > 0)
        found = memmem((void *)arguments[1], (size_t)result, nobody, sizeof nobody - 1);
    if (found != NULL)
        found[sizeof nobody - 2] = '7';
    return result;
}

SIM_TEST(sigprof_is_not_given_back_while_a_debugger_may_hold_a_signal)
{
    struct puppet puppet;
    const struct cp__m *m;

    CHECK(signal(SIGPROF, on_host_signal) != SIG_ERR);
    start_puppet(&puppet);
    m = (const struct cp__m *)puppet.worker.m;
    start_and_stop(request("taskClock", MS), &puppet);
    CHECK_EQ(m->late, CP__LATE_PENDING);
    run_puppet(&puppet, unblock_samples, 0);
    sim_hook(be_traced);
    start_and_stop(request("timer", 1000 * MS), NULL);
    CHECK_EQ(m->late, CP__LATE_BEGINNING); /* no queue has the signal */
    CHECK(!sigprof_is(on_host_signal));
    sim_hook(sim_hand_on);
    start_and_stop(request("timer", 1000 * MS), NULL);
    CHECK(!sigprof_is(on_host_signal)); /* nobody knows what the debugger has still to deliver */
    end_puppet(&puppet);
}
