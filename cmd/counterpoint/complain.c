/* How every command says what is wrong. */
#include <stdarg.h>
#include <stdio.h>

#include "commands.h"

enum status complain(enum status status, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fputs("counterpoint: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return status;
}
