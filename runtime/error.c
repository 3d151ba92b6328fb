#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

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
    errno = saved;
    return code;
}
