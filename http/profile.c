/* /debug/pprof/profile: each request records in a session of its own. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "events.h"
#include "profile.h"
#include "runtime/base/fail.h"
#include "share.h"

/* A request's query, parsed. */
struct order {
    char event[160];
    struct cp_event_spec spec;
    unsigned long long period; /* 0: the event's preset */
    unsigned long long seconds;
    unsigned long long debug;
    enum cp_engine engine;
    uint64_t flags;   /* of the option */
    const char *file; /* the name under which the browser saves the profile */
};

/* ---- The query ------------------------------------------------------------------------------- */

/* Returns whether the text names several events. */
static bool is_several(const struct order *order)
{
    char copy[sizeof order->event];
    char *rest = strcpy(copy, order->event);

    cp_event_next(&rest);
    return rest != NULL;
}

/* Takes the period off the event's name, if it has one. The query's "period" has been read. */
static int take_own_period(struct order *order, struct cp_error *err)
{
    uint64_t own;
    int result = cp_event_take_period(order->event, &own, err);

    if (result < 0 || own == 0)
        return result;
    if (order->period != 0)
        return cp__error(
            err, -EINVAL,
            "The query has two periods: %llu in \"period\", and %llu after the event's name. Leave "
            "one of them out.",
            order->period, (unsigned long long)own);
    order->period = own;
    return 0;
}

static int read_order_event(const char *query, struct order *order, struct cp_error *err)
{
    int result;

    strcpy(order->event, cp_event_name(CP_CPUPROF_OS_TIMER));
    result = cp__http_query(query, "event", order->event, sizeof order->event, err);
    if (result < 0)
        return result;
    if (order->event[0] == '\0')
        return cp__error(err, -EINVAL,
                         "The event has no name. Leave \"event\" out for the timer, or see " CP__HTTP_ROOT
                         "/ for the events.");
    if (is_several(order))
        return cp__error(
            err, -EINVAL,
            "%s are several events. A profile has one event: send a request for each at the same time.",
            order->event);
    order->spec.size = sizeof order->spec;
    result = take_own_period(order, err);
    if (result == 0)
        result = cp_event_parse(order->event, &order->spec, err);
    return result == -ENOENT ? -EINVAL : result; /* a wrong name is the request's fault, not the machine's */
}

/* Refuses a period below the endpoint's limit. cp_session_start() itself refuses only what would leave a
 * thread no time. */
static int check_order_period(const struct cp__exchange *exchange, const struct order *order,
                              struct cp_error *err)
{
    const uint64_t min = order->period != 0 ? cp__http_min_period(exchange, &order->spec) : 0;

    if (order->period >= min)
        return 0;
    return cp__error(err, -EINVAL,
                     "A period of %llu is too small for %s over HTTP, where samples may take only a small "
                     "part of the program's time. The smallest period here is %llu.",
                     order->period, order->spec.name, (unsigned long long)min);
}

static int read_order_engine(const char *query, struct order *order, struct cp_error *err)
{
    char engine[16];
    int result = cp__http_query(query, "engine", engine, sizeof engine, err);

    return result <= 0 ? result : cp_engine_parse(engine, &order->engine, err);
}

static int read_order(const struct cp__exchange *exchange, struct order *order, struct cp_error *err)
{
    const char *query = exchange->request->query;
    unsigned max = cp__http_max_seconds(exchange);
    int result;

    *order = (struct order){.seconds = max < 30 ? max : 30, .file = "profile"};
    result = cp__http_query_number(query, "seconds", 1, max, &order->seconds, err);
    if (result >= 0)
        result = cp__http_query_number(query, "period", 1, UINT64_MAX, &order->period, err);
    if (result >= 0)
        result = cp__http_query_number(query, "debug", 0, 1, &order->debug, err);
    if (result >= 0)
        result = read_order_engine(query, order, err);
    if (result >= 0)
        result = read_order_event(query, order, err);
    return result >= 0 ? check_order_period(exchange, order, err) : result;
}

/* ---- The profile ----------------------------------------------------------------------------- */

static int send(struct cp__exchange *exchange, const struct order *order, const struct cp_memory *profile)
{
    if (order->debug > 0)
        return cp__http_reply_body(exchange, cp__http_text, profile->data, profile->size);
    return cp__http_reply_profile(exchange, order->file, profile);
}

/* Stops the session, which writes the profile. If text is wanted, the text is written to the memory, and not
 * the profile. */
static int write_out(struct cp_session *session, const struct order *order, struct cp_memory *profile,
                     struct cp_error *err)
{
    int result = cp_session_stop(session, err);

    if (result == 0 && order->debug > 0)
        result = cp_session_write_text(session, 0, cp_writer_memory(profile), err);
    return result;
}

/* Halts and writes a session. Reading symbols takes a whole CPU, so profiles that end together take turns,
 * which leaves the program half of that CPU or more. The session is halted before the turn is waited for, so
 * that it takes no samples meanwhile. A session whose turn does not come in time writes without the turn,
 * because its profile has been recorded. */
static int write_in_turn(const struct cp__exchange *exchange, struct cp_session *session,
                         const struct order *order, struct cp_memory *profile, struct cp_error *err)
{
    int turn, result = cp_session_halt(session, err);

    if (result < 0)
        return result;
    turn = cp__http_turn_take(exchange, CP__TURN_PROFILE);
    if (turn == -ECANCELED)
        return turn;
    result = write_out(session, order, profile, err);
    if (turn == 0)
        cp__http_turn_give();
    return result;
}

/* Records a profile. Returns -ECANCELED, without a message in *err, if the client went away. */
static int record(const struct cp__exchange *exchange, const struct order *order, struct cp_memory *profile,
                  struct cp_error *err)
{
    struct cp_profiling_option option =
        cp_option_event(cp_writer_memory(profile), order->spec.name, (uint64_t)order->period);
    struct cp_session *session;
    int result;

    option.engine = order->engine;
    option.flags = order->flags;
    result = cp_session_start(&session, &option, 1, err);
    if (result < 0)
        return result;
    result = cp__http_wait(exchange, order->seconds);
    if (result == 0)
        result = write_in_turn(exchange, session, order, profile, err);
    cp_session_close(session);
    return result;
}

/* Records if a place is free, and answers. Each profile occupies a slot, and the program needs some slots
 * for itself. */
static int record_in_place(struct cp__exchange *exchange, const struct order *order,
                           struct cp_memory *profile)
{
    static const struct cp_http_header later = {"Retry-After", "10"};
    const unsigned max = cp__http_max_slots(exchange);
    struct cp_error err;
    char text[200];
    int result;

    if (!cp__http_place_take(CP__PLACE_SLOT, max)) {
        snprintf(
            text, sizeof text,
            "%u profile%s being recorded over HTTP, and the other slots are the program's own. Ask again "
            "when one has ended.",
            max, max == 1 ? " is" : "s are");
        return cp__http_refuse_with(exchange, 503, &later, text);
    }
    result = record(exchange, order, profile, &err);
    cp__http_place_give(CP__PLACE_SLOT);
    if (result == -ECANCELED)
        return result;
    if (result < 0)
        return cp__http_refuse(exchange, cp__http_status_of(result), "%s", err.message);
    return send(exchange, order, profile);
}

/* Records and answers as the order says. */
static int answer_order(struct cp__exchange *exchange, const struct order *order)
{
    struct cp_memory profile = {.data = NULL};
    int result = record_in_place(exchange, order, &profile);

    free(profile.data);
    return result;
}

int cp__http_profile(struct cp__exchange *exchange)
{
    struct order order;
    struct cp_error err;
    int result = read_order(exchange, &order, &err);

    if (result < 0)
        return cp__http_refuse(exchange, cp__http_status_of(result), "%s", err.message);
    return answer_order(exchange, &order);
}

int cp__http_record_contentions(struct cp__exchange *exchange, const char *event, uint64_t period,
                                unsigned long long seconds, const char *file)
{
    struct order order = {.period = period, .seconds = seconds, .flags = CP_OPTION_CONTENTIONS, .file = file};
    struct cp_error err;
    int result;

    order.spec.size = sizeof order.spec;
    result = cp_event_parse(event, &order.spec, &err);
    if (result < 0)
        return cp__http_refuse(exchange, cp__http_status_of(result), "%s", err.message);
    return answer_order(exchange, &order);
}
