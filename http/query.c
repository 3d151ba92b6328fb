/* Parses queries; see exchange.h. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "exchange.h"
#include "runtime/base/fail.h"

/* Returns the value of a hexadecimal digit, or -1. */
static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Returns the character at *text, and moves *text behind it. Returns -1 for an invalid escape or a zero
 * byte. */
static int decode_character(const char **text)
{
    int high, low;

    if (**text == '+') {
        ++*text;
        return ' ';
    }
    if (**text != '%')
        return (unsigned char)*(*text)++;
    high = hex((*text)[1]);
    low = high < 0 ? -1 : hex((*text)[2]);
    if (low < 0 || (high | low) == 0)
        return -1;
    *text += 3;
    return high << 4 | low;
}

/* Decodes into text, which has size bytes, up to one of the characters in "ends". Returns the length of the
 * decoded text, which was cut off if the length is size or more; -1 as decode(). */
static long decode_up_to(const char **from, const char *ends, char *text, size_t size)
{
    size_t n = 0;
    int c;

    while (**from != '\0' && strchr(ends, **from) == NULL) {
        c = decode_character(from);
        if (c < 0)
            return -1;
        if (n + 1 < size)
            text[n] = (char)c;
        n++;
    }
    text[n < size ? n : size - 1] = '\0';
    return (long)n;
}

/* Decodes one KEY=VALUE, and moves *from to the next. Returns 1 if the key is the wanted one, and 0 if not
 * or if key is NULL, which matches nothing. */
static int take_pair(const char **from, const char *key, char *value, size_t size, struct cp_error *err)
{
    char name[32];
    char other[2];
    bool is_wanted;
    long length = decode_up_to(from, "=&", name, sizeof name);

    is_wanted = key != NULL && length >= 0 && length < (long)sizeof name && strcmp(name, key) == 0;
    if (is_wanted)
        value[0] = '\0';
    if (length >= 0 && **from == '=') {
        ++*from;
        length =
            is_wanted ? decode_up_to(from, "&", value, size) : decode_up_to(from, "&", other, sizeof other);
        if (is_wanted && length >= (long)size)
            return cp__error(err, -EINVAL, "The value of %s is too long: %zu characters at most.", key,
                             size - 1);
    }
    if (length < 0)
        return cp__error(err, -EINVAL,
                         "The query has an invalid escape or a zero byte at \"%.20s\". Write a "
                         "percent sign as %%25.",
                         *from);
    if (**from == '&')
        ++*from;
    return is_wanted;
}

int cp__http_query(const char *query, const char *key, char *value, size_t size, struct cp_error *err)
{
    int found = 0;

    while (query != NULL && *query != '\0') {
        int result = take_pair(&query, key, value, size, err);

        if (result < 0)
            return result;
        found += result;
        if (found > 1)
            return cp__error(err, -EINVAL, "The query has %s more than once. Give it once.", key);
    }
    return found;
}

int cp__http_query_number(const char *query, const char *key, unsigned long long min, unsigned long long max,
                          unsigned long long *value, struct cp_error *err)
{
    char text[24];
    unsigned long long number = 0;
    bool is_number;
    int result = cp__http_query(query, key, text, sizeof text, err);

    if (result <= 0)
        return result;
    is_number = text[0] != '\0';
    for (const char *c = text; *c != '\0' && is_number; c++)
        is_number = *c >= '0' && *c <= '9' && !__builtin_mul_overflow(number, 10ull, &number) &&
                    !__builtin_add_overflow(number, (unsigned long long)(*c - '0'), &number);
    if (!is_number || number < min || number > max)
        return cp__error(err, -EINVAL,
                         "%s=%s is invalid. The value must be a whole number from %llu to %llu.", key, text,
                         min, max);
    *value = number;
    return 1;
}

int cp__http_query_time(const char *query, const char *key, uint64_t *ns, struct cp_error *err)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {{"ns", 1},         {"us", 1000},       {"ms", 1000000},
                 {"s", 1000000000}, {"m", 60000000000}, {"h", 3600000000000}};
    char text[32], *unit = text;
    int result = cp__http_query(query, key, text, sizeof text, err);
    uint64_t number;

    if (result <= 0)
        return result;
    number = text[0] >= '0' && text[0] <= '9' ? strtoull(text, &unit, 10) : 0;
    for (size_t i = 0; number > 0 && i < sizeof units / sizeof units[0]; i++)
        if (strcmp(unit, units[i].name) == 0 && number <= INT64_MAX / units[i].ns) {
            *ns = number * units[i].ns;
            return 1;
        }
    return cp__error(
        err, -EINVAL,
        "%s=%s is invalid. The value must be a time above 0 with one of the units ns, us, ms, s, m "
        "and h, as in 90s.",
        key, text);
}

static bool is_one_of(const char *key, const char *const *keys)
{
    while (*keys != NULL && strcmp(*keys, key) != 0)
        keys++;
    return *keys != NULL;
}

/* Refuses an unknown key with a sentence that lists the possible ones. */
static int refuse_key(const char *key, const char *const *keys, struct cp_error *err)
{
    char list[100] = "";
    size_t n = 0;

    if (keys[0] == NULL)
        return cp__error(err, -EINVAL, "The query has the unknown key \"%s\": this path takes no keys.", key);
    for (size_t i = 0; keys[i] != NULL && n < sizeof list; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i == 0 ? "" : ", ", keys[i]);
    return cp__error(err, -EINVAL, "The query has the unknown key \"%s\". This path takes: %s.", key, list);
}

int cp__http_query_has_only(const char *query, const char *const *keys, struct cp_error *err)
{
    char key[32];

    while (query != NULL && *query != '\0') {
        const char *at = query;
        int result = take_pair(&query, NULL, NULL, 0, err);

        if (result < 0)
            return result;
        decode_up_to(&at, "=&", key, sizeof key);
        if (key[0] != '\0' && !is_one_of(key, keys))
            return refuse_key(key, keys, err);
    }
    return 0;
}
