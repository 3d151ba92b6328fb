/*
 * What the core asks of an engine, which brings samples out of an M.
 *
 * Each engine puts its calls into a table of its own. A start says which engine samples each slot's event;
 * the M's handle of the slot has the table from then on, and the core asks for what it needs by that. The
 * table extends the proposal's two OS hooks: setThreadPMUProfilerFunc is open, enable and close, and
 * sigprofPMUHandlerFunc is the handler, which makes samples by moment.h.
 *
 * An entry that says so may be NULL. The core knows no engine by name, and no kind of event by which it would
 * ask one engine for something else than another.
 */
#ifndef COUNTERPOINT_RUNTIME_ENGINE_H
#define COUNTERPOINT_RUNTIME_ENGINE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cp__count;
struct cp__m;
struct cp__moment;
struct cp__slot_config;

/* What is known of an event that does not count. */
struct cp__ending {
    uint64_t time_enabled; /* the time that the event counted for */
    bool is_disabled;      /* the program has disabled the event; if not, it has reached its limit */
};

/* A thread that has had this much CPU time has taken the signals that were raised before, unless it blocks
 * them for longer than a handler or a short section takes. */
#define CP__MOMENT_NS 1000000

struct cp__engine {
    unsigned index; /* in the M's own; less than CP__ENGINES */
    size_t size;    /* of what the engine keeps for an M; the bytes are 0 at first */
    /* Whether a sample tells where it was made. If not, nobody knows where the samples were made that waited
     * because their thread blocks SIGPROF. */
    bool tells_places;

    /* ---- On the M itself, with the library's signals blocked or in its handler, and with the claim SELF;
     * or on another thread with the claim CHANGING, so that m's handler keeps off ---- */

    /* Opens the event of config in slot, and says in the M's handle that it is open. Returns 0 or a negative
     * errno value. */
    int (*open_from_handler)(struct cp__m *m, int slot, const struct cp__slot_config *config);
    /* Lets the event that is open in slot count, up to the handle's limit. If that fails, closes the
     * event. NULL: the event counts when it is open. */
    int (*enable_from_handler)(struct cp__m *m, int slot);

    /* Forgets what was open in slot, which was closed: its last samples have been appended. NULL: the close
     * has done so. */
    void (*clear_from_handler)(struct cp__m *m, int slot);

    /* ---- On the calling M, with the library's signals blocked or in its handler ---- */

    /* Disables and closes what is open in slot. Adds to moment all that the events of any slot have counted
     * and that has no sample yet. */
    void (*close_from_handler)(struct cp__m *m, int slot, struct cp__moment *moment);

    /* Adds to moment what a signal stands for, and what has waited for one. Returns whether the signal is of
     * an event of the engine's on m. */
    bool (*on_signal_from_handler)(struct cp__m *m, const siginfo_t *info, struct cp__moment *moment);
    /* The handler begins, and ends. NULL: that is nothing to the engine. */
    void (*begin_from_handler)(struct cp__m *m);
    void (*end_from_handler)(struct cp__m *m);
    /* Says that the M was in the library, with SIGPROF blocked, so the records made so far belong to the
     * place where the next signal finds the M. NULL: there are no records. */
    void (*own_from_handler)(struct cp__m *m);
    /* ---- In m's handler, while another thread has the claim CHANGING ---- */

    /* Returns whether the signal is the engine's, without a look at any handle, and keeps what the signal
     * stands for, if no record has it. A signal that may be another's is taken for the engine's. */
    bool (*keep_from_handler)(struct cp__m *m, const siginfo_t *info);

    /* ---- On another thread with the claim CHANGING ---- */

    /* Does what close_from_handler does. The moment is CP__SINCE_OUTSIDE. has_slept: m's thread had not run
     * since the event was armed when the caller looked, so nobody needs to know what the event has counted.
     * Returns whether a SIGPROF of what was closed may be pending for m's thread after that. */
    bool (*close_from_outside)(struct cp__m *m, int slot, bool has_slept, struct cp__moment *moment);

    /* ---- On another thread with the claim CHANGING, which delays forks. NULL: there is nothing to read ----
     */

    /* Adds to moment what waits for m, because its thread blocks its signals. */
    void (*hear)(struct cp__m *m, struct cp__moment *moment);

    /* ---- From any thread, which has the claim on m. NULL: the engine's events cannot leave a thread no
     * time, so nobody needs to stop them ---- */

    /* Reads what m's events in slot have counted: the sum of all, but time_enabled is that of the first.
     * Returns false, and a count of 0, if the count cannot be read. */
    bool (*read)(struct cp__m *m, int slot, struct cp__count *count);
    /* Returns after how much of its count the event interrupts its thread. */
    uint64_t (*interval)(const struct cp__m *m, int slot);
    /* Stops the counting of m's event in slot. */
    void (*disable)(struct cp__m *m, int slot);

    /* ---- From any thread, which has the claim on m and the runtime lock. NULL as above ---- */

    /* Looks at m's event in slot, whose records have not been read for a while although m's thread ran. If
     * the event counts and the thread makes progress, renews its limit. Returns true if the event does not
     * count, and fills *ending. An event that has just been renewed, or that is looked at for the first time,
     * is not known to stand. */
    bool (*has_ended)(struct cp__m *m, int slot, struct cp__ending *ending);
    /* Lets an event that does not count do so again: if its samples left the thread no time, after twice the
     * number of periods from now on. */
    void (*restart)(struct cp__m *m, int slot);

    /* ---- In the child of a fork ---- */

    /* Closes m's descriptors, but changes neither the events nor the ring behind them. NULL: there are
     * none. */
    void (*forget)(struct cp__m *m);
};

#endif
