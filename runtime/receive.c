#include "receive.h"

#include "asked.h"
#include "engine.h"
#include "runtime/base/signals.h"
#include "slot.h"

bool cp__receive_is_of_event_from_handler(const siginfo_t *info)
{
    uint64_t seq;

    if (cp__asked_by_from_handler(info) != NULL)
        return true;
    return (cp__signal_is_trap_from_handler(info, &seq) || cp__signal_is_tick_from_handler(info, &seq)) &&
           cp__slot_is_seq_from_handler(seq);
}

/* Asks each engine: SIGPROF does not queue, so each signal may stand for others. */
static bool ask_engines_from_handler(struct cp__m *m, const siginfo_t *info, struct cp__moment *moment)
{
    bool ours = false;

    /* acquire: pairs with the release in cp__m_make_own() */
    for (uint32_t engines = cp_load_acquire(&m->engines); engines != 0; engines &= engines - 1)
        ours |= m->own[__builtin_ctz(engines)].engine->on_signal_from_handler(m, info, moment);
    return ours;
}

/* The signal of an event that is closed names a descriptor, which may be another file's by now; but while the
 * M is late, such a signal is expected. */
static bool is_late_signal_from_handler(const struct cp__m *m, const siginfo_t *info)
{
    /* relaxed: set while this handler kept off, or before it began */
    return cp_load_relaxed(&m->late) != CP__LATE_NO && cp__signal_is_poll_from_handler(info);
}

bool cp__receive_from_handler(struct cp__m *m, const siginfo_t *info, struct cp__moment *moment)
{
    bool ours = ask_engines_from_handler(m, info, moment) || cp__receive_is_of_event_from_handler(info) ||
                is_late_signal_from_handler(m, info);

    if (!ours)
        cp_add_single_writer(&m->foreign, 1);
    return ours;
}

bool cp__receive_keep_from_handler(struct cp__m *m, const siginfo_t *info)
{
    bool ours = cp__receive_is_of_event_from_handler(info);

    /* acquire: pairs with the release in cp__m_make_own() */
    for (uint32_t engines = cp_load_acquire(&m->engines); engines != 0; engines &= engines - 1)
        ours |= m->own[__builtin_ctz(engines)].engine->keep_from_handler(m, info);
    if (!ours)
        cp_add_single_writer(&m->foreign, 1);
    return ours;
}

/* Makes a signal that is not the profiler's pending again, after all others have been taken: while another
 * signal of that number is pending, the kernel drops it. */
static void take_pending_from_handler(struct cp__m *m, int signal, struct cp__moment *moment)
{
    siginfo_t info, foreign = {.si_signo = 0};

    while (cp__signal_take_pending_from_handler(signal, &info)) {
        if (!cp__receive_from_handler(m, &info, moment)) {
            cp_add_single_writer(&m->foreign, -1); /* the handler will count it */
            foreign = info;
        }
    }
    if (foreign.si_signo != 0)
        cp__signal_requeue_from_handler(&foreign);
}

/* A signal that was raised before its source was closed is still pending. The signal must be taken before the
 * handle goes, because the number of its descriptor, or the handler of SIGPROF, may belong to others by the
 * time it is delivered. */
void cp__take_pending_from_handler(struct cp__m *m, struct cp__moment *moment)
{
    take_pending_from_handler(m, SIGPROF, moment);
    if (cp__signal_was_installed_from_handler(SIGTRAP))
        take_pending_from_handler(m, SIGTRAP, moment);
}
