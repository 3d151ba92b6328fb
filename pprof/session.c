/* Runs, stops and writes sessions. See session.h. */
#include "session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "rate_linux.h"
#include "runtime/base/fail.h"
#include "runtime/base/sized.h"
#include "runtime/base/thread.h"
#include "runtime/unwind/code.h"
#include "waits.h"
#include "writer.h"

#define READ_INTERVAL_MS 50

/* ---- The profile-writer thread --------------------------------------------------------------- */

void cp__part_fold(void *context, const struct cp_sample *sample)
{
    struct cp__part *part = context;

    part->read += sample->weight;
    if ((sample->flags & CP_SAMPLE_STALLED) != 0)
        return; /* a comment says how much: see report.c */
    part->unfolded += cp__profile_stage(part->profile, sample);
}

/* A part without a slot only looks whether the linker has loaded or unloaded objects, for its profile and for
 * the walks to come: the stacks of waits are read at the end. */
static void read_all_slots(struct cp_session *session)
{
    for (size_t i = 0; i < session->n; i++) {
        struct cp__part *part = &session->parts[i];

        if (cp__part_is_wait(part))
            cp__code_look();
        else
            cp_slots_read(part->slot, cp__part_fold, part);
        part->unfolded += cp__profile_settle(part->profile);
    }
}

/* Reads all slots until the session stops. */
static void *read_until_stop(void *arg)
{
    struct cp_session *session = arg;

    for (;;) {
        uint32_t token = cp_slots_token();
        /* acquire: pairs with the release in halt(); the slots have stopped, so this is the last round */
        bool last = cp_load_acquire(&session->stopping) != 0;

        read_all_slots(session);
        if (last)
            return NULL;
        cp_slots_wait(token, READ_INTERVAL_MS);
    }
}

/* The profile-writer thread. */
static void *collect_samples(void *session)
{
    return cp__thread_own(read_until_stop, session);
}

int cp__session_collect(struct cp_session *session)
{
    return cp__thread_start(&session->thread, CP__DEEP_STACK, collect_samples, session);
}

/* ---- Stop ------------------------------------------------------------------------------------ */

void cp__session_stop_slots(const struct cp_session *session)
{
    if (session->n_slots > 0)
        cp_slots_stop(session->slots, session->n_slots);
}

void cp__session_release_slots(const struct cp_session *session)
{
    if (session->n_slots > 0)
        cp_slots_release(session->slots, session->n_slots);
}

/* Reads until all samples that the figures count have been read. Samples may come after the profile-writer
 * thread has ended, because an M that slept at the stop may record its last samples when it wakes. */
void cp__session_read_up(struct cp_session *session, size_t i)
{
    struct cp__part *part = &session->parts[i];

    session->stats[i].size = sizeof session->stats[i];
    for (int tries = 0; tries < 10; tries++) {
        cp_slots_stats(part->slot, &session->stats[i]);
        if (part->read >= session->stats[i].samples)
            return;
        cp_slots_read(part->slot, cp__part_fold, part);
        part->unfolded += cp__profile_settle(part->profile);
    }
}

/* Finds out whether the part has no samples, and why. */
static void judge_part(struct cp__part *part, const struct cp_slot_stats *stats)
{
    const struct cp__yield yield = cp__part_yield(part, stats);

    cp__empty_warn(&yield, part->empty);
    cp_store_release(&part->has_ended, 1); /* pairs with the acquire in cp_session_warning() */
}

/* Reads what a part has left, and adds what was lost to its profile. */
static void end_part(struct cp_session *session, size_t i)
{
    struct cp__part *part = &session->parts[i];

    if (cp__part_is_wait(part))
        cp__waits_read_up(session, i);
    else
        cp__session_read_up(session, i);
    cp__profile_end(part->profile, session->started_ns + session->duration_ns);
    if (!cp__part_is_wait(part) && cp__report_losses(part, &session->stats[i]) < 0)
        part->unfolded++; /* so that a comment at least says that something is missing */
    judge_part(part, &session->stats[i]);
}

/* Stops the slots, the recordings and the profile-writer thread, and stores the final figures. Called with
 * the session's lock held. */
static void halt(struct cp_session *session)
{
    cp__waits_stop(session);
    cp__session_stop_slots(session);
    session->duration_ns = cp__clock_ns(CLOCK_MONOTONIC) - session->started_ns;
    cp_store_release(&session->stopping, 1); /* pairs with the acquire in read_until_stop() */
    cp_slots_wake();
    pthread_join(session->thread, NULL);
    for (size_t i = 0; i < session->n; i++)
        end_part(session, i);
    session->rate_limit = cp__rate_limit();
    cp__session_release_slots(session);
    session->running = false;
}

/* Writes all profiles that have not been written. Runs on a thread of its own, because the caller may be a
 * G. */
static void *write_parts(void *arg)
{
    struct cp_session *session = arg;

    for (size_t i = 0; i < session->n; i++) {
        struct cp__part *part = &session->parts[i];

        if (part->written)
            continue;
        part->result = cp__write_left(&part->error); /* stays if a callback ends the thread */
        part->result = cp__report_write(session, i, &part->writer, false, &part->error);
        part->written = part->result == 0;
    }
    return NULL;
}

/* Refuses a session that was inherited over a fork(). */
static int check_process(const struct cp_session *session, struct cp_error *err)
{
    if (session->pid == getpid())
        return 0;
    return cp__error(
        err, -ECHILD,
        "This profiling session belongs to process %d, from which this one was forked; the session goes on "
        "there. Start a new session here.",
        (int)session->pid);
}

int cp_session_halt(struct cp_session *session, struct cp_error *err)
{
    int result = check_process(session, err);

    if (result < 0)
        return result;
    cp__lock(&session->lock);
    if (session->running)
        halt(session);
    cp__unlock(&session->lock);
    return 0;
}

int cp_session_stop(struct cp_session *session, struct cp_error *err)
{
    int result = cp_session_halt(session, err);

    if (result < 0)
        return result;
    cp__lock(&session->lock);
    result = cp__thread_run(write_parts, session);
    if (result < 0)
        cp__write_refused(result, err);
    for (size_t i = 0; i < session->n && result == 0; i++) {
        if (!session->parts[i].written) {
            result = session->parts[i].result;
            if (err != NULL)
                *err = session->parts[i].error;
        }
    }
    cp__unlock(&session->lock);
    return result;
}

/* ---- Write, stats, warning, close ------------------------------------------------------------ */

/* Which profile to write, and how. */
struct one {
    struct cp_session *session;
    size_t i;
    bool is_text;
};

static int write_one(const void *what, struct cp_writer *w, struct cp_error *err)
{
    const struct one *one = what;

    return cp__report_write(one->session, one->i, w, one->is_text, err);
}

static int write_as(const struct one *one, struct cp_writer w, struct cp_error *err)
{
    struct cp_session *session = one->session;
    int result = check_process(session, err);

    if (result < 0)
        return result;
    if (one->i >= session->n)
        return cp__error(err, -EINVAL, "The session has no option %zu: it was started with %zu.", one->i,
                         session->n);
    cp__lock(&session->lock);
    if (session->running)
        result = cp__error(err, -EBUSY,
                           "The session still runs. Stop it before its profile is written elsewhere.");
    else
        result = cp__write_elsewhere(w, write_one, one, err);
    if (result == 0 && !one->is_text) /* a look at the text does not replace the profile */
        session->parts[one->i].written = true;
    cp__unlock(&session->lock);
    return result;
}

int cp_session_write(struct cp_session *session, size_t i, struct cp_writer w, struct cp_error *err)
{
    return write_as(&(struct one){session, i, false}, w, err);
}

int cp_session_write_text(struct cp_session *session, size_t i, struct cp_writer w, struct cp_error *err)
{
    return write_as(&(struct one){session, i, true}, w, err);
}

void cp__session_leave_names(struct cp_session *session, bool leave)
{
    cp__lock(&session->lock);
    for (size_t i = 0; i < session->n; i++)
        cp__profile_leave_names(session->parts[i].profile, leave);
    cp__unlock(&session->lock);
}

bool cp__session_is_running(struct cp_session *session)
{
    bool running;

    cp__lock(&session->lock);
    running = session->running;
    cp__unlock(&session->lock);
    return running;
}

/* Stores the figures of a part of a session that runs. */
static int running_stats(const struct cp__part *part, struct cp_slot_stats *stats)
{
    struct cp_slot_stats recorded;

    if (!cp__part_is_wait(part))
        return cp_slots_stats(part->slot, stats);
    cp__waits_stats(part, &recorded);
    return CP__GIVE(cp_slot_stats, stats, &recorded, NULL);
}

int cp_session_stats(struct cp_session *session, size_t i, struct cp_slot_stats *stats)
{
    int result;

    if (i >= session->n)
        return -EINVAL;
    if (session->pid != getpid())
        return -ECHILD; /* a thread of the parent may have held the lock at the fork */
    cp__lock(&session->lock);
    if (session->running)
        result = running_stats(&session->parts[i], stats);
    else
        result = CP__GIVE(cp_slot_stats, stats, &session->stats[i], NULL);
    cp__unlock(&session->lock);
    return result;
}

const char *cp_session_warning(const struct cp_session *session, size_t i)
{
    const struct cp__part *part = i < session->n ? &session->parts[i] : NULL;

    if (part == NULL)
        return NULL;
    /* acquire: pairs with the release in judge_part() */
    if (cp_load_acquire(&part->has_ended) != 0 && part->empty[0] != '\0')
        return part->empty;
    return part->warning[0] != '\0' ? part->warning : NULL;
}

void cp_session_close(struct cp_session *session)
{
    if (session == NULL)
        return;
    if (session->is_default)
        cp__default_forget(session);
    cp_session_halt(session, NULL); /* does nothing in a child of the process that started the session */
    cp__session_free(session);
}
