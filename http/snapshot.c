/* Answers with a state, or with the difference of two states; see snapshot.h. */
#include "snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "goroutine.h"
#include "profile.h"
#include "runtime/base/fail.h"
#include "sched.h"
#include "share.h"
#include "stall.h"
#include "watch.h"

size_t cp__http_max_snapshot = 64 << 20; /* the limit of Go for the text of a goroutine profile */

/* What a request asks for. */
struct state {
    const char *name; /* of the path */
    /* Writes the state as it is now: as a profile with debug 0, otherwise as text. */
    int (*take)(const struct state *state, struct cp_writer w, unsigned debug, struct cp_error *err);
    char watch[CP_WATCH_NAME_MAX + 1];
    enum cp_contention contention;
    uint64_t least_ns; /* of waits */
    uint64_t search;   /* the one of stalls that the request has joined; 0: none */
};

/* ---- One state ------------------------------------------------------------------------------- */

/* The text or profile of one state. */
struct snapshot {
    struct cp_memory data;
    bool is_cut;
};

/* The writer of a snapshot. Bytes beyond the limit are dropped without an error, because the beginning of a
 * long text is worth reading. */
static ssize_t keep_snapshot(void *context, const void *data, size_t size)
{
    struct snapshot *snapshot = context;
    const size_t room = cp__http_max_snapshot - snapshot->data.size;

    if (size > room)
        snapshot->is_cut = true;
    if (cp__http_append(&snapshot->data, data, size < room ? size : room) < 0)
        return -ENOMEM;
    return (ssize_t)size;
}

/* Returns whether a state could not be taken because the program does not have it. */
static bool is_absent(int result)
{
    return result == -ENOENT || result == -ESRCH;
}

/* Takes a state when the request has the turn. Returns false if the request has been answered; *result is
 * what to return then. */
static bool take_one(struct cp__exchange *exchange, const struct state *state, unsigned debug,
                     struct snapshot *snapshot, int *result)
{
    struct cp_error err;

    if (!cp__http_turn_or_refuse(exchange, result))
        return false;
    *result = state->take(state, cp_writer_callback(keep_snapshot, snapshot), debug, &err);
    cp__http_turn_give();
    if (*result < 0)
        *result = cp__http_refuse(exchange, is_absent(*result) ? 404 : cp__http_status_of(*result), "%s",
                                  err.message);
    else if (snapshot->is_cut && debug == 0)
        *result = cp__http_refuse(exchange, 503, "The profile would be longer than %zu bytes.",
                                  cp__http_max_snapshot);
    else
        return true;
    return false;
}

static int send_state(struct cp__exchange *exchange, const struct state *state, unsigned debug)
{
    static const char end[] = "\n(Only the beginning is shown, because the rest is too long.)\n";
    struct snapshot snapshot = {.is_cut = false};
    int result;

    if (take_one(exchange, state, debug, &snapshot, &result)) {
        if (debug == 0)
            result = cp__http_reply_profile(exchange, state->name, &snapshot.data);
        else if (snapshot.is_cut && cp__http_append(&snapshot.data, end, sizeof end - 1) < 0)
            result = cp__http_refuse(exchange, 503, "There is not enough memory for the answer.");
        else
            result = cp__http_reply_body(exchange, cp__http_text, snapshot.data.data, snapshot.data.size);
    }
    free(snapshot.data.data);
    return result;
}

/* ---- What changes ---------------------------------------------------------------------------- */

/* Computes the profile of what has changed from "then" to "now". */
static int subtract(const struct cp_memory *now, const struct cp_memory *then, struct cp_memory *delta,
                    struct cp_error *err)
{
    struct cp_merge *merge = cp_merge_new();
    int result;

    if (merge == NULL)
        return cp__error(err, -ENOMEM, "There is not enough memory for the answer.");
    result = cp_merge_add(merge, now->data, now->size, err);
    if (result == 0)
        result = cp_merge_subtract(merge, then->data, then->size, err);
    if (result == 0)
        result = cp_merge_write(merge, cp_writer_memory(delta), err);
    cp_merge_free(merge);
    return result;
}

static int send_difference(struct cp__exchange *exchange, const char *name, const struct cp_memory *now,
                           const struct cp_memory *then)
{
    struct cp_memory delta = {.data = NULL};
    char file[40];
    struct cp_error err;
    int result = subtract(now, then, &delta, &err);

    snprintf(file, sizeof file, "%s-delta", name);
    if (result < 0)
        result = cp__http_refuse(exchange, cp__http_status_of(result), "%s", err.message);
    else
        result = cp__http_reply_profile(exchange, file, &delta);
    free(delta.data);
    return result;
}

/* Takes a state, waits, takes a second state, and sends the difference. */
static int send_delta(struct cp__exchange *exchange, const struct state *state, unsigned long long seconds)
{
    struct snapshot then = {.is_cut = false}, now = {.is_cut = false};
    int result;

    if (take_one(exchange, state, 0, &then, &result)) {
        result = cp__http_wait(exchange, seconds);
        if (result == 0 && take_one(exchange, state, 0, &now, &result))
            result = send_difference(exchange, state->name, &now.data, &then.data);
    }
    free(then.data.data);
    free(now.data.data);
    return result;
}

/* Does the same if a place for a delta is free. */
static int send_delta_in_place(struct cp__exchange *exchange, const struct state *state,
                               unsigned long long seconds)
{
    static const struct cp_http_header later = {"Retry-After", "10"};
    int result;

    if (!cp__http_place_take(CP__PLACE_DELTA, CP__HTTP_DELTAS))
        return cp__http_refuse_with(
            exchange, 503, &later,
            "Too many requests record differences at this time. Ask again when one has ended.");
    result = send_delta(exchange, state, seconds);
    cp__http_place_give(CP__PLACE_DELTA);
    return result;
}

/* ---- Which state ----------------------------------------------------------------------------- */

static int take_gs(const struct state *state, struct cp_writer w, unsigned debug, struct cp_error *err)
{
    (void)state;
    return cp_g_profile(w, (enum cp_profile_form)debug, cp__http_unwind, err);
}

static int take_leaks(const struct state *state, struct cp_writer w, unsigned debug, struct cp_error *err)
{
    return cp_g_leak_profile(w, (enum cp_profile_form)debug, state->least_ns, cp__http_unwind, err);
}

static int take_stalls(const struct state *state, struct cp_writer w, unsigned debug, struct cp_error *err)
{
    struct cp_stalls_stats stats = {.size = sizeof stats};
    int result = cp_stalls_profile(w, debug > 0 ? CP_FORM_TEXT : CP_FORM_PPROF, err);

    if (result < 0 || state->search == 0)
        return result;
    cp_stalls_stats(&stats);
    if (stats.search == state->search && stats.is_running != 0)
        return result;
    return cp__error(err, -EAGAIN,
                     "The program has called cp_stalls_start() during the request, and what was found before "
                     "is forgotten. Ask again.");
}

static int take_threads(const struct state *state, struct cp_writer w, unsigned debug, struct cp_error *err)
{
    (void)state;
    return cp_thread_profile(w, debug > 0 ? CP_FORM_TEXT : CP_FORM_PPROF, err);
}

static int take_watch(const struct state *state, struct cp_writer w, unsigned debug, struct cp_error *err)
{
    return cp_watch_write_profile_of(state->watch, w, debug > 0 ? CP_FORM_TEXT : CP_FORM_PPROF, err);
}

static int take_contention(const struct state *state, struct cp_writer w, unsigned debug,
                           struct cp_error *err)
{
    return cp_contention_profile(state->contention, w, debug > 0 ? CP_FORM_TEXT : CP_FORM_PPROF, err);
}

/* What every query for a state may have. */
struct asked {
    unsigned long long debug, seconds;
};

static int read_asked(const struct cp__exchange *exchange, struct asked *asked, struct cp_error *err)
{
    const char *query = exchange->request->query;
    int result = cp__http_query_number(query, "debug", 0, 2, &asked->debug, err);

    if (result >= 0)
        result =
            cp__http_query_number(query, "seconds", 1, cp__http_max_seconds(exchange), &asked->seconds, err);
    if (result >= 0 && asked->seconds != 0 && asked->debug != 0)
        result = cp__error(err, -EINVAL,
                           "With \"seconds\" the answer is a profile, but debug=%llu asks for text. "
                           "Leave out one of the two.",
                           asked->debug);
    return result;
}

/* Answers with the state, or with what changes in it. */
static int answer_with(struct cp__exchange *exchange, const struct state *state)
{
    struct asked asked = {0};
    struct cp_error err;
    int result = read_asked(exchange, &asked, &err);

    if (result < 0)
        return cp__http_refuse(exchange, cp__http_status_of(result), "%s", err.message);
    if (asked.seconds != 0)
        return send_delta_in_place(exchange, state, asked.seconds);
    return send_state(exchange, state, (unsigned)asked.debug);
}

int cp__http_snapshot(struct cp__exchange *exchange)
{
    struct state state = {.name = exchange->request->path + sizeof CP__HTTP_ROOT};

    state.take = strcmp(state.name, "goroutine") == 0 ? take_gs : take_threads;
    return answer_with(exchange, &state);
}

int cp__http_leaks(struct cp__exchange *exchange)
{
    struct state state = {.name = "goroutineleak", .take = take_leaks, .least_ns = UINT64_C(600000000000)};
    struct cp_error err;
    int result = cp__http_query_time(exchange->request->query, "age", &state.least_ns, &err);

    if (result < 0)
        return cp__http_refuse(exchange, cp__http_status_of(result), "%s", err.message);
    return answer_with(exchange, &state);
}

/* With "seconds", stalls are looked for while the request waits, even if nobody else looks for them. */
int cp__http_stalls(struct cp__exchange *exchange)
{
    struct state state = {.name = "stalls", .take = take_stalls};
    const char *query = exchange->request->query;
    unsigned long long seconds = 0;
    uint64_t threshold_ns = 0;
    struct cp_error err;
    bool has_joined = false;
    int result = cp__http_query_time(query, "threshold", &threshold_ns, &err);

    if (result >= 0)
        result = cp__http_query_number(query, "seconds", 1, cp__http_max_seconds(exchange), &seconds, &err);
    if (result >= 0 && (seconds != 0 || threshold_ns != 0))
        has_joined = (result = cp_stalls_join(threshold_ns, &state.search, &err)) == 0;
    if (result < 0)
        return cp__http_refuse(exchange, cp__http_status_of(result), "%s", err.message);
    result = answer_with(exchange, &state);
    if (has_joined)
        cp_stalls_leave();
    return result;
}

int cp__http_watch(struct cp__exchange *exchange)
{
    struct state state = {.name = "watch", .take = take_watch};
    struct cp_error err;
    int result = cp__http_query(exchange->request->query, "name", state.watch, sizeof state.watch, &err);

    if (result == 0)
        result = cp__error(&err, -EINVAL,
                           "Which watch? Ask for watch?name=NAME, with the name that the program has opened "
                           "the watch with.");
    if (result < 0)
        return cp__http_refuse(exchange, cp__http_status_of(result), "%s", err.message);
    return answer_with(exchange, &state);
}

/* What changes in some seconds is recorded for that time, so that it needs no recording of the program's. */
int cp__http_contention(struct cp__exchange *exchange)
{
    struct state state = {.name = exchange->request->path + sizeof CP__HTTP_ROOT, .take = take_contention};
    const bool is_mutex = strcmp(state.name, "mutex") == 0;
    struct asked asked = {0};
    unsigned long long period = 0;
    struct cp_error err;
    int result = read_asked(exchange, &asked, &err);

    if (result >= 0)
        result = cp__http_query_number(exchange->request->query, "period", 1, INT64_MAX, &period, &err);
    if (result >= 0 && period != 0 && asked.seconds == 0)
        result = cp__error(&err, -EINVAL,
                           "A period is for what is recorded from now on: give \"seconds\", too, or leave "
                           "\"period\" out.");
    if (result < 0)
        return cp__http_refuse(exchange, cp__http_status_of(result), "%s", err.message);
    if (asked.seconds != 0)
        return cp__http_record_contentions(exchange, is_mutex ? "lock" : "wait", period, asked.seconds,
                                           is_mutex ? "mutex-delta" : "block-delta");
    state.contention = is_mutex ? CP_CONTENTION_MUTEX : CP_CONTENTION_BLOCK;
    return send_state(exchange, &state, (unsigned)asked.debug);
}
