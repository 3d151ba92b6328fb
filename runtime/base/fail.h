/* How calls fill struct cp_error. Every room above this one uses these functions. */
#ifndef COUNTERPOINT_RUNTIME_BASE_FAIL_H
#define COUNTERPOINT_RUNTIME_BASE_FAIL_H

#include "error.h"

/* Writes code and the sentence to err, which may be NULL, with '?' in place of control characters. Returns
 * code. Preserves errno. */
int cp__error(struct cp_error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same; reason is the cause as a phrase. */
int cp__error_because(struct cp_error *err, int code, const char *reason, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
