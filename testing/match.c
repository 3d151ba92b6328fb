/* Names of tests by regular expressions, a slash between the levels, as -run and -bench take them. */
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The length of the text up to the next slash that is in no brackets. */
static size_t level_length(const char *text)
{
    const char *p = text;
    for (bool in_brackets = false; *p && (*p != '/' || in_brackets); p++) {
        if (*p == '\\' && p[1])
            p++;
        else if (*p == '[')
            in_brackets = true;
        else if (*p == ']')
            in_brackets = false;
    }
    return (size_t)(p - text);
}

static int compile_level(regex_t *level, const char *text, size_t length, struct cp_error *err)
{
    char *expression = strndup(text, length);
    if (!expression)
        abort();
    int code = regcomp(level, expression, REG_EXTENDED | REG_NOSUB);
    if (code != 0) {
        char reason[100];
        regerror(code, level, reason, sizeof(reason));
        snprintf(err->message, sizeof(err->message), "\"%s\" is no regular expression: %s.", expression,
                 reason);
        err->code = -EINVAL;
    }
    free(expression);
    return code == 0 ? 0 : -EINVAL;
}

int cp__pattern_compile(struct cp__pattern *pattern, const char *text, struct cp_error *err)
{
    while (pattern->levels > 0)
        regfree(&pattern->level[--pattern->levels]);
    for (;;) {
        size_t length = level_length(text);
        if (pattern->levels == CP__PATTERN_LEVELS) {
            snprintf(err->message, sizeof(err->message), "\"%s\" has more than %d levels of names.", text,
                     CP__PATTERN_LEVELS);
            return err->code = -EINVAL;
        }
        int result = compile_level(&pattern->level[pattern->levels], text, length, err);
        if (result < 0)
            return result;
        pattern->levels++;
        if (!text[length])
            return 0;
        text += length + 1;
    }
}

bool cp__pattern_match(const struct cp__pattern *pattern, const char *name)
{
    char *copy = strdup(name), *rest = copy;
    if (!copy)
        abort();
    bool is_match = true;
    for (size_t i = 0; i < pattern->levels && rest && is_match; i++)
        is_match = regexec(&pattern->level[i], strsep(&rest, "/"), 0, NULL, 0) == 0;
    free(copy);
    return is_match;
}

bool cp__pattern_match_whole(const struct cp__pattern *pattern, const char *name)
{
    size_t levels = 1;
    for (const char *p = name; (p = strchr(p, '/')); p++)
        levels++;
    return pattern->levels <= levels && cp__pattern_match(pattern, name);
}
