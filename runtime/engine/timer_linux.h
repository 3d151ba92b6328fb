/* The timer of an M, on its thread's CPU clock. The calls without a comment are those of engine.h. */
#ifndef COUNTERPOINT_RUNTIME_ENGINE_TIMER_LINUX_H
#define COUNTERPOINT_RUNTIME_ENGINE_TIMER_LINUX_H

#include "runtime/engine.h"
#include "runtime/m.h"
#include "runtime/moment.h"
#include "runtime/slot.h"

/* What the engine of timers keeps for an M. */
struct cp__timer_m {
    struct cp__timer {
        int id;
        uint64_t due;  /* when the first tick that is not counted yet is due, on the M's CPU clock */
        uint64_t kept; /* shared, atomic: ticks that came while another thread changed the handles */
    } timers[CP_EV_MAX];
};

/* Makes a timer on the CPU clock of m's thread whose SIGPROFs carry the value: the first one after first_ns,
 * and then one each period_ns; 0: no more. Returns 0, or a negative errno value with -1 in *timer. */
int cp__timer_start_from_handler(const struct cp__m *m, int *timer, uint64_t value, uint64_t first_ns,
                                 uint64_t period_ns);
/* Deletes the timer. If the kernel refuses that, disarms it; if that is refused, too, SIGPROF is never given
 * back. */
void cp__timer_end_from_handler(int timer);
/* Arms a timer whose SIGPROFs carry the config's sequence number. */
int cp__timer_open_from_handler(struct cp__m *m, int slot, const struct cp__slot_config *config);
/* Deletes the timer. */
void cp__timer_close_from_handler(struct cp__m *m, int slot, struct cp__moment *moment);
bool cp__timer_close_from_outside(struct cp__m *m, int slot, bool has_slept, struct cp__moment *moment);
bool cp__timer_on_signal_from_handler(struct cp__m *m, const siginfo_t *info, struct cp__moment *moment);
bool cp__timer_keep_from_handler(struct cp__m *m, const siginfo_t *info);
/* Tries to make such a timer. Returns 0, or fills err with the reason. */
int cp__timer_probe(struct cp_error *err);

#endif
