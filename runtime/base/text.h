/* UTF-8 and JSON, for all libraries and the command: each has its own copy of these functions. */
#ifndef COUNTERPOINT_RUNTIME_BASE_TEXT_H
#define COUNTERPOINT_RUNTIME_BASE_TEXT_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Returns how many of the size bytes the first character takes in UTF-8; 0 if the bytes are no character. */
static inline size_t cp__utf8_size(const char *text, size_t size)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *s = (const unsigned char *)text;
    const size_t n = s[0] < 0x80   ? 1
                     : s[0] < 0xc2 ? 0
                     : s[0] < 0xe0 ? 2
                     : s[0] < 0xf0 ? 3
                     : s[0] < 0xf5 ? 4
                                   : 0;
    uint32_t code = s[0] & (0x7fu >> n);

    if (n < 2 || n > size)
        return n > size ? 0 : n;
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (s[i] & 0x3f);
    }
    return code < least[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : n;
}

/* Prints size bytes as a JSON string, with U+FFFD for each byte that is not UTF-8; prints null for NULL. */
static inline void cp__json_bytes(FILE *out, const char *text, size_t size)
{
    size_t n;

    fputs(text != NULL ? "\"" : "null", out);
    for (; text != NULL && size > 0; text += n, size -= n) {
        n = cp__utf8_size(text, size);
        if (n == 0) {
            fputs("\\ufffd", out);
            n = 1;
        } else if (*text == '"' || *text == '\\') {
            fprintf(out, "\\%c", *text);
        } else if (*text == '\n' || *text == '\t') {
            fputs(*text == '\n' ? "\\n" : "\\t", out);
        } else if (n == 1 && ((unsigned char)*text < ' ' || *text == 0x7f)) {
            fprintf(out, "\\u%04x", *text);
        } else {
            fwrite(text, 1, n, out);
        }
    }
    fputs(text != NULL ? "\"" : "", out);
}

static inline void cp__json_string(FILE *out, const char *text)
{
    cp__json_bytes(out, text, text != NULL ? strlen(text) : 0);
}

#endif
