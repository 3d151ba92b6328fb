/*
 * What the core asks of the engine: how samples get out of an M.
 *
 * The engine (engine/) puts its calls into one table. They are the proposal's two OS hooks,
 * setThreadPMUProfilerFunc and sigprofPMUHandlerFunc, grown up. The first hook is open, enable and close.
 * The second one is the engine's own signal handler, which makes samples by moment.h.
 */
#ifndef COUNTERPOINT_RUNTIME_ENGINE_H
#define COUNTERPOINT_RUNTIME_ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "event.h"

/* Kicks are numbered modulo this. */
#define CP__ENGINE_KICKS 256

struct cp__m;
struct cp__moment;
struct cp__slot_config;

struct cp__engine {
    /* ---- Once, before the first M ---- */
    void (*start)(void);

    /* ---- On the calling M, with SIGPROF blocked or in its handler ---- */

    /* Opens what config asks for in slot. An event is disabled after that; a timer runs. 0 or a negative
     * errno value. */
    int (*open_from_handler)(struct cp__m *m, int slot, const struct cp__slot_config *config);
    /* Lets the event that is open in slot count. If that fails, the event is closed. */
    int (*enable_from_handler)(struct cp__m *m, int slot);
    /* Disables and closes what is open in slot. Adds to moment what any slot has counted that has no
     * sample yet. */
    void (*close_from_handler)(struct cp__m *m, int slot, struct cp__moment *moment);
    /* Takes the signals that are pending, but for foreign ones. A signal that was raised before its
     * source was closed must not outlive the handle. */
    void (*take_pending_from_handler)(struct cp__m *m, struct cp__moment *moment);
    /* The records made so far belong to the place where the next signal finds the M: the M was in the
     * library, with SIGPROF blocked. */
    void (*own_from_handler)(struct cp__m *m);

    /* ---- From any thread, which has the claim on m ---- */

    /* What m's event in slot has counted; 0 if that cannot be read. */
    uint64_t (*count)(const struct cp__m *m, int slot);
    /* Ends the counting of m's event in slot. */
    void (*disable)(struct cp__m *m, int slot);

    /* ---- From any thread ---- */

    /* Opens the events on the calling thread as an M would, all at once, and closes them. Fills err if
     * one of them fails, or opens and counts nothing (-ENODATA). Lowers each config's precise_ip to the
     * level that works. */
    int (*probe)(struct cp_slot_request *requests, size_t n, struct cp_error *err);
    /* Interrupts the thread, so that its M looks at the slots; 0 or a negative errno value. */
    int (*kick)(pid_t tid, uint32_t number);

    /* ---- Under the runtime lock ---- */

    /* Installs the handler. */
    int (*install)(struct cp_error *err);
    /* Whether that handler is the one that is in place. */
    bool (*is_installed)(void);
    /* Puts back the handler that was there before. No signal of the engine's can come any more. */
    void (*restore)(void);

    /* ---- In the child of a fork ---- */

    /* Closes m's descriptors, touching neither the events nor the ring behind them. */
    void (*forget)(struct cp__m *m);
};

extern const struct cp__engine cp__engine;

#endif
