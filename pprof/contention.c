/* The block and mutex profiles of the process, as Go's runtime has them: recordings of waits and locks that
 * belong to no session. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/base/fail.h"
#include "runtime/base/fork_child.h"
#include "runtime/prepare.h"
#include "waits.h"
#include "writer.h"

/* What is known of each. Under the lock. */
static struct contention {
    const char *name;  /* as in Go */
    const char *event; /* that is recorded */
    enum cp__wait_event recorded;
    struct cp__recording *recording; /* NULL: nothing was ever recorded */
    bool is_running;
    uint64_t period;
    int64_t time_ns, started_ns, stopped_ns; /* CLOCK_REALTIME, and twice CLOCK_MONOTONIC */
} contentions[] = {
    [CP_CONTENTION_BLOCK] = {.name = "block", .event = "wait", .recorded = CP__WAIT_EVENT_WAIT},
    [CP_CONTENTION_MUTEX] = {.name = "mutex", .event = "lock", .recorded = CP__WAIT_EVENT_LOCK},
};
#define CONTENTIONS (sizeof contentions / sizeof contentions[0])
static struct cp__lock contention_lock = CP__LOCK_INIT(CP__RANK_CONTENTIONS);

/* In the child of a fork nothing is recorded, and what was recorded is the parent's. */
static void forget_contentions(void)
{
    cp__fork_child_resets();
    cp__lock_reset(&contention_lock);
    for (size_t i = 0; i < CONTENTIONS; i++) {
        contentions[i].recording = NULL;
        contentions[i].is_running = false;
    }
    cp__fork_child_has_reset();
}

__attribute__((constructor)) static void register_contentions(void)
{
    pthread_atfork(NULL, NULL, forget_contentions);
}

static int check_contention(enum cp_contention which, struct cp_error *err)
{
    if ((unsigned)which < CONTENTIONS)
        return 0;
    return cp__error(err, -EINVAL,
                     "There is no profile of contentions number %d. Use one of enum cp_contention.",
                     (int)which);
}

/* ---- Recording ------------------------------------------------------------------------------- */

/* Stores the preset in place of 0. */
static int find_period(const struct contention *contention, uint64_t *period, struct cp_error *err)
{
    struct cp_cpu_profile_config config = {.size = sizeof config};
    struct cp_event_spec spec = {.size = sizeof spec};
    int result = cp_event_parse(contention->event, &spec, err);

    if (result == 0)
        result = cp_cpu_profile_config_init(&config, &spec, *period, err);
    *period = config.period;
    return result;
}

static int begin_contention(struct contention *contention, uint64_t period, struct cp_error *err)
{
    struct cp__recording *recording;
    int result;

    if (contention->is_running && contention->period == period)
        return 0;
    if (contention->is_running)
        return cp__error(err, -EBUSY,
                         "The %s profile is recorded already, with a period of %llu ns. Stop it by "
                         "cp_contention_stop() before another period is taken.",
                         contention->name, (unsigned long long)contention->period);
    result = cp__recording_start(contention->recorded, period, &recording, err);
    if (result < 0)
        return result;
    cp__recording_free(contention->recording);
    contention->recording = recording;
    contention->is_running = true;
    contention->period = period;
    contention->time_ns = cp__clock_ns(CLOCK_REALTIME);
    contention->started_ns = cp__clock_ns(CLOCK_MONOTONIC);
    return 0;
}

int cp_contention_start(enum cp_contention which, uint64_t period, struct cp_error *err)
{
    int result = check_contention(which, err);

    if (result == 0)
        result = find_period(&contentions[which], &period, err);
    if (result < 0)
        return result;
    cp__prepare(); /* accounts are on from then on, unless the program has switched them off */
    cp__lock(&contention_lock);
    result = begin_contention(&contentions[which], period, err);
    cp__unlock(&contention_lock);
    return result;
}

void cp_contention_stop(enum cp_contention which)
{
    struct contention *contention = &contentions[which];

    if (check_contention(which, NULL) < 0)
        return;
    cp__lock(&contention_lock);
    if (contention->is_running) {
        cp__recording_stop(contention->recording);
        contention->stopped_ns = cp__clock_ns(CLOCK_MONOTONIC);
    }
    contention->is_running = false;
    cp__unlock(&contention_lock);
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* What is to be written. */
struct contention_order {
    enum cp_contention which;
    enum cp_profile_form form;
};

/* Under the lock. */
static int read_contention(const struct contention *contention, struct cp_session *session,
                           struct cp_error *err)
{
    const int64_t now_ns = contention->is_running ? cp__clock_ns(CLOCK_MONOTONIC) : contention->stopped_ns;

    if (contention->recording == NULL)
        return cp__error(err, -ESRCH,
                         "This process does not record its %s profile. The program switches that on by "
                         "cp_contention_start(); over HTTP, %s?seconds=10 records for 10 seconds.",
                         contention->name, contention->name);
    session->parts[0].config.period = contention->period;
    session->time_ns = contention->time_ns;
    session->duration_ns = now_ns - contention->started_ns;
    cp__waits_read(contention->recording, session, 0);
    cp__profile_end(session->parts[0].profile, now_ns);
    return 0;
}

/* A session that never ran has all that the profile's comments tell. */
static int write_contention(const struct contention_order *order, struct cp_session *session,
                            struct cp_writer *w, struct cp_error *err)
{
    struct cp__part *part = &session->parts[0];
    int result;

    session->n = 1;
    part->is_contention = true;
    part->event.size = sizeof part->event;
    result = cp_event_parse(contentions[order->which].event, &part->event, err);
    if (result < 0)
        return result;
    cp__lock(&contention_lock);
    result = read_contention(&contentions[order->which], session, err);
    cp__unlock(&contention_lock);
    return result < 0 ? result : cp__report_write(session, 0, w, order->form == CP_FORM_TEXT, err);
}

static int make_contention(const void *what, struct cp_writer *w, struct cp_error *err)
{
    struct cp_session *session = calloc(1, sizeof *session);
    int result = -ENOMEM;

    if (session == NULL || cp__waits_new_profile(&session->parts[0].profile, CP_CPUPROF_WAIT) < 0)
        cp__error(err, result, "There is not enough memory for a profile of contentions.");
    else
        result = write_contention(what, session, w, err);
    if (session != NULL)
        cp__profile_free(session->parts[0].profile);
    free(session);
    return result;
}

int cp_contention_profile(enum cp_contention which, struct cp_writer w, enum cp_profile_form form,
                          struct cp_error *err)
{
    const struct contention_order order = {.which = which, .form = form};
    int result = check_contention(which, err);

    if (result < 0)
        return result;
    if (form != CP_FORM_PPROF && form != CP_FORM_TEXT)
        return cp__error(err, -EINVAL,
                         "The profile of contentions has no form %d. Use CP_FORM_PPROF or CP_FORM_TEXT.",
                         (int)form);
    return cp__write_elsewhere(w, make_contention, &order, err);
}
