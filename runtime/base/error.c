#include "fail.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

/* Replaces control characters: a message may quote text from anywhere, and a terminal must not obey that
 * text. */
static void clean(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
    }
}

/* Fills err, if err is not NULL, and preserves errno. */
static void fill(struct cp_error *err, int code, const char *reason, const char *format, va_list arguments)
{
    int saved = errno;

    if (err == NULL)
        return;
    err->code = code;
    snprintf(err->reason, sizeof err->reason, "%s", reason);
    vsnprintf(err->message, sizeof err->message, format, arguments);
    clean(err->message);
    errno = saved;
}

int cp__error(struct cp_error *err, int code, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fill(err, code, "", format, arguments);
    va_end(arguments);
    return code;
}

int cp__error_because(struct cp_error *err, int code, const char *reason, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fill(err, code, reason, format, arguments);
    va_end(arguments);
    return code;
}
