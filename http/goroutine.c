/*
 * goroutine: where all Gs are.
 *
 * libunwind is linked here and nowhere else: it brings a backtrace() of its own.
 */
#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include <stdlib.h>

#include "exchange.h"
#include "goroutine.h"
#include "runtime/sched.h"

/* Where a context goes on is a return address; libunwind takes what it begins with for one, unless it is told
 * of a signal's frame. */
unsigned cp__http_unwind(const struct cp_sched_g *g, uintptr_t *frames, unsigned max)
{
    ucontext_t context = *g->context;
    unw_cursor_t cursor;
    unw_word_t address;
    unsigned n = 0;

    if (unw_init_local(&cursor, (unw_context_t *)&context) < 0)
        return 0;
    do {
        if (unw_get_reg(&cursor, UNW_REG_IP, &address) < 0 || address == 0)
            break;
        frames[n++] = address;
    } while (n < max && unw_step(&cursor) > 0);
    return n;
}

int cp__http_goroutine(struct cp__exchange *exchange)
{
    static const struct cp_http_header binary[] = {
        {"Content-Type", "application/octet-stream"},
        {"Content-Disposition", "attachment; filename=\"goroutine\""}};
    struct cp_memory profile = {.data = NULL};
    unsigned long long debug = 0;
    struct cp_error err;
    int result = cp__http_query_number(exchange->request->query, "debug", 0, 2, &debug, &err);

    if (result >= 0)
        result = cp_goroutine_profile(cp_writer_memory(&profile), (unsigned)debug, cp__http_unwind, &err);
    if (result < 0)
        result = cp__http_refuse(exchange, cp__http_status_of(result), "%s", err.message);
    else if (debug > 0)
        result = cp__http_reply_body(exchange, cp__http_text, profile.data, profile.size);
    else
        result = cp__http_reply(exchange, 200, binary, 2, profile.data, profile.size);
    free(profile.data);
    return result;
}
