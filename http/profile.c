/* /debug/pprof/profile: a session of its own for each request. */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exchange.h"

enum {
    LOOK_MS = 100, /* how often the client is looked for */
    TURN_S = 10,   /* how long one waits for others that end */
};

/* What a request asks for. */
struct order {
    char event[160];
    struct cp_event_spec spec;
    unsigned long long period; /* 0: the preset */
    unsigned long long seconds;
    unsigned long long debug;
};

/* ---- The query ------------------------------------------------------------------------------- */

/* A PMU's terms have commas, too: "cpu/event=0x3c,inv/u". */
static bool is_several(const char *event)
{
    bool is_in_terms = false;

    for (; *event != '\0'; event++) {
        if (*event == '/')
            is_in_terms = !is_in_terms;
        if (*event == ',' && !is_in_terms)
            return true;
    }
    return false;
}

static int read_event(const char *query, struct order *order, struct cp_error *err)
{
    int result;

    strcpy(order->event, cp_event_name(CP_CPUPROF_OS_TIMER));
    result = cp__http_query(query, "event", order->event, sizeof order->event, err);
    if (result < 0)
        return result;
    if (order->event[0] == '\0')
        return cp__http_error(
            err, -EINVAL,
            "The event has no name. Leave \"event\" out for the timer, or see " CP__HTTP_ROOT
            "/ for what there is.");
    if (is_several(order->event))
        return cp__http_error(
            err, -EINVAL, "%s are several events. A profile is of one event: ask for each at the same time.",
            order->event);
    result = cp_event_parse(order->event, &order->spec, err);
    return result == -ENOENT ? -EINVAL : result; /* the request is wrong, not the machine */
}

static int read_order(const struct cp__exchange *exchange, struct order *order, struct cp_error *err)
{
    static const char *const keys[] = {"event", "period", "seconds", "debug", NULL};
    const char *query = exchange->request->query;
    unsigned max = cp__http_max_seconds(exchange);
    int result;

    *order = (struct order){.seconds = max < 30 ? max : 30};
    result = cp__http_query_number(query, "seconds", 1, max, &order->seconds, err);
    if (result >= 0)
        result = cp__http_query_number(query, "period", 1, UINT64_MAX, &order->period, err);
    if (result >= 0)
        result = cp__http_query_number(query, "debug", 0, 1, &order->debug, err);
    if (result >= 0)
        result = read_event(query, order, err);
    return result >= 0 ? cp__http_query_has_only(query, keys, err) : result;
}

/* ---- The profile ----------------------------------------------------------------------------- */

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* False where the client went away. */
static bool wait_for(const struct cp__exchange *exchange, unsigned long long seconds)
{
    const uint64_t end = now_ms() + seconds * 1000;

    for (uint64_t now = now_ms(); now < end; now = now_ms()) {
        uint64_t ms = end - now < LOOK_MS ? end - now : LOOK_MS;

        if (cp__http_is_gone(exchange))
            return false;
        nanosleep(&(struct timespec){.tv_nsec = (long)ms * 1000000}, NULL);
    }
    return !cp__http_is_gone(exchange);
}

static int send(struct cp__exchange *exchange, const struct order *order, const struct cp_memory *profile)
{
    static const struct cp_http_header binary[] = {
        {"Content-Type", "application/octet-stream"},
        {"Content-Disposition", "attachment; filename=\"profile\""}};

    if (order->debug > 0)
        return cp__http_reply_body(exchange, cp__http_text, profile->data, profile->size);
    return cp__http_reply(exchange, 200, binary, 2, profile->data, profile->size);
}

/* Text is written beside what the session writes by itself. */
static int write_out(struct cp_session *session, const struct order *order, struct cp_memory *profile,
                     struct cp_error *err)
{
    int result = cp_session_stop(session, err);

    if (result == 0 && order->debug > 0)
        result = cp_session_write_text(session, 0, cp_writer_memory(profile), err);
    return result;
}

/* Reading symbols takes all of a CPU. Where several profiles end together they do it in turn, so that the
 * program has a half of that CPU at least. Whose turn does not come (as in the child of a fork, whose parent
 * was at it) goes on without. */
static int stop(struct cp_session *session, const struct order *order, struct cp_memory *profile,
                struct cp_error *err)
{
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    struct timespec until;
    bool is_ours;
    int result;

    clock_gettime(CLOCK_REALTIME, &until); /* ThreadSanitizer knows of no other clock's wait */
    until.tv_sec += TURN_S;
    is_ours = pthread_mutex_timedlock(&turn, &until) == 0;
    result = write_out(session, order, profile, err);
    if (is_ours)
        pthread_mutex_unlock(&turn);
    return result;
}

static int record(struct cp__exchange *exchange, const struct order *order, struct cp_memory *profile)
{
    const struct cp_profiling_option option =
        cp_event(cp_writer_memory(profile), order->spec.name, (uint64_t)order->period);
    struct cp_session *session;
    struct cp_error err;
    int result = cp_session_start(&session, &option, 1, &err);

    if (result < 0)
        return cp__http_refuse(exchange, cp__http_status_of(result), "%s", err.message);
    if (!wait_for(exchange, order->seconds)) {
        cp_session_close(session);
        return -ECANCELED;
    }
    result = stop(session, order, profile, &err);
    cp_session_close(session);
    if (result < 0)
        return cp__http_refuse(exchange, cp__http_status_of(result), "%s", err.message);
    return send(exchange, order, profile);
}

int cp__http_profile(struct cp__exchange *exchange)
{
    struct cp_memory profile = {.data = NULL};
    struct order order;
    struct cp_error err;
    int result = read_order(exchange, &order, &err);

    if (result < 0)
        return cp__http_refuse(exchange, cp__http_status_of(result), "%s", err.message);
    result = record(exchange, &order, &profile);
    free(profile.data);
    return result;
}
