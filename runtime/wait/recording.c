/* Starting, reading and ending recordings. */
#include "recording.h"

#include <errno.h>
#include <stdlib.h>

#include "hooks.h"
#include "runtime/base/fail.h"
#include "runtime/base/fork_gate.h"
#include "runtime/g_account.h"
#include "runtime/prepare.h"
#include "runtime/ticks.h"
#include "runtime/unwind/code.h"
#include "wall.h"
#include "weight.h"

static struct cp__lock *const lock = &cp__wait_running.lock;
static uint64_t last_serial;        /* under the lock */
static struct cp__recording *ended; /* whose memory a hook may still use; under the lock */

static void free_recording(struct cp__recording *recording)
{
    struct cp__wait_sums *next;

    for (struct cp__wait_sums *sums = recording->sums; sums != NULL; sums = next) {
        next = sums->next;
        cp__wait_sums_free(sums);
    }
    cp__wall_free(recording);
    free(recording);
}

/* Frees recordings, linked by next_ended. */
static void free_all(struct cp__recording *recording)
{
    struct cp__recording *next;

    for (; recording != NULL; recording = next) {
        next = recording->next_ended;
        free_recording(recording);
    }
}

static struct cp__recording *take_ended(void)
{
    struct cp__recording *all;

    cp__lock(lock);
    all = ended;
    ended = NULL;
    cp__unlock(lock);
    return all;
}

static void put_ended(struct cp__recording *recording)
{
    cp__lock(lock);
    recording->next_ended = ended;
    ended = recording;
    cp__unlock(lock);
}

/* Frees recordings that could not be freed at once, or leaves them for the next time. */
static void free_ended(void)
{
    struct cp__recording *all = take_ended(), *next;

    if (all == NULL)
        return;
    if (cp__wait_hooks_are_out()) {
        free_all(all);
        return;
    }
    for (; all != NULL; all = next) {
        next = all->next_ended;
        put_ended(all);
    }
}

/* ---- Starting -------------------------------------------------------------------------------- */

/* Hooks have nothing to do for the event WALL. */
static enum cp__accounting bit_of(const struct cp__recording *recording)
{
    return recording->event == CP__WAIT_EVENT_WALL ? CP__ACCOUNTING_WALL : CP__ACCOUNTING_EVENTS;
}

/* Makes the recording known to hooks. Returns false if there is no place. Under the lock. */
static bool publish_recording(struct cp__recording *recording)
{
    uint32_t *events = &cp__wait_running.events[recording->event];
    unsigned slot = 0;

    while (slot < CP__RECORDINGS && cp__wait_running.recordings[slot] != NULL)
        slot++;
    if (slot == CP__RECORDINGS)
        return false;
    recording->slot = slot;
    recording->serial = ++last_serial;
    recording->process = cp__wait_running.process;
    recording->is_running = true;
    cp_store_release(&cp__wait_calls, &cp__wait_hooks); /* pairs with the acquire in cp__wait_calls_get() */
    /* release: pairs with the acquire in tell_recordings(), hooks.c */
    cp_store_release(&cp__wait_running.recordings[slot], recording);
    cp_store_relaxed(events, *events | 1u << slot); /* relaxed: hooks may see it late */
    cp__accounting_set(bit_of(recording), true);
    return true;
}

static int start_made(struct cp__recording *made, struct cp_error *err)
{
    bool is_started;

    cp__fork_delay(); /* a child must not find it half known */
    cp__lock(lock);
    is_started = publish_recording(made);
    cp__unlock(lock);
    cp__fork_allow();
    if (!is_started)
        return cp__error(err, -EBUSY, "There are %d recordings of waits already: stop one of them.",
                         CP__RECORDINGS);
    return 0;
}

int cp__recording_start(enum cp__wait_event event, uint64_t period, struct cp__recording **recording,
                        struct cp_error *err)
{
    struct cp__recording *made;
    int result;

    if (period == 0)
        return cp__error(err, -EINVAL, "The period of a recording of waits is at least 1 ns, and not 0.");
    cp__prepare();
    /* relaxed: a switch may be seen late */
    if ((cp_load_relaxed(&cp_accounting) & CP__ACCOUNTING_ON) == 0)
        return cp__error(err, -EINVAL,
                         "Waits cannot be recorded, because the program has switched accounts off: call "
                         "cp_accounts_set(true) first.");
    cp__ticks_measure();
    cp__code_update();
    free_ended();
    made = calloc(1, sizeof *made);
    if (made == NULL)
        return cp__error(err, -ENOMEM, "There is no memory for a recording of waits (%zu bytes).",
                         sizeof *made);
    made->event = event;
    made->period = period < CP__WAIT_PERIOD_MAX ? period : CP__WAIT_PERIOD_MAX;
    result = event == CP__WAIT_EVENT_WALL ? cp__wall_start(made, err) : 0;
    if (result == 0 && (result = start_made(made, err)) < 0 && made->wall != NULL)
        cp__wall_stop(made);
    if (result < 0)
        free_recording(made);
    else
        *recording = made;
    return result;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* The process of a recording was changed by a fork: it is the parent's. */
static bool is_of_parent(const struct cp__recording *recording)
{
    return recording->process != cp__wait_running.process;
}

int cp__recording_each(struct cp__recording *recording, struct cp__recording_stats *stats, cp__waits_fn *fn,
                       void *context)
{
    int result = 0;

    *stats = (struct cp__recording_stats){.sampled = 0};
    if (is_of_parent(recording))
        return 0;
    cp__code_look(); /* stacks may lead through code that was loaded since */
    stats->dropped = cp_load_relaxed(&recording->dropped); /* relaxed, both: numbers of their own */
    stats->dropped_ns = cp_load_relaxed(&recording->dropped_ns);
    stats->has_no_stacks = cp_load_relaxed(&recording->has_no_stacks); /* relaxed: as above */
    /* acquire: pairs with the release in take_sums(), hooks.c */
    for (const struct cp__wait_sums *sums = cp_load_acquire(&recording->sums); sums != NULL && result == 0;
         sums = sums->next)
        result = cp__wait_sums_each(sums, stats, fn, context);
    return result;
}

/* ---- Ending ---------------------------------------------------------------------------------- */

/* Whether a recording runs that has the same bit. */
static bool any_is_running(enum cp__accounting bit)
{
    for (unsigned slot = 0; slot < CP__RECORDINGS; slot++) {
        const struct cp__recording *recording = cp__wait_running.recordings[slot];

        if (recording != NULL && bit_of(recording) == bit)
            return true;
    }
    return false;
}

/* Takes the recording away from hooks that are to come. Under the lock. */
static void withdraw(struct cp__recording *recording)
{
    uint32_t *events = &cp__wait_running.events[recording->event];

    /* relaxed, both: cp__wait_hooks_are_out() orders them */
    cp_store_relaxed(events, *events & ~(1u << recording->slot));
    cp_store_relaxed(&cp__wait_running.recordings[recording->slot], NULL);
    recording->is_running = false;
    if (!any_is_running(bit_of(recording)))
        cp__accounting_set(bit_of(recording), false);
}

/* Returns whether it ran. */
static bool stop_if_running(struct cp__recording *recording)
{
    bool was_running;

    cp__fork_delay(); /* as in start_made() */
    cp__lock(lock);
    was_running = recording->is_running && !is_of_parent(recording);
    if (was_running)
        withdraw(recording);
    cp__unlock(lock);
    cp__fork_allow();
    return was_running;
}

void cp__recording_stop(struct cp__recording *recording)
{
    if (!stop_if_running(recording))
        return;
    (void)cp__wait_hooks_are_out(); /* so that the sums stand still */
    if (recording->wall != NULL)
        cp__wall_stop(recording);
}

void cp__recording_free(struct cp__recording *recording)
{
    if (recording == NULL)
        return;
    cp__recording_stop(recording);
    put_ended(recording);
    free_ended();
}
