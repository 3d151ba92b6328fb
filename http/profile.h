/* Recording for an endpoint that is not /debug/pprof/profile itself. */
#ifndef COUNTERPOINT_HTTP_PROFILE_H
#define COUNTERPOINT_HTTP_PROFILE_H

#include <stdint.h>

#include "exchange.h"

/* Records an event of waits for so many seconds, with the types of Go's profiles of contentions, and answers
 * with the profile, which the browser saves under the name. A period of 0 is the preset. */
int cp__http_record_contentions(struct cp__exchange *exchange, const char *event, uint64_t period,
                                unsigned long long seconds, const char *file);

#endif
