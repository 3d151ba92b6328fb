/* The events of "go tool test2json", one in each line. */
#include "report.h"
#include "runtime/base/clock.h"
#include "runtime/base/text.h"

#include <errno.h>
#include <string.h>
#include <time.h>

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

static void print_json_member(const char *name, const char *text, size_t size)
{
    printf(",\"%s\":", name);
    cp__json_bytes(stdout, text, size);
}

void cp__report_json(const char *action, const char *test, double elapsed, const char *output, size_t size)
{
    const int64_t now = cp__clock_ns(CLOCK_REALTIME);
    const time_t seconds = now / 1000000000;
    struct tm day;
    char text[40];
    gmtime_r(&seconds, &day);
    strftime(text, sizeof(text), "%FT%T", &day);
    printf("{\"Time\":\"%s.%09ldZ\",\"Action\":\"%s\"", text, (long)(now % 1000000000), action);
    print_json_member("Package", program_invocation_short_name, strlen(program_invocation_short_name));
    if (test)
        print_json_member("Test", test, strlen(test));
    if (elapsed >= 0)
        printf(",\"Elapsed\":%.*f", test ? 2 : 3, elapsed); /* as many digits as the line of text has */
    if (output)
        print_json_member("Output", output, size);
    puts("}");
}
