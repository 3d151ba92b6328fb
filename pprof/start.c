/* Checks options, and starts sessions. See session.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "rate_linux.h"
#include "runtime/base/fail.h"
#include "runtime/base/sized.h"
#include "session.h"
#include "waits.h"
#include "writer.h"

/* ---- Checks ---------------------------------------------------------------------------------- */

static int check_count(size_t n, struct cp_error *err)
{
    if (n == 0)
        return cp__error(err, -EINVAL, "No event was given: a session takes 1 to %d options.", CP_EV_MAX);
    if (n > CP_EV_MAX)
        return cp__error(err, -EINVAL, "%zu events were given: a session takes 1 to %d options.", n,
                         CP_EV_MAX);
    return 0;
}

/* Parses the name of the option's event; an option without a name has a raw event. */
static int name_event(const struct cp_profiling_option *option, struct cp_event_spec *spec,
                      struct cp_error *err)
{
    char name[24];

    if (option->name != NULL)
        return cp_event_parse(option->name, spec, err);
    snprintf(name, sizeof name, "r%llx", (unsigned long long)option->raw_event);
    return cp_event_parse(name, spec, err);
}

/* Copies the option's own config, with the event's encoding. */
static int take_config(struct cp__part *part, const struct cp_cpu_profile_config *config,
                       struct cp_error *err)
{
    int result = CP__TAKE(cp_cpu_profile_config, &part->config, config, err);

    part->config.raw_event = part->event.raw_event;
    part->config.encoding = part->event.encoding;
    return result;
}

static int take_flags(struct cp__part *part, uint64_t flags, struct cp_error *err)
{
    part->is_contention = (flags & CP_OPTION_CONTENTIONS) != 0;
    if ((flags & ~(uint64_t)CP_OPTION_CONTENTIONS) != 0)
        return cp__error(err, -EINVAL, "The option for %s has flags that this library does not know: %#llx.",
                         part->event.name, (unsigned long long)flags);
    if (part->is_contention && (!cp__part_is_wait(part) || part->event.event == CP_CPUPROF_WALL))
        return cp__error(
            err, -EINVAL,
            "The profile of %s cannot have the types of Go's profiles of contentions, because the "
            "event is no wait. Leave CP_OPTION_CONTENTIONS out.",
            part->event.name);
    return 0;
}

/* Fills a part from an option. */
static int take_option(struct cp__part *part, const struct cp_profiling_option *option, struct cp_error *err)
{
    int result;

    part->event.size = sizeof part->event;
    part->config.size = sizeof part->config;
    result = name_event(option, &part->event, err);
    if (result < 0)
        return result;
    part->writer = option->writer;
    if (part->writer.ops == NULL)
        return cp__error(err, -EINVAL,
                         "The option for %s has no writer. Make one with cp_writer_path() or a similar call.",
                         part->event.name);
    if (option->config == NULL)
        result = cp_cpu_profile_config_init(&part->config, &part->event, option->period, err);
    else
        result = take_config(part, option->config, err);
    if (option->engine != CP_ENGINE_AUTO)
        part->config.engine = option->engine;
    if (result == 0)
        result = take_flags(part, option->flags, err);
    return result;
}

static int check_unique_events(const struct cp_session *session, struct cp_error *err)
{
    for (size_t i = 0; i < session->n; i++) {
        for (size_t j = 0; j < i; j++) {
            if (strcmp(session->parts[i].event.name, session->parts[j].event.name) == 0)
                return cp__error(err, -EINVAL,
                                 "The event %s was given twice. Give each event once in a session.",
                                 session->parts[i].event.name);
        }
    }
    return 0;
}

static int check_unique_writers(const struct cp_session *session, struct cp_error *err)
{
    for (size_t i = 0; i < session->n; i++) {
        for (size_t j = 0; j < i; j++) {
            const struct cp__part *a = &session->parts[i];
            const struct cp__part *b = &session->parts[j];

            if (a->writer.ops->same(&a->writer, &b->writer) || b->writer.ops->same(&b->writer, &a->writer))
                return cp__error(
                    err, -EINVAL,
                    "The events %s and %s were given the same %s. Each profile is a file of its own: give "
                    "each event its own writer.",
                    b->event.name, a->event.name, a->writer.ops->what);
        }
    }
    return 0;
}

/* ---- Start ----------------------------------------------------------------------------------- */

/* Opens the part's writer, and makes its profile. */
static int open_part(struct cp__part *part, struct cp_error *err)
{
    int result = part->writer.ops->open == NULL ? 0 : part->writer.ops->open(&part->writer, err);

    if (result < 0)
        return result;
    part->opened = true;
    if (cp__part_is_wait(part))
        result = cp__waits_new_profile(&part->profile, part->event.event);
    else
        result = cp__profile_new(&part->profile);
    if (result < 0)
        return cp__error(err, -ENOMEM, "There is not enough memory to build a profile.");
    return 0;
}

/* Starts the slots of the parts that are sampled. */
static int start_session_slots(struct cp_session *session, struct cp_error *err)
{
    struct cp_slot_request requests[CP_EV_MAX];
    int result;

    for (size_t i = 0; i < session->n; i++) {
        const struct cp__part *part = &session->parts[i];

        if (!cp__part_is_wait(part))
            requests[session->n_slots++] = (struct cp_slot_request){
                .event = part->event.event, .config = part->config, .name = part->event.name};
    }
    if (session->n_slots == 0)
        return 0;
    result = cp_slots_start(requests, session->n_slots, session->slots, err);
    for (size_t i = 0, n = 0; i < session->n && result == 0; i++)
        if (!cp__part_is_wait(&session->parts[i]))
            session->parts[i].slot = session->slots[n++];
    return result;
}

/* Starts the recordings of waits, and the slots; all or none. */
static int start_sampling(struct cp_session *session, struct cp_error *err)
{
    int result = cp__waits_start(session, err);

    if (result == 0)
        result = start_session_slots(session, err);
    for (size_t i = 0; i < session->n && result < 0; i++)
        cp__waits_drop(&session->parts[i]);
    return result;
}

/* Starts what samples, and the profile-writer thread. */
static int arm_parts(struct cp_session *session, struct cp_error *err)
{
    const uint64_t limit = cp__rate_limit();
    int result;

    session->time_ns = cp__clock_ns(CLOCK_REALTIME);
    session->started_ns = cp__clock_ns(CLOCK_MONOTONIC);
    result = start_sampling(session, err);
    if (result < 0)
        return result;
    for (size_t i = 0; i < session->n; i++)
        cp__profile_note_mappings(
            session->parts[i].profile); /* without memory, the first sample tries again */
    result = cp__session_collect(session);
    if (result < 0) {
        cp__session_stop_slots(session);
        cp__session_release_slots(session);
        return cp__error(err, result, "The profile-writer thread could not be started: %s.",
                         strerror(-result));
    }
    session->running = true;
    for (size_t i = 0; i < session->n; i++)
        cp__rate_warn(&session->parts[i].event, &session->parts[i].config, limit, session->parts[i].warning,
                      sizeof session->parts[i].warning);
    return 0;
}

static int start_session(struct cp_session *session, const struct cp_profiling_option *options,
                         struct cp_error *err)
{
    int result = 0;

    for (size_t i = 0; i < session->n && result == 0; i++)
        result = take_option(&session->parts[i], &options[i], err);
    if (result == 0)
        result = check_unique_events(session, err);
    for (size_t i = 0; i < session->n && result == 0; i++)
        result = open_part(&session->parts[i], err);
    if (result == 0)
        result = check_unique_writers(session, err);
    return result < 0 ? result : arm_parts(session, err);
}

void cp__session_free(struct cp_session *session)
{
    for (size_t i = session->n; i-- > 0;) {
        struct cp__part *part = &session->parts[i];

        if (session->pid != getpid())
            part->writer.created = false; /* only the parent may remove the file */
        if (part->opened && part->writer.ops->close != NULL)
            part->writer.ops->close(&part->writer);
        if (session->pid == getpid()) { /* a thread of the parent may have been changing it at the fork */
            cp__waits_drop(part);
            cp__profile_free(part->profile);
        }
    }
    free(session);
}

int cp_session_start(struct cp_session **out, const struct cp_profiling_option *options, size_t n,
                     struct cp_error *err)
{
    struct cp_session *session;
    int result = check_count(n, err);

    if (result < 0)
        return result;
    session = calloc(1, sizeof *session);
    if (session == NULL)
        return cp__error(err, -ENOMEM, "There is not enough memory for a profiling session.");
    session->lock = (struct cp__lock)CP__LOCK_INIT(CP__RANK_SESSION);
    session->pid = getpid();
    session->n = n;
    result = start_session(session, options, err);
    if (result < 0)
        cp__session_free(session);
    else
        *out = session;
    return result;
}
