/* The events of go tool test2json, a line each. */
#include "report.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* How many bytes the UTF-8 sequence at text has; 0 where there is none. */
static size_t sequence_length(const unsigned char *text, size_t size)
{
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = text[0] < 0x80       ? 1
               : text[0] >> 5 == 6  ? 2
               : text[0] >> 4 == 14 ? 3
               : text[0] >> 3 == 30 ? 4
                                    : 0;
    if (n > size)
        return 0;
    unsigned code = n > 1 ? text[0] & (0x7fu >> n) : 0;
    for (size_t i = 1; i < n; i++) {
        if (text[i] >> 6 != 2)
            return 0;
        code = code << 6 | (text[i] & 0x3f);
    }
    bool is_surrogate = code >= 0xd800 && code < 0xe000;
    return is_surrogate || code < least[n] || code > 0x10ffff ? 0 : n;
}

size_t cp__report_json_whole(const char *text, size_t size)
{
    for (size_t n = 1; n < 4 && n <= size; n++) {
        unsigned char c = (unsigned char)text[size - n];
        size_t length = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
        if (c < 0x80 || length > 1)
            return length > n ? size - n : size;
    }
    return size;
}

/* How many bytes stand for themselves in a JSON string. */
static size_t plain_length(const char *text, size_t size)
{
    size_t n = 0;
    while (n < size && text[n] >= 0x20 && text[n] < 0x7f && text[n] != '"' && text[n] != '\\')
        n++;
    return n;
}

/* Prints one character that does not stand for itself; how many bytes it has. */
static size_t print_character(const char *text, size_t size)
{
    size_t n = sequence_length((const unsigned char *)text, size);
    unsigned char c = (unsigned char)*text;
    if (n == 0)
        fputs("\\ufffd", stdout);
    else if (c == '"' || c == '\\')
        printf("\\%c", c);
    else if (c == '\n' || c == '\t')
        fputs(c == '\n' ? "\\n" : "\\t", stdout);
    else if (n == 1)
        printf("\\u%04x", c);
    else
        fwrite(text, 1, n, stdout);
    return n ? n : 1;
}

static void print_string(const char *text, size_t size)
{
    putchar('"');
    while (size > 0) {
        size_t n = plain_length(text, size);
        if (n > 0)
            fwrite(text, 1, n, stdout);
        else
            n = print_character(text, size);
        text += n;
        size -= n;
    }
    putchar('"');
}

static void print_member(const char *name, const char *text, size_t size)
{
    printf(",\"%s\":", name);
    print_string(text, size);
}

void cp__report_json(const char *action, const char *test, double elapsed, const char *output, size_t size)
{
    struct timespec now;
    struct tm day;
    char text[40];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &day);
    strftime(text, sizeof(text), "%FT%T", &day);
    printf("{\"Time\":\"%s.%09ldZ\",\"Action\":\"%s\"", text, now.tv_nsec, action);
    print_member("Package", program_invocation_short_name, strlen(program_invocation_short_name));
    if (test)
        print_member("Test", test, strlen(test));
    if (elapsed >= 0)
        printf(",\"Elapsed\":%.*f", test ? 2 : 3, elapsed); /* as many digits as in the text */
    if (output)
        print_member("Output", output, size);
    puts("}");
}
