/* Filling struct cp_error, for this layer and those above. */
#ifndef COUNTERPOINT_RUNTIME_BASE_FAIL_H
#define COUNTERPOINT_RUNTIME_BASE_FAIL_H

#include "error.h"

/* Writes code and the sentence to err, which may be NULL, with '?' for control characters; returns code.
 * Keeps errno. */
int cp__error(struct cp_error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same with the cause in a phrase. */
int cp__error_because(struct cp_error *err, int code, const char *reason, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
