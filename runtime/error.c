#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

/* What a message quotes may come from anywhere; a terminal must not obey it. */
static void clean(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
    }
}

int cp__error(struct cp_error *err, int code, const char *format, ...)
{
    int saved = errno;
    va_list arguments;

    if (err == NULL)
        return code;
    err->code = code;
    va_start(arguments, format);
    vsnprintf(err->message, sizeof err->message, format, arguments);
    va_end(arguments);
    clean(err->message);
    errno = saved;
    return code;
}
