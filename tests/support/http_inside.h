/* What tests set and call inside the endpoint if no public call does so: see inside.h. */
#ifndef COUNTERPOINT_TESTS_HTTP_INSIDE_H
#define COUNTERPOINT_TESTS_HTTP_INSIDE_H

#include "http/events.h"
#include "http/goroutine.h"
#include "http/server.h"
#include "http/switches.h"

static inline void set_answer_timeout(unsigned seconds)
{
    cp__http_answer_timeout_s = seconds;
}

/* Sets how many bytes of answers may be in sending at a time. */
static inline void set_most_answers(size_t bytes)
{
    cp__http_max_answers = bytes;
}

/* The endpoint's own unwinder, which uses unwind tables. */
static cp_unwind_fn *const unwind_g __attribute__((unused)) = cp__http_unwind;

#endif
